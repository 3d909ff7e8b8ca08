//! Captures from real and replayed processes.

#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

mod brpc;
mod frontend;
mod garbage;
mod go;
mod jvm;
mod not_served;
mod process;
mod tls;

use procprof_collect::{Endpoints, Target};

/// A target on this host.
fn target(endpoints: &'static Endpoints, port: u16) -> Target {
    Target::new(endpoints, format!("127.0.0.1:{port}").parse().unwrap())
}
