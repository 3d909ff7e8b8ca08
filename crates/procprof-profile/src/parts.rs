//! The tables of a profile before they are checked. Decoders fill them; [`Parts::finish`] is the only way to a
//! [`Profile`](crate::Profile).

use crate::{
    Addresses, Error, Function, Label, LabelValue, Line, Location, LocationId, Mapping, Nanos, Result, Sampling,
    StringId, StringTable, ValueType,
};

/// Everything a [`Profile`](crate::Profile) holds, open to change and not yet checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// All strings.
    pub strings: StringTable,
    /// The type of each value of a sample; at least one.
    pub sample_types: Vec<ValueType>,
    /// Name of the sample type shown by default; the empty string for none.
    pub default_sample_type: StringId,
    /// `sample_types.len()` values for each sample, back to back.
    pub values: Vec<i64>,
    /// The values as measured, when `values` are estimates made from them; else empty.
    pub raw_values: Vec<i64>,
    /// Stacks back to back, leaf first.
    pub stacks: Vec<LocationId>,
    /// The end of each sample's stack in `stacks`; its length is the number of samples.
    pub stack_ends: Vec<u32>,
    /// Labels back to back.
    pub labels: Vec<Label>,
    /// The end of each sample's labels in `labels`; empty when no sample has labels.
    pub label_ends: Vec<u32>,
    /// All mappings.
    pub mappings: Vec<Mapping>,
    /// All locations.
    pub locations: Vec<Location>,
    /// Lines of all locations, back to back.
    pub lines: Vec<Line>,
    /// All functions.
    pub functions: Vec<Function>,
    /// Regular expression of frames to drop with everything below; may be empty.
    pub drop_frames: StringId,
    /// Regular expression of frames to keep although `drop_frames` matches; may be empty.
    pub keep_frames: StringId,
    /// Moment the capture began.
    pub time: Nanos,
    /// How long it took.
    pub duration: Nanos,
    /// The quantity that the period counts.
    pub period_type: ValueType,
    /// Sampling period in that unit; 0 when unknown.
    pub period: i64,
    /// Free comments.
    pub comments: Vec<StringId>,
    /// Link to a page about this kind of profile; may be empty.
    pub doc_url: StringId,
    /// How measured counts relate to the quantity they were sampled from.
    pub sampling: Sampling,
    /// The meaning of the locations' addresses.
    pub addresses: Addresses,
    /// Their meaning when captured, where [`Profile::adjusted`](crate::Profile::adjusted) made them call sites; else
    /// [`Addresses::CallSite`].
    pub captured: Addresses,
}

impl Parts {
    /// Appends a location with its lines.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a profile would hold more than 2^32 locations or lines.
    pub fn push_location(&mut self, mut location: Location, lines: &[Line]) -> Result<LocationId> {
        let id = LocationId(narrow(self.locations.len(), "locations")?);
        location.lines_start = narrow(self.lines.len(), "lines")?;
        self.lines.extend_from_slice(lines);
        location.lines_end = narrow(self.lines.len(), "lines")?;
        self.locations.push(location);
        Ok(id)
    }

    /// The same tables without samples.
    pub fn without_samples(&self) -> Parts {
        Parts {
            values: Vec::new(),
            raw_values: Vec::new(),
            stacks: Vec::new(),
            stack_ends: Vec::new(),
            labels: Vec::new(),
            label_ends: Vec::new(),
            ..self.clone()
        }
    }

    /// Appends a sample.
    ///
    /// # Errors
    /// [`Error::Invalid`] when `values` has not one value per sample type, or a profile would hold more than 2^32
    /// frames or labels.
    pub fn push_sample(&mut self, stack: &[LocationId], values: &[i64], labels: &[Label]) -> Result<()> {
        if values.len() != self.sample_types.len() {
            return Err(Error::invalid(format!(
                "a sample has {} values for {} sample types",
                values.len(),
                self.sample_types.len()
            )));
        }
        let label_start = self.labels.len();
        self.stacks.extend_from_slice(stack);
        self.values.extend_from_slice(values);
        self.labels.extend_from_slice(labels);
        self.end_sample(label_start)
    }

    /// Ends a sample whose frames, values and labels were appended to the tables, the labels from `label_start` on.
    pub(crate) fn end_sample(&mut self, label_start: usize) -> Result<()> {
        if self.labels.len() > label_start || !self.label_ends.is_empty() {
            self.label_ends.resize(self.stack_ends.len(), label_start as u32);
            self.label_ends.push(narrow(self.labels.len(), "labels")?);
        }
        self.stack_ends.push(narrow(self.stacks.len(), "frames")?);
        Ok(())
    }

    /// Checks every id and range once, and gives equal profiles equal tables.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the first thing that points at nothing.
    pub(crate) fn check(&mut self) -> Result<()> {
        if self.sample_types.is_empty() {
            return Err(Error::invalid("a profile without sample types"));
        }
        self.check_samples()?;
        self.check_tables()?;
        if self.labels.is_empty() {
            self.label_ends.clear();
        } else {
            self.label_ends.resize(self.stack_ends.len(), self.labels.len() as u32);
        }
        self.lay_out_lines()
    }

