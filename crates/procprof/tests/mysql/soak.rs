//! Many statements over many connections, with clients that vanish in the middle: the server's memory stays as it was,
//! and nothing stays behind.
//!
//! The long soak and the figures:
//! `cargo test --release -p procprof --test main mysql::soak -- --ignored --nocapture --test-threads=1`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::raw::{Raw, SqlError};
use super::server::{Authentication, Sql};
use crate::harness::{PATIENCE, children, files};

/// Connections at a time.
const CONNECTIONS: usize = 50;
/// Half a million rows, for clients that read only some of them.
const FLOOD: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 80), m AS (SELECT DISTINCT i FROM n) SELECT a.i, CONCAT('row ', a.i, REPEAT('x', 200)) FROM m a, m b, m c";
const NEWEST: &str =
    "SELECT p.id, n.name FROM profiles p JOIN nodes n ON n.id = p.node ORDER BY p.completed DESC LIMIT 20";
const SNAPSHOT: &str = "ADMIN EXECUTE ON 10001 'System.print(HeapProf.getInstance().dump_dot_snapshot())'";
/// One of so many statements draws a graph: it starts a process, and takes as long as hundreds of others.
const SNAPSHOT_EVERY: usize = 100;

fn rows(answer: Result<usize, SqlError>, what: &str) {
    answer.unwrap_or_else(|error| panic!("{what}: {error:?}"));
}

/// What a client does with its statement of a number.
fn step(client: &mut Raw, port: u16, number: usize) {
    if number % SNAPSHOT_EVERY == 7 {
        client.ask(SNAPSHOT);
        // Every other one is not waited for.
        match number / SNAPSHOT_EVERY % 2 {
            0 => rows(client.answer(), "a graph"),
            _ => *client = Raw::connect(port),
        }
        return;
    }
    match number % 10 {
        0 => assert_eq!(client.query("SHOW BACKENDS"), Ok(1)),
        1 => rows(client.query(NEWEST), "the newest profiles"),
        2 => assert_eq!(client.query("SELEC 1").expect_err("a wrong word").number, 1064),
        3 => assert_eq!(
            client.query("ADMIN EXECUTE ON 10001, 4711 'System.print(HeapProf.getInstance().has_enable())'"),
            Ok(2)
        ),
        4 => assert!(client.query("SHOW FULL PROCESSLIST").expect("the list") > 0),
        5 => assert_eq!(
            client.query("SELECT * FROM samples('no such profile')").expect_err("there is none").number,
            1210
        ),
        6 => {
            client.ask(FLOOD);
            (0..20).for_each(|_| drop(client.packet().expect("a row")));
            *client = Raw::connect(port);
        }
        7 => {
            client.ask("SELECT SLEEP(30)");
            *client = Raw::connect(port);
        }
        8 => {
            client.begin("SELECT 'and the rest never comes");
            *client = Raw::connect(port);
        }
        _ => assert_eq!(client.query("SELECT 'größe', NULL, 1.5, @@version"), Ok(1)),
    }
}

/// So many statements, all connections together.
fn storm(port: u16, statements: usize) {
    thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            scope.spawn(move || {
                let mut client = Raw::connect(port);
                (connection..statements)
                    .step_by(CONNECTIONS)
                    .for_each(|number| step(&mut client, port, number + number / CONNECTIONS));
            });
        }
    });
}

/// The resources of a process.
#[derive(Debug)]
struct Held {
    /// Memory that no file is behind, in bytes.
    memory: u64,
    /// The files of its descriptors, and the number of descriptors of each.
    descriptors: BTreeMap<String, usize>,
    children: usize,
}

impl Held {
    fn by(pid: u32) -> Held {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
        let memory = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024;
        let mut descriptors = BTreeMap::new();
        for descriptor in fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors").map_while(Result::ok) {
            let target = fs::read_link(descriptor.path()).unwrap_or_default();
            // Sockets and pipes have numbers of their own.
            let target = target.to_string_lossy().split(':').next().unwrap_or_default().to_owned();
            *descriptors.entry(target).or_default() += 1;
        }
        Held { memory, descriptors, children: children(pid).len() }
    }
}

