//! Writes `ProfilesData` as protobuf: one resource, one scope, a profile for each sample type. Comments are an attribute
//! of each profile.

use foldhash::HashMap;

use crate::format::protobuf::Writer;
use crate::{Label, LabelValue, LocationId, Profile, Result, StringId, StringIndex, StringTable};

/// Encodes all sample types.
///
/// # Errors
/// [`crate::Error::Invalid`] when the texts take more than 4 GiB.
pub fn encode(profile: &Profile) -> Result<Vec<u8>> {
    let mut dictionary = Dictionary::new(profile);
    let mut scope = Writer::default();
    // The default one first, which readers show.
    let count = profile.sample_types().len();
    let shown = profile.default_sample_type();
    let samples = dictionary.samples(profile)?;
    let comments = dictionary.comments(profile)?;
    for index in std::iter::once(shown).chain((0..count).filter(|index| *index != shown)) {
        scope.bytes(2, &encode_profile(profile, index, &samples, comments));
    }
    let mut resource = Writer::default();
    resource.bytes(1, &[]);
    resource.bytes(2, scope.as_bytes());
    let mut data = Writer::default();
    data.bytes(1, resource.as_bytes());
    data.bytes(2, &dictionary.encode(profile)?);
    Ok(data.into_bytes())
}

/// A sample's place in the tables.
struct Entry {
    stack: u64,
    attributes: Vec<u64>,
}

fn encode_profile(profile: &Profile, index: usize, samples: &[Entry], comments: Option<u64>) -> Vec<u8> {
    let kind = profile.sample_types()[index];
    let mut out = Writer::default();
    out.bytes(1, &value_type(kind.kind, kind.unit));
    let mut message = Writer::default();
    for (sample, entry) in profile.samples().zip(samples) {
        if sample.values[index] == 0 {
            continue;
        }
        message.clear();
        message.number(1, entry.stack);
        message.packed(2, entry.attributes.iter().copied());
        message.packed(4, std::iter::once(sample.values[index] as u64));
        out.bytes(2, message.as_bytes());
    }
    out.fixed(3, profile.time().0 as u64);
    out.number(4, profile.duration().0 as u64);
    let period = profile.period_type();
    out.bytes(5, &value_type(period.kind, period.unit));
    out.number(6, profile.period() as u64);
    out.packed(11, comments.into_iter());
    out.into_bytes()
}

fn value_type(kind: StringId, unit: StringId) -> Vec<u8> {
    let mut out = Writer::default();
    out.number(1, u64::from(kind.0));
    out.number(2, u64::from(unit.0));
    out.into_bytes()
}

/// The tables. Entry 0 of each is empty; so the others' numbers are one higher than ours, but for texts, of which 0 is
/// the empty one anyway.
struct Dictionary<'a> {
    strings: StringTable,
    index: StringIndex,
    attributes: Writer,
    attribute_count: u64,
    labels: HashMap<Label, u64>,
    stacks: Writer,
    stack_numbers: HashMap<&'a [LocationId], u64>,
}

