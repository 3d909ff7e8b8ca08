//! `procprof archive load`: an archive in the tables of a real MariaDB, and of stand-ins for StarRocks' servers.

#![allow(clippy::unwrap_used)]

#[path = "../../../procprof-archive/tests/engines/document.rs"]
mod document;
mod errors;
#[path = "../../../procprof-archive/tests/engines/expected.rs"]
mod expected;
mod kills;
#[path = "../../../procprof-archive/tests/engines/made.rs"]
mod made;
mod mariadb;
mod proxy;
mod stand_in;
mod starrocks;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, LazyLock};

use procprof_archive::{
    Archive, Cell, CompactLimits, Hour, Identity, ObjectFolder, Part, PartLimits, PartWriter, ReadLimits, Table, Writer,
};
use procprof_profile::{Nanos, ProfileBuilder, ProfileId, ProfileType};

use self::made::Made;
use self::mariadb::{Client, MariaDb, PASSWORD};
use crate::harness::{copy_folder, folder, procprof, shared_folder, text};

/// A moment after the days of all profiles here.
const LATER: Nanos = Nanos(1_796_000_000 * 1_000_000_000);

fn command(archive: &Path, target: &str) -> Command {
    let mut command = procprof();
    command.args(["archive", "load"]).arg(archive).arg(target).env("PROCPROF_LOAD_PASSWORD", PASSWORD);
    command
}

fn target(address: impl std::fmt::Display) -> String {
    format!("mysql://loader@{address}/profiles")
}

/// What a load that succeeds prints.
fn load(archive: &Path, server: &MariaDb) -> String {
    let output = command(archive, &target(server.address())).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// What a load that fails prints.
fn fails(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", text(output));
    text(output)
}

fn opened(archive: &Path) -> Archive {
    Archive::new(Arc::new(ObjectFolder::open(archive).unwrap()), ReadLimits::default())
}

/// Writes an archive of several days; returns its profiles.
fn write(archive: &Path) -> &'static [Made] {
    static WRITTEN: LazyLock<(PathBuf, Vec<Made>)> = LazyLock::new(|| {
        let path = shared_folder().join("archive");
        let made = made::write(&path);
        (path, made)
    });
    copy_folder(&WRITTEN.0, archive);
    &WRITTEN.1
}

/// Merges the days of an archive; the replaced files are gone then.
fn compact(archive: &Path, bytes_max: Option<u64>) {
    let limits = CompactLimits { grace: Nanos(0), bytes_max, ..CompactLimits::default() };
    let mut now = LATER;
    for _ in 0..2 {
        opened(archive).compact(&limits, &|| now, 0xc0, &mut ()).unwrap();
        now.0 += 3_600_000_000_000;
    }
    assert!(opened(archive).parts().unwrap().replaced.is_empty());
}

/// A map as JSON, in its order.
fn json<V: serde::Serialize>(map: &[(String, V)]) -> String {
    let entry = |(key, value): &(String, V)| {
        format!("{}:{}", serde_json::to_string(key).unwrap(), serde_json::to_string(value).unwrap())
    };
    format!("{{{}}}", map.iter().map(entry).collect::<Vec<_>>().join(","))
}

/// The rows of a part's table in their order, as the engine shows them.
fn archived(archive: &Archive, part: Part, table: Table) -> Vec<Vec<String>> {
    let cell = |cell: &Cell<'_>| match cell {
        Cell::Missing => "NULL".to_owned(),
        Cell::Text(text) => (*text).to_owned(),
        Cell::Integer(number) => number.to_string(),
        Cell::Flag(flag) => u8::from(*flag).to_string(),
        Cell::Moment(micros) => {
            jiff::Timestamp::from_microsecond(*micros).unwrap().strftime("%Y-%m-%d %H:%M:%S%.6f").to_string()
        }
        Cell::Texts(map) => json(map),
        Cell::Integers(map) => json(map),
    };
    let mut rows = Vec::new();
    let mut each = |cells: &[Cell<'_>]| {
        rows.push(cells.iter().map(cell).chain([part.date()]).collect());
        Ok::<(), procprof_archive::Error>(())
    };
    archive.rows(part, table, &mut each).unwrap();
    rows
}

/// The tables have the rows of the archive, all of them and nothing else.
fn check_same(archive: &Path, client: &mut Client) {
    let archive = opened(archive);
    let mut parts: Vec<Part> = archive.parts().unwrap().whole.into_keys().collect();
    parts.sort_by_key(|part| *part.ids().start());
    let listed = client.rows("SELECT name, part FROM archive_parts ORDER BY part");
    let expected: Vec<Vec<String>> =
        parts.iter().map(|part| vec![part.name(), part.ids().start().to_string()]).collect();
    assert_eq!(listed, expected);
    for table in Table::BASE {
        let columns: Vec<String> = table.columns().iter().map(|column| format!("`{}`", column.name)).collect();
        let is_numbered = matches!(table, Table::Samples | Table::Labels);
        let key = if is_numbered { "part, part_row" } else { &columns[0] };
        let name = format!("archive_{}", table.name());
        let found = client.rows(&format!("SELECT {}, `date` FROM {name} ORDER BY {key}", columns.join(", ")));
        let expected: Vec<Vec<String>> = parts.iter().flat_map(|part| archived(&archive, *part, table)).collect();
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{name}");
        }
        let counted = client.rows(&format!("SELECT sum(`{}`) FROM archive_parts", table.name()));
        let count = if parts.is_empty() { "NULL".to_owned() } else { expected.len().to_string() };
        assert_eq!(counted, [[count]], "{name}");
    }
}

