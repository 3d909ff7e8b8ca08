//! `traces`: every sample with its labels, value and stack, leaf first, in the shape of `go tool pprof -traces`.
//!
//! ```text
//! -----------+-------------------------------------------------------
//!  query_id:  7f3a
//!      610ms   hot_70 (inline)
//!              main
//! ```

use std::fmt::Write;

use procprof_profile::{LabelValue, Profile, Sample};

use crate::display::labels::{Kind, Units, by_key};
use crate::display::measure::label;
use crate::display::place::Detail;
use crate::display::text::one_line;
use crate::graph::Places;
use crate::header::headline;
use crate::header::subject::Subject;
use crate::output::Output;
use crate::selection::view::View;
use crate::{Options, Result, Sources};

const SEPARATOR: &str = "-----------+-------------------------------------------------------";
/// Width that keys of labels are aligned to.
const KEY_WIDTH: usize = 10;

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let subject = Subject::new(view, options)?;
    let profile = subject.profile();
    let places = Places::new(profile, Detail::from_options(options), false, &options.budget)?;
    let names = places.names(&options.budget)?;
    let mut units = Units::from_profile(subject.whole);
    for line in headline::facts(&subject, &options.unit).into_iter().chain(headline::left_out(&subject)) {
        let _ = writeln!(out.text, "{line}");
    }
    for sample in profile.samples().filter(|sample| !sample.stack.is_empty()) {
        let _ = writeln!(out.text, "{SEPARATOR}");
        push_labels(out, profile, &sample, &mut units)?;
        let mut value = subject.amount(subject.values.weight(&sample).value(), &options.unit);
        for location in sample.stack {
            let range = places.of_location(*location);
            for position in range.clone() {
                let inlined = if position + 1 < range.end { " (inline)" } else { "" };
                let _ = writeln!(out.text, "{value:>10}   {}{inlined}", names[places.of_lines[position] as usize]);
                value.clear();
                out.drain()?;
            }
        }
    }
    let _ = writeln!(out.text, "{SEPARATOR}");
    Ok(())
}

fn push_labels<'a>(
    out: &mut Output<'_>,
    profile: &'a Profile,
    sample: &Sample<'_>,
    units: &mut Units<'a>,
) -> Result<()> {
    for kind in [Kind::Texts, Kind::Numbers] {
        for keyed in by_key(profile, sample, kind, KEY_WIDTH, ":  ") {
            let name = one_line(profile.string(keyed.key));
            let _ = write!(out.text, "{:padding$}{name}:  ", "", padding = keyed.padding);
            for (index, value) in keyed.values.iter().enumerate() {
                out.text.push_str(if index == 0 { "" } else { " " });
                match *value {
                    LabelValue::Text(text) => out.text.push_str(&one_line(profile.string(text))),
                    LabelValue::Number(number, _) => {
                        out.text.push_str(&label(number, units.unit(profile, keyed.key), "auto"))
                    }
                }
                out.drain()?;
            }
            out.text.push('\n');
        }
    }
    Ok(())
}
