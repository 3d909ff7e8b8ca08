//! The frames of a profile as a table of names, for formats that are written without addresses: an inlined call is a
//! frame of its own, a location without names is its address.

use std::borrow::Cow;

use foldhash::HashMap;

use crate::{Addr, Line, LocationId, Profile};

/// A frame. Whatever is empty or 0 is unknown.
#[derive(Clone, Debug)]
pub(super) struct NamedFrame<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) file: &'a str,
    pub(super) line: i64,
    pub(super) column: i64,
    /// The first line of the function.
    pub(super) start_line: i64,
}

/// The table, and the frames of each location in it.
#[derive(Debug)]
pub(super) struct NamedFrames<'a> {
    frames: Vec<NamedFrame<'a>>,
    /// Of all locations, the caller first, back to back.
    indexes: Vec<u32>,
    /// The end of each location's part.
    ends: Vec<u32>,
}

impl<'a> NamedFrames<'a> {
    /// The table of a profile.
    pub(super) fn new(profile: &'a Profile) -> NamedFrames<'a> {
        let mut known: HashMap<Line, u32> = HashMap::default();
        let mut table = NamedFrames { frames: Vec::new(), indexes: Vec::new(), ends: Vec::new() };
        for (index, location) in profile.locations().iter().enumerate() {
            let lines = profile.lines(LocationId(index as u32));
            if lines.is_empty() {
                let Addr(address) = location.address;
                let name = Cow::Owned(format!("{address:#x}"));
                table.indexes.push(table.frames.len() as u32);
                table.frames.push(NamedFrame { name, file: "", line: 0, column: 0, start_line: 0 });
            }
            for line in lines.iter().rev() {
                let frame = *known.entry(*line).or_insert_with(|| {
                    let function = profile.function(line.function);
                    let (name, file) =
                        (Cow::Borrowed(profile.string(function.name)), profile.string(function.filename));
                    table.frames.push(NamedFrame {
                        name,
                        file,
                        line: line.line,
                        column: line.column,
                        start_line: function.start_line,
                    });
                    table.frames.len() as u32 - 1
                });
                table.indexes.push(frame);
            }
            table.ends.push(table.indexes.len() as u32);
        }
        table
    }

    /// All frames, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &NamedFrame<'a>> {
        self.frames.iter()
    }

    /// The frame of that number.
    pub(super) fn frame(&self, index: u32) -> &NamedFrame<'a> {
        &self.frames[index as usize]
    }

    /// The numbers of a stack's frames, root first; the stack is leaf first.
    pub(super) fn numbers(&self, stack: &'a [LocationId]) -> impl Iterator<Item = u32> + '_ {
        stack.iter().rev().flat_map(|id| {
            let start = if id.0 == 0 { 0 } else { self.ends[id.index() - 1] };
            self.indexes[start as usize..self.ends[id.index()] as usize].iter().copied()
        })
    }
}
