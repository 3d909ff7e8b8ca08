//! How much of a profile each wanted file would name.

use procprof_profile::{Location, LocationId, MappingId, Profile};

use crate::outcome::{Outcome, WantedFile};

/// A file that would give missing symbols, and how much it matters.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedShare {
    /// The file.
    pub file: WantedFile,
    /// The share of the profile, from 0 to 1, whose stacks have at least one frame that it would name: by the values of the default sample
    /// type, or by the number of samples where those add up to nothing.
    pub share: f64,
}

impl Outcome {
    /// The files that would give the missing symbols, each once, those that matter most first. `profile` is the one this is the outcome of.
    pub fn wanted_shares(&self, profile: &Profile) -> Vec<WantedShare> {
        let files = self.wanted();
        let file_of_mapping = self.files_by_mapping(&files, profile.mappings().len());
        let column = profile.default_sample_type();
        let wanted_at = wanted_at(profile, &file_of_mapping);
        let lacks_name: Vec<bool> = wanted_at.iter().map(Option::is_some).collect();
        let lacks_name = lacks_name.as_slice();
        let mut weights = vec![Weight::default(); files.len()];
        let mut total = Weight::default();
        let mut is_met = vec![false; files.len()];
        for sample in profile.samples() {
            let weight = Weight { value: sample.values.get(column).map_or(0.0, |value| value.unsigned_abs() as f64), samples: 1.0 };
            total.add(weight);
            // Of most stacks all is named.
            if !sample.stack.iter().any(|id| lacks_name[id.index()]) {
                continue;
            }
            is_met.fill(false);
            for file in sample.stack.iter().filter_map(|id| wanted_at[id.index()]) {
                if !std::mem::replace(&mut is_met[file], true) {
                    weights[file].add(weight);
                }
            }
        }
        let share = |weight: &Weight| match total {
            Weight { value, .. } if value > 0.0 => weight.value / value,
            Weight { samples, .. } if samples > 0.0 => weight.samples / samples,
            _ => 0.0,
        };
        let mut shares: Vec<WantedShare> =
            files.into_iter().zip(&weights).map(|(file, weight)| WantedShare { file, share: share(weight) }).collect();
        shares.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.file.filename.cmp(&b.file.filename)));
        shares
    }

    /// For each mapping, and last for locations in none, the position of the file it wants.
    fn files_by_mapping(&self, files: &[WantedFile], mappings: usize) -> Vec<Option<usize>> {
        let mut positions = vec![None; mappings + 1];
        for outcome in &self.mappings {
            let place = outcome.mapping.map_or(mappings, MappingId::index);
            if let (Some(wanted), Some(position)) = (outcome.wanted(), positions.get_mut(place)) {
                *position = files.iter().position(|file| *file == wanted);
            }
        }
        positions
    }
}

/// For each location, the position of the file that would name it; `None` where it has a name, or no file would give it one.
fn wanted_at(profile: &Profile, file_of_mapping: &[Option<usize>]) -> Vec<Option<usize>> {
    let nowhere = file_of_mapping.len() - 1;
    let wanted = |(index, location): (usize, &Location)| {
        let is_named = !profile.lines(LocationId(index as u32)).is_empty();
        if is_named { None } else { file_of_mapping[location.mapping.map_or(nowhere, MappingId::index)] }
    };
    profile.locations().iter().enumerate().map(wanted).collect()
}

#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    value: f64,
    samples: f64,
}

impl Weight {
    fn add(&mut self, other: Weight) {
        self.value += other.value;
        self.samples += other.samples;
    }
}
