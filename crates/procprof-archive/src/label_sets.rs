//! [`LabelSets`]: the labels of samples, equal sets once.

use foldhash::HashMap;
use procprof_profile::{Label, LabelValue, StringId};

/// A label of a sample, in texts of [`crate::frames::Frames`]: key, text or number, unit.
pub(crate) type LabelRow = (StringId, Option<StringId>, Option<i64>, StringId);

/// Sets of labels without repetition, numbered from 1; 0 is the set without labels.
#[derive(Debug, Default)]
pub(crate) struct LabelSets {
    sets: Vec<Vec<LabelRow>>,
    ids: HashMap<Vec<LabelRow>, u32>,
}

impl LabelSets {
    /// The number of sets that have labels.
    pub(crate) fn len(&self) -> usize {
        self.sets.len()
    }

    /// The labels of a set.
    pub(crate) fn get(&self, set: u32) -> &[LabelRow] {
        (set as usize).checked_sub(1).and_then(|at| self.sets.get(at)).map(Vec::as_slice).unwrap_or_default()
    }

    /// The number of a set.
    pub(crate) fn add(&mut self, mut set: Vec<LabelRow>) -> u32 {
        if set.is_empty() {
            return 0;
        }
        set.sort_unstable();
        let sets = &mut self.sets;
        if let Some(id) = self.ids.get(&set) {
            return *id;
        }
        sets.push(set.clone());
        let id = sets.len() as u32;
        self.ids.insert(set, id);
        id
    }

    /// The number of the set of a sample's labels; `texts` are those of its profile.
    pub(crate) fn add_labels(&mut self, labels: &[Label], texts: &[StringId]) -> u32 {
        let text = |id: StringId| texts.get(id.index()).copied().unwrap_or_default();
        let row = |label: &Label| match label.value {
            LabelValue::Text(value) => (text(label.key), Some(text(value)), None, StringId(0)),
            LabelValue::Number(number, unit) => (text(label.key), None, Some(number), text(unit)),
        };
        self.add(labels.iter().map(row).collect())
    }
}
