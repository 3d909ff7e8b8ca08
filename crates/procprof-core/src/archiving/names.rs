//! [`UploadedNames`]: names of archived frames, from the symbols that were uploaded meanwhile.

use std::collections::{BTreeMap, HashMap};

use procprof_archive::{FrameNames, NamedFrame};
use procprof_profile::FileOffset;
use procprof_symbolize::{Frame, Resolved, SymbolIndex};

use crate::clock::now;
use crate::symbols::{SymbolKey, SymbolStore};

/// Indexes that are open at a time.
const OPEN_MAX: usize = 8;
/// Offsets whose frames are kept: each is asked for twice.
const KEPT_MAX: usize = 1 << 14;

/// Names frames by uploaded symbols.
pub(super) struct UploadedNames<'a> {
    symbols: &'a SymbolStore,
    /// By build id; `None` where there is no index that can be read.
    open: BTreeMap<String, Option<SymbolIndex>>,
    kept: HashMap<(String, u64), Vec<NamedFrame>>,
}

impl<'a> UploadedNames<'a> {
    pub(super) fn new(symbols: &'a SymbolStore) -> UploadedNames<'a> {
        UploadedNames { symbols, open: BTreeMap::new(), kept: HashMap::new() }
    }

    fn index(&mut self, build_id: &str) -> Option<&SymbolIndex> {
        if !self.open.contains_key(build_id) {
            if self.open.len() == OPEN_MAX {
                self.open.pop_first();
            }
            let index = self.opened(build_id);
            self.open.insert(build_id.to_owned(), index);
        }
        self.open.get(build_id)?.as_ref()
    }

    fn opened(&self, build_id: &str) -> Option<SymbolIndex> {
        let key: SymbolKey = build_id.parse().ok()?;
        self.symbols.doubt(std::slice::from_ref(&key), now());
        let record = self.symbols.get(&key)?;
        match SymbolIndex::open(&self.symbols.index_path(&key), record.bytes) {
            Ok(index) => Some(index),
            Err(error) => {
                tracing::warn!("archive: the symbols of {key} name nothing: {error}");
                None
            }
        }
    }
}

impl FrameNames for UploadedNames<'_> {
    fn is_empty(&self) -> bool {
        self.symbols.list().is_empty()
    }

    fn has(&mut self, build_id: &str) -> bool {
        self.index(build_id).is_some()
    }

    fn name(&mut self, build_id: &str, _mapping: &str, offset: u64) -> Vec<NamedFrame> {
        let key = (build_id.to_owned(), offset);
        if let Some(named) = self.kept.get(&key) {
            return named.clone();
        }
        let named = self.index(build_id).map(|index| named(index, offset)).unwrap_or_default();
        if self.kept.len() == KEPT_MAX {
            self.kept.clear();
        }
        self.kept.insert(key, named.clone());
        named
    }
}

/// The frames at an offset of a file, outermost first.
fn named(index: &SymbolIndex, offset: u64) -> Vec<NamedFrame> {
    let Some(address) = index.symbol_addr(FileOffset(offset)) else { return Vec::new() };
    match index.resolve(&[address]).pop() {
        Some(Resolved::Frames(frames)) => frames.iter().rev().map(archived).collect(),
        Some(Resolved::Unknown(_)) | None => Vec::new(),
    }
}

fn archived(frame: &Frame) -> NamedFrame {
    NamedFrame {
        function: frame.name.to_string(),
        system_name: frame.system_name.to_string(),
        file: frame.file.as_deref().unwrap_or_default().to_owned(),
        start_line: frame.start_line.map_or(0, i64::from),
        line: frame.line.map_or(0, i64::from),
        column: frame.column.map_or(0, i64::from),
    }
}
