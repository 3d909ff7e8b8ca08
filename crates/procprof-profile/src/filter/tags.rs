//! Filters that look at labels, which pprof's options call tags.

use std::collections::BTreeMap;

use regex::Regex;

use super::{Filter, Matches, regex, units};
use crate::parts::narrow;
use crate::{Error, Label, LabelValue, Profile, Result};

/// One `tagfocus` or `tagignore`.
#[derive(Clone, Debug)]
pub(super) struct TagFilter {
    /// The key it is about, or any.
    key: Option<String>,
    wanted: Wanted,
}

#[derive(Clone, Debug)]
enum Wanted {
    /// Texts; without a key each of them must match some `key:value`, with a key one of them some value.
    Texts(Vec<Regex>),
    /// Numbers from the first to the second, both included, in this unit.
    Range(Option<f64>, Option<f64>, String),
}

impl TagFilter {
    /// Reads `[key=]regex[,regex…]` or `[key=]range`.
    pub(super) fn parse(text: &str) -> Result<TagFilter> {
        let (key, value) = match text.split_once('=') {
            Some((key, value)) => (Some(key.to_owned()), value),
            None => (None, text),
        };
        let wanted = match parse_range(value)? {
            Some(range) => range,
            None => Wanted::Texts(value.split(',').map(regex).collect::<Result<_>>()?),
        };
        Ok(TagFilter { key, wanted })
    }

    fn matches(&self, profile: &Profile, labels: &[Label], units: &BTreeMap<&str, &str>) -> bool {
        match (&self.wanted, &self.key) {
            (Wanted::Range(from, to, unit), key) => labels.iter().any(|label| {
                let LabelValue::Number(number, _) = label.value else { return false };
                let name = profile.string(label.key);
                let wanted = key.as_ref().is_none_or(|key| key == name);
                wanted && in_range(number, units.get(name).unwrap_or(&name), (*from, *to), unit)
            }),
            (Wanted::Texts(all), None) => {
                let texts: Vec<String> = texts(profile, labels).map(|(key, value)| format!("{key}:{value}")).collect();
                all.iter().all(|regex| texts.iter().any(|text| regex.is_match(text)))
            }
            (Wanted::Texts(any), Some(wanted)) => texts(profile, labels)
                .any(|(key, value)| key == wanted && any.iter().any(|regex| regex.is_match(value))),
        }
    }
}

/// `tagfocus` and `tagignore`.
pub(super) fn filter_samples(filter: &Filter, profile: Profile, matches: &mut Matches) -> Result<Profile> {
    if filter.tagfocus.is_none() && filter.tagignore.is_none() {
        return Ok(profile);
    }
    let units = units_by_key(&profile);
    let has = |filter: &Option<TagFilter>, labels: &[Label]| {
        filter.as_ref().map(|filter| filter.matches(&profile, labels, &units))
    };
    let mut stays = Vec::with_capacity(profile.sample_count());
    let (mut focused, mut ignored) = (0, 0);
    for sample in profile.samples() {
        let is_focused = has(&filter.tagfocus, sample.labels).unwrap_or(true);
        let is_ignored = has(&filter.tagignore, sample.labels).unwrap_or(false);
        focused += usize::from(is_focused);
        ignored += usize::from(is_ignored);
        stays.push(is_focused && !is_ignored);
    }
    matches.tagfocus = filter.tagfocus.as_ref().map(|_| focused);
    matches.tagignore = filter.tagignore.as_ref().map(|_| ignored);
    let mut parts = profile.into_parts();
    parts.retain_samples(|index| stays[index]);
    parts.finish()
}

