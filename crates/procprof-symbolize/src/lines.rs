//! Writing frames into the tables of a profile, with strings and functions interned.

use std::hash::{Hash, Hasher};

use procprof_profile::{Function, FunctionId, Line, Parts, StringId, StringIndex};
use rustc_hash::FxHashMap;

use crate::{Frame, Result};

/// Adds functions and lines to the tables of a profile.
pub(crate) struct LineWriter<'f> {
    strings: StringIndex,
    texts: FxHashMap<Shared<'f>, StringId>,
    functions: FxHashMap<Function, FunctionId>,
    /// The functions of frames: most frames are in one that was met before.
    met: FxHashMap<FunctionPlace<'f>, FunctionId>,
    /// The lines of the last location.
    lines: Vec<Line>,
}

/// A text by where it is, as frames share most of theirs: much shorter than the text. While it is borrowed, no other can be in its place.
#[derive(Debug, Clone, Copy)]
struct Shared<'f>(&'f str);

/// A frame's function by where its texts are.
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

impl<'f> LineWriter<'f> {
    /// Starts with what the tables hold.
    pub(crate) fn new(parts: &Parts) -> Self {
        let functions = parts.functions.iter().enumerate();
        Self {
            strings: StringIndex::of(&parts.strings),
            texts: FxHashMap::default(),
            functions: functions.map(|(index, function)| (*function, FunctionId(index as u32))).collect(),
            met: FxHashMap::default(),
            lines: Vec::new(),
        }
    }

    /// The id of a text.
    ///
    /// Errs if the profile's texts would pass 4 GiB.
    pub(crate) fn string(&mut self, parts: &mut Parts, text: &str) -> Result<StringId> {
        let id = self.strings.intern(&mut parts.strings, text);
        Ok(id.ok_or_else(|| procprof_profile::Error::invalid("more than 4 GiB of strings"))?)
    }

    /// The lines of frames, in their order.
    pub(crate) fn lines(&mut self, parts: &mut Parts, frames: &'f [Frame]) -> Result<&[Line]> {
        self.lines.clear();
        for frame in frames {
            let function = self.function(parts, frame)?;
            let (line, column) = (frame.line.map_or(0, i64::from), frame.column.map_or(0, i64::from));
            self.lines.push(Line { function, line, column });
        }
        Ok(&self.lines)
    }

    fn function(&mut self, parts: &mut Parts, frame: &'f Frame) -> Result<FunctionId> {
        let place = FunctionPlace {
            name: Shared(&frame.name),
            system_name: Shared(&frame.system_name),
            file: frame.file.as_deref().map(Shared),
            start_line: frame.start_line,
        };
        if let Some(id) = self.met.get(&place) {
            return Ok(*id);
        }
        let function = Function {
            name: self.shared(parts, place.name)?,
            system_name: self.shared(parts, place.system_name)?,
            filename: place.file.map_or(Ok(StringId(0)), |file| self.shared(parts, file))?,
            start_line: place.start_line.map_or(0, i64::from),
        };
        let id = *self.functions.entry(function).or_insert_with(|| {
            parts.functions.push(function);
            FunctionId(parts.functions.len() as u32 - 1)
        });
        self.met.insert(place, id);
        Ok(id)
    }

    fn shared(&mut self, parts: &mut Parts, text: Shared<'f>) -> Result<StringId> {
        if let Some(id) = self.texts.get(&text) {
            return Ok(*id);
        }
        let id = self.string(parts, text.0)?;
        self.texts.insert(text, id);
        Ok(id)
    }
}
