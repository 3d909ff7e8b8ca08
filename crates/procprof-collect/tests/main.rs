//! Captures from real and replayed processes.

#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

mod brpc;
mod garbage;
mod go;
mod process;
mod tls;

use procprof_collect::{Kind, Target};

/// A target on this host.
fn target(kind: Kind, port: u16) -> Target {
    Target::new(kind, format!("127.0.0.1:{port}").parse().unwrap())
}
