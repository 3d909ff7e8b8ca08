//! When heap profilers that were switched on for a while end; a restart of the server keeps it.
//!
//! An agent ends by itself, in its own process. A backend's flag has no timer, so the server switches it off: at its
//! time, or as soon as the server runs again and the node can be reached. The file has a line for each node:
//!
//! ```text
//! 10001 2026-11-23T13:45:00Z
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Captures, HeapProfiler};
use crate::kinds::HeapControl;

/// Time between two tries to switch a flag off.
const RETRY: Duration = Duration::from_secs(30);
/// Bytes of the file, at most.
const BYTES_MAX: u64 = 64 << 20;
/// Longest sleep, so that a change of the clock is noticed.
const SLEEP_MAX: Duration = Duration::from_secs(60);
/// How long a node that is not registered is waited for after its end.
const GONE_AFTER: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The ends, by node, and the file that keeps them.
pub(super) struct HeapEnds {
    ends: Mutex<BTreeMap<u64, Timestamp>>,
    changed: Notify,
    file: PathBuf,
}

impl HeapEnds {
    /// As they were left. A file that cannot be read is an error in the log; the ends in it are lost.
    pub(super) fn open(file: PathBuf) -> HeapEnds {
        let kept = match procprof_files::read(&file, BYTES_MAX) {
            Ok(bytes) => parse(&String::from_utf8_lossy(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        };
        let ends = kept.unwrap_or_else(|error| {
            tracing::error!("{}: {error}; heap profilers that it names are not switched off", file.display());
            BTreeMap::new()
        });
        HeapEnds { ends: Mutex::new(ends), changed: Notify::new(), file }
    }

    /// Notes the end of a node's, or that it has none; the end before.
    ///
    /// # Errors
    /// It cannot be kept; nothing has changed.
    pub(super) fn set(&self, node: u64, end: Option<Timestamp>) -> io::Result<Option<Timestamp>> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = ends.clone();
        let before = match end {
            Some(end) => next.insert(node, end),
            None => next.remove(&node),
        };
        if next != *ends {
            match next.is_empty() {
                true => drop(procprof_files::remove(&self.file)?),
                false => procprof_files::replace(&self.file, text(&next).as_bytes(), 0o640)?,
            }
            *ends = next;
            self.changed.notify_one();
        }
        Ok(before)
    }

    /// The end of a node's, if it is noted.
    pub(super) fn get(&self, node: u64) -> Option<Timestamp> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).get(&node).copied()
    }

    /// The nodes whose end has come, and the time until the next end.
    fn due(&self, now: Timestamp) -> (Vec<(u64, Timestamp)>, Duration) {
        let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let due = ends.iter().filter(|(_, end)| **end <= now).map(|(node, end)| (*node, *end)).collect();
        let next = ends.values().filter(|end| **end > now).map(|end| end.duration_since(now)).min();
        let sleep = next.and_then(|next| Duration::try_from(next).ok()).unwrap_or(SLEEP_MAX);
        (due, sleep.min(SLEEP_MAX))
    }
}

fn text(ends: &BTreeMap<u64, Timestamp>) -> String {
    ends.iter().map(|(node, end)| format!("{node} {end}\n")).collect()
}

fn parse(text: &str) -> io::Result<BTreeMap<u64, Timestamp>> {
    let line = |line: &str| {
        let parsed = line.split_once(' ').and_then(|(node, end)| Some((node.parse().ok()?, end.parse().ok()?)));
        parsed
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{line:?}: expected a node and a time")))
    };
    text.lines().map(line).collect()
}

/// Ends heap profilers at their time, until `stop`.
pub(super) async fn run(captures: Arc<Captures>, stop: CancellationToken) {
    loop {
        let (due, mut sleep) = captures.heap_ends.due(Timestamp::now());
        for (node, end) in due {
            if !expire(&captures, node, end).await {
                sleep = sleep.min(RETRY);
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = captures.heap_ends.changed.notified() => {}
            () = tokio::time::sleep(sleep) => {}
        }
    }
}

/// Ends the heap profiler of a node whose time is over; whether nothing is left to do.
async fn expire(captures: &Arc<Captures>, id: u64, end: Timestamp) -> bool {
    let node = captures.registry.by_id(id).filter(|node| !node.past);
    let over = match &node {
        Some(node) if node.kind().heap == HeapControl::BrpcFlag => {
            return match HeapProfiler::new(captures, node).set_active(false).await {
                Ok(()) => {
                    tracing::info!("{}: the heap profiler is switched off after its time", node.name());
                    true
                }
                Err(error) => {
                    tracing::error!("{}: the heap profiler is not switched off after its time: {error}", node.name());
                    false
                }
            };
        }
        Some(_) => true,
        // A backend is registered once its frontend names it.
        None => Timestamp::now().duration_since(end) > GONE_AFTER,
    };
    over && captures.heap_ends.set(id, None).is_ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use jiff::Timestamp;

    use super::HeapEnds;
    use crate::law::{Contents, Row, check, line};

    #[test]
    fn every_version_of_the_file_is_read() {
        check(&Row { name: "heap-ends", version: procprof_store::DATA_FORMAT.version, make, read, mark: None });
    }

    fn make(data: &Path) {
        let ends = HeapEnds::open(data.join("heap-ends"));
        for (node, second) in [(10_001, 1_763_677_534), (20_002, 1_763_700_000)] {
            ends.set(node, Some(Timestamp::from_second(second).unwrap())).unwrap();
        }
    }

    fn read(data: &Path) -> Contents {
        let ends = HeapEnds::open(data.join("heap-ends"));
        let mut text = String::new();
        line(&mut text, ends.due(Timestamp::from_second(1_800_000_000).unwrap()).0);
        Ok(text)
    }

    #[test]
    fn ends_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("heap-ends");
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let ends = HeapEnds::open(file.clone());
        assert_eq!(ends.set(7, Some(at(100))).unwrap(), None);
        assert_eq!(ends.set(8, Some(at(130))).unwrap(), None);
        assert_eq!(ends.set(7, Some(at(110))).unwrap(), Some(at(100)));
        let ends = HeapEnds::open(file.clone());
        assert_eq!(ends.get(7), Some(at(110)));
        assert_eq!(ends.due(at(120)), (vec![(7, at(110))], Duration::from_secs(10)));
        ends.set(7, None).unwrap();
        ends.set(8, None).unwrap();
        assert!(!file.exists(), "nothing is left to keep");
        std::fs::write(&file, "{").unwrap();
        assert_eq!(HeapEnds::open(file).get(7), None);
    }
}
