//! Commands and answers of async-profiler: the options of the agent, the lines of its log, and the differences between
//! versions.
//!
//! ```text
//! start,jfr,event=cpu,interval=10000000,alloc=524288,lock=10000,jstackdepth=128,timeout=150,file=/tmp/x/1.jfr,log=/tmp/x/log
//! status                                     Profiling is running for 4 seconds | Profiler is not active
//! version                                    4.5
//! in the log                                 [ERROR] Profiler already started
//! ```
//! Source: `arguments.cpp` and `profiler.cpp` of async-profiler.

use std::fmt;
use std::time::Duration;

use crate::jvm::{Events, FlightSettings};

/// Least time a thread waits between two samples of waits.
const LOCK_WAIT: Duration = Duration::from_micros(10);
/// Deepest stack that it records.
pub(super) const STACK_DEPTH_MAX: u32 = 2048;

/// A version of async-profiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u32, u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Version {
    /// The oldest that is used: those before walk stacks only by `AsyncGetCallTrace`, which ends JVMs.
    pub(super) const OLDEST: Version = Version(4, 0);
    /// The first that walks stacks by itself by default.
    const OWN_WALKER: Version = Version(4, 2);
    /// The first whose memory can be limited.
    const LIMITED: Version = Version(4, 4);

    /// The version in the answer to `version`: `4.5`, `4.2.1`, `Async-profiler 4.0 built on …`.
    pub(super) fn read(text: &str) -> Option<Version> {
        let word = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
        let mut numbers =
            word.split('.').map(|part| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok());
        Some(Version(numbers.next()??, numbers.next().flatten().unwrap_or(0)))
    }

    /// How it walks stacks, where that must be set.
    fn stack_walker(self) -> &'static str {
        if self < Version::OWN_WALKER { "cstack=vm," } else { "" }
    }

    /// The option that limits the memory of its stacks, where it has one.
    fn memory_limit(self, bytes: u64) -> String {
        if self < Version::LIMITED { String::new() } else { format!("memlimit={bytes},") }
    }
}

/// The answer to `status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is recorded.
    Idle,
    /// A session has been running for so many seconds.
    Running(u64),
}

impl State {
    /// The state in an answer; `None` where it is another text.
    pub(super) fn read(text: &str) -> Option<State> {
        if text.contains("Profiler is not active") {
            return Some(State::Idle);
        }
        let (_, rest) = text.split_once("rofiling is running for ")?;
        Some(State::Running(rest.split_whitespace().next()?.parse().ok()?))
    }
}

/// The options that start a recording into a file, which ends by itself after `timeout`.
pub(super) fn start(
    version: Version,
    events: Events,
    settings: &FlightSettings,
    timeout: Duration,
    file: &str,
) -> String {
    let mut words = format!("start,jfr,{}{}", version.stack_walker(), version.memory_limit(settings.memory_max));
    if events.cpu {
        words += &format!("event=cpu,interval={},", settings.cpu_interval.as_nanos().max(1_000_000));
    }
    if events.alloc {
        words += &format!("alloc={},", settings.allocation_bytes.max(1));
    }
    if events.lock {
        words += &format!("lock={},", settings.lock_threshold.max(LOCK_WAIT).as_nanos());
    }
    let depth = settings.stack_depth.clamp(1, STACK_DEPTH_MAX);
    words + &format!("jstackdepth={depth},timeout={},file={file}", timeout.as_secs().max(1))
}

/// The options that stop a recording into its file.
pub(super) fn stop(file: &str) -> String {
    format!("stop,jfr,file={file}")
}

/// The first error in a log.
pub(super) fn error(log: &str) -> Option<&str> {
    log.lines().find_map(|line| line.trim().strip_prefix("[ERROR]")).map(str::trim)
}

/// Whether a log reports that a session was running already.
pub(super) fn was_running(log: &str) -> bool {
    error(log).is_some_and(|error| error.contains("already started"))
}

/// Whether a log reports that no session was running.
pub(super) fn was_idle(log: &str) -> bool {
    error(log).is_some_and(|error| error.contains("not active"))
}

/// Whether a log reports that the file is incomplete.
pub(super) fn is_incomplete(log: &str) -> bool {
    log.contains("Output file may be incomplete")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Events = Events { cpu: true, alloc: true, lock: true };

    #[test]
    fn versions_are_read_and_ordered() {
        for (text, version) in [
            ("4.5", Version(4, 5)),
            ("Async-profiler 4.0 built on Apr 8 2025\n", Version(4, 0)),
            ("3\n", Version(3, 0)),
        ] {
            assert_eq!(Version::read(text), Some(version), "{text}");
        }
        assert_eq!(
            (Version::read(""), Version::read("none"), Version::read("4.10").unwrap() > Version(4, 2)),
            (None, None, true)
        );
        assert!(Version(3, 9) < Version::OLDEST && Version(4, 0) >= Version::OLDEST);
    }

    #[test]
    fn a_start_names_all_that_is_asked_for_and_fits_into_a_command() {
        let settings = FlightSettings::default();
        let words = start(Version(4, 1), ALL, &settings, Duration::from_secs(150), "/tmp/f/async-1.jfr");
        let expected = "start,jfr,cstack=vm,event=cpu,interval=10000000,alloc=524288,lock=10000,jstackdepth=128,timeout=150,\
                        file=/tmp/f/async-1.jfr";
        assert_eq!(words, expected);
        let one =
            start(Version(4, 2), Events { cpu: false, alloc: true, lock: false }, &settings, Duration::ZERO, "/f");
        assert_eq!(one, "start,jfr,alloc=524288,jstackdepth=128,timeout=1,file=/f");
        let limited =
            start(Version(4, 4), Events { cpu: false, alloc: true, lock: false }, &settings, Duration::ZERO, "/f");
        let rare = FlightSettings { allocation_bytes: 4 << 20, ..settings };
        assert!(start(Version(4, 5), ALL, &rare, Duration::ZERO, "/f").contains(",alloc=4194304,"));
        assert_eq!(limited, "start,jfr,memlimit=134217728,alloc=524288,jstackdepth=128,timeout=1,file=/f");
    }

    #[test]
    fn states_and_logs_are_understood() {
        assert_eq!(State::read("Profiling is running for 4 seconds\n"), Some(State::Running(4)));
        assert_eq!(State::read("[cpu] profiling is running for 12 seconds\n"), Some(State::Running(12)));
        assert_eq!((State::read("Profiler is not active\n"), State::read("")), (Some(State::Idle), None));
        let log = "[INFO] Profiling started\n[ERROR] Profiler already started\n";
        assert_eq!((error(log), was_running(log), was_idle(log)), (Some("Profiler already started"), true, false));
        assert!(
            was_idle("[ERROR] Profiler is not active\n") && is_incomplete("[WARN] Output file may be incomplete\n")
        );
        assert_eq!(error("[INFO] No samples were collected\n"), None);
    }
}
