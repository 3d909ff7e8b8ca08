//! Labels as frames: `tagroot` and `tagleaf` add a frame for each of some labels below the root of every stack, or at
//! its leaf.
//!
//! The frame's function is named by the label's values, its file is the label's key. A sample without the label gets a
//! frame without a name, as in pprof, so that all stacks have the same number.

use foldhash::HashMap;
use procprof_profile::{Addr, Function, FunctionId, LabelValue, Line, Location, LocationId, Parts, Profile, Sample};

use crate::display::measure::label;
use crate::{Options, Result};

/// The profile with a frame for each key of `tagroot` (the first is nearest to the root) and `tagleaf` (the last is
/// nearest to the leaf).
pub(crate) fn with_tag_frames(profile: Profile, options: &Options) -> Result<Profile> {
    let (roots, leaves) = (keys(&options.tagroot), keys(&options.tagleaf));
    let mut frames =
        TagFrames { parts: profile.parts().without_samples(), known: HashMap::default(), unit: &options.unit };
    let (mut meter, mut pace) = (options.budget.meter("the stacks with frames of labels"), options.budget.pace());
    for sample in profile.samples() {
        let added = roots.len() + leaves.len();
        pace.steps(added * (sample.labels.len() + 1))?;
        meter.take_values::<LocationId>(sample.stack.len() + added)?;
        let above = frames.frames_for(&profile, &sample, &roots)?;
        let mut stack = frames.frames_for(&profile, &sample, &leaves)?;
        stack.extend_from_slice(sample.stack);
        stack.extend(above);
        frames.parts.push_sample(&stack, sample.values, sample.labels)?;
    }
    let mut parts = frames.parts;
    parts.raw_values.clone_from(&profile.parts().raw_values);
    Ok(parts.finish()?)
}

fn keys(list: &str) -> Vec<&str> {
    list.split(',').filter(|key| !key.is_empty()).collect()
}

struct TagFrames<'a> {
    parts: Parts,
    /// Locations by name and key.
    known: HashMap<(String, &'a str), LocationId>,
    unit: &'a str,
}

impl<'a> TagFrames<'a> {
    /// A frame for each key, the last first.
    fn frames_for(&mut self, profile: &Profile, sample: &Sample<'_>, keys: &[&'a str]) -> Result<Vec<LocationId>> {
        keys.iter().rev().map(|key| self.frame(values(profile, sample, key, self.unit), key)).collect()
    }

    fn frame(&mut self, name: String, key: &'a str) -> Result<LocationId> {
        if let Some(id) = self.known.get(&(name.clone(), key)) {
            return Ok(*id);
        }
        let (function_name, filename) = (self.parts.intern(&name)?, self.parts.intern(key)?);
        self.parts.functions.push(Function { name: function_name, filename, ..Function::default() });
        let function = FunctionId(self.parts.functions.len() as u32 - 1);
        let location = Location::new(None, Addr(0));
        let id = self.parts.push_location(location, &[Line { function, line: 0, column: 0 }])?;
        self.known.insert((name, key), id);
        Ok(id)
    }
}

/// All values of a key, texts before numbers.
fn values(profile: &Profile, sample: &Sample<'_>, key: &str, unit: &str) -> String {
    let own = || sample.labels.iter().filter(|label| profile.string(label.key) == key).map(|label| label.value);
    let texts = own().filter_map(|value| match value {
        LabelValue::Text(text) => Some(profile.string(text).to_owned()),
        LabelValue::Number(..) => None,
    });
    let has_units = own().any(|value| matches!(value, LabelValue::Number(_, unit) if !profile.string(unit).is_empty()));
    let numbers = own().filter_map(|value| match value {
        LabelValue::Number(number, from) if has_units => Some(label(number, profile.string(from), unit)),
        LabelValue::Number(number, _) => Some(label(number, "", "")),
        LabelValue::Text(_) => None,
    });
    texts.chain(numbers).collect::<Vec<_>>().join(",")
}
