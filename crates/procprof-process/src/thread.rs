//! The threads of a process.

use std::time::Duration;

use crate::stat::Stat;
use crate::{Error, Pid, Result, Tid, procfs};

/// One thread of a process at the time of the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The thread id.
    pub tid: Tid,
    /// The thread's name, at most 15 bytes (the kernel cuts it).
    pub name: String,
    /// The state letter of proc(5): `R` running, `S` sleeping, `D` in an uninterruptible wait, ...
    pub state: char,
    /// CPU time spent so far, to a clock tick (10 ms).
    pub cpu_time: Duration,
    /// When the thread started, in clock ticks since boot; distinguishes a reused id.
    pub start_ticks: u64,
}

/// Lists the threads of `pid` by ascending id. A thread that ends meanwhile is left out.
pub(crate) fn threads_of(pid: Pid) -> Result<Vec<Thread>> {
    let directory = procfs::path(pid, "task");
    let tids = procfs::numbers_in(&directory);
    let tids = tids.map_err(|source| Error::of_process(pid, &directory, source))?;
    let mut threads = Vec::with_capacity(tids.len());
    for tid in tids.into_iter().map(Tid) {
        match thread(pid, tid) {
            Ok(thread) => threads.push(thread),
            Err(error) if error.is_gone() => {}
            Err(error) => return Err(error),
        }
    }
    if threads.is_empty() {
        return Err(Error::Gone { pid });
    }
    Ok(threads)
}

fn thread(pid: Pid, tid: Tid) -> Result<Thread> {
    let name = format!("task/{tid}/stat");
    let stat = Stat::parse(&procfs::read_text(pid, &name)?, &procfs::path(pid, &name))?;
    Ok(Thread { tid, cpu_time: stat.cpu_time(), state: stat.state, start_ticks: stat.start_ticks, name: stat.name })
}
