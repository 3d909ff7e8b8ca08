//! `--raw`: a fetched profile with its names, which can be read anywhere without the program.

use std::fmt::Write;

use crate::error::{Error, Result};
use crate::load::Loaded;
use crate::settings::ProfileKind;

/// The names by address, then the profile as it was fetched.
pub(super) fn document(loaded: &Loaded) -> Result<Vec<u8>> {
    let [path] = loaded.files.fetched.as_slice() else { return Err(Error::RawOfFile) };
    let mut text = format!("--- symbol\nbinary={}\n", loaded.program);
    for (address, names) in loaded.symbols.by_address(&loaded.pcs) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "0x{address:016x} {}", names.join("--"));
    }
    let service = match loaded.kind {
        ProfileKind::Cpu => "profile",
        ProfileKind::Heap => "heap",
        ProfileKind::Growth => "growth",
        ProfileKind::Contention => "contention",
    };
    text.push_str(&format!("---\n--- {service}\n"));
    let mut document = text.into_bytes();
    document.extend(std::fs::read(path).map_err(|error| Error::Read { path: path.clone(), error })?);
    Ok(document)
}
