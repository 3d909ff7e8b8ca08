//! Writing frames into the tables of a profile, with strings and functions interned.

use std::sync::Arc;

use procprof_profile::{Function, FunctionId, Line, Parts, StringId};
use rustc_hash::FxHashMap;

use crate::{Frame, Result};

/// Adds functions and lines to the tables of a profile.
pub(crate) struct LineWriter {
    strings: FxHashMap<Box<str>, StringId>,
    /// By where a text is, as the frames share most of theirs: much shorter than the texts.
    /// The texts are kept, so that no other can be in the same place.
    places: FxHashMap<(usize, usize), (Arc<str>, StringId)>,
    functions: FxHashMap<Function, FunctionId>,
}

impl LineWriter {
    /// Starts with what the tables hold.
    pub(crate) fn new(parts: &Parts) -> Self {
        let numbered = |index: usize| StringId(index as u32);
        let strings = parts.strings.iter().enumerate().map(|(index, text)| (text.into(), numbered(index)));
        let functions = parts.functions.iter().enumerate();
        Self {
            strings: strings.collect(),
            places: FxHashMap::default(),
            functions: functions.map(|(index, function)| (*function, FunctionId(index as u32))).collect(),
        }
    }

    /// The id of a text.
    ///
    /// Errs if the profile's texts would pass 4 GiB.
    pub(crate) fn string(&mut self, parts: &mut Parts, text: &str) -> Result<StringId> {
        if let Some(id) = self.strings.get(text) {
            return Ok(*id);
        }
        let pushed = parts.strings.push(text);
        let id = pushed.ok_or_else(|| procprof_profile::Error::invalid("more than 4 GiB of strings"))?;
        self.strings.insert(text.into(), id);
        Ok(id)
    }

    fn shared(&mut self, parts: &mut Parts, text: &Arc<str>) -> Result<StringId> {
        let place = (text.as_ptr().addr(), text.len());
        if let Some((_, id)) = self.places.get(&place) {
            return Ok(*id);
        }
        let id = self.string(parts, text)?;
        self.places.insert(place, (Arc::clone(text), id));
        Ok(id)
    }

    /// The lines of frames, in their order.
    pub(crate) fn lines(&mut self, parts: &mut Parts, frames: &[Frame]) -> Result<Vec<Line>> {
        frames.iter().map(|frame| self.line(parts, frame)).collect()
    }

    fn line(&mut self, parts: &mut Parts, frame: &Frame) -> Result<Line> {
        let function = Function {
            name: self.shared(parts, &frame.name)?,
            system_name: self.shared(parts, &frame.system_name)?,
            filename: match &frame.file {
                Some(file) => self.shared(parts, file)?,
                None => self.string(parts, "")?,
            },
            start_line: frame.start_line.map_or(0, i64::from),
        };
        let function = *self.functions.entry(function).or_insert_with(|| {
            parts.functions.push(function);
            FunctionId(parts.functions.len() as u32 - 1)
        });
        Ok(Line { function, line: frame.line.map_or(0, i64::from), column: frame.column.map_or(0, i64::from) })
    }
}