/// `tagshow` and `taghide`.
pub(super) fn filter_labels(filter: &Filter, profile: Profile, matches: &mut Matches) -> Result<Profile> {
    if filter.tagshow.is_none() && filter.taghide.is_none() {
        return Ok(profile);
    }
    let (mut shown, mut hidden) = (0, 0);
    let mut kept: Vec<Label> = Vec::new();
    let mut ends = Vec::new();
    for sample in profile.samples() {
        for label in sample.labels {
            let key = profile.string(label.key);
            let is_shown = filter.tagshow.as_ref().is_none_or(|regex| regex.is_match(key));
            let is_hidden = filter.taghide.as_ref().is_some_and(|regex| regex.is_match(key));
            shown += usize::from(is_shown);
            hidden += usize::from(is_hidden);
            kept.extend((is_shown && !is_hidden).then_some(*label));
        }
        ends.push(narrow(kept.len(), "labels")?);
    }
    matches.tagshow = filter.tagshow.as_ref().map(|_| shown);
    matches.taghide = filter.taghide.as_ref().map(|_| hidden);
    let mut parts = profile.into_parts();
    (parts.labels, parts.label_ends) = (kept, ends);
    parts.finish()
}

fn texts<'a>(profile: &'a Profile, labels: &'a [Label]) -> impl Iterator<Item = (&'a str, &'a str)> {
    labels.iter().filter_map(|label| match label.value {
        LabelValue::Text(text) => Some((profile.string(label.key), profile.string(text))),
        LabelValue::Number(..) => None,
    })
}

/// The unit of each key's numbers: the first in the samples, else the one that the key implies.
fn units_by_key(profile: &Profile) -> BTreeMap<&str, &str> {
    let mut units: BTreeMap<&str, &str> = BTreeMap::new();
    for label in profile.samples().flat_map(|sample| sample.labels) {
        if let LabelValue::Number(_, unit) = label.value {
            let known = units.entry(profile.string(label.key)).or_default();
            if known.is_empty() {
                *known = profile.string(unit);
            }
        }
    }
    for (key, unit) in units.iter_mut().filter(|(_, unit)| unit.is_empty()) {
        *unit = if matches!(*key, "alignment" | "request") { "bytes" } else { key };
    }
    units
}

fn in_range(number: i64, unit: &str, (from, to): (Option<f64>, Option<f64>), wanted: &str) -> bool {
    let (scaled, unit) = units::scale(number, unit, wanted);
    unit == wanted && from.is_none_or(|from| scaled >= from) && to.is_none_or(|to| scaled <= to)
}

/// Reads `N`, `N:`, `:N` or `N:M`, each number with an optional unit; `None` for anything else.
fn parse_range(text: &str) -> Result<Option<Wanted>> {
    let overflow = || Error::Argument { argument: text.to_owned(), why: "a number past 64 bits".to_owned() };
    let (from, to) = text.split_once(':').unwrap_or((text, text));
    let (Some(from), Some(to)) = (Amount::split(from), Amount::split(to)) else { return Ok(None) };
    let unit = if from.digits.is_empty() { to.unit } else { from.unit };
    let (_, canonical) = units::scale(0, unit, unit);
    let mut bounds = [None, None];
    for (bound, amount) in bounds.iter_mut().zip([from, to]).filter(|(_, amount)| !amount.digits.is_empty()) {
        let (scaled, unit) = units::scale(amount.digits.parse().map_err(|_| overflow())?, amount.unit, &canonical);
        if unit != canonical {
            return Ok(None);
        }
        *bound = Some(scaled);
    }
    let [from, to] = bounds;
    Ok((from.is_some() || to.is_some()).then_some(Wanted::Range(from, to, canonical)))
}

/// A number and its unit as typed; both empty for an open end.
struct Amount<'a> {
    digits: &'a str,
    unit: &'a str,
}

impl Amount<'_> {
    fn split(text: &str) -> Option<Amount<'_>> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let unit = unsigned.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_number = unit.len() < unsigned.len() && unit.bytes().all(|byte| byte.is_ascii_alphabetic());
        (text.is_empty() || is_number).then(|| Amount { digits: &text[..text.len() - unit.len()], unit })
    }
}
