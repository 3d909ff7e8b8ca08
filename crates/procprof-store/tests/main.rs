//! The store from outside: its promises, on real folders.

#![allow(clippy::unwrap_used)]

mod basics;
mod cache;
mod catalog;
mod errors;
mod folders;
mod full_disk;
mod functions;
mod identity;
mod import;
mod kill;
#[path = "../../procprof-files/tests/versions/law.rs"]
mod law;
mod laws;
mod replace;
mod retain;
mod rows;
mod support;
mod versions;
