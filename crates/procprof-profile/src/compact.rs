//! Making tables smaller: fewer samples, fewer sample types, and nothing kept that no sample needs.

use std::ops::Range;

use crate::{
    Error, FunctionId, Label, LabelValue, LocationId, MappingId, Parts, Profile, Result, StringId, StringTable,
    ValueType,
};

impl Profile {
    /// The profile with only these sample types, by position and in the order given.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a position does not exist or none is given.
    pub fn with_sample_types(self, kept: &[usize]) -> Result<Profile> {
        let mut parts = self.into_parts();
        let width = parts.sample_types.len();
        if let Some(outside) = kept.iter().find(|index| **index >= width) {
            return Err(Error::invalid(format!("sample type {outside} of {width}")));
        }
        let select = |values: &[i64]| -> Vec<i64> {
            values.chunks_exact(width).flat_map(|sample| kept.iter().map(|index| sample[*index])).collect()
        };
        parts.values = select(&parts.values);
        parts.raw_values = select(&parts.raw_values);
        parts.sample_types = kept.iter().map(|index| parts.sample_types[*index]).collect();
        parts.finish()
    }
}

impl Parts {
    /// Keeps the samples for whose positions `keep` returns true.
    pub fn retain_samples(&mut self, mut keep: impl FnMut(usize) -> bool) {
        self.select_samples((0..self.stack_ends.len()).filter(|index| keep(*index)));
    }

    /// Keeps the samples at these positions, in this order.
    pub(crate) fn select_samples(&mut self, positions: impl IntoIterator<Item = usize>) {
        let width = self.sample_types.len();
        let mut new = Parts::default();
        for index in positions {
            new.stacks.extend_from_slice(&self.stacks[self.stack_range(index)]);
            new.stack_ends.push(new.stacks.len() as u32);
            new.values.extend_from_slice(&self.values[index * width..(index + 1) * width]);
            if !self.raw_values.is_empty() {
                new.raw_values.extend_from_slice(&self.raw_values[index * width..(index + 1) * width]);
            }
            new.labels.extend_from_slice(&self.labels[self.label_range(index)]);
            new.label_ends.push(new.labels.len() as u32);
        }
        self.stacks = new.stacks;
        self.stack_ends = new.stack_ends;
        self.values = new.values;
        self.raw_values = new.raw_values;
        self.label_ends = if new.labels.is_empty() { Vec::new() } else { new.label_ends };
        self.labels = new.labels;
    }

    /// Drops locations, functions, mappings and strings that nothing refers to; what stays keeps its order. The first
    /// mapping stays: by pprof's convention it is the main program.
    ///
    /// # Errors
    /// [`Error::Invalid`] when an id points at nothing.
    pub fn compact(&mut self) -> Result<()> {
        self.compact_locations()?;
        let mut mappings = Uses::new(self.mappings.len(), "mapping");
        let mut functions = Uses::new(self.functions.len(), "function");
        if !self.mappings.is_empty() {
            mappings.mark(0)?;
        }
        for mapping in self.locations.iter().filter_map(|location| location.mapping) {
            mappings.mark(mapping.0)?;
        }
        for line in &self.lines {
            functions.mark(line.function.0)?;
        }
        mappings.retain(&mut self.mappings);
        functions.retain(&mut self.functions);
        for mapping in self.locations.iter_mut().filter_map(|location| location.mapping.as_mut()) {
            *mapping = MappingId(mappings.new_id(mapping.0));
        }
        for line in &mut self.lines {
            line.function = FunctionId(functions.new_id(line.function.0));
        }
        self.compact_strings()
    }

    fn compact_locations(&mut self) -> Result<()> {
        let mut uses = Uses::new(self.locations.len(), "location");
        uses.mark_all(self.stacks.iter().map(|id| id.0))?;
        if !uses.are_all() {
            uses.retain(&mut self.locations);
            let new_ids = uses.new_ids.as_slice();
            self.stacks.iter_mut().for_each(|id| *id = LocationId(new_ids[id.index()]));
        }
        self.lay_out_lines()
    }

