//! Statements as clients write them, and unusual ones, rewritten for SQLite.

use jiff::Timestamp;

use super::moment::{datetime, nanos, parse};
use super::rewrite::{Rewritten, SessionInfo, rewrite};
use super::tables::{self, Source};
use crate::mysql::{SqlError, SqlErrorKind, Value};
use crate::variables::Variables;

fn rewritten(text: &str, database: &str) -> Result<Rewritten, SqlError> {
    let now = "2026-11-21T07:30:00Z".parse::<Timestamp>().unwrap();
    let mut variables = Variables::default();
    variables.set_user("seven", Value::Integer(7)).unwrap();
    rewrite(
        text,
        &SessionInfo { user: "ann@127.0.0.1".to_owned(), connection: 7, database, variables: &variables, now },
    )
}

#[test]
fn statements_are_rewritten() {
    let mut wrong = String::new();
    for (text, sql) in [
        ("SELECT * FROM profiles", "SELECT * FROM profiles"),
        ("(SELECT 1);", "SELECT 1"),
        ("SELECT\t`a`.`b c` FROM `procprof`.`nodes` AS a", "SELECT \"a\".\"b c\" FROM \"nodes\" AS a"),
        ("select procprof.profiles.id from procprof.profiles", "select profiles.id from profiles"),
        (
            "SELECT T.TABLE_NAME FROM Information_Schema.TABLES T",
            "SELECT T.TABLE_NAME FROM \"information_schema.tables\" T",
        ),
        ("SELECT 'it''s', 'a\\'b', \"c'd\"", "SELECT 'it''s' AS \"it's\", 'a''b' AS \"a'b\", 'c''d' AS \"c'd\""),
        ("SELECT 'a' AS x, 'b' y, id z FROM nodes", "SELECT 'a' AS x, 'b' y, id z FROM nodes"),
        (
            "SELECT @@autocommit, @@Session.Time_Zone AS z, @x",
            "SELECT 1 AS \"@@autocommit\", 'UTC' AS z, NULL AS \"@x\"",
        ),
        ("SELECT @Seven + 1 AS n", "SELECT 7 + 1 AS n"),
        (
            "SELECT USER(), CONNECTION_ID() + 1, schema()",
            "SELECT 'ann@127.0.0.1' AS \"USER()\", 7 + 1 AS \"CONNECTION_ID() + 1\", 'procprof' AS \"schema()\"",
        ),
        (
            "SELECT 1 WHERE completed > NOW() - INTERVAL 1 HOUR",
            "SELECT 1 WHERE completed > date_add('2026-11-21 07:30:00' , -1, 'hour')",
        ),
        (
            "SELECT 1 WHERE p.started+interval 2 day<curdate()",
            "SELECT 1 WHERE date_add(p.started,2, 'day') <'2026-11-21'",
        ),
        (
            "SELECT a FROM t WHERE f(x, (y)) - INTERVAL ? MINUTE",
            "SELECT a FROM t WHERE date_add(f(x, (y)) , -?, 'minute')",
        ),
        (
            "SELECT a FROM t WHERE a/b DIV c MOD d && !e || f<=>g",
            "SELECT a FROM t WHERE a* 1.0 /b / c % d AND NOT e OR f IS g",
        ),
        (
            "SELECT a FROM t WHERE b RLIKE '^x' AND c LIKE 'a\\_%'",
            "SELECT a FROM t WHERE b REGEXP '^x' AND c LIKE 'a\\_%' ESCAPE '\\'",
        ),
        (
            "SELECT CAST(a AS UNSIGNED INTEGER) x, CONVERT(b, CHAR(10)) y",
            "SELECT CAST(a AS INTEGER ) x, CAST(b AS TEXT ) y",
        ),
        ("SELECT CONVERT(b USING latin1) y", "SELECT CAST(b AS TEXT) y"),
        ("SELECT group_concat(a ORDER BY b SEPARATOR '|') y", "SELECT group_concat(a , '|' ORDER BY b ) y"),
        (
            "SELECT id AS n, 1 FROM nodes WHERE id > ? HAVING n < ? ORDER BY id LIMIT 3",
            "SELECT * FROM (SELECT id AS n, 1 FROM nodes WHERE id > ? ORDER BY id) WHERE n < ? LIMIT 3",
        ),
        ("SELECT SUM(1) FROM nodes HAVING COUNT(1) > 0", "SELECT SUM(1) FROM nodes HAVING COUNT(1) > 0"),
        ("SELECT id FROM nodes GROUP BY id HAVING id > 1", "SELECT id FROM nodes GROUP BY id HAVING id > 1"),
        ("SELECT DATE_ADD(a, INTERVAL -30 DAY) x", "SELECT DATE_ADD(a, (-30), 'day' ) x"),
        (
            "SELECT a COLLATE utf8_general_ci = 'x' y, b COLLATE utf8mb4_bin z",
            "SELECT a COLLATE NOCASE = 'x' y, b COLLATE BINARY z",
        ),
        ("SELECT 1--1, 2 -- 3\n", "SELECT 1- -1, 2"),
        ("SELECT/*! SQL_NO_CACHE */ 1 /* one */", "SELECT 1"),
        ("EXPLAIN SELECT 1", "EXPLAIN QUERY PLAN SELECT 1"),
        ("SELECT a$b FROM t", "SELECT \"a$b\" FROM t"),
        ("SELECT NULL AS Nothing", "SELECT NULL AS \"Nothing\""),
        ("SELECT _utf8mb4'x' y", "SELECT 'x' y"),
        ("SELECT (SELECT 1/2 FROM t)", "SELECT (SELECT 1* 1.0 /2 FROM t) AS \"(SELECT 1/2 FROM t)\""),
    ] {
        let made = rewritten(text, "procprof").map_or_else(|failure| failure.to_string(), |rewritten| rewritten.sql);
        if made != sql {
            wrong += &format!("{text}\n  wanted {sql}\n  is     {made}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(
        rewritten("SELECT 1 FROM tables", "information_schema").unwrap().sql,
        "SELECT 1 FROM \"information_schema.tables\""
    );
    assert_eq!(rewritten("SELECT ?, '?', `?` - ?", "").unwrap().parameters, 2);
}

#[test]
fn what_could_mean_something_else_to_sqlite_is_refused() {
    for (text, kind) in [
        ("SELECT 1; SELECT 2", SqlErrorKind::NotSupported),
        ("SELECT [a] FROM t", SqlErrorKind::Syntax),
        ("SELECT :a", SqlErrorKind::Syntax),
        ("SELECT 1)", SqlErrorKind::Syntax),
        ("SELECT (1", SqlErrorKind::Syntax),
        ("SELECT 'a\\0b'", SqlErrorKind::Syntax),
        ("SELECT * FROM main.profiles", SqlErrorKind::UnknownDatabase),
        ("SELECT * FROM `temp` . x", SqlErrorKind::UnknownDatabase),
        ("SELECT @@x", SqlErrorKind::UnknownVariable),
        ("SELECT 1 + INTERVAL", SqlErrorKind::Syntax),
        ("INTERVAL 1 DAY", SqlErrorKind::Syntax),
        ("SELECT CONVERT(", SqlErrorKind::Syntax),
    ] {
        assert_eq!(rewritten(text, "").map_err(|failure| failure.kind), Err(kind), "{text}");
    }
}

/// Pieces that statements are made of, thrown together: nothing panics, and no quote or comment of SQLite's begins that
/// was not there.
#[test]
fn any_order_of_pieces_is_safe() {
    let pieces = [
        "SELECT",
        "'",
        "\"",
        "`",
        "(",
        ")",
        "--",
        "-- ",
        "/*",
        "*/",
        "/*!",
        "#",
        "\\",
        ";",
        "?",
        "@@version",
        "@",
        "INTERVAL",
        "1",
        "DAY",
        "CAST",
        "AS",
        "CONVERT",
        "USING",
        "GROUP_CONCAT",
        "SEPARATOR",
        "'x'",
        "procprof",
        "main",
        ".",
        "information_schema",
        "/",
        "-",
        "+",
        "|",
        "&",
        "<",
        "=",
        ">",
        "!",
        "NOW",
        "user",
        ",",
        "FROM",
        " ",
        "\n",
        "é",
        "$",
        "\0",
        "LIKE",
        "DIV",
        "x",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..state % 12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text += pieces[(state >> 33) as usize % pieces.len()];
            if state >> 60 & 1 == 1 {
                text.push(' ');
            }
        }
        state = state.wrapping_add(1);
        let Ok(Rewritten { sql, .. }) = rewritten(&text, "procprof") else { continue };
        let bare = without_quoted(&sql);
        let hidden = ["--", "/*", ";", "[", ":", "#", "`", "'", "\""].iter().find(|hidden| bare.contains(**hidden));
        assert!(hidden.is_none(), "{text:?} became {sql:?}: {hidden:?}");
    }
}

/// SQL without its texts and quoted names.
fn without_quoted(sql: &str) -> String {
    let mut bare = String::new();
    let mut rest = sql.chars();
    while let Some(character) = rest.next() {
        match character {
            // The quote written twice ends one and begins another, which comes to the same.
            '\'' | '"' if rest.by_ref().any(|other| other == character) => {}
            other => bare.push(other),
        }
    }
    bare
}

#[test]
fn moments_are_those_of_the_calendar() {
    for (nanos_since, text) in [
        (0, "1970-01-01 00:00:00.000"),
        (951_782_400_000_000_000, "2000-02-29 00:00:00.000"),
        (1_763_677_534_125_999_999, "2025-11-20 22:25:34.125"),
        (-1, "1969-12-31 23:59:59.999"),
        (i64::MAX, "2262-04-11 23:47:16.854"),
        (i64::MIN, "1677-09-21 00:12:43.145"),
    ] {
        assert_eq!(datetime(nanos_since, 3), text);
        let read = parse(text).and_then(nanos).unwrap_or(i64::MIN);
        assert!(nanos_since == i64::MIN || nanos_since - read < 1_000_000, "{text}");
    }
    for (text, nanos_since) in [
        ("2000-02-29", 951_782_400),
        ("2000-02-29T01:00:00+01:00", 951_782_400),
        (" 2000-02-29 00:00:01 ", 951_782_401),
    ] {
        assert_eq!(parse(text).and_then(nanos), Some(nanos_since * 1_000_000_000), "{text}");
    }
    assert_eq!(parse("yesterday").and_then(nanos), None);
}

#[test]
fn tables_are_distinguished() {
    for table in tables::all() {
        assert!(!table.columns.is_empty() && !table.comment.is_empty(), "{}", table.name);
        assert!(tables::all().filter(|other| other.name == table.name).count() == 1, "{}", table.name);
        assert!(table.parameters.is_empty() || matches!(table.source, Source::Computed(_)), "{}", table.name);
        let names = table
            .columns
            .iter()
            .map(|column| column.name)
            .chain(table.parameters.iter().map(|parameter| parameter.name));
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{}: a name stands twice", table.name);
    }
}
