//! The agent in a real process. Each test runs in a process of its own (`isolated`), since a process has one sampler and one clock.

#![allow(clippy::unwrap_used, reason = "these are tests")]

mod cpu;
mod isolated;
mod work;
