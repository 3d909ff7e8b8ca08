//! `/proc/PID/stat` and `/proc/PID/task/TID/stat`: one line of a process or thread.
//!
//! `PID (NAME) STATE PPID ...`, fields counted from 1 as in proc(5). The name may itself hold
//! spaces and parentheses, so the fields after it are counted from the *last* `)`:
//! ```text
//! 4093 (a) b) S 1 4093 4093 0 -1 4194560 ...
//! ```

use std::path::Path;
use std::time::Duration;

use crate::{Error, Result};

/// The fields of a stat line that this crate uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The thread's name, at most 15 bytes (the kernel cuts it).
    pub(crate) name: String,
    /// The state letter: `R`, `S`, `D`, `Z`, ...
    pub(crate) state: char,
    /// The kernel's flags of the process.
    pub(crate) flags: u64,
    /// Time in user mode, in clock ticks.
    pub(crate) user_ticks: u64,
    /// Time in the kernel, in clock ticks.
    pub(crate) system_ticks: u64,
    /// Number of threads of the process.
    pub(crate) threads: u64,
    /// When it started, in clock ticks since boot.
    pub(crate) start_ticks: u64,
    /// Resident memory in pages. Not exact: the kernel batches its updates.
    pub(crate) resident_pages: u64,
}

impl Stat {
    /// Parses one stat line that was read from `path`.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self> {
        let malformed = |expected| Error::malformed(path, 1, expected);
        let open = text.find('(').ok_or_else(|| malformed("\"(\""))?;
        let close = text.rfind(')').ok_or_else(|| malformed("\")\""))?;
        let name = text.get(open + 1..close).ok_or_else(|| malformed("\"(name)\""))?;
        let fields: Vec<&str> = text[close + 1..].split_ascii_whitespace().collect();
        // Field 3 of proc(5) is the first one after the name.
        let number = |field: usize, expected| {
            let text: &str = fields.get(field - 3).ok_or_else(|| malformed(expected))?;
            text.parse::<u64>().map_err(|_| malformed(expected))
        };
        let state = fields.first().and_then(|state| state.chars().next());
        Ok(Self {
            name: name.to_owned(),
            state: state.ok_or_else(|| malformed("a state letter"))?,
            flags: number(9, "field 9, the flags")?,
            user_ticks: number(14, "field 14, the user time")?,
            system_ticks: number(15, "field 15, the system time")?,
            threads: number(20, "field 20, the number of threads")?,
            start_ticks: number(22, "field 22, the start time")?,
            resident_pages: number(24, "field 24, the resident pages")?,
        })
    }

    /// Whether it is a thread of the kernel.
    pub(crate) fn is_kernel_thread(&self) -> bool {
        const PF_KTHREAD: u64 = 0x0020_0000;
        self.flags & PF_KTHREAD != 0
    }

    /// CPU time spent so far, in user mode and in the kernel.
    pub(crate) fn cpu_time(&self) -> Duration {
        duration_of_ticks(self.user_ticks.saturating_add(self.system_ticks))
    }
}

/// A number of clock ticks (1/100 s on every Linux in use) as a duration.
pub(crate) fn duration_of_ticks(ticks: u64) -> Duration {
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let nanos = (ticks % per_second) * 1_000_000_000 / per_second;
    Duration::from_secs(ticks / per_second) + Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "4093 (a) b (c) S 1 4093 4093 0 -1 4194560 1 2 3 4 150 25 7 8 20 0 3 0 777 \
                        8192 321 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n";

    #[test]
    fn counts_fields_from_the_last_parenthesis() {
        let stat = Stat::parse(LINE, Path::new("stat")).unwrap();
        assert_eq!(stat.name, "a) b (c");
        assert_eq!(stat.state, 'S');
        assert_eq!((stat.threads, stat.start_ticks), (3, 777));
        assert_eq!(stat.resident_pages, 321);
        assert_eq!(stat.cpu_time(), duration_of_ticks(175));
    }

    #[test]
    fn every_prefix_parses_or_names_what_is_missing() {
        for end in 0..LINE.len() {
            if let Err(error) = Stat::parse(&LINE[..end], Path::new("stat")) {
                assert!(error.to_string().starts_with("stat: line 1: expected"));
            }
        }
        assert!(Stat::parse(")(", Path::new("stat")).is_err());
    }
}
