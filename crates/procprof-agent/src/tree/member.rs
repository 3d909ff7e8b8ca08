//! A fork that samples itself for the root.

use super::page::{self, Page, Wanted};
use super::parting;
use crate::aside;
use crate::clock;
use crate::cpu::CpuCapture;
use crate::error::{Error, Result};
use crate::options::CpuOptions;
use crate::thread_start_hook;
use procprof_profile::Grammar;
use procprof_profile::format::pprof;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, SystemTime};

/// How long the root may take to read.
const PATIENCE: Duration = Duration::from_secs(30);

/// The interval at which a member checks whether the order is still in force, whether its process ends, and whether a
/// filter of system calls is about to forbid what it calls.
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The CPU time, in nanoseconds, that a process has used before it joins: starting to sample costs some milliseconds,
/// too much for one that lives as long.
const GROWN_UP: u64 = 10_000_000;

/// Starts a thread for each new order, where this process is not the root itself.
#[cold]
pub(super) fn join() {
    let Some(page) = Page::of_this_process() else { return };
    let is_root = page.root() == page::own_pid();
    if !is_root && clock::read(libc::CLOCK_PROCESS_CPUTIME_ID).is_none_or(|used| used < GROWN_UP) {
        return;
    }
    let news = page.news();
    if is_root {
        return;
    }
    for wanted in news {
        let member = parting::Member::new();
        // Without a thread the root counts what this process uses as unsampled.
        drop(aside::spawn("procprof-tree", move || {
            carry_out(page, wanted);
            drop(member);
        }));
    }
}

/// Samples until the order's end, or the process's, and sends the profile. Failures are counted by the root, which
/// knows how much CPU time this process uses.
fn carry_out(page: &Page, wanted: Wanted) {
    crate::own_thread::leave_out();
    let Ok(mut root) = page.address(wanted.number).and_then(|address| UnixStream::connect_addr(&address)) else {
        return;
    };
    if !page.is_in_force(wanted.number) || root.set_write_timeout(Some(PATIENCE)).is_err() {
        return;
    }
    let seen = sample(page, wanted).unwrap_or_default();
    if thread_start_hook::have_to_end() {
        return;
    }
    let mut message = page.secret().to_vec();
    message.extend((page::own_pid() as u32).to_be_bytes());
    message.extend((seen.len() as u64).to_be_bytes());
    message.extend(seen);
    // An error means that the root is gone.
    let _ = root.write_all(&message);
}

fn sample(page: &Page, wanted: Wanted) -> Result<Vec<u8>> {
    let left = Duration::from_nanos(wanted.until.saturating_sub(page::now()));
    let owner = format!("process {}, which this one was forked from,", page.root());
    let options =
        CpuOptions { hz: wanted.hz, engine: wanted.engine, owner, until: SystemTime::now().checked_add(left) };
    let capture = CpuCapture::start(&options)?;
    while page::now() < wanted.until && !parting::is_near() {
        if !page.is_in_force(wanted.number) || thread_start_hook::have_to_end() {
            return Err(Error::Stopped);
        }
        std::thread::sleep(Duration::from_nanos(wanted.until.saturating_sub(page::now())).min(BETWEEN_LOOKS));
    }
    Ok(pprof::encode_gzip(&capture.finish()?.adjusted(Grammar::Pprof)?)?)
}
