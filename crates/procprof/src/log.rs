//! The log on standard error: a line an event, whatever comes from outside.

use std::fmt::Write;
use std::io::IsTerminal;

use procprof_server::Printable;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::debug_fn;
use tracing_subscriber::prelude::*;

/// Events of level info, without those of each request that is repeated.
const FILTER: &str = "info,object_store=warn";

/// Writes events from now on; `RUST_LOG` chooses others.
pub(crate) fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(FILTER));
    // Messages and fields alike contain clients' names, paths and statements.
    let fields = debug_fn(|writer, field, value| {
        let mut text = String::new();
        write!(text, "{value:?}")?;
        match field.name() {
            "message" => write!(writer, "{}", Printable(&text)),
            name => write!(writer, "{name}={}", Printable(&text)),
        }
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .fmt_fields(fields.delimited(" "))
        .init();
}
