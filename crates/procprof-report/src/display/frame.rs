//! Frames as call trees show them: a name, the kind of code, and the reason for a missing name.

use std::ops::Range;

use foldhash::HashMap;

use procprof_profile::{Line, Location, LocationId, Mapping, Profile};

use crate::display::place::{Detail, Place, base_name};
use crate::display::text::one_line;
use crate::{Budget, Result};

/// The kind of code of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameKind {
    /// Machine code of no language in particular: C, C++, Rust.
    Native,
    /// Go.
    Go,
    /// Java and other languages of the JVM.
    Jvm,
    /// The operating system's kernel.
    Kernel,
    /// Code without symbols.
    Unknown,
    /// Not code: a remark of the profiler such as `[unsampled CPU]`.
    Remark,
}

impl FrameKind {
    /// All kinds, in the order of a legend.
    pub const ALL: [FrameKind; 6] =
        [FrameKind::Native, FrameKind::Go, FrameKind::Jvm, FrameKind::Kernel, FrameKind::Unknown, FrameKind::Remark];

    /// The name to display.
    pub fn label(self) -> &'static str {
        match self {
            FrameKind::Native => "native",
            FrameKind::Go => "Go",
            FrameKind::Jvm => "JVM",
            FrameKind::Kernel => "kernel",
            FrameKind::Unknown => "no symbols",
            FrameKind::Remark => "remark",
        }
    }
}

/// One frame of a call tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame {
    /// The name, on one line; `[libfoo.so+0x1234]` or `[unknown]` for code without symbols.
    pub name: String,
    /// The kind of its code.
    pub kind: FrameKind,
    /// Why there is no better name; may be empty.
    pub remark: String,
}

/// All frames of a profile at some granularity, and those of each location.
pub(crate) struct Frames {
    pub(crate) frames: Vec<Frame>,
    /// For each location, a range of `of_lines`.
    of_location: Vec<Range<usize>>,
    /// Frame, and whether it was inlined into the next; innermost first.
    of_lines: Vec<(u32, bool)>,
}

impl Frames {
    pub(crate) fn new(profile: &Profile, detail: Detail, budget: &Budget) -> Result<Frames> {
        let mut interner =
            Interner { frames: Vec::new(), ids: HashMap::default(), places: HashMap::default(), bytes: 0 };
        let (mut meter, mut pace) = (budget.meter("the table of names"), budget.pace());
        let mut of_location = Vec::with_capacity(profile.locations().len());
        let mut of_lines = Vec::new();
        for (index, location) in profile.locations().iter().enumerate() {
            let start = of_lines.len();
            let lines = profile.lines(LocationId(index as u32));
            if lines.is_empty() {
                of_lines.push((interner.unnamed(profile, location), false));
            }
            for (depth, line) in lines.iter().enumerate() {
                let frame = interner.line(profile, location, line, detail);
                of_lines.push((frame, depth + 1 < lines.len()));
                meter.take(std::mem::take(&mut interner.bytes))?;
            }
            meter.take(std::mem::take(&mut interner.bytes))?;
            pace.steps(lines.len() + 1)?;
            of_location.push(start..of_lines.len());
        }
        Ok(Frames { frames: interner.frames, of_location, of_lines })
    }

    /// Frames of a location, innermost first, each with whether it was inlined into the next.
    pub(crate) fn of_location(&self, location: LocationId) -> &[(u32, bool)] {
        &self.of_lines[self.of_location[location.index()].clone()]
    }

    /// The id of a frame without a location, added if it is new.
    pub(crate) fn remark(&mut self, name: &str) -> u32 {
        let known = self.frames.iter().position(|frame| frame.kind == FrameKind::Remark && frame.name == name);
        known.map_or_else(
            || {
                self.frames.push(Frame { name: name.to_owned(), kind: FrameKind::Remark, remark: String::new() });
                self.frames.len() as u32 - 1
            },
            |index| index as u32,
        )
    }
}

struct Interner<'a> {
    frames: Vec<Frame>,
    ids: HashMap<(String, FrameKind), u32>,
    /// Avoids making the text again; only code without a mapping may be a remark, so that is part of the key.
    places: HashMap<(Place<'a>, FrameKind), u32>,
    /// Bytes of texts since they were last counted.
    bytes: usize,
}

impl<'a> Interner<'a> {
    fn line(&mut self, profile: &'a Profile, location: &Location, line: &Line, detail: Detail) -> u32 {
        let kind = kind(profile, location, line);
        let place = Place::new(profile, location, Some(line), detail);
        if let Some(id) = self.places.get(&(place.clone(), kind)) {
            return *id;
        }
        let name = one_line(&place.printable()).into_owned();
        let id = self.intern(name, kind, String::new);
        self.places.insert((place, kind), id);
        id
    }

    fn unnamed(&mut self, profile: &Profile, location: &Location) -> u32 {
        let Some(mapping) = location.mapping.map(|id| profile.mapping(id)) else {
            return self.intern("[unknown]".to_owned(), FrameKind::Unknown, || {
                "the address is in no known mapping".to_owned()
            });
        };
        let file = base_name(profile.string(mapping.filename)).trim_matches(['[', ']']);
        if file.is_empty() {
            return self.intern("[unknown]".to_owned(), FrameKind::Unknown, || "the mapping has no file".to_owned());
        }
        let offset = location.address.0.wrapping_sub(mapping.start.0).wrapping_add(mapping.file_offset.0);
        let kind = if file.starts_with("kernel") { FrameKind::Kernel } else { FrameKind::Unknown };
        let name = one_line(&format!("[{file}+{offset:#x}]")).into_owned();
        self.intern(name, kind, || why_unnamed(profile, mapping))
    }

    fn intern(&mut self, name: String, kind: FrameKind, remark: impl Fn() -> String) -> u32 {
        let (frames, bytes) = (&mut self.frames, &mut self.bytes);
        *self.ids.entry((name, kind)).or_insert_with_key(|(name, kind)| {
            let frame = Frame { name: name.clone(), kind: *kind, remark: remark() };
            *bytes += 2 * name.len() + frame.remark.len();
            frames.push(frame);
            frames.len() as u32 - 1
        })
    }
}

fn why_unnamed(profile: &Profile, mapping: &Mapping) -> String {
    let file = one_line(profile.string(mapping.filename)).into_owned();
    let known =
        if mapping.has_functions { "no symbol of this file covers the address" } else { "no symbols of this file" };
    match profile.string(mapping.build_id) {
        "" => format!("{known}: {file}"),
        build_id => format!("{known}: {file}, build id {}", one_line(build_id)),
    }
}

/// The kind of code of a line.
pub(super) fn kind(profile: &Profile, location: &Location, line: &Line) -> FrameKind {
    let function = profile.function(line.function);
    let (name, file) = (profile.string(function.name), profile.string(function.filename));
    let mapping = location.mapping.map_or("", |id| profile.string(profile.mapping(id).filename));
    if mapping.starts_with("[kernel") || name.ends_with("_[k]") {
        return FrameKind::Kernel;
    }
    let bracketed = name.starts_with('[') && name.ends_with(']');
    if bracketed && location.address.0 == 0 {
        return FrameKind::Remark;
    }
    if mapping == "[jvm]" || [".java", ".kt", ".scala", ".groovy"].iter().any(|end| file.ends_with(end)) {
        return FrameKind::Jvm;
    }
    let assembly = file.ends_with(".s") && name.split_once('.').is_some_and(|(package, _)| !package.is_empty());
    if file.ends_with(".go") || file == "_cgo_gotypes.go" || assembly { FrameKind::Go } else { FrameKind::Native }
}
