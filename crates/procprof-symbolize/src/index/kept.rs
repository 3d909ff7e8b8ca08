//! The results of a batch that a cache keeps, independent of the files they were read from, since they are written
//! while the answers are already used.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::build::function_names;
use super::cache::{GUIDES, NAMES, SYMBOLS, is_kept};
use super::encode::{FunctionNames, PartWriter, Piece, RawPart};
use crate::dwarf::{DebugInfo, Function, Guide};
use crate::leb::Write;
use crate::lookup::{Records, UnitAnswers};

/// The results of one batch.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) functions: Vec<KeptFunctions>,
    /// The answers of single addresses.
    pub(crate) points: Vec<RawPart>,
    /// Guides besides those of functions, with the units' offsets.
    pub(crate) guides: Vec<(usize, Guide)>,
    /// Names, mangled and readable.
    pub(crate) names: Vec<NamePair>,
    /// The symbols in their order, as [`binutils`](crate::binutils) writes them.
    pub(crate) symbols: Option<Vec<u8>>,
}

/// The functions that one thread has read and whose names do not depend on symbols.
pub(crate) struct KeptFunctions {
    records: Records,
    files: Vec<Arc<str>>,
    /// The names of the functions as the files have them, one behind the other.
    raw_names: Vec<u8>,
    functions: Vec<KeptFunction>,
    guides: Vec<(usize, Guide)>,
}

struct KeptFunction {
    /// In [`KeptFunctions::raw_names`].
    name: Range<usize>,
    scope: String,
    line: u32,
    is_mangling: bool,
    /// The readable name, and the linker's.
    known: Option<NamePair>,
}

/// Two names of a function.
type NamePair = (Arc<str>, Arc<str>);

impl Kept {
    /// Whether nothing was read.
    pub(super) fn is_empty(&self) -> bool {
        let has_none = |functions: &KeptFunctions| functions.records.all.is_empty() && functions.guides.is_empty();
        let rest = [self.points.len(), self.guides.len(), self.names.len(), self.symbols.as_ref().map_or(0, Vec::len)];
        self.functions.iter().all(has_none) && rest == [0; 4]
    }

    /// Calls the function with the parts of an index, one by one as they are made, and frees the memory of their
    /// sources.
    pub(super) fn each_part(self, mut add: impl FnMut(RawPart) -> io::Result<()>) -> io::Result<()> {
        let mut guides = Vec::new();
        for mut functions in self.functions {
            functions.each_part(&mut add)?;
            guides.append(&mut functions.guides);
        }
        guides.extend(self.guides);
        let symbols = self.symbols.map(|bytes| RawPart { begin: SYMBOLS, end: SYMBOLS, pieces: vec![bytes] });
        let rest = self.points.into_iter().chain(guide_part(&guides)).chain(name_part(&self.names)).chain(symbols);
        rest.into_iter().try_for_each(add)
    }
}

impl KeptFunctions {
    /// Adds the results of a thread; `known` are the readable and the linker's names that were already made, by the
    /// number of the function.
    pub(crate) fn new(
        info: &DebugInfo<'_>,
        mut found: UnitAnswers<'_, '_>,
        known: impl Iterator<Item = Option<NamePair>>,
    ) -> Self {
        let mut all = std::mem::take(&mut found.records.all);
        all.retain(|record| is_kept(info, &found, record));
        all.sort_unstable_by_key(|record| record.begin);
        let mut raw_names = Vec::with_capacity(found.names.functions.iter().map(|function| function.name.len()).sum());
        let mut functions = Vec::with_capacity(found.names.functions.len());
        for (function, known) in found.names.functions.into_iter().zip(known) {
            let begin = raw_names.len();
            raw_names.extend_from_slice(function.name);
            let Function { scope, line, is_mangling, .. } = function;
            functions.push(KeptFunction { name: begin..raw_names.len(), scope, line, is_mangling, known });
        }
        let records = Records { all, ..found.records };
        Self { records, files: found.files.all, raw_names, functions, guides: found.guides.unwrap_or_default() }
    }

    fn each_part(&self, add: &mut impl FnMut(RawPart) -> io::Result<()>) -> io::Result<()> {
        let function = |kept: &KeptFunction| Function {
            name: &self.raw_names[kept.name.clone()],
            scope: kept.scope.clone(),
            line: kept.line,
            is_mangling: kept.is_mangling,
        };
        let functions: Vec<Function<'_>> = self.functions.iter().map(function).collect();
        let written = function_names(&functions);
        let names = |number: u32| {
            let (system_name, name) = &written[number as usize];
            let kept = &self.functions[number as usize];
            let known = kept.known.as_ref().filter(|(_, known)| **known == **system_name).map(|(name, _)| &**name);
            Some(FunctionNames { system_name, name: name.as_deref().or(known), start_line: kept.line })
        };
        let mut writer = PartWriter::default();
        for record in &self.records.all {
            let function = record.function.and_then(names);
            let piece = Piece {
                begin: record.begin,
                end: record.end,
                function,
                nodes: record.nodes.clone(),
                rows: record.rows.clone(),
            };
            writer.add(&self.records, &piece, names, |file| &*self.files[file as usize]);
            writer.done().try_for_each(&mut *add)?;
        }
        writer.finish().into_iter().try_for_each(add)
    }
}

/// The guides of units, as a part; nothing if there are none. See [`super`] for the layout.
fn guide_part(guides: &[(usize, Guide)]) -> Option<RawPart> {
    let mut bytes = Vec::new();
    for (unit, guide) in guides {
        guide.write_next(*unit, &mut bytes);
    }
    (!bytes.is_empty()).then_some(RawPart { begin: GUIDES, end: GUIDES, pieces: vec![bytes] })
}

/// Names, as a part; nothing if there are none. See [`super`] for the layout.
fn name_part(names: &[NamePair]) -> Option<RawPart> {
    let mut bytes = Vec::new();
    for (mangled, name) in names {
        bytes.bytes(mangled.as_bytes());
        bytes.bytes(name.as_bytes());
    }
    (!bytes.is_empty()).then_some(RawPart { begin: NAMES, end: NAMES, pieces: vec![bytes] })
}
