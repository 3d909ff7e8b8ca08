//! Loads that are killed, that meet, and whose archive changes meanwhile.

use std::path::Path;
use std::time::Instant;

use procprof_archive::Table;

use super::mariadb::{Client, MariaDb};
use super::proxy::Proxy;
use super::{check_same, compact, load, start, target, write};
use crate::harness::{PATIENCE, folder, text};

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
    for table in Table::BASE {
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
    write(&archive);
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
    write(&archive);
    let mut server = MariaDb::start();
    let mut client = server.client("profiles");
    let whole = bytes_sent(&archive, &server, &mut client);
    load(&archive, &server);
    for name in client.rows("SHOW TABLES").concat() {
        client.run(&format!("ALTER TABLE {name} ENGINE = Aria"));
        client.run(&format!("DELETE FROM {name}"));
    }
    for is_replaced in [false, true] {
        let proxy = Proxy::start(server.address(), whole / 2);
        let mut child = start(&archive, &target(proxy.address));
        assert!(proxy.is_stopped());
        child.kill().unwrap();
        child.wait().unwrap();
        drop(proxy);
        assert_eq!(client.rows("SELECT count(*) FROM archive_parts WHERE loaded IS NULL"), [["1"]]);
        if is_replaced {
            compact(&archive, None);
        }
        load(&archive, &server);
        check_same(&archive, &mut client);
        for name in client.rows("SHOW TABLES").concat() {
            client.run(&format!("DELETE FROM {name}"));
        }
    }
}

#[test]
fn loads_wait_for_one_another_and_follow_compaction() {
    let folder = folder();
    let archive = folder.path().join("archive");
    write(&archive);
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
