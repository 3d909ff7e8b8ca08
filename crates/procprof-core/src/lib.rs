//! The server without its protocols: configuration, nodes, captures, ingest, children, rendering, retention, users.
//!
//! Each part is a struct that is given the handles it needs ([`captures::Captures`], [`ingest::Ingest`],
//! [`render::Renderer`], …); nothing here puts them together or starts them, and nothing here depends on HTTP, pages,
//! packets or statements. Errors are domain errors; the crate that serves a client words them: `procprof-web` over
//! HTTP, `procprof-sql` over the MySQL protocol. `procprof-server` starts all of it.
//!
//! This crate decodes no formats, draws no reports, looks up no symbols and samples nothing: it puts the crates that
//! do together.

pub mod archiving;
pub mod audit;
pub mod auth;
pub mod captures;
pub mod children;
pub mod clock;
pub mod config;
pub mod connection_slots;
mod error;
pub mod file_limit;
pub mod hosts;
pub mod imports;
pub mod ingest;
mod kinds;
#[cfg(test)]
#[path = "../../procprof-files/tests/versions/law.rs"]
mod law;
pub mod listening;
pub mod metrics;
pub mod nodes;
pub mod ownership;
pub mod printable;
pub mod remote;
pub mod render;
pub mod renewed;
pub mod resymbolize;
pub mod retention;
pub mod servers;
pub mod settings;
mod shared_bytes;
pub mod shares;
mod source_files;
pub mod symbols;
pub mod throttle;
mod turns;
pub mod usage;
mod versioned_json;

pub use error::{Error, Result, chain};
pub use printable::{Printable, in_one_line, is_plain, without_controls};
