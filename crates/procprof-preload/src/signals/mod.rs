//! SIGPROF shared with the program: the functions by which a program owns a signal, and leaves its process for another
//! one.
//!
//! - [`actions`]: `sigaction`, `signal` and their kin: the program's handler is kept, returned to queries, and called
//!   for the signals that are not the sampler's;
//! - [`waits`]: `sigwait` and its kin, which leave the sampler's signals out;
//! - [`execution`]: `execve` and its kin, before which the sampler stops;
//! - [`alternate`]: `sigaltstack`, for stacks that no signal's frame fits on;
//! - [`filters`]: `prctl` and `syscall`, for filters that end a thread for a signal.

mod actions;
mod alternate;
mod execution;
mod filters;
mod permits;
mod waits;

pub(crate) use filters::Around;

/// Looks up the next definitions of these functions; called before `main`.
pub(crate) fn at_load(around: &'static Around) {
    actions::look_up();
    execution::look_up();
    filters::look_up(around);
    waits::look_up();
}
