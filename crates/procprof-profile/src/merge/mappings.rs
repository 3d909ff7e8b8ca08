//! One mapping for each file, however many profiles have it and wherever it lay.

use std::collections::BTreeMap;

use foldhash::HashMap;

use super::Term;
use crate::{Addr, Mapping, MappingId, Profile, ProfileBuilder};

/// Mappings are compared with sizes rounded up to this, since maps may be cut at other ends.
const PAGE: u64 = 4096;

/// The mappings of a sum, the main programs first.
pub(super) struct MergedMappings {
    merged: Vec<(Key, Merged)>,
    places: HashMap<(usize, MappingId), (MappingId, u64)>,
}

/// What makes two mappings one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Build id, else path.
    file: String,
    offset: u64,
    size: u64,
    /// Where it is, for what is not a file and so means nothing elsewhere.
    start: Option<Addr>,
}

/// A mapping with its texts.
#[derive(Clone, Debug)]
struct Merged {
    /// Whether it is the first mapping of a profile, by convention the main program.
    is_main: bool,
    filename: String,
    build_id: String,
    mapping: Mapping,
}

impl MergedMappings {
    /// The main program of a single described profile comes before all others.
    pub(super) fn merge(terms: &[Term], described: &[Term]) -> MergedMappings {
        let mut by_key: BTreeMap<Key, Merged> = BTreeMap::new();
        for term in terms {
            for (index, mapping) in term.profile.mappings().iter().enumerate() {
                let one = Merged::new(&term.profile, mapping, index == 0);
                match by_key.get_mut(&one.key()) {
                    Some(known) => known.join(one),
                    None => drop(by_key.insert(one.key(), one)),
                }
            }
        }
        let mut merged: Vec<(Key, Merged)> = by_key.into_iter().collect();
        let main = match described {
            [Term { profile, .. }] => profile.mappings().first().map(|first| Merged::new(profile, first, true).key()),
            _ => None,
        };
        merged.sort_by_key(|(key, one)| (Some(key) != main.as_ref(), !one.is_main));
        let mut mappings = MergedMappings { merged, places: HashMap::default() };
        mappings.find_places(terms);
        mappings
    }

    fn find_places(&mut self, terms: &[Term]) {
        let ids: BTreeMap<&Key, usize> = self.merged.iter().enumerate().map(|(id, (key, _))| (key, id)).collect();
        for (term_index, term) in terms.iter().enumerate() {
            for (index, mapping) in term.profile.mappings().iter().enumerate() {
                let id = ids[&Merged::new(&term.profile, mapping, false).key()];
                let moved = self.merged[id].1.mapping.start.0.wrapping_sub(mapping.start.0);
                self.places.insert((term_index, MappingId(index as u32)), (MappingId(id as u32), moved));
            }
        }
    }

    pub(super) fn add_to(&self, builder: &mut ProfileBuilder) {
        for (_, one) in &self.merged {
            let (filename, build_id) = (builder.intern(&one.filename), builder.intern(&one.build_id));
            builder.mapping(Mapping { filename, build_id, ..one.mapping });
        }
    }

    /// The merged mapping for one of a profile, and how far its addresses move.
    pub(super) fn place(&self, term: usize, mapping: MappingId) -> (Option<MappingId>, u64) {
        self.places.get(&(term, mapping)).map_or((None, 0), |(id, moved)| (Some(*id), *moved))
    }
}

impl Merged {
    fn new(profile: &Profile, mapping: &Mapping, is_main: bool) -> Merged {
        let text = |id| profile.string(id).to_owned();
        Merged { is_main, filename: text(mapping.filename), build_id: text(mapping.build_id), mapping: *mapping }
    }

    fn key(&self) -> Key {
        let file = if self.build_id.is_empty() { &self.filename } else { &self.build_id };
        let name = &self.filename;
        let is_file =
            !self.build_id.is_empty() || !(name.is_empty() || name.starts_with('[') || name.starts_with("//"));
        let size = self.mapping.limit.0.wrapping_sub(self.mapping.start.0);
        Key {
            file: file.clone(),
            offset: self.mapping.file_offset.0,
            size: size.div_ceil(PAGE),
            start: (!is_file).then_some(self.mapping.start),
        }
    }

    /// The lower of the two, with what both have.
    fn join(&mut self, other: Merged) {
        let (one, two) = (self.mapping, other.mapping);
        let is_main = self.is_main || other.is_main;
        let order = |merged: &Merged| {
            (merged.mapping.start, merged.mapping.limit, merged.filename.clone(), merged.build_id.clone())
        };
        if order(&other) < order(self) {
            *self = other;
        }
        self.is_main = is_main;
        self.mapping.has_functions = one.has_functions && two.has_functions;
        self.mapping.has_filenames = one.has_filenames && two.has_filenames;
        self.mapping.has_line_numbers = one.has_line_numbers && two.has_line_numbers;
        self.mapping.has_inline_frames = one.has_inline_frames && two.has_inline_frames;
    }
}
