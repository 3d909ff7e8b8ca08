//! The library in real programs: ours, and those of the machine.

#![allow(unsafe_code)]
#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "these are tests")]

mod allocators;
mod births;
mod build;
mod c_api;
mod contention;
mod descendants;
mod filters;
mod forks;
mod harmless;
mod heap;
mod host;
mod hosts;
mod library;
mod limits;
mod listener;
mod memory;
mod profiles;
mod relro;
mod settings;
mod tools;
