//! The library in real programs: ours, and those of the machine.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "these are tests")]

mod allocators;
mod build;
mod c_api;
mod contention;
mod descendants;
mod heap;
mod host;
mod hosts;
mod library;
mod profiles;
mod settings;
mod tools;
