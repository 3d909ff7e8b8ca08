//! `/proc/PID/status`: name, users, and the process's pid in its own namespace.

use std::path::Path;

use crate::{Error, Pid, Result};

/// The contents of `/proc/PID/status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The main thread's name, at most 15 bytes (the kernel cuts it).
    pub name: String,
    /// The effective user id.
    pub uid: u32,
    /// The real user id: of a set-user-ID program, that of who started it.
    pub real_uid: u32,
    /// The effective group id.
    pub gid: u32,
    /// The process's pid in each pid namespace it is in, from the reader's to its own. In a container, the last one is
    /// the pid that the process itself sees.
    pub namespace_pids: Vec<Pid>,
    /// The process that traces it (a debugger), if any.
    pub tracer: Option<Pid>,
    /// The signals that it has handlers for: bit 0 for signal 1.
    pub caught_signals: u64,
}

impl Status {
    /// Whether it has a handler for a signal, by number.
    pub fn catches(&self, signal: i32) -> bool {
        (1..=64).contains(&signal) && self.caught_signals >> (signal - 1) & 1 == 1
    }

    /// Parses the text of a status file that was read from `path`.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self> {
        let mut name = None;
        let (mut uid, mut real_uid, mut gid) = (None, None, None);
        let mut namespace_pids = Vec::new();
        let (mut tracer, mut caught_signals) = (None, 0);
        for (index, line) in text.lines().enumerate() {
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let malformed = |expected| Error::malformed(path, index + 1, expected);
            match key {
                "Name" => name = Some(value.trim_start().to_owned()),
                "Uid" => {
                    let (real, effective) = ids(value).ok_or_else(|| malformed("four user ids"))?;
                    (uid, real_uid) = (Some(effective), Some(real));
                }
                "Gid" => gid = Some(ids(value).ok_or_else(|| malformed("four group ids"))?.1),
                "NSpid" => namespace_pids = pids(value).ok_or_else(|| malformed("pids"))?,
                "TracerPid" => tracer = pids(value).ok_or_else(|| malformed("a pid"))?.pop(),
                "SigCgt" => {
                    caught_signals =
                        u64::from_str_radix(value.trim(), 16).map_err(|_| malformed("hexadecimal digits"))?
                }
                _ => {}
            }
        }
        let missing = |expected| Error::malformed(path, text.lines().count() + 1, expected);
        Ok(Self {
            name: name.ok_or_else(|| missing("a Name line"))?,
            uid: uid.ok_or_else(|| missing("a Uid line"))?,
            real_uid: real_uid.ok_or_else(|| missing("a Uid line"))?,
            gid: gid.ok_or_else(|| missing("a Gid line"))?,
            namespace_pids,
            tracer: tracer.filter(|pid| pid.0 != 0),
            caught_signals,
        })
    }
}

/// The first two of `real effective saved filesystem`.
fn ids(value: &str) -> Option<(u32, u32)> {
    let mut ids = value.split_ascii_whitespace().map(|id| id.parse().ok());
    Some((ids.next()??, ids.next()??))
}

fn pids(value: &str) -> Option<Vec<Pid>> {
    let pids = value.split_ascii_whitespace().map(|pid| pid.parse().ok());
    pids.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_containerised_process() {
        let text = "Name:\tstarrocks_be\nState:\tS\nTracerPid:\t0\nUid:\t0\t1000\t0\t0\n\
                    Gid:\t5\t6\t7\t8\nNSpid:\t4093\t12\nSigCgt:\t0000000181005ccf\n";
        let status = Status::parse(text, Path::new("status")).unwrap();
        assert_eq!(status.name, "starrocks_be");
        assert_eq!((status.real_uid, status.uid, status.gid), (0, 1000, 6));
        assert_eq!(status.namespace_pids, [Pid(4093), Pid(12)]);
        assert_eq!(status.tracer, None);
        assert_eq!(
            [1, 3, 5, 33, 64, 65, 0].map(|signal| status.catches(signal)),
            [true, true, false, true, false, false, false]
        );
    }

    #[test]
    fn says_which_line_is_wrong() {
        let error = Status::parse("Name:\ta\nUid:\tx\n", Path::new("status")).unwrap_err();
        assert_eq!(error.to_string(), "status: line 2: expected four user ids");
        let error = Status::parse("Name:\ta\n", Path::new("status")).unwrap_err();
        assert_eq!(error.to_string(), "status: line 2: expected a Uid line");
    }
}
