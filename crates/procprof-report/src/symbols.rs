//! `symbols`: the addresses of the profile with the names found for them, one a line, as brpc's and gperftools' `/pprof/symbol` answer
//! and jeprof reads them. Functions inlined into one another are joined by `--`, the outermost first; a tab is before the names.
//!
//! ```text
//! 0x00005581e3a41c2f    serve--handle--hot_70
//! ```
//! An address without a name stands alone. What has a name and no address, a frame of an interpreter for one, is not listed.

use std::collections::BTreeSet;
use std::fmt::Write;

use procprof_profile::{Addr, LocationId};

use crate::selection::Selection;
use crate::text::one_line;
use crate::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let selection = Selection::new(&view.profile, options)?;
    let profile = selection.profile();
    let used: BTreeSet<LocationId> = profile.samples().flat_map(|sample| sample.stack).copied().collect();
    let mut listed: BTreeSet<(u64, String)> = BTreeSet::new();
    for id in used.into_iter().filter(|id| profile.location(*id).address != Addr(0)) {
        let names: Vec<String> =
            profile.lines(id).iter().rev().map(|line| one_line(profile.string(profile.function(line.function).name)).into()).collect();
        listed.insert((profile.location(id).address.0, names.join("--")));
    }
    let mut text = String::new();
    for (address, names) in listed {
        let tab = if names.is_empty() { "" } else { "\t" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "0x{address:016x}{tab}{names}");
    }
    Ok(text.into_bytes())
}
