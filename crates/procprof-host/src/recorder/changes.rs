//! How often processes may change their names and mappings: whatever one does, its records cost a bounded amount.

use std::time::Duration;

use foldhash::{HashMap, HashSet};
use procprof_profile::perf_event::{Record, Subject};

/// Most changes of each kind that are followed, of a process in a window.
const CHANGES_MAX: u32 = 10_000;
/// The length of a window.
const WINDOW: Duration = Duration::from_secs(60);

/// The changes of processes in a window.
#[derive(Debug, Default)]
pub(super) struct Changes {
    counts: HashMap<Subject, u32>,
    /// The changes that are not followed, and threads, if nothing is to be known of their beginnings and ends.
    passed_over: HashSet<Subject>,
    /// When the window ends, by the events' clock.
    end: u64,
}

impl Changes {
    /// The records that are passed over.
    pub(super) fn passed_over(&self) -> &HashSet<Subject> {
        &self.passed_over
    }

    /// Passes over the beginnings and ends of threads from now on.
    pub(super) fn ignore_threads(&mut self) {
        self.passed_over.insert(Subject::Thread);
    }

    /// Counts a change; the one that is not followed from now on, if there is one.
    pub(super) fn count(&mut self, record: &Record<'_>) -> Option<Subject> {
        let subject = match record {
            Record::Named { pid, is_exec: false, .. } => Subject::Named(*pid),
            Record::Mapped(mapped) => Subject::Mapped(mapped.pid),
            Record::Exited(task) if task.pid == task.tid => {
                self.counts.remove(&Subject::Named(task.pid));
                self.counts.remove(&Subject::Mapped(task.pid));
                return None;
            }
            _ => return None,
        };
        let count = self.counts.entry(subject).or_default();
        *count = count.saturating_add(1);
        (*count > CHANGES_MAX && self.passed_over.insert(subject)).then_some(subject)
    }

    /// Begins a window if the last one is over; the processes of which changes were passed over until now, which are to
    /// be read anew.
    pub(super) fn renew(&mut self, now: u64) -> HashSet<u32> {
        if now < self.end {
            return HashSet::default();
        }
        self.counts.clear();
        self.end = now.saturating_add(super::nanos(WINDOW));
        let changed = |subject: &Subject| match subject {
            Subject::Named(pid) | Subject::Mapped(pid) => Some(*pid),
            Subject::Thread => None,
        };
        let pids = self.passed_over.iter().filter_map(changed).collect();
        self.passed_over.retain(|subject| changed(subject).is_none());
        pids
    }
}

#[cfg(test)]
mod tests {
    use procprof_profile::perf_event::Task;

    use super::*;

    #[test]
    fn each_process_has_its_own_changes_in_each_window() {
        let mut changes = Changes::default();
        changes.ignore_threads();
        assert!(changes.renew(1).is_empty());
        let named = |pid| Record::Named { pid, tid: pid, name: b"name", is_exec: false };
        assert!((0..CHANGES_MAX).all(|_| changes.count(&named(1)).is_none()));
        assert_eq!(changes.count(&named(1)), Some(Subject::Named(1)));
        assert_eq!(changes.count(&named(1)), None, "it is told once");
        assert_eq!(changes.count(&named(2)), None);
        assert_eq!(changes.count(&Record::Named { pid: 1, tid: 1, name: b"", is_exec: true }), None);
        assert_eq!(changes.passed_over().len(), 2);
        assert!(changes.renew(1 + 59_000_000_000).is_empty());
        assert_eq!(changes.renew(1 + 60_000_000_000), HashSet::from_iter([1]));
        assert_eq!(*changes.passed_over(), HashSet::from_iter([Subject::Thread]));
        // A pid that is given again has changes of its own.
        assert!((0..CHANGES_MAX).all(|_| changes.count(&named(1)).is_none()));
        changes.count(&Record::Exited(Task { pid: 1, parent: 0, tid: 1 }));
        assert_eq!(changes.count(&named(1)), None);
    }
}