    /// The id of a string, which is appended if it is not there. Looks at every string;
    /// [`ProfileBuilder`](crate::ProfileBuilder) is for many.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the table is full.
    pub fn intern(&mut self, text: &str) -> Result<StringId> {
        let known = self.strings.iter().position(|known| known == text);
        match known {
            Some(index) => Ok(StringId(index as u32)),
            None => self.strings.push(text).ok_or_else(|| Error::invalid("more than 4 GiB of strings")),
        }
    }

    /// Puts the lines in the order of their locations, nothing between and nothing shared, so that equal profiles have
    /// equal tables.
    pub(crate) fn lay_out_lines(&mut self) -> Result<()> {
        let mut end = 0;
        let ordered = self.locations.iter().all(|location| {
            let follows = location.lines_start == end;
            end = location.lines_end;
            follows
        });
        if ordered && end as usize == self.lines.len() {
            return Ok(());
        }
        let mut lines = Vec::with_capacity(self.lines.len());
        for location in &mut self.locations {
            let old = location.lines_start as usize..location.lines_end as usize;
            location.lines_start = narrow(lines.len(), "lines")?;
            lines.extend_from_slice(&self.lines[old]);
            location.lines_end = narrow(lines.len(), "lines")?;
        }
        self.lines = lines;
        Ok(())
    }

    fn check_samples(&self) -> Result<()> {
        let samples = self.stack_ends.len();
        let wanted = samples.checked_mul(self.sample_types.len());
        if Some(self.values.len()) != wanted {
            return Err(Error::invalid(format!("{} values for {samples} samples", self.values.len())));
        }
        if !self.raw_values.is_empty() && self.raw_values.len() != self.values.len() {
            return Err(Error::invalid(format!(
                "{} measured values for {} values",
                self.raw_values.len(),
                self.values.len()
            )));
        }
        check_ends("stack", &self.stack_ends, self.stacks.len())?;
        if self.label_ends.len() > samples {
            return Err(Error::invalid("labels of a sample that does not exist"));
        }
        check_ends("label", &self.label_ends, self.labels.len())?;
        let locations = self.locations.len();
        // There may be millions of frames: the highest is found many at a time, the first one too high is not.
        let highest = self.stacks.iter().fold(0, |highest, id| id.0.max(highest));
        if highest as usize >= locations && !self.stacks.is_empty() {
            return Err(Error::invalid(format!("a sample names location {highest} of {locations}")));
        }
        Ok(())
    }

    fn check_tables(&self) -> Result<()> {
        for location in &self.locations {
            if location.mapping.is_some_and(|id| id.index() >= self.mappings.len()) {
                return Err(Error::invalid("a location names a mapping that does not exist"));
            }
            if location.lines_start > location.lines_end || location.lines_end as usize > self.lines.len() {
                return Err(Error::invalid("a location names lines that do not exist"));
            }
        }
        if self.lines.iter().any(|line| line.function.index() >= self.functions.len()) {
            return Err(Error::invalid("a line names a function that does not exist"));
        }
        let strings = self.strings.len();
        match self.string_ids().find(|id| id.index() >= strings) {
            Some(id) => Err(Error::invalid(format!("string {} of {strings}", id.0))),
            None => Ok(()),
        }
    }

    fn string_ids(&self) -> impl Iterator<Item = StringId> + '_ {
        let types = self.sample_types.iter().chain([&self.period_type]).flat_map(|kind| [kind.kind, kind.unit]);
        let mappings = self.mappings.iter().flat_map(|mapping| [mapping.filename, mapping.build_id]);
        let functions =
            self.functions.iter().flat_map(|function| [function.name, function.system_name, function.filename]);
        let labels = self.labels.iter().flat_map(|label| match label.value {
            LabelValue::Text(text) => [label.key, text],
            LabelValue::Number(_, unit) => [label.key, unit],
        });
        let single = [self.default_sample_type, self.drop_frames, self.keep_frames, self.doc_url];
        types.chain(mappings).chain(functions).chain(labels).chain(self.comments.iter().copied()).chain(single)
    }
}

fn check_ends(what: &str, ends: &[u32], len: usize) -> Result<()> {
    // Without a way out of the loop, as many are compared at a time as the processor can.
    let ordered = ends.iter().zip(ends.iter().skip(1)).fold(true, |ordered, (end, next)| ordered & (end <= next));
    let last = ends.last().map_or(0, |end| *end as usize);
    if !ordered || last > len || (last < len && !ends.is_empty()) {
        return Err(Error::invalid(format!("{what} ends do not cover the {what} table")));
    }
    Ok(())
}

pub(crate) fn narrow(count: usize, what: &str) -> Result<u32> {
    u32::try_from(count).map_err(|_| Error::invalid(format!("more than 2^32 {what}")))
}
