//! Tables and walks beside gimli, framehop and the processor itself.

#![allow(unsafe_code)]
#![allow(clippy::disallowed_methods)]
#![allow(clippy::unwrap_used, reason = "these are tests")]

mod hostile;
#[cfg(target_arch = "x86_64")]
mod mapped;
mod modules;
mod programs;
mod random;
mod rows;
#[cfg(target_arch = "x86_64")]
mod stepped;
#[cfg(target_arch = "x86_64")]
mod tracee;
