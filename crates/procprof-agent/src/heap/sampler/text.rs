//! The samples as jemalloc writes them: `heap_v2` text, which jeprof, `go tool pprof` and our decoder read.
//!
//! ```text
//! heap_v2/524288
//!   t*: 3: 786432 [7: 900000]
//! @ 0x7f8f6d1a2b3c 0x55d0c0a01189
//!   t*: 3: 786432 [7: 900000]
//!
//! MAPPED_LIBRARIES:
//! 55d0c0a00000-55d0c0a01000 r-xp 00001000 fd:01 1234 /usr/bin/prog
//! ```
//! A stack has one entry for each class of sizes; readers add them up after they have estimated each.

use super::sites::Site;
use crate::error::{Error, Result};
use std::fmt::Write;
use std::sync::Arc;

/// Writes sites that were sampled once in `rate` bytes.
pub(super) fn encode(sites: &[Arc<Site>], rate: u64) -> Result<Vec<u8>> {
    // Counts are read once, so that the totals are those of the rows.
    let mut rows: Vec<_> =
        sites.iter().map(|site| (site.live.get(), site.all.get(), site)).filter(|(_, all, _)| all.0 > 0).collect();
    rows.sort_by(|a, b| b.0.1.cmp(&a.0.1).then_with(|| b.1.1.cmp(&a.1.1)).then_with(|| a.2.stack.cmp(&b.2.stack)));
    let sum =
        |counts: &mut dyn Iterator<Item = (u64, u64)>| counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let live = sum(&mut rows.iter().map(|row| row.0));
    let all = sum(&mut rows.iter().map(|row| row.1));
    let mut text = String::new();
    line(&mut text, format_args!("heap_v2/{rate}"));
    counts(&mut text, live, all);
    for (live, all, site) in &rows {
        text.push('@');
        for address in &site.stack {
            // Writing to a string can't fail.
            let _ = write!(text, " {address:#x}");
        }
        text.push('\n');
        counts(&mut text, *live, *all);
    }
    text.push_str("\nMAPPED_LIBRARIES:\n");
    let map =
        std::fs::read("/proc/self/maps").map_err(|source| Error::System { what: "read the memory map", source })?;
    let mut bytes = text.into_bytes();
    bytes.extend(map);
    Ok(bytes)
}

fn counts(text: &mut String, live: (u64, u64), all: (u64, u64)) {
    line(text, format_args!("  t*: {}: {} [{}: {}]", live.0, live.1, all.0, all.1));
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string can't fail.
    let _ = writeln!(text, "{line}");
}
