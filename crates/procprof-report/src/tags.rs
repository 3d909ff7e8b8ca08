//! `tags`: the labels of all samples, key by key, with what each value adds up to, in the shape of `go tool pprof -tags`.
//!
//! ```text
//!  query_id: Total 8.7s of 8.7s (  100%)
//!             6.1s (70.11%): 7f3a
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;

use procprof_profile::LabelValue;

use crate::graph::{Tag, Weight, sort_tags};
use crate::measure::{label, percentage};
use crate::subject::{Subject, number_unit};
use crate::text::one_line;
use crate::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let subject = Subject::new(&view.profile, options)?;
    let mut all: Vec<(Tag, Vec<Tag>)> = by_key(&subject)
        .into_iter()
        .map(|(key, values)| {
            let total = values.values().fold(0i64, |sum, value| sum.saturating_add(*value));
            (tag(key, total), values.into_iter().map(|(value, sum)| tag(value, sum)).collect())
        })
        .collect();
    // Keys are ordered by name: pprof leaves their sums out of the order.
    all.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    let mut out = String::new();
    for (key, mut values) in all {
        sort_tags(&mut values, true);
        push_key(&mut out, &subject, &key, &values);
    }
    Ok(out.into_bytes())
}

fn tag(name: String, sum: i64) -> Tag {
    Tag { name, flat: Weight { sum, divisor: 0 }, ..Tag::default() }
}

/// Sums by key and value.
fn by_key(subject: &Subject<'_>) -> BTreeMap<String, BTreeMap<String, i64>> {
    let profile = subject.profile();
    let mut units: BTreeMap<&str, String> = BTreeMap::new();
    let mut sums: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
    for sample in profile.samples() {
        let value = sample.values[subject.values.sample_type];
        for one in sample.labels {
            let key = profile.string(one.key);
            let name = match one.value {
                LabelValue::Text(text) => profile.string(text).to_owned(),
                LabelValue::Number(number, _) => {
                    let unit = units.entry(key).or_insert_with(|| number_unit(subject.whole, key));
                    label(number, unit, &subject.options.unit)
                }
            };
            let sum = sums.entry(key.to_owned()).or_default().entry(name).or_default();
            *sum = sum.saturating_add(value);
        }
    }
    sums
}

/// A block of aligned columns: the key and its values' amounts end at a column each.
fn push_key(out: &mut String, subject: &Subject<'_>, key: &Tag, values: &[Tag]) {
    let unit = subject.options.unit.as_str();
    let share = |sum: i64| if subject.total > 0 { format!(" ({})", percentage(sum, subject.total)) } else { String::new() };
    let amount = |sum: i64| subject.amount(sum, unit);
    let name = one_line(&key.name);
    let _ = writeln!(out, " {name}: Total {} of {}{}", amount(key.flat.sum), amount(subject.total), share(key.flat.sum));
    let amounts: Vec<String> = values.iter().map(|value| format!("{}{}:", amount(value.flat.sum), share(value.flat.sum))).collect();
    let first = name.chars().count() + 2;
    let second = amounts.iter().map(|amount| amount.chars().count()).max().unwrap_or(0) + 1;
    for (value, amount) in values.iter().zip(amounts) {
        let _ = writeln!(out, "{:first$}{amount:>second$} {}", "", one_line(&value.name));
    }
    out.push('\n');
}
