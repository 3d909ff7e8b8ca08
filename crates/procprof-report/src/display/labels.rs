//! The labels of a sample by key, and the units of numbers by key; each found in one pass, however many keys there are.

use std::iter::repeat_n;

use foldhash::HashMap;
use procprof_profile::{LabelValue, Profile, Sample, StringId};

/// A key with its values, in the order the sample has them.
pub(crate) struct Keyed {
    pub(crate) key: StringId,
    pub(crate) values: Vec<LabelValue>,
    /// Blanks before the key in its line.
    pub(crate) padding: usize,
}

/// The selected labels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Texts,
    Numbers,
}

/// The labels of a sample of that kind by key, in the order of lines that begin with the key, aligned to `width`
/// characters, and `mark`.
pub(crate) fn by_key(profile: &Profile, sample: &Sample<'_>, kind: Kind, width: usize, mark: &str) -> Vec<Keyed> {
    let is_wanted = |value: &LabelValue| matches!(value, LabelValue::Text(_)) == (kind == Kind::Texts);
    let mut places: HashMap<StringId, usize> = HashMap::default();
    let mut found: Vec<Keyed> = Vec::new();
    for label in sample.labels.iter().filter(|label| is_wanted(&label.value)) {
        let place = *places.entry(label.key).or_insert_with(|| {
            let characters = profile.string(label.key).chars().take(width).count();
            found.push(Keyed { key: label.key, values: Vec::new(), padding: width - characters });
            found.len() - 1
        });
        found[place].values.push(label.value);
    }
    let line = |one: &Keyed| repeat_n(b' ', one.padding).chain(profile.string(one.key).bytes()).chain(mark.bytes());
    found.sort_by(|a, b| line(a).cmp(line(b)));
    found
}

/// Units of numbers by their key.
pub(crate) struct Units<'a> {
    in_labels: HashMap<&'a str, &'a str>,
    /// Units of requested keys, by their number.
    known: HashMap<StringId, &'a str>,
}

impl<'a> Units<'a> {
    /// The unit of each key's first number that has one.
    pub(crate) fn from_profile(profile: &'a Profile) -> Units<'a> {
        let mut in_labels: HashMap<StringId, StringId> = HashMap::default();
        for label in profile.samples().flat_map(|sample| sample.labels) {
            if let LabelValue::Number(_, unit) = label.value
                && unit != StringId::default()
                && !profile.string(unit).is_empty()
            {
                in_labels.entry(label.key).or_insert(unit);
            }
        }
        let text = |(key, unit)| (profile.string(key), profile.string(unit));
        Units { in_labels: in_labels.into_iter().map(text).collect(), known: HashMap::default() }
    }

    /// The unit of the numbers with a key of a profile, always the same one: the first that is stated, else that of the
    /// key itself.
    pub(crate) fn unit<'s>(&'s mut self, profile: &'a Profile, key: StringId) -> &'s str {
        let in_labels = &self.in_labels;
        self.known.entry(key).or_insert_with(|| of_key(in_labels, profile.string(key)))
    }

    /// The same by the key's name.
    pub(crate) fn unit_of(&self, key: &'a str) -> &'a str {
        of_key(&self.in_labels, key)
    }
}

fn of_key<'a>(in_labels: &HashMap<&'a str, &'a str>, key: &'a str) -> &'a str {
    match (in_labels.get(key), key) {
        (Some(unit), _) => unit,
        (None, "alignment" | "request") => "bytes",
        (None, key) => key,
    }
}
