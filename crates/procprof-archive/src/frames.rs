//! [`Frames`]: the frames of many profiles, each once, with their texts.

use arrow_array::Array;
use foldhash::HashMap;
use procprof_profile::{LocationId, MappingId, Profile, StringId, StringIndex, StringTable};

use crate::read::Rows;
use crate::{Error, Result};

/// A frame: a function at a line, or an address without a name. Texts are those of [`Frames`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    pub(crate) function: StringId,
    pub(crate) system_name: StringId,
    pub(crate) file: StringId,
    pub(crate) start_line: i64,
    pub(crate) line: i64,
    pub(crate) column: i64,
    /// Whether it belongs to the same address as the frame that called it.
    pub(crate) inlined: bool,
    pub(crate) mapping: StringId,
    pub(crate) build_id: StringId,
    /// The offset in the mapped file; without a mapping the address.
    pub(crate) address: u64,
    pub(crate) folded: bool,
}

impl Frame {
    /// The frame with other ids of its texts.
    pub(crate) fn with_texts(self, ids: &[StringId]) -> Frame {
        let id = |id: StringId| ids.get(id.index()).copied().unwrap_or_default();
        Frame {
            function: id(self.function),
            system_name: id(self.system_name),
            file: id(self.file),
            mapping: id(self.mapping),
            build_id: id(self.build_id),
            ..self
        }
    }

    /// Whether only its address is known.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.function.0 == 0
    }
}

/// Frames without repetition; an id is a position.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    texts: StringTable,
    index: StringIndex,
    text_bytes: usize,
    frames: Vec<Frame>,
    ids: HashMap<Frame, u32>,
}

impl Frames {
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Bytes of their texts.
    pub(crate) fn text_bytes(&self) -> usize {
        self.text_bytes
    }

    pub(crate) fn get(&self, id: u32) -> &Frame {
        &self.frames[id as usize]
    }

    pub(crate) fn text(&self, id: StringId) -> &str {
        self.texts.get(id).unwrap_or_default()
    }

    /// The id of a text, the same for equal texts.
    pub(crate) fn intern(&mut self, text: &str) -> Result<StringId> {
        let before = self.texts.len();
        let id = self.index.intern(&mut self.texts, text).ok_or_else(|| Error::TooLarge {
            what: "bytes of texts".to_owned(),
            size: u64::from(u32::MAX) + 1,
            limit: u64::from(u32::MAX),
        })?;
        if self.texts.len() > before {
            self.text_bytes += text.len();
        }
        Ok(id)
    }

    /// Adds the texts of other frames; their ids here, by those there.
    pub(crate) fn add_texts(&mut self, other: &Frames) -> Result<Vec<StringId>> {
        other.texts.iter().map(|text| self.intern(text)).collect()
    }

    /// The frame in a row of the table of frames.
    pub(crate) fn read(&mut self, rows: &Rows<'_>, at: usize) -> Result<Frame> {
        let number = |column: &str| Ok::<i64, Error>(rows.integers(column)?.value(at));
        let mut text = |column: &str| self.intern(rows.texts(column)?.value(at));
        let function = text("function")?;
        let system_name = if rows.texts("system_name")?.is_null(at) { function } else { text("system_name")? };
        Ok(Frame {
            function,
            system_name,
            file: text("file")?,
            start_line: number("start_line")?,
            line: number("line")?,
            column: number("col")?,
            inlined: rows.flags("inlined")?.value(at),
            mapping: text("mapping")?,
            build_id: text("build_id")?,
            address: number("address")?.cast_unsigned(),
            folded: rows.flags("folded")?.value(at),
        })
    }

    pub(crate) fn add(&mut self, frame: Frame) -> u32 {
        let frames = &mut self.frames;
        *self.ids.entry(frame).or_insert_with(|| {
            frames.push(frame);
            frames.len() as u32 - 1
        })
    }

    /// Adds the frames of a profile's locations; those of an address from its caller to the innermost inlined call.
    pub(crate) fn add_locations(&mut self, profile: &Profile) -> Result<LocationFrames> {
        let mut texts = Vec::with_capacity(profile.parts().strings.len());
        for text in profile.parts().strings.iter() {
            texts.push(self.intern(text)?);
        }
        let mut found = LocationFrames { frames: Vec::new(), ends: Vec::with_capacity(profile.locations().len()) };
        for at in 0..profile.locations().len() {
            self.add_location(profile, LocationId(at as u32), &texts, &mut found.frames);
            found.ends.push(found.frames.len());
        }
        Ok(found)
    }

    fn add_location(&mut self, profile: &Profile, id: LocationId, texts: &[StringId], into: &mut Vec<u32>) {
        let location = profile.location(id);
        let text = |id: StringId| texts.get(id.index()).copied().unwrap_or_default();
        let mapping = location.mapping.map(|id| *profile.mapping(id)).unwrap_or_default();
        let place = Frame {
            mapping: text(mapping.filename),
            build_id: text(mapping.build_id),
            address: offset(profile, location.mapping, location.address.0),
            folded: location.is_folded,
            ..Frame::default()
        };
        let lines = profile.lines(id);
        if lines.is_empty() {
            into.push(self.add(place));
        }
        for (depth, line) in lines.iter().rev().enumerate() {
            let function = profile.function(line.function);
            into.push(self.add(Frame {
                function: text(function.name),
                system_name: text(function.system_name),
                file: text(function.filename),
                start_line: function.start_line,
                line: line.line,
                column: line.column,
                inlined: depth > 0,
                ..place
            }));
        }
    }
}

/// The offset in the file that an address belongs to, which is the same wherever the file is mapped.
fn offset(profile: &Profile, mapping: Option<MappingId>, address: u64) -> u64 {
    let Some(mapping) = mapping.map(|id| profile.mapping(id)) else { return address };
    let is_inside = mapping.start.0 <= address && address < mapping.limit.0;
    if is_inside { (address - mapping.start.0).wrapping_add(mapping.file_offset.0) } else { address }
}

/// The frames of each location of a profile.
pub(crate) struct LocationFrames {
    frames: Vec<u32>,
    ends: Vec<usize>,
}

impl LocationFrames {
    pub(crate) fn of(&self, location: LocationId) -> &[u32] {
        let at = location.index();
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.frames[start..self.ends[at]]
    }
}
