//! The processes that come from this one, and the CPU time each has used.
//!
//! ```text
//! /proc/PID/stat   4711 (worker) S 4700 … utime stime cutime cstime …
//! ```
//!
//! Fields: 2 the name, 4 the parent, 14 and 15 CPU time in ticks of the clock, 16 and 17 that of its children that have
//! ended and were waited for.

use std::collections::BTreeMap;

/// A process that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) name: String,
    parent: i32,
    /// CPU time of all its threads, nanoseconds.
    cpu: u64,
    /// CPU time of its children that have ended, and of theirs, nanoseconds.
    children: u64,
}

/// The processes of a tree at a moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Processes {
    /// All whose parent's parent's … is the root, by id; none where `/proc` can't be read.
    pub(super) running: BTreeMap<i32, Process>,
    /// CPU time of the root's children that have ended, and of theirs, nanoseconds.
    ended: u64,
}

impl Processes {
    pub(super) fn below(root: i32) -> Self {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut all: BTreeMap<i32, Process> =
            numbers.filter_map(|pid| Some((pid, parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)?))).collect();
        let ended = all.get(&root).map_or(0, |root| root.children);
        let mut running = BTreeMap::new();
        let mut parents = vec![root];
        while let Some(parent) = parents.pop() {
            let children: Vec<i32> =
                all.iter().filter(|(_, process)| process.parent == parent).map(|(pid, _)| *pid).collect();
            running.extend(children.iter().filter_map(|pid| Some((*pid, all.remove(pid)?))));
            parents.extend(children);
        }
        Self { running, ended }
    }

    /// How much those that run have used since `before`; one that was not there then has used all of it since.
    pub(super) fn used_since(&self, before: &Self) -> BTreeMap<i32, u64> {
        let since = |pid: &i32, process: &Process| {
            process.cpu.saturating_sub(before.running.get(pid).map_or(0, |before| before.cpu))
        };
        self.running.iter().map(|(pid, process)| (*pid, since(pid, process))).collect()
    }

    /// CPU time that the processes which have ended since `before` had used since then. Not known of processes whose
    /// parent does not wait for them.
    pub(super) fn used_by_ended_since(&self, before: &Self) -> u64 {
        let waited_for = |at: &Self| at.ended + at.running.values().map(|process| process.children).sum::<u64>();
        // What they had used before came to those that waited for them, too.
        let gone = before.running.iter().filter(|(pid, _)| !self.running.contains_key(pid));
        let former: u64 = gone.map(|(_, process)| process.cpu).sum();
        waited_for(self).saturating_sub(waited_for(before)).saturating_sub(former)
    }
}

/// Nanoseconds of a tick, the unit in which the kernel reports CPU time.
pub(super) fn tick() -> u64 {
    // SAFETY: reads a constant of the system.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / u64::try_from(ticks).unwrap_or(100).max(1)
}

fn parse(stat: &[u8]) -> Option<Process> {
    let (start, end) = (stat.iter().position(|byte| *byte == b'(')?, stat.iter().rposition(|byte| *byte == b')')?);
    let name = String::from_utf8_lossy(stat.get(start + 1..end)?).into_owned();
    let rest = String::from_utf8_lossy(stat.get(end + 1..)?).into_owned();
    // From the third field, the state, on.
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let (cpu, children) = ((number(14)? + number(15)?) * tick(), (number(16)? + number(17)?) * tick());
    Some(Process { name, parent: fields.get(1)?.parse().ok()?, cpu, children })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernels_is_understood() {
        let line = b"4711 (a (b) S 1) R 12 1 1 0 -1 0 0 0 0 0 250 50 7 2 20 0 1 0 5 0 0";
        let process = parse(line).unwrap();
        let expected = Process { name: "a (b) S 1".to_owned(), parent: 12, cpu: 300 * tick(), children: 9 * tick() };
        assert_eq!(process, expected);
        assert!([&b""[..], b"1 (x", b"1 (x) S 1", b") ("].iter().all(|line| parse(line).is_none()));
    }

    #[test]
    fn a_child_and_its_child_are_found() {
        let mut command = std::process::Command::new("sh");
        let command = command.args(["-c", "sleep 60 & echo $!; wait"]).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
        let grandchild: i32 = line.trim().parse().unwrap();
        let found = Processes::below(std::process::id() as i32).running;
        // SAFETY: a process this test has started.
        unsafe { libc::kill(grandchild, libc::SIGKILL) };
        child.wait().unwrap();
        assert!(found.contains_key(&(child.id() as i32)) && found.contains_key(&grandchild), "{found:?}");
    }

    #[test]
    fn ended_processes_count_from_the_first_look_on() {
        let process = |cpu, children| Process { name: String::new(), parent: 1, cpu, children };
        let before = Processes { running: [(2, process(100, 0)), (3, process(40, 30))].into(), ended: 1000 };
        // 3 has ended: its 40 and 30 of before, and 25 since; a child of 2 that came since has ended after 5.
        let after =
            Processes { running: [(2, process(110, 5)), (4, process(6, 0))].into(), ended: 1000 + 40 + 30 + 25 };
        assert_eq!(after.used_since(&before), [(2, 10), (4, 6)].into());
        assert_eq!(after.used_by_ended_since(&before), 30);
        assert_eq!(before.used_by_ended_since(&before), 0);
    }
}
