//! The weight of each wanted file in a profile: the samples that its frames hide, not their number.
//!
//! A sample whose leaf has no name counts fully. Each named frame nearer to the leaf leaves a quarter to its callers,
//! since it already names most of the sample's work: the function that starts a thread, below twenty named frames in
//! every stack, has next to no weight. Frames that the profile drops, such as an allocator's, are ignored.

use procprof_profile::filter::Uninteresting;
use procprof_profile::{Location, LocationId, MappingId, Profile};

use crate::Reason;
use crate::outcome::{MappingOutcome, Outcome, WantedFile};

/// The share that each named frame nearer to the leaf leaves to its callers.
const LEFT_BY_NAMED: f64 = 0.25;
/// Number of named frames after which frames are ignored: a millionth is left.
const NAMED_MAX: i32 = 10;

/// A file with missing symbols, and its weight.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedShare {
    /// The file.
    pub file: WantedFile,
    /// The share of the profile, from 0 to 1, that its frames hide: by the values of the default sample type, or by the
    /// number of samples if their sum is 0.
    pub share: f64,
    /// Whether the file itself was read and has no symbols: only its debug file would help.
    pub is_stripped: bool,
}

impl Outcome {
    /// The files with the missing symbols, each once, by descending weight. `profile` is the profile of this outcome.
    pub fn wanted_shares(&self, profile: &Profile) -> Vec<WantedShare> {
        let files = self.wanted();
        let file_of_mapping = self.files_by_mapping(&files, profile.mappings().len());
        let column = profile.default_sample_type();
        let wanted_at = wanted_at(profile, &file_of_mapping);
        let lacks_name: Vec<bool> = wanted_at.iter().map(Option::is_some).collect();
        let lacks_name = lacks_name.as_slice();
        let says_something = says_something(profile);
        let mut weights = vec![Weight::default(); files.len()];
        let mut total = Weight::default();
        let mut is_met = vec![false; files.len()];
        for sample in profile.samples() {
            let weight = Weight {
                value: sample.values.get(column).map_or(0.0, |value| value.unsigned_abs() as f64),
                samples: 1.0,
            };
            total.add(weight);
            // Most stacks are named completely.
            if !sample.stack.iter().any(|id| lacks_name[id.index()]) {
                continue;
            }
            is_met.fill(false);
            let mut named = 0;
            for id in sample.stack {
                match wanted_at[id.index()] {
                    Some(file) if !std::mem::replace(&mut is_met[file], true) => {
                        weights[file].add(weight.part(LEFT_BY_NAMED.powi(named)))
                    }
                    Some(_) => {}
                    None => named += i32::from(says_something[id.index()]),
                }
                if named > NAMED_MAX {
                    break;
                }
            }
        }
        let share = |weight: &Weight| match total {
            Weight { value, .. } if value > 0.0 => weight.value / value,
            Weight { samples, .. } if samples > 0.0 => weight.samples / samples,
            _ => 0.0,
        };
        let mut shares: Vec<WantedShare> =
            files.into_iter().zip(&weights).map(|(file, weight)| self.wanted_share(file, share(weight))).collect();
        shares.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.file.filename.cmp(&b.file.filename)));
        shares
    }

    fn wanted_share(&self, file: WantedFile, share: f64) -> WantedShare {
        let own = |mapping: &&MappingOutcome| mapping.wanted().as_ref() == Some(&file);
        let mut reasons = self
            .mappings
            .iter()
            .filter(own)
            .flat_map(|mapping| &mapping.unresolved)
            .filter(|(reason, _)| reason.wants_file());
        let is_stripped = reasons.all(|(reason, _)| *reason == Reason::NoSymbols);
        WantedShare { file, share, is_stripped }
    }

    /// For each mapping, and last for locations in none, the position of its wanted file.
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

/// For each location, the position of the file that would name it; `None` if it has a name, or no file would name it.
fn wanted_at(profile: &Profile, file_of_mapping: &[Option<usize>]) -> Vec<Option<usize>> {
    let nowhere = file_of_mapping.len() - 1;
    let wanted = |(index, location): (usize, &Location)| {
        let is_named = !profile.lines(LocationId(index as u32)).is_empty();
        if is_named { None } else { file_of_mapping[location.mapping.map_or(nowhere, MappingId::index)] }
    };
    profile.locations().iter().enumerate().map(wanted).collect()
}

/// For each location, whether it has a name that explains a sample.
fn says_something(profile: &Profile) -> Vec<bool> {
    // Without readable expressions, every name counts.
    let uninteresting = Uninteresting::from_profile(profile).ok().flatten();
    let counts = |name: &str| uninteresting.as_ref().is_none_or(|uninteresting| !uninteresting.matches(name));
    let by_function: Vec<bool> =
        profile.functions().iter().map(|function| counts(profile.string(function.name))).collect();
    let locations = 0..profile.locations().len() as u32;
    locations.map(|id| profile.lines(LocationId(id)).iter().any(|line| by_function[line.function.index()])).collect()
}

#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    value: f64,
    samples: f64,
}

impl Weight {
    fn part(self, part: f64) -> Weight {
        Weight { value: self.value * part, samples: self.samples * part }
    }

    fn add(&mut self, other: Weight) {
        self.value += other.value;
        self.samples += other.samples;
    }
}

#[cfg(test)]
mod tests {
    use procprof_profile::{Addr, Mapping, ProfileBuilder};

    use super::*;

    /// The share that one library hides of stacks, leaf first, where `?` is a frame in it without a name.
    fn share(stacks: &[&[&str]], drop_frames: &str) -> f64 {
        let mut builder = ProfileBuilder::new(&[("inuse_space", "bytes")]);
        let filename = builder.intern("/usr/lib/libstdc++.so.6");
        let mapping =
            builder.mapping(Mapping { start: Addr(0x1000), limit: Addr(0x2000), filename, ..Mapping::default() });
        let unnamed = builder.address(Some(mapping), Addr(0x1234));
        for stack in stacks {
            let frames: Vec<LocationId> =
                stack.iter().map(|name| if *name == "?" { unnamed } else { builder.frame(name) }).collect();
            builder.sample(&frames, &[10], &[]);
        }
        let drop_frames = builder.intern(drop_frames);
        builder.parts_mut().drop_frames = drop_frames;
        let own = MappingOutcome {
            mapping: Some(mapping),
            filename: "/usr/lib/libstdc++.so.6".to_owned(),
            unresolved: vec![(Reason::NoSymbols, 1)],
            ..MappingOutcome::default()
        };
        let outcome = Outcome { mappings: vec![own], ..Outcome::default() };
        let [only] = outcome.wanted_shares(&builder.finish().unwrap()).try_into().unwrap();
        assert!(only.is_stripped);
        only.share
    }

    #[test]
    fn a_file_matters_by_what_its_frames_hide() {
        assert_eq!(share(&[&["?", "main"]], ""), 1.0);
        assert_eq!(share(&[&["?", "?", "main"], &["work", "main"]], ""), 0.5);
        assert_eq!(share(&[&["memcpy", "?", "main"]], ""), 0.25);
        assert_eq!(share(&[&["malloc", "operator new", "?", "main"]], "malloc|operator new"), 1.0);
        let thread: &[&str] = &["malloc", "a", "b", "c", "d", "run", "?", "start_thread"];
        assert!(share(&[thread], "malloc") < 0.001);
        assert!(share(&[&["x"; 30], &[&["x"; 40][..], &["?"]].concat()], "") < 0.001);
    }
}
