//! What commands print to standard output.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

/// Writes to standard output; a reader that has seen enough and is gone is no failure.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<()> {
    match std::io::stdout().write_all(text.as_ref()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write to standard output"),
    }
}
