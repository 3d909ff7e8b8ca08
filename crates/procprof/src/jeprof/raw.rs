//! `--raw`: a fetched profile with its names, to be read anywhere without the program.

use std::fmt::Write;

use anyhow::{Context, Result, bail};
use procprof_report::jeprof::Kind;

use super::load::Loaded;

/// The names by address, then the profile as it was fetched.
pub(super) fn document(loaded: &Loaded) -> Result<Vec<u8>> {
    let [path] = loaded.fetched.as_slice() else {
        bail!("--raw/http: jeprof can only dump remote profiles for --raw");
    };
    let mut text = format!("--- symbol\nbinary={}\n", loaded.program);
    for (address, names) in loaded.symbols.by_address(&loaded.pcs) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "0x{address:016x} {}", names.join("--"));
    }
    let service = match loaded.kind {
        Kind::Cpu => "profile",
        Kind::Heap => "heap",
        Kind::Growth => "growth",
        Kind::Contention => "contention",
    };
    text.push_str(&format!("---\n--- {service}\n"));
    let mut document = text.into_bytes();
    document.extend(std::fs::read(path).with_context(|| format!("read {path}"))?);
    Ok(document)
}