/// Waits until no other statement runs, then returns the server's resources.
fn settled(sql: &Sql) -> Held {
    let began = Instant::now();
    let mut client = Raw::connect(sql.port());
    while client.query("SHOW PROCESSLIST") != Ok(1) {
        assert!(began.elapsed() < PATIENCE, "statements of clients that have gone run on");
        thread::sleep(Duration::from_millis(100));
    }
    drop(client);
    // The allocator gives back what it did not need for some seconds: until it gives back no more.
    let mut least = Held::by(sql.pid());
    let mut unchanged = 0;
    while unchanged < 10 {
        thread::sleep(Duration::from_millis(250));
        let held = Held::by(sql.pid());
        unchanged = if held.memory < least.memory { 0 } else { unchanged + 1 };
        if unchanged == 0 {
            least = held;
        }
    }
    least
}

fn soak(statements: usize, growth_max: u64) {
    let sql = Sql::start(Authentication::Open);
    assert_eq!(
        Raw::connect(sql.port()).query("ADMIN EXECUTE ON 10001 'System.print(HeapProf.getInstance().enable_prof())'"),
        Ok(1)
    );
    storm(sql.port(), 250);
    let before = settled(&sql);
    storm(sql.port(), statements);
    let mut after = settled(&sql);
    // What the server does on its own schedule comes and goes; what stays behind is there for ever.
    let began = Instant::now();
    while let Some(left) = left(&sql, &before, &after, growth_max) {
        assert!(began.elapsed() < PATIENCE, "{left} stay behind: {before:?}, {after:?}");
        thread::sleep(Duration::from_millis(100));
        after = Held::by(sql.pid());
    }
    println!("{statements} statements over {CONNECTIONS} connections: before {before:?}, after {after:?}");
}

/// What the server holds more than before, beyond what its own profiles and its catalog's pool take.
fn left(sql: &Sql, before: &Held, after: &Held, growth_max: u64) -> Option<String> {
    // SQLite closes a connection's files once no other has them locked; the counters are the server's own profile's.
    let is_catalog = |target: &str| target.ends_with("catalog.sqlite");
    let is_counted = |target: &str| !is_catalog(target) && target != "anon_inode";
    let open = |held: &Held, is: &dyn Fn(&str) -> bool| {
        held.descriptors.iter().filter(|(target, _)| is(target)).map(|(_, count)| count).sum::<usize>()
    };
    let is_temporary = |path: &PathBuf| !path.to_string_lossy().ends_with("-pprof.gz");
    let temporary: Vec<PathBuf> = files(&sql.data().join("profiles")).into_iter().filter(is_temporary).collect();
    [
        (after.memory >= before.memory + growth_max, "memory".to_owned()),
        (open(after, &is_counted) >= open(before, &is_counted) + 10, "descriptors".to_owned()),
        (open(after, &is_catalog) >= open(before, &is_catalog) + CONNECTIONS, "descriptors of the catalog".to_owned()),
        (after.children > before.children, "processes".to_owned()),
        (!temporary.is_empty(), format!("{temporary:?}")),
    ]
    .into_iter()
    .find_map(|(is_left, what)| is_left.then_some(what))
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    soak(500, 48 << 20);
}

#[test]
#[ignore = "takes minutes"]
fn ten_thousand_statements_leave_nothing_behind() {
    soak(10_000, 48 << 20);
}

#[test]
fn two_hundred_idle_connections_take_under_20_mb() {
    let sql = Sql::start(Authentication::Open);
    let connect = |count: usize| (0..count).map(|_| Raw::connect(sql.port())).collect::<Vec<_>>();
    drop(connect(20));
    let before = settled(&sql);
    let connections = connect(200);
    // The server's own work comes and goes.
    let (began, mut after) = (Instant::now(), Held::by(sql.pid()));
    while after.memory >= before.memory + 20_000_000 {
        assert!(began.elapsed() < PATIENCE, "{before:?}, {after:?}");
        thread::sleep(Duration::from_millis(100));
        after = Held::by(sql.pid());
    }
    println!("{} idle connections: {} bytes", connections.len(), after.memory.saturating_sub(before.memory));
}

#[test]
#[ignore = "prints figures"]
fn statements_a_second_over_one_connection() {
    let sql = Sql::start(Authentication::Open);
    let mut client = Raw::connect(sql.port());
    for statement in ["SHOW BACKENDS", "SELECT 1", "SELECT COUNT(*) FROM profiles"] {
        let best = (0..5).map(|_| {
            let began = Instant::now();
            (0..1000).for_each(|_| assert!(client.query(statement).is_ok(), "{statement}"));
            began.elapsed()
        });
        println!("{statement}: {:.0} a second", 1000.0 / best.min().expect("rounds").as_secs_f64());
    }
}
