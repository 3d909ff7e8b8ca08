//! The names of a batch, each demangled once, by all processors.

use std::sync::Arc;

use foldhash::HashMap;

use crate::demangle::Languages;
use crate::workers;

/// A name in a [`NameTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameId(u32);

/// Names as the linker or the debug information has them, each once.
#[derive(Default)]
pub(crate) struct NameTable<'n> {
    ids: HashMap<RawName<'n>, u32>,
    names: Vec<RawName<'n>>,
}

/// A name, with its scope if it is a bare one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct RawName<'n> {
    name: &'n [u8],
    scope: &'n str,
}

/// Readable names, with those of the linker.
pub(crate) struct Names(Vec<NamePair>);

/// A readable name, and the linker's.
type NamePair = (Arc<str>, Arc<str>);

impl<'n> NameTable<'n> {
    /// Adds a name with its scope, which is empty for names of the linker.
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
        type Done = (Languages, Vec<(usize, Vec<NamePair>)>);
        let demangled = workers::run(chunks.len(), threads, Done::default, |(languages, done), chunk| {
            done.push((chunk, chunks[chunk].iter().map(|name| name.demangled(languages)).collect()));
        });
        let mut demangled: Vec<_> = demangled.into_iter().flat_map(|(_, done)| done).collect();
        demangled.sort_unstable_by_key(|(chunk, _)| *chunk);
        Names(demangled.into_iter().flat_map(|(_, names)| names).collect())
    }
}

impl RawName<'_> {
    fn demangled(&self, languages: &mut Languages) -> NamePair {
        let system_name = String::from_utf8_lossy(self.name);
        let mut name = languages.demangle(&system_name);
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
    /// The readable name and the linker's.
    pub(crate) fn get(&self, id: NameId) -> NamePair {
        self.0[id.0 as usize].clone()
    }
}
