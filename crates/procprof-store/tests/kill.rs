//! A writer killed at random moments: all confirmed profiles exist, and nothing is half-written.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use procprof_profile::Nanos;
use procprof_store::{ErrorFilter, ErrorKind, ErrorRow, PageRequest, RetentionLimits, StoreOptions};

use crate::support::{SECOND, START, all, files, id, open, put};

const FOLDER: &str = "PROCPROF_STORE_KILL_FOLDER";
const FIRST: &str = "PROCPROF_STORE_KILL_FIRST";
const ROUNDS: u32 = 60;

/// Not a test by itself: the code of the killed process. It reports each step on its output after it is done.
#[test]
fn writer() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let store =
        procprof_store::Store::open(folder, StoreOptions { journal_bytes_max: 6000, ..StoreOptions::default() })
            .unwrap();
    let first: u128 = std::env::var(FIRST).unwrap().parse().unwrap();
    for number in first.. {
        put(&store, number, 10001 + number as u64 % 2, "cpu", START + number as i64 * SECOND).unwrap();
        say("put", number);
        match number % 5 {
            0 => {
                store.pin(id(number)).unwrap();
                say("pin", number);
            }
            1 => {
                let row = ErrorRow {
                    node: None,
                    profile_type: None,
                    time: Nanos(number as i64),
                    kind: ErrorKind::Capture,
                    reason: "r".repeat(30),
                    first_bytes: vec![],
                };
                say("error", store.record_error(row).into());
            }
            2 if number > 10 => {
                store
                    .retain(
                        &RetentionLimits {
                            retained_size_bytes: 20_000,
                            free_bytes_min: 0,
                            ..RetentionLimits::default()
                        },
                        Nanos(START),
                    )
                    .unwrap();
            }
            3 => {
                // Reported before: it may or may not have happened.
                say("deleting", number);
                store.delete(id(number)).unwrap();
                say("deleted", number);
            }
            _ => {
                store
                    .cache_put(
                        &procprof_store::CacheKey { node: None, profile: None, what: &number.to_string() },
                        b"page",
                        Nanos(0),
                    )
                    .unwrap();
            }
        }
    }
}

/// Reports a step of the killed process after it is done.
pub(crate) fn say(word: &str, number: u128) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "did {word} {number}").unwrap();
    out.flush().unwrap();
}

#[derive(Default)]
struct Acknowledged {
    put: BTreeSet<u128>,
    pinned: BTreeSet<u128>,
    deleting: BTreeSet<u128>,
    deleted: BTreeSet<u128>,
    last_error: u128,
}

impl Acknowledged {
    fn note(&mut self, word: &str, number: u128) {
        match word {
            "put" => drop(self.put.insert(number)),
            "pin" => drop(self.pinned.insert(number)),
            "deleting" => drop(self.deleting.insert(number)),
            "deleted" => drop(self.deleted.insert(number)),
            "error" => self.last_error = number,
            other => panic!("{other}"),
        }
    }
}

fn run_and_kill(folder: &Path, first: u32, after: Duration, acknowledged: &mut Acknowledged) {
    let envs = [(FOLDER, folder.display().to_string()), (FIRST, first.to_string())];
    // One in four is killed soon after its start, mostly while it opens the store; the others while they write.
    kill("kill::writer", &envs, !first.is_multiple_of(4), after, |word, number| acknowledged.note(word, number));
}

/// Runs a test of this program as a process of its own and kills it so long after its start, or after the first step
/// that it reports. `noted` gets the steps.
pub(crate) fn kill(
    test: &str,
    envs: &[(&str, String)],
    after_a_step: bool,
    after: Duration,
    mut noted: impl FnMut(&str, u128) + Send,
) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .envs(envs.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (sender, first_acknowledged) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for line in output.lines() {
                let line = line.unwrap();
                if let Some((word, number)) = line.strip_prefix("did ").and_then(|step| step.split_once(' ')) {
                    noted(word, number.parse().unwrap());
                    let _ = sender.send(());
                }
            }
        });
        if after_a_step {
            first_acknowledged.recv_timeout(Duration::from_secs(180)).expect("the writer writes");
        }
        std::thread::sleep(after);
        child.kill().unwrap();
        let ended = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(9), "it ended by itself: {ended}");
    });
}

#[test]
fn sixty_kills_lose_nothing_and_leave_nothing_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::default();
    let mut leftovers = 0;
    for round in 0..ROUNDS {
        let after = Duration::from_millis(u64::from(round.wrapping_mul(2_654_435_761) >> 8) % 250);
        run_and_kill(folder.path(), round * 100_001, after, &mut acknowledged);
        let store = open(folder.path());
        let opened = store.opened();
        assert!(opened.rebuilt.is_none() || round == 0, "{:?}", opened.rebuilt);
        assert_eq!(opened.reconciled.odd_count, 0, "{:?}", opened.reconciled.odd);
        assert_eq!(opened.journal.wrong_lines, 0);
        leftovers += opened.reconciled.leftovers;
        let entries = all(&store, 1000);
        assert_eq!(
            files(folder.path()).len(),
            entries.len(),
            "round {round}: every file is listed, and nothing else is there"
        );
        for entry in &entries {
            assert_eq!(store.open_bytes(entry.id).unwrap().len() as u64, entry.bytes);
        }
        let listed: BTreeSet<u128> = entries.iter().map(|entry| entry.id.0 & 0xffff_ffff).collect();
        let pins: BTreeSet<u128> =
            entries.iter().filter(|entry| entry.pinned).map(|entry| entry.id.0 & 0xffff_ffff).collect();
        assert!(acknowledged.pinned.is_subset(&pins), "round {round}: pins are kept, and keep their profiles");
        assert!(acknowledged.deleted.is_disjoint(&listed), "round {round}: deleted ones stay deleted");
        // Retention deletes from each node's oldest on, so what is younger than its oldest unpinned survivor must all
        // be there. Where pins alone exceed the limit and the newest is one of them, no other survives.
        for node in 0..2 {
            let of_node = |number: &&u128| **number % 2 == node;
            let oldest = listed.difference(&pins).filter(of_node).min().copied().unwrap_or(u128::MAX);
            for number in acknowledged
                .put
                .iter()
                .filter(of_node)
                .filter(|number| **number > oldest && !acknowledged.deleting.contains(number))
            {
                assert!(listed.contains(number), "round {round}: {number} was stored");
            }
        }
        let errors = store.list_errors(&ErrorFilter::default(), &PageRequest::first(1)).rows;
        assert!(
            errors.first().map_or(0, |entry| u128::from(entry.number)) >= acknowledged.last_error,
            "round {round}: error rows are kept"
        );
        if round % 10 == 9 {
            store.rebuild().unwrap();
            assert_eq!(all(&store, 1000), entries);
        }
    }
    // Three rounds of four wait for a first one.
    assert!(acknowledged.put.len() >= ROUNDS as usize * 3 / 4, "the writer got somewhere: {}", acknowledged.put.len());
    println!("{} puts were acknowledged, {leftovers} half-written files were removed", acknowledged.put.len());
}
