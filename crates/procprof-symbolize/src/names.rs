//! The names of a batch, each demangled once, by all processors.

use std::sync::Arc;

use foldhash::HashMap;

use crate::{demangle, workers};

/// A name in a [`NameTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameId(u32);

/// Names as the linker or the debug information has them, each once.
#[derive(Default)]
pub(crate) struct NameTable<'n> {
    ids: HashMap<RawName<'n>, u32>,
    names: Vec<RawName<'n>>,
}

/// A name, and what it is in if it is a bare one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RawName<'n> {
    name: &'n [u8],
    scope: &'n str,
}

/// Names for people, with those of the linker.
pub(crate) struct Names(Vec<NamePair>);

/// A name for people, and the linker's.
type NamePair = (Arc<str>, Arc<str>);

impl<'n> NameTable<'n> {
    /// Adds a name with what it is in; `scope` is empty for names of the linker.
    pub(crate) fn add(&mut self, name: &'n [u8], scope: &'n str) -> NameId {
        let raw = RawName { name, scope };
        let id = *self.ids.entry(raw).or_insert_with(|| {
            self.names.push(raw);
            self.names.len() as u32 - 1
        });
        NameId(id)
    }

    /// Demangles all names.
    pub(crate) fn finish(self, threads: usize) -> Names {
        /// Names a thread takes at a time.
        const CHUNK: usize = 64;
        let chunks: Vec<&[RawName<'_>]> = self.names.chunks(CHUNK).collect();
        let demangled = workers::run(chunks.len(), threads, Vec::new, |done: &mut Vec<(usize, Vec<NamePair>)>, chunk| {
            done.push((chunk, chunks[chunk].iter().map(RawName::demangled).collect()));
        });
        let mut demangled: Vec<_> = demangled.into_iter().flatten().collect();
        demangled.sort_unstable_by_key(|(chunk, _)| *chunk);
        Names(demangled.into_iter().flat_map(|(_, names)| names).collect())
    }
}

impl RawName<'_> {
    fn demangled(&self) -> NamePair {
        let system_name = String::from_utf8_lossy(self.name);
        let mut name = demangle(&system_name);
        if !self.scope.is_empty() {
            name = format!("{}::{name}", self.scope);
        }
        if name == system_name {
            let name: Arc<str> = name.into();
            return (Arc::clone(&name), name);
        }
        (name.into(), Arc::from(&*system_name))
    }
}

impl Names {
    /// The name for people and the one of the linker.
    pub(crate) fn get(&self, id: NameId) -> NamePair {
        self.0[id.0 as usize].clone()
    }
}
