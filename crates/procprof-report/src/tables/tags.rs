//! `tags`: the labels of all samples, key by key, with the sum for each value, in the shape of `go tool pprof -tags`.
//!
//! ```text
//!  query_id: Total 8.7s of 8.7s (  100%)
//!             6.1s (70.11%): 7f3a
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;

use foldhash::HashMap;
use procprof_profile::{LabelValue, StringId};

use crate::display::labels::Units;
use crate::display::measure::{label, percentage};
use crate::display::text::one_line;
use crate::graph::{Tag, Weight, sort_tags};
use crate::header::subject::Subject;
use crate::output::Output;
use crate::selection::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let subject = Subject::new(view, options)?;
    let mut all: Vec<(Tag, Vec<Tag>)> = by_key(&subject)?
        .into_iter()
        .map(|(key, values)| {
            let total = values.values().sum();
            (tag(key, total), values.into_iter().map(|(value, sum)| tag(value, sum)).collect())
        })
        .collect();
    // Keys are ordered by name: pprof does not order them by their sums.
    all.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    for (key, mut values) in all {
        sort_tags(&mut values, true);
        push_key(out, &subject, &key, &values)?;
    }
    Ok(())
}

fn tag(name: String, sum: i128) -> Tag {
    let sum = i64::try_from(sum).unwrap_or(if sum < 0 { i64::MIN } else { i64::MAX });
    Tag { name, flat: Weight { sum, divisor: 0 }, ..Tag::default() }
}

/// Sums by key and value.
fn by_key(subject: &Subject<'_>) -> Result<BTreeMap<String, BTreeMap<String, i128>>> {
    let (profile, budget) = (subject.profile(), &subject.options.budget);
    let (mut meter, mut pace) = (budget.meter("the table of labels"), budget.pace());
    let mut units = Units::from_profile(subject.whole);
    // Labels are compared by number first: a key or value of many samples is read once.
    let mut by_number: HashMap<(StringId, LabelValue), i128> = HashMap::default();
    for sample in profile.samples() {
        let value = sample.values[subject.values.sample_type];
        pace.steps(sample.labels.len() + 1)?;
        for label in sample.labels {
            let sum = by_number.entry((label.key, label.value)).or_default();
            *sum += i128::from(value);
        }
    }
    let mut sums: BTreeMap<String, BTreeMap<String, i128>> = BTreeMap::new();
    for ((key, value), sum) in by_number {
        let name = match value {
            LabelValue::Text(text) => profile.string(text).to_owned(),
            LabelValue::Number(number, _) => label(number, units.unit(profile, key), &subject.options.unit),
        };
        let key = profile.string(key);
        pace.steps(1)?;
        let values = match sums.get_mut(key) {
            Some(values) => values,
            None => {
                meter.take(key.len())?;
                sums.entry(key.to_owned()).or_default()
            }
        };
        meter.take(name.len())?;
        *values.entry(name).or_default() += sum;
    }
    Ok(sums)
}

/// A block of aligned columns: the key and its values' amounts end at a column each.
fn push_key(out: &mut Output<'_>, subject: &Subject<'_>, key: &Tag, values: &[Tag]) -> Result<()> {
    let unit = subject.options.unit.as_str();
    let share =
        |sum: i64| if subject.total > 0 { format!(" ({})", percentage(sum, subject.total)) } else { String::new() };
    let amount = |sum: i64| subject.amount(sum, unit);
    let name = one_line(&key.name);
    let _ = writeln!(
        out.text,
        " {name}: Total {} of {}{}",
        amount(key.flat.sum),
        amount(subject.total),
        share(key.flat.sum)
    );
    let amounts: Vec<String> =
        values.iter().map(|value| format!("{}{}:", amount(value.flat.sum), share(value.flat.sum))).collect();
    let first = name.chars().count() + 2;
    let second = amounts.iter().map(|amount| amount.chars().count()).max().unwrap_or(0) + 1;
    for (value, amount) in values.iter().zip(amounts) {
        // Wider than a format's width may be if a key is that long.
        out.text.extend(std::iter::repeat_n(' ', first));
        let _ = writeln!(out.text, "{amount:>second$} {}", one_line(&value.name));
        out.drain()?;
    }
    out.text.push('\n');
    out.drain()
}