/// The statements of `docs/engines.md` find the rows that the profiles have.
fn check_statements(client: &mut Client, made: &[Made]) {
    let is_same = |found: &str, expected: &str| match (found.parse::<f64>(), expected.parse::<f64>()) {
        (Ok(one), Ok(other)) if expected.contains('.') => (one - other).abs() <= 1e-9 * other.abs().max(1.0),
        _ => found == expected,
    };
    for (statement, expected) in document::read("mariadb", "").statements.iter().zip(expected::ALL) {
        let (found, expected) = (client.rows(statement), expected(made));
        assert!(!expected.is_empty(), "{statement}");
        let is_equal = |(one, other): (&Vec<String>, &Vec<String>)| {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        };
        let are_equal = found.len() == expected.len() && found.iter().zip(&expected).all(is_equal);
        assert!(are_equal, "{statement}\nfound {found:#?}\nexpected {expected:#?}");
    }
}

#[test]
fn mariadb_has_the_archive_and_finds_the_same() {
    let folder = folder();
    let archive = folder.path().join("archive");
    let made = write(&archive);
    let mut server = MariaDb::start();
    let mut client = server.client("profiles");
    let parts = opened(&archive).parts().unwrap().whole.len();
    let first = load(&archive, &server);
    assert!(first.starts_with(&format!("{parts} parts with ")), "{first}");
    assert!(first.contains(" 0 removed, 0 already there; "), "{first}");
    check_same(&archive, &mut client);
    let analyzed = "SELECT table_name FROM mysql.innodb_table_stats WHERE database_name = 'profiles' AND n_rows > 0";
    assert_eq!(client.rows(analyzed).len(), 6, "tables without statistics");
    document::read("mariadb", "").views.iter().for_each(|view| client.run(view));
    check_statements(&mut client, made);
    let again = load(&archive, &server);
    assert!(
        again.starts_with(&format!("0 parts with 0 rows loaded in 0 bytes, 0 removed, {parts} already there; ")),
        "{again}"
    );
    check_same(&archive, &mut client);

    // Both days are merged into one part each.
    compact(&archive, None);
    let compacted = load(&archive, &server);
    assert!(compacted.starts_with("2 parts with "), "{compacted}");
    assert!(compacted.contains(&format!(" {parts} removed, 0 already there; ")), "{compacted}");
    check_same(&archive, &mut client);
    check_statements(&mut client, made);

    // A part that another archive has is none of this one's.
    let other = folder.path().join("other");
    write_texts(&other, &["other"]);
    let refused = fails(&command(&other, &target(server.address())).output().unwrap());
    assert!(refused.contains("the database has 2 parts that the archive neither has nor has replaced"), "{refused}");
    check_same(&archive, &mut client);
    let mut forced = command(&other, &target(server.address()));
    let forced = forced.arg("--remove-unknown").output().unwrap();
    assert!(forced.status.success() && text(&forced).contains(", 2 removed, "), "{}", text(&forced));
    check_same(&other, &mut client);

    // What retention drops goes, too.
    compact(&other, Some(0));
    let dropped = load(&other, &server);
    assert!(dropped.contains("bytes, 1 removed, 0 already there"), "{dropped}");
    check_same(&other, &mut client);
}

/// A load through a proxy, in the background.
fn start(archive: &Path, target: &str) -> Child {
    command(archive, target).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// An archive with a part whose functions and labels have these texts.
fn write_texts(archive: &Path, texts: &[&str]) {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    for text in texts {
        let frame = builder.frame(text);
        let labels = [builder.text_label(&format!("k{text}"), text), builder.number_label("min", i64::MIN, text)];
        builder.sample(&[frame], &[1, i64::from(u8::MAX)], &labels);
    }
    let profile = builder.finish().unwrap();
    let hour = Hour(498_741);
    let identity = Identity {
        id: ProfileId(0x0193_0c5e_7d1a_7000_8000_0000_0000_0001),
        node: u64::MAX,
        profile_type: ProfileType::Cpu,
        start: Nanos(0),
        duration: Nanos(1),
        completed: Nanos(hour.start().0 + 1_234_567_000),
    };
    let objects = ObjectFolder::create(archive).unwrap();
    let mut writer = PartWriter::new(PartLimits::default());
    writer.add(identity, profile).unwrap();
    writer.write(&objects, Part::of_hour(hour, Writer(0xd), 0)).unwrap();
}
