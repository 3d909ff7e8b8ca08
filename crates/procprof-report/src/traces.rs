//! `traces`: every sample with its labels, value and stack, leaf first, in the shape of `go tool pprof -traces`.
//!
//! ```text
//! -----------+-------------------------------------------------------
//!  query_id:  7f3a
//!      610ms   hot_70 (inline)
//!              main
//! ```

use std::fmt::Write;

use foldhash::HashMap;
use procprof_profile::{LabelValue, Profile, Sample};

use crate::graph::Places;
use crate::measure::label;
use crate::place::Detail;
use crate::raw::keys;
use crate::subject::{Subject, number_unit};
use crate::text::one_line;
use crate::view::View;
use crate::{Options, Result, Sources, headline};

const SEPARATOR: &str = "-----------+-------------------------------------------------------";

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let subject = Subject::new(&view.profile, options)?;
    let profile = subject.profile();
    let places = Places::new(profile, Detail::asked(options), false);
    let names: Vec<String> = places.places.iter().map(|place| one_line(&place.printable()).into_owned()).collect();
    let mut units = Units { profile: subject.whole, known: HashMap::default() };
    let mut out = String::new();
    for line in headline::facts(&subject, &options.unit) {
        let _ = writeln!(out, "{line}");
    }
    for sample in profile.samples().filter(|sample| !sample.stack.is_empty()) {
        let _ = writeln!(out, "{SEPARATOR}");
        push_labels(&mut out, profile, &sample, &mut units);
        let mut value = subject.amount(subject.values.weight(&sample).value(), &options.unit);
        for location in sample.stack {
            let range = places.of(*location);
            for position in range.clone() {
                let inlined = if position + 1 < range.end { " (inline)" } else { "" };
                let _ = writeln!(out, "{value:>10}   {}{inlined}", names[places.of_lines[position] as usize]);
                value.clear();
            }
        }
    }
    let _ = writeln!(out, "{SEPARATOR}");
    Ok(out.into_bytes())
}

/// Units of numbers by their key, looked up once.
struct Units<'a> {
    profile: &'a Profile,
    known: HashMap<String, String>,
}

fn push_labels(out: &mut String, profile: &Profile, sample: &Sample<'_>, units: &mut Units<'_>) {
    for is_text in [true, false] {
        let mut lines = Vec::new();
        for key in keys(sample, profile, is_text) {
            let name = profile.string(key);
            let values = sample.labels.iter().filter(|label| label.key == key).filter_map(|one| match one.value {
                LabelValue::Text(text) if is_text => Some(profile.string(text).to_owned()),
                LabelValue::Number(number, _) if !is_text => {
                    let unit = units.known.entry(name.to_owned()).or_insert_with(|| number_unit(units.profile, name));
                    Some(label(number, unit, "auto"))
                }
                _ => None,
            });
            lines.push(one_line(&format!("{name:>10}:  {}", values.collect::<Vec<_>>().join(" "))).into_owned());
        }
        lines.sort_unstable();
        lines.iter().for_each(|line| {
            let _ = writeln!(out, "{line}");
        });
    }
}
