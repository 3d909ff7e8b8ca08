//! `symbols`: the addresses of the profile with the names found for them, one per line, in the format of brpc's and
//! gperftools' `/pprof/symbol`, which jeprof reads. Functions inlined into one another are joined by `--`, the
//! outermost first; a tab is before the names.
//!
//! ```text
//! 0x00005581e3a41c2f    serve--handle--hot_70
//! ```
//! An address without a name is alone on its line. Frames with a name but no address, such as those of an interpreter,
//! are not listed.

use std::collections::BTreeSet;
use std::fmt::Write;

use procprof_profile::{Addr, LocationId};

use crate::display::text::one_line;
use crate::output::Output;
use crate::selection::Selection;
use crate::selection::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let selection = Selection::new(&view.profile, options)?;
    let profile = selection.profile();
    let used: BTreeSet<LocationId> = profile.samples().flat_map(|sample| sample.stack).copied().collect();
    let mut listed: BTreeSet<(u64, String)> = BTreeSet::new();
    let mut meter = options.budget.meter("the table of names");
    for id in used.into_iter().filter(|id| profile.location(*id).address != Addr(0)) {
        let mut names = String::new();
        for line in profile.lines(id).iter().rev() {
            names.push_str(if names.is_empty() { "" } else { "--" });
            let name = one_line(profile.string(profile.function(line.function).name));
            meter.take(name.len() + 2)?;
            names.push_str(&name);
        }
        listed.insert((profile.location(id).address.0, names));
    }
    for (address, names) in listed {
        let tab = if names.is_empty() { "" } else { "\t" };
        // Writing to a string cannot fail.
        let _ = writeln!(out.text, "0x{address:016x}{tab}{names}");
        out.drain()?;
    }
    Ok(())
}
