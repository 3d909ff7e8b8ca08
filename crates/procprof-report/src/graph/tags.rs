//! Labels of samples, counted for each node of a drawn graph.

use std::collections::BTreeMap;

use procprof_profile::diff::BASE_LABEL;
use procprof_profile::{LabelValue, Profile, Sample};

use super::{Shape, Weight};
use crate::Result;
use crate::display::measure::label;
use crate::output::budget::Meter;

/// The format of numbers among the labels.
pub(crate) struct TagFormat<'a> {
    /// Unit of the numbers with the key `bytes`, the only ones that are counted.
    pub(crate) bytes_unit: String,
    /// Unit they are written in.
    pub(crate) to: &'a str,
}

/// The sum of samples with the same label, or labels, at a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) unit: String,
    /// The number, where it is one.
    pub(crate) value: i64,
    pub(crate) flat: Weight,
    pub(crate) cum: Weight,
}

/// Tags of a node by name.
pub(crate) type TagMap = BTreeMap<String, Tag>;

/// All tags of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tags {
    /// Texts, all those of a sample as one.
    pub(crate) texts: TagMap,
    /// Numbers, by the texts that they came with.
    pub(crate) numbers: BTreeMap<String, TagMap>,
}

/// Labels of one sample.
pub(super) struct SampleTags<'f> {
    texts: String,
    numbers: Vec<(String, i64)>,
    unit: &'f str,
}

impl<'f> SampleTags<'f> {
    /// `None` if the sample has none that are counted.
    pub(super) fn from_sample(
        profile: &Profile,
        sample: &Sample<'_>,
        shape: &'f Shape<'_>,
    ) -> Result<Option<SampleTags<'f>>> {
        let Some(format) = shape.tags.as_ref() else { return Ok(None) };
        let mut meter = shape.budget.meter("the text of a sample's labels");
        let mut texts = Vec::new();
        let mut numbers = Vec::new();
        for one in sample.labels {
            match (profile.string(one.key), one.value) {
                (BASE_LABEL, LabelValue::Text(_)) => {}
                (key, LabelValue::Text(text)) => {
                    let text = format!("{key}:{}", profile.string(text));
                    meter.take(text.len())?;
                    texts.push(text);
                }
                ("bytes", LabelValue::Number(number, _)) => {
                    numbers.push((label(number, &format.bytes_unit, format.to), number))
                }
                (_, LabelValue::Number(..)) => {}
            }
        }
        if texts.is_empty() && numbers.is_empty() {
            return Ok(None);
        }
        texts.sort_unstable();
        Ok(Some(SampleTags { texts: texts.join("\\n"), numbers, unit: &format.bytes_unit }))
    }
}

impl Tags {
    pub(super) fn add(
        &mut self,
        weight: Weight,
        of: &SampleTags<'_>,
        part: fn(&mut Tag) -> &mut Weight,
        meter: &mut Meter,
    ) -> Result<()> {
        if !of.texts.is_empty() {
            part(find(&mut self.texts, &of.texts, "", 0, meter)?).add(weight);
        }
        for (name, value) in &of.numbers {
            let beside = match self.numbers.get_mut(&of.texts) {
                Some(beside) => beside,
                None => {
                    meter.take(of.texts.len())?;
                    self.numbers.entry(of.texts.clone()).or_default()
                }
            };
            part(find(beside, name, of.unit, *value, meter)?).add(weight);
        }
        Ok(())
    }

    /// Drops those below a value.
    pub(super) fn trim(&mut self, cutoff: i64) {
        let is_kept = |tag: &Tag| tag.flat.sum.saturating_abs() >= cutoff || tag.cum.sum.saturating_abs() >= cutoff;
        self.texts.retain(|_, tag| is_kept(tag));
        self.numbers.values_mut().for_each(|tags| tags.retain(|_, tag| is_kept(tag)));
    }

    /// The number of them that have a flat value at the node.
    pub(super) fn count(&self) -> usize {
        let all = self.texts.values().chain(self.numbers.values().flat_map(BTreeMap::values));
        all.filter(|tag| tag.flat.sum != 0).count()
    }
}

fn find<'t>(tags: &'t mut TagMap, name: &str, unit: &str, value: i64, meter: &mut Meter) -> Result<&'t mut Tag> {
    if !tags.contains_key(name) {
        meter.take(size_of::<Tag>() + 2 * name.len() + unit.len())?;
        tags.insert(name.to_owned(), Tag { name: name.to_owned(), unit: unit.to_owned(), value, ..Tag::default() });
    }
    Ok(tags.entry(name.to_owned()).or_default())
}

/// Puts the heaviest first: by flat alone, or by cum and then flat; then by name.
pub(crate) fn sort(tags: &mut [Tag], by_flat: bool) {
    let size = |weight: &Weight| std::cmp::Reverse(weight.sum.unsigned_abs());
    tags.sort_by(|a, b| {
        let by_cum = if by_flat { std::cmp::Ordering::Equal } else { size(&a.cum).cmp(&size(&b.cum)) };
        by_cum.then_with(|| size(&a.flat).cmp(&size(&b.flat))).then_with(|| a.name.cmp(&b.name))
    });
}
