//! Substitute for `aside` on systems other than Linux, where nothing is captured: plain threads.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Whether the calling thread's table of descriptors is not the program's: never here.
pub(crate) fn has_own_table() -> bool {
    false
}

/// Starts a thread.
///
/// # Errors
/// The system's, where there is no room for a thread.
pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.into()).spawn(work)
}

/// Starts a thread.
///
/// # Errors
/// As of [`spawn`].
pub(crate) fn spawn_beside<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    spawn(name, work)
}

/// Does `work` here.
///
/// # Errors
/// None.
pub(crate) fn run<T: Send>(_pause: Duration, _look: impl FnMut(), work: impl FnOnce() -> T + Send) -> io::Result<T> {
    Ok(work())
}

/// The same descriptor.
pub(crate) fn lifted(descriptor: std::os::fd::OwnedFd) -> std::os::fd::OwnedFd {
    descriptor
}
