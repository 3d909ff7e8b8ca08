//! The edge to the kernel: opening perf events and reading their ring buffers; BPF maps and programs; memory of processes.

mod bpf;
mod event;
mod memory;
mod reserved;
mod ring;

pub(crate) use bpf::{Attached, EventMap, Rejected, SharedValue, attach};
pub(crate) use event::{Event, Sampling, Subject, Trigger};
pub(crate) use memory::read_memory;
pub(crate) use reserved::ReservedMemory;
pub(crate) use ring::{Backlog, MappedRing, Ring, locked};

use std::io;
use std::time::Duration;

/// Waits until one of the events has filled a part of its buffer, at most so long.
#[allow(unsafe_code)]
pub(crate) fn wait(events: &[&Event], timeout: Duration) -> io::Result<()> {
    let poll = |event: &&Event| libc::pollfd { fd: event.descriptor(), events: libc::POLLIN, revents: 0 };
    let mut descriptors: Vec<libc::pollfd> = events.iter().map(poll).collect();
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the descriptors are a valid slice of that length for as long as the call takes.
    let result = unsafe { libc::poll(descriptors.as_mut_ptr(), descriptors.len() as libc::nfds_t, timeout) };
    match result {
        -1 if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted => Err(io::Error::last_os_error()),
        _ => {
            // An event whose thread has ended is always ready: without a pause the caller would not rest.
            if descriptors.iter().any(|descriptor| descriptor.revents & libc::POLLHUP != 0) {
                std::thread::sleep(Duration::from_millis(20).min(Duration::from_millis(timeout.max(0) as u64)));
            }
            Ok(())
        }
    }
}