    /// Drops strings that nothing refers to.
    pub(crate) fn compact_strings(&mut self) -> Result<()> {
        let mut uses = Uses::new(self.strings.len(), "string");
        uses.mark(0)?;
        let mut outside = false;
        self.map_strings(|id| {
            outside |= uses.mark(id.0).is_err();
            id
        });
        if outside {
            return Err(Error::invalid("a string that does not exist"));
        }
        if uses.are_all() {
            return Ok(());
        }
        let mut strings = StringTable::default();
        let kept =
            || self.strings.iter().enumerate().skip(1).filter(|(index, _)| uses.is_used(*index)).map(|(_, text)| text);
        let (count, bytes) = kept().fold((0, 0), |(count, bytes), text| (count + 1, bytes + text.len()));
        strings.reserve(count, bytes);
        for text in kept() {
            // A part of a table that fits cannot be too large.
            strings.push(text).ok_or_else(|| Error::invalid("more than 4 GiB of strings"))?;
        }
        uses.number();
        self.strings = strings;
        self.map_strings(|id| StringId(uses.new_id(id.0)));
        Ok(())
    }

    /// Replaces every reference to a string.
    pub(crate) fn map_strings(&mut self, mut new: impl FnMut(StringId) -> StringId) {
        for kind in self.sample_types.iter_mut().chain([&mut self.period_type]) {
            *kind = ValueType { kind: new(kind.kind), unit: new(kind.unit) };
        }
        for mapping in &mut self.mappings {
            mapping.filename = new(mapping.filename);
            mapping.build_id = new(mapping.build_id);
        }
        for function in &mut self.functions {
            function.name = new(function.name);
            function.system_name = new(function.system_name);
            function.filename = new(function.filename);
        }
        for label in &mut self.labels {
            let value = match label.value {
                LabelValue::Text(text) => LabelValue::Text(new(text)),
                LabelValue::Number(number, unit) => LabelValue::Number(number, new(unit)),
            };
            *label = Label { key: new(label.key), value };
        }
        let single = [&mut self.default_sample_type, &mut self.drop_frames, &mut self.keep_frames, &mut self.doc_url];
        for id in self.comments.iter_mut().chain(single) {
            *id = new(*id);
        }
    }

    /// The range of that sample's stack in `stacks`.
    pub(crate) fn stack_range(&self, sample: usize) -> Range<usize> {
        range(&self.stack_ends, sample)
    }

    /// The range of that sample's labels in `labels`.
    pub(crate) fn label_range(&self, sample: usize) -> Range<usize> {
        if sample < self.label_ends.len() {
            range(&self.label_ends, sample)
        } else {
            self.labels.len()..self.labels.len()
        }
    }

    /// The range of that location's lines in `lines`.
    pub(crate) fn line_range(&self, location: LocationId) -> Range<usize> {
        let location = &self.locations[location.index()];
        location.lines_start as usize..location.lines_end as usize
    }
}

fn range(ends: &[u32], index: usize) -> Range<usize> {
    let start = if index == 0 { 0 } else { ends[index - 1] as usize };
    start..ends[index] as usize
}

/// Which entries of a table are used, and their positions once the others are gone.
struct Uses {
    what: &'static str,
    used: Vec<bool>,
    new_ids: Vec<u32>,
}

impl Uses {
    fn new(len: usize, what: &'static str) -> Uses {
        Uses { what, used: vec![false; len], new_ids: Vec::new() }
    }

    fn mark(&mut self, id: u32) -> Result<()> {
        match self.used.get_mut(id as usize) {
            Some(used) => *used = true,
            None => return Err(Error::invalid(format!("{} {id} of {}", self.what, self.used.len()))),
        }
        Ok(())
    }

    /// Marks many: with the highest looked at first, none of the others can be outside.
    fn mark_all(&mut self, ids: impl ExactSizeIterator<Item = u32> + Clone) -> Result<()> {
        if ids.len() == 0 {
            return Ok(());
        }
        self.mark(ids.clone().fold(0, u32::max))?;
        let used = self.used.as_mut_slice();
        ids.for_each(|id| used[id as usize] = true);
        Ok(())
    }

    fn are_all(&self) -> bool {
        self.used.iter().all(|used| *used)
    }

    fn is_used(&self, index: usize) -> bool {
        self.used[index]
    }

    fn number(&mut self) {
        let mut next = 0;
        for used in &self.used {
            self.new_ids.push(next);
            next += u32::from(*used);
        }
    }

    fn retain<T>(&mut self, table: &mut Vec<T>) {
        let mut used = self.used.iter();
        table.retain(|_| used.next().is_some_and(|used| *used));
        self.number();
    }

    fn new_id(&self, id: u32) -> u32 {
        self.new_ids[id as usize]
    }
}

#[cfg(test)]
mod tests;