impl<'a> Dictionary<'a> {
    fn new(profile: &'a Profile) -> Dictionary<'a> {
        let strings = profile.parts().strings.clone();
        let index = StringIndex::from_table(&strings);
        let (mut attributes, mut stacks) = (Writer::default(), Writer::default());
        attributes.bytes(6, &[]);
        stacks.bytes(7, &[]);
        let (labels, stack_numbers) = Default::default();
        Dictionary { strings, index, attributes, attribute_count: 1, labels, stacks, stack_numbers }
    }

    fn samples(&mut self, profile: &'a Profile) -> Result<Vec<Entry>> {
        profile
            .samples()
            .map(|sample| {
                let attributes = sample.labels.iter().map(|label| self.label(profile, label)).collect();
                Ok(Entry { stack: self.stack(sample.stack), attributes })
            })
            .collect()
    }

    fn stack(&mut self, stack: &'a [LocationId]) -> u64 {
        if stack.is_empty() {
            return 0;
        }
        if let Some(number) = self.stack_numbers.get(stack) {
            return *number;
        }
        let mut message = Writer::default();
        message.packed(1, stack.iter().map(|id| u64::from(id.0) + 1));
        self.stacks.bytes(7, message.as_bytes());
        let number = self.stack_numbers.len() as u64 + 1;
        self.stack_numbers.insert(stack, number);
        number
    }

    /// The attribute that holds the comments, if there are any: an array of texts.
    fn comments(&mut self, profile: &Profile) -> Result<Option<u64>> {
        let mut texts = Writer::default();
        for comment in profile.comments() {
            let mut text = Writer::default();
            text.bytes(1, comment.as_bytes());
            texts.bytes(1, text.as_bytes());
        }
        if texts.as_bytes().is_empty() {
            return Ok(None);
        }
        let mut value = Writer::default();
        value.bytes(5, texts.as_bytes());
        let key = self.intern(super::COMMENT)?;
        Ok(Some(self.attribute(key, value.as_bytes(), StringId(0))))
    }

    fn intern(&mut self, text: &str) -> Result<StringId> {
        let id = self.index.intern(&mut self.strings, text);
        id.ok_or_else(|| crate::Error::invalid("more than 4 GiB of strings"))
    }

    fn label(&mut self, profile: &Profile, label: &Label) -> u64 {
        if let Some(number) = self.labels.get(label) {
            return *number;
        }
        let (mut value, unit) = (
            Writer::default(),
            match label.value {
                LabelValue::Text(_) => StringId(0),
                LabelValue::Number(_, unit) => unit,
            },
        );
        match label.value {
            LabelValue::Text(text) => value.bytes(1, profile.string(text).as_bytes()),
            LabelValue::Number(number, _) => value.explicit_number(3, number as u64),
        }
        let number = self.attribute(label.key, value.as_bytes(), unit);
        self.labels.insert(*label, number);
        number
    }

    fn attribute(&mut self, key: StringId, value: &[u8], unit: StringId) -> u64 {
        let mut message = Writer::default();
        message.number(1, u64::from(key.0));
        message.bytes(2, value);
        message.number(3, u64::from(unit.0));
        self.attributes.bytes(6, message.as_bytes());
        self.attribute_count += 1;
        self.attribute_count - 1
    }

    fn encode(mut self, profile: &Profile) -> Result<Vec<u8>> {
        let mut out = Writer::default();
        let build_id = self.intern(super::BUILD_ID)?;
        out.bytes(1, &[]);
        let mut message = Writer::default();
        for mapping in profile.mappings() {
            message.clear();
            message.number(1, mapping.start.0);
            message.number(2, mapping.limit.0);
            message.number(3, mapping.file_offset.0);
            message.number(4, u64::from(mapping.filename.0));
            if mapping.build_id != StringId(0) {
                let mut value = Writer::default();
                value.bytes(1, profile.string(mapping.build_id).as_bytes());
                let attribute = self.attribute(build_id, value.as_bytes(), StringId(0));
                message.packed(5, std::iter::once(attribute));
            }
            out.bytes(1, message.as_bytes());
        }
        out.bytes(2, &[]);
        let mut inner = Writer::default();
        for (index, location) in profile.locations().iter().enumerate() {
            message.clear();
            message.number(1, location.mapping.map_or(0, |mapping| u64::from(mapping.0) + 1));
            message.number(2, location.address.0);
            for line in profile.lines(LocationId(index as u32)) {
                inner.clear();
                inner.number(1, u64::from(line.function.0) + 1);
                inner.number(2, line.line as u64);
                inner.number(3, line.column as u64);
                message.bytes(3, inner.as_bytes());
            }
            out.bytes(2, message.as_bytes());
        }
        out.bytes(3, &[]);
        for function in profile.functions() {
            message.clear();
            for (field, text) in [(1, function.name), (2, function.system_name), (3, function.filename)] {
                message.number(field, u64::from(text.0));
            }
            message.number(4, function.start_line as u64);
            out.bytes(3, message.as_bytes());
        }
        out.bytes(4, &[]);
        self.strings.iter().for_each(|text| out.bytes(5, text.as_bytes()));
        let mut bytes = out.into_bytes();
        bytes.extend_from_slice(self.attributes.as_bytes());
        bytes.extend_from_slice(self.stacks.as_bytes());
        Ok(bytes)
    }
}
