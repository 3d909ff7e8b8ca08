//! `docs/engines.md` is true: every statement in it, run by every engine that can be had, finds the rows that the
//! profiles have.

mod document;
mod expected;
mod made;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use procprof_archive::{ColumnType, Table};

use document::Document;
use expected::Row;

/// The interpreter with the engines, of which PySpark has its own.
fn python(engine: &str) -> PathBuf {
    let (place, command) = match engine {
        "spark" => ("spark", "cargo xtask soak long"),
        _ => ("engines", "cargo xtask test"),
    };
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../target/{place}/python/bin/python"));
    assert!(python.exists(), "this test needs the Python module of {engine}, which `{command}` installs");
    python
}

/// The rows of each statement.
fn run(engine: &str, folder: &Path, document: &Document) -> Vec<Vec<Row>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engines/run.py");
    let mut child = Command::new(python(engine))
        .args([script.as_os_str(), engine.as_ref(), folder.as_os_str()])
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = format!("{}\0\0{}", document.views.join("\0"), document.statements.join("\0"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{engine}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = |text: &str| text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    text.split('\0').map(rows).collect()
}

/// Whether an engine's cell is the expected one; numbers with a point within the precision of what they are made of.
fn is_same(found: &str, expected: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    match (number(found), number(expected)) {
        (Some(one), Some(other)) if expected.contains('.') => (one - other).abs() <= 1e-9 * other.abs().max(1.0),
        _ => found == expected,
    }
}

fn check(engine: &str) {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let made = made::write(&archive);
    let document = document::read(engine, archive.to_str().unwrap());
    let found = run(engine, folder.path(), &document);
    assert_eq!(found.len(), expected::ALL.len());
    for ((statement, found), expected) in document.statements.iter().zip(&found).zip(expected::ALL) {
        let expected = expected(&made);
        assert!(!expected.is_empty(), "{statement}");
        let is_equal = |(one, other): (&Row, &Row)| {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        };
        let are_equal = found.len() == expected.len() && found.iter().zip(&expected).all(is_equal);
        assert!(are_equal, "{engine}: {statement}\nfound {found:#?}\nexpected {expected:#?}");
    }
}

#[test]
fn duckdb_finds_the_same() {
    check("duckdb");
}

#[test]
fn clickhouse_finds_the_same() {
    check("clickhouse");
}

#[test]
fn datafusion_finds_the_same() {
    check("datafusion");
}

#[test]
fn databend_finds_the_same() {
    check("databend");
}

#[test]
#[ignore = "its installation is large, and it takes minutes"]
fn spark_finds_the_same() {
    check("spark");
}

/// The name of a type in the dialect of an engine whose tables are declared column by column.
fn type_name(engine: &str, column_type: ColumnType) -> String {
    let name = column_type.sql().to_owned();
    match engine {
        "starrocks" => match column_type {
            ColumnType::Moment => "DATETIME".to_owned(),
            _ => name.replace("VARCHAR", "STRING").replace('(', "<").replace(')', ">"),
        },
        _ => name,
    }
}

/// Engines that cannot be run: the statements are of their grammar, and their tables have the schema's columns.
fn check_syntax(engine: &str) {
    let folder = tempfile::tempdir().unwrap();
    let document = document::read(engine, "s3://bucket/prefix");
    let found = run(engine, folder.path(), &document);
    let mut rows = found.into_iter().next().unwrap();
    rows.retain(|row| row.len() == 4);
    for table in Table::BASE {
        let name = format!("{}_parquet", table.name().trim_end_matches('s'));
        let found: Vec<&[String]> = rows.iter().filter(|row| row[0] == name).map(|row| &row[1..]).collect();
        let mut expected: Vec<Row> = table
            .columns()
            .iter()
            .map(|column| {
                let null = if column.nullable || engine == "trino" { "" } else { "NOT NULL" };
                vec![column.name.to_owned(), type_name(engine, column.column_type), null.to_owned()]
            })
            .collect();
        if engine == "trino" {
            expected.push(["date", "DATE", ""].map(str::to_owned).into());
            expected.push(["hour", "INTEGER", ""].map(str::to_owned).into());
        }
        assert_eq!(found, expected, "{engine}: {name}");
    }
}

#[test]
fn starrocks_has_this_syntax() {
    check_syntax("starrocks");
}

#[test]
fn trino_has_this_syntax() {
    check_syntax("trino");
}
