//! Writing the functions of frames into the tables of a profile, each once.

use std::hash::{Hash, Hasher};

use foldhash::HashMap;
use procprof_profile::{Function, FunctionId, Parts, StringId, StringIndex};

use crate::{Frame, Result};

/// Adds strings and functions to the tables of a profile.
pub(crate) struct FunctionWriter {
    strings: StringIndex,
    functions: HashMap<Function, FunctionId>,
}

/// The functions of frames, each once, numbered in the order in which they are met.
#[derive(Default)]
struct Met<'f> {
    numbers: HashMap<FunctionPlace<'f>, u32>,
    functions: Vec<FunctionPlace<'f>>,
    /// All texts, and their ids once they have some.
    texts: HashMap<Shared<'f>, Option<StringId>>,
    text_bytes: usize,
}

/// A text by its address, as frames share most of theirs: much shorter than the text. While it is borrowed, no other
/// text can have that address.
#[derive(Debug, Clone, Copy)]
struct Shared<'f>(&'f str);

/// A frame's function by the addresses of its texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FunctionPlace<'f> {
    name: Shared<'f>,
    system_name: Shared<'f>,
    file: Option<Shared<'f>>,
    start_line: Option<u32>,
}

impl PartialEq for Shared<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Shared<'_> {}

impl Hash for Shared<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_ptr().addr().hash(state);
    }
}

impl<'f> Met<'f> {
    fn number(&mut self, frame: &'f Frame) -> u32 {
        let place = FunctionPlace {
            name: Shared(&frame.name),
            system_name: Shared(&frame.system_name),
            file: frame.file.as_deref().map(Shared),
            start_line: frame.start_line,
        };
        if let Some(number) = self.numbers.get(&place) {
            return *number;
        }
        for text in [Some(place.name), Some(place.system_name), place.file].into_iter().flatten() {
            self.text_bytes += if self.texts.insert(text, None).is_none() { text.0.len() } else { 0 };
        }
        let number = self.functions.len() as u32;
        self.functions.push(place);
        self.numbers.insert(place, number);
        number
    }
}

impl FunctionWriter {
    /// Starts with the contents of the tables.
    pub(crate) fn new(parts: &Parts) -> Self {
        let functions = parts.functions.iter().enumerate();
        Self {
            strings: StringIndex::from_table(&parts.strings),
            functions: functions.map(|(index, function)| (*function, FunctionId(index as u32))).collect(),
        }
    }

    /// The id of a text.
    ///
    /// Errs if the profile's texts would exceed 4 GiB.
    pub(crate) fn string(&mut self, parts: &mut Parts, text: &str) -> Result<StringId> {
        let id = self.strings.intern(&mut parts.strings, text);
        Ok(id.ok_or_else(|| procprof_profile::Error::invalid("more than 4 GiB of strings"))?)
    }

    /// The function of each frame. All are passed at once, so that memory for their texts is reserved once.
    ///
    /// Errs as [`FunctionWriter::string`].
    pub(crate) fn functions<'f>(
        &mut self,
        parts: &mut Parts,
        frames: impl Iterator<Item = &'f Frame>,
    ) -> Result<Vec<FunctionId>> {
        let mut met = Met::default();
        let numbers: Vec<u32> = frames.map(|frame| met.number(frame)).collect();
        parts.strings.reserve(met.texts.len(), met.text_bytes);
        parts.functions.reserve(met.functions.len());
        let ids = met.functions.iter().map(|place| self.function(parts, place, &mut met.texts));
        let ids: Vec<FunctionId> = ids.collect::<Result<_>>()?;
        Ok(numbers.into_iter().map(|number| ids[number as usize]).collect())
    }

    fn function<'f>(
        &mut self,
        parts: &mut Parts,
        place: &FunctionPlace<'f>,
        texts: &mut HashMap<Shared<'f>, Option<StringId>>,
    ) -> Result<FunctionId> {
        let mut shared = |text: Shared<'f>| {
            let id = texts.entry(text).or_default();
            match id {
                Some(id) => Ok(*id),
                None => self.string(parts, text.0).map(|new| *id.insert(new)),
            }
        };
        let function = Function {
            name: shared(place.name)?,
            system_name: shared(place.system_name)?,
            filename: place.file.map_or(Ok(StringId(0)), shared)?,
            start_line: place.start_line.map_or(0, i64::from),
        };
        Ok(*self.functions.entry(function).or_insert_with(|| {
            parts.functions.push(function);
            FunctionId(parts.functions.len() as u32 - 1)
        }))
    }
}
