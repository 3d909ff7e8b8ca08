//! `procprof archive load`: an archive in the tables of a real MariaDB, and of stand-ins for StarRocks' servers.

#![allow(clippy::unwrap_used)]

#[path = "../../../procprof-archive/tests/engines/document.rs"]
mod document;
#[path = "../../../procprof-archive/tests/engines/expected.rs"]
mod expected;
#[path = "../../../procprof-archive/tests/engines/made.rs"]
mod made;
mod mariadb;
mod proxy;
mod stand_in;
mod starrocks;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Instant;

use procprof_archive::{
    Archive, Cell, CompactLimits, Hour, Identity, ObjectFolder, Part, PartLimits, PartWriter, ReadLimits, Table, Writer,
};
use procprof_profile::{Nanos, ProfileBuilder, ProfileId, ProfileType};

use self::made::Made;
use self::mariadb::{Client, MariaDb, PASSWORD};
use self::proxy::Proxy;
use crate::harness::{PATIENCE, folder, procprof, text};

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
    for table in Table::ALL {
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
    let made = made::write(&archive);
    let mut server = MariaDb::start();
    let mut client = server.client("profiles");
    let parts = opened(&archive).parts().unwrap().whole.len();
    let first = load(&archive, &server);
    assert!(first.starts_with(&format!("{parts} parts with ")), "{first}");
    assert!(first.contains(" 0 removed, 0 already there; "), "{first}");
    check_same(&archive, &mut client);
    document::read("mariadb", "").views.iter().for_each(|view| client.run(view));
    check_statements(&mut client, &made);
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
    check_statements(&mut client, &made);

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

/// The bytes that a load of the whole archive sends.
fn bytes_sent(archive: &Path, server: &MariaDb, client: &mut Client) -> u64 {
    client.run("CREATE DATABASE measured");
    let proxy = Proxy::start(server.address(), u64::MAX);
    let target = target(proxy.address).replace("/profiles", "/measured");
    let output = start(archive, &target).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    client.run("DROP DATABASE measured");
    proxy.sent()
}

/// Kills a load when it has sent so many bytes, unless it ends before. What is there is whole then, for a client that
/// knows of no load. Whether it was killed.
fn kill_at(archive: &Path, server: &MariaDb, client: &mut Client, bytes: u64) -> bool {
    let proxy = Proxy::start(server.address(), bytes);
    let mut child = start(archive, &target(proxy.address));
    if !proxy.is_stopped() {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        return false;
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(proxy);
    let there = client.rows("SHOW TABLES").concat();
    for table in Table::ALL {
        let name = format!("archive_{}", table.name());
        if !there.contains(&name) {
            continue;
        }
        let listed = format!("SELECT coalesce(sum(`{}`), 0) FROM archive_parts", table.name());
        let counts = client.rows(&format!("SELECT (SELECT count(*) FROM {name}), ({listed})")).remove(0);
        assert_eq!(counts[0], counts[1], "{name} after {bytes} bytes");
    }
    true
}

#[test]
fn a_killed_load_is_repaired_by_the_next() {
    let folder = folder();
    let archive = folder.path().join("archive");
    made::write(&archive);
    let mut server = MariaDb::start();
    let mut client = server.client("profiles");
    let whole = bytes_sent(&archive, &server, &mut client);
    for fifths in 0..5 {
        client.run("DROP DATABASE profiles");
        client.run("CREATE DATABASE profiles");
        client.run("USE profiles");
        assert!(kill_at(&archive, &server, &mut client, 300 + whole * fifths / 5));
        load(&archive, &server);
        check_same(&archive, &mut client);
    }
    // Parts that are replaced by those of days, one of which is there already when a later load is killed.
    compact(&archive, None);
    let whole = bytes_sent(&archive, &server, &mut client);
    let killed = (0..10).take_while(|tenths| kill_at(&archive, &server, &mut client, 300 + whole * tenths / 10));
    assert!(killed.count() > 4);
    load(&archive, &server);
    check_same(&archive, &mut client);
}

#[test]
fn a_killed_load_is_repaired_where_there_are_no_transactions() {
    let folder = folder();
    let archive = folder.path().join("archive");
    made::write(&archive);
    let mut server = MariaDb::start();
    let mut client = server.client("profiles");
    let whole = bytes_sent(&archive, &server, &mut client);
    load(&archive, &server);
    for name in client.rows("SHOW TABLES").concat() {
        client.run(&format!("ALTER TABLE {name} ENGINE = Aria"));
        client.run(&format!("DELETE FROM {name}"));
    }
    let rows = "SELECT (SELECT count(*) FROM archive_frames) - (SELECT sum(frames) FROM archive_parts)";
    let proxy = Proxy::start(server.address(), whole / 2);
    let mut child = start(&archive, &target(proxy.address));
    assert!(proxy.is_stopped());
    child.kill().unwrap();
    child.wait().unwrap();
    drop(proxy);
    assert_ne!(client.rows(rows), [["0"]], "no part was half loaded");
    load(&archive, &server);
    check_same(&archive, &mut client);
}

#[test]
fn a_server_is_reached_by_tls() {
    let folder = folder();
    let archive = folder.path().join("archive");
    write_texts(&archive, &["one"]);
    let written = |name: &str| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        let (certificate, key) = (folder.path().join(name), folder.path().join(format!("{name}.key")));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        (certificate, key)
    };
    let ((certificate, key), (other, _)) = (written("server.pem"), written("other.pem"));
    let options = [format!("--ssl-cert={}", certificate.display()), format!("--ssl-key={}", key.display())];
    let mut server = MariaDb::start_with(&options);
    let mut client = server.client("profiles");
    client.run("ALTER USER loader@'%' REQUIRE SSL");
    let target = target(server.address());
    let with = |certificates: &Path| command(&archive, &target).arg("--ca-file").arg(certificates).output().unwrap();
    let plain = fails(&command(&archive, &target).output().unwrap());
    assert!(plain.contains("Access denied for user 'loader'"), "{plain}");
    let untrusted = fails(&with(&other));
    assert!(untrusted.contains("certificate"), "{untrusted}");
    let output = with(&certificate);
    assert!(output.status.success(), "{}", text(&output));
    check_same(&archive, &mut client);
}

#[test]
fn loads_wait_for_one_another_and_follow_compaction() {
    let folder = folder();
    let archive = folder.path().join("archive");
    made::write(&archive);
    let mut server = MariaDb::start();
    let mut client = server.client("profiles");
    let proxy = Proxy::start(server.address(), bytes_sent(&archive, &server, &mut client) / 2);
    let first = start(&archive, &target(proxy.address));
    assert!(proxy.is_stopped());
    let second = start(&archive, &target(server.address()));
    let waits = "SELECT count(*) FROM information_schema.processlist WHERE state = 'User lock'";
    let begun = Instant::now();
    while client.rows(waits) != [["1"]] {
        assert!(begun.elapsed() < PATIENCE, "the second load does not wait");
    }
    // The parts that the first one has listed are gone when it goes on.
    compact(&archive, None);
    proxy.resume();
    for child in [first, second] {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }
    check_same(&archive, &mut client);
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

#[test]
fn any_text_comes_back_as_it_was() {
    let folder = folder();
    let archive = folder.path().join("archive");
    let long = format!("std::map<{}>", "std::pair<int, 😀>, ".repeat(60_000));
    let texts = [
        "it's",
        "\"double\"",
        "back\\slash\\",
        "\\'; DROP TABLE archive_frames; -- ",
        "nul\0in",
        "line\r\nend\t",
        "\x1a",
        "😀 four bytes",
        "trailing ",
        "trailing",
        "Case",
        "case",
        "e\u{301}",
        "é",
        "%_",
        "NULL",
        &long,
    ];
    let alike = ["one", "two"].map(|end| format!("{}{end}", "ns::".repeat(1000)));
    let texts: Vec<&str> = texts.into_iter().chain(alike.iter().map(String::as_str)).collect();
    write_texts(&archive, &texts);
    let mut server = MariaDb::start();
    let mut client = server.client("profiles");
    client.run("SET GLOBAL max_allowed_packet = 1048576");
    let target = target(server.address());
    let refused = fails(&command(&archive, &target).output().unwrap());
    let expected = "table archive_frames: column function: row ";
    assert!(refused.contains(expected) && refused.contains("the server takes 1048"), "{refused}");
    assert!(refused.starts_with("0 parts with 0 rows loaded"), "{refused}");
    client.run("SET GLOBAL max_allowed_packet = 16777216");
    load(&archive, &server);
    check_same(&archive, &mut client);
    for text in &texts {
        let found = client.rows(&format!(
            "SELECT count(*) FROM archive_frames WHERE `function` = CONVERT(x'{}' USING utf8mb4)",
            text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()
        ));
        assert_eq!(found, [["1"]], "{text:.40}");
    }
    // Groups tell apart what is alike at its beginning, and what other collations take for the same.
    document::read("mariadb", "").views.iter().for_each(|view| client.run(view));
    let groups = "SELECT function_name, sum(value) FROM self_values WHERE kind = 'cpu' GROUP BY function_name";
    let found: BTreeSet<Vec<String>> = client.rows(groups).into_iter().collect();
    assert_eq!(found, texts.iter().map(|text| vec![(*text).to_owned(), "255".to_owned()]).collect());
}

#[test]
fn what_is_wrong_is_named() {
    let folder = folder();
    let archive = folder.path().join("archive");
    made::write(&archive);
    let mut server = MariaDb::start();
    let mut client = server.client("profiles");
    let target = target(server.address());
    let run = |archive: &Path, target: &str| command(archive, target).output().unwrap();

    let wrong = fails(&command(&archive, &target).env("PROCPROF_LOAD_PASSWORD", "hunter2").output().unwrap());
    assert!(wrong.contains("Access denied for user 'loader'") && wrong.contains(&target), "{wrong}");
    assert!(!wrong.contains("hunter2"), "{wrong}");
    let file = folder.path().join("password");
    std::fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    let none = target.replace("/profiles", "/nowhere");
    let mut by_file = command(&archive, &none);
    let by_file = by_file.env_remove("PROCPROF_LOAD_PASSWORD").arg("--password-file").arg(&file);
    let wrong = fails(&by_file.output().unwrap());
    assert!(wrong.contains("Unknown database 'nowhere'"), "{wrong}");
    let missing = folder.path().join("missing");
    let wrong = fails(&run(&missing, &target));
    assert!(wrong.contains(&missing.display().to_string()), "{wrong}");
    let wrong = fails(&run(&archive, "mysql://loader:hunter2@127.0.0.1/profiles"));
    assert!(wrong.contains("--password-file") && !wrong.contains("hunter2"), "{wrong}");
    let mut with_tls = command(&archive, &target);
    let authority = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem();
    let certificates = folder.path().join("ca.pem");
    std::fs::write(&certificates, authority).unwrap();
    let wrong = fails(&with_tls.arg("--ca-file").arg(&certificates).output().unwrap());
    assert!(wrong.contains("the server offers no TLS"), "{wrong}");

    client.run("CREATE TABLE archive_stacks (stack BIGINT NOT NULL, `date` DATE NOT NULL)");
    let wrong = fails(&run(&archive, &target));
    assert!(wrong.contains("table archive_stacks: column up is missing"), "{wrong}");
    client.run("DROP TABLE archive_stacks");

    // A part that cannot be read is named, and the others are loaded.
    let part = *opened(&archive).parts().unwrap().whole.keys().next().unwrap();
    let path = archive.join(part.path(Table::Samples));
    let intact = std::fs::read(&path).unwrap();
    std::fs::write(&path, &intact[..intact.len() - 20]).unwrap();
    let output = run(&archive, &target);
    let wrong = fails(&output);
    assert!(wrong.contains(&format!("failed: {}: {}: ", part.name(), part.path(Table::Samples))), "{wrong}");
    let parts = opened(&archive).parts().unwrap().whole.len();
    assert!(wrong.contains(&format!("{} parts with ", parts - 1)), "{wrong}");
    std::fs::write(&path, &intact).unwrap();
    let repaired = load(&archive, &server);
    assert!(repaired.starts_with("1 parts with "), "{repaired}");
    check_same(&archive, &mut client);

    client.run("DROP TABLE archive_labels");
    let wrong = fails(&run(&archive, &target));
    assert!(wrong.contains("table archive_labels is missing"), "{wrong}");
}
