//! The cache of a file beside its index: where its functions are described, demangled names, and its symbols by
//! address.

use std::borrow::Cow;
use std::sync::Arc;

use foldhash::HashMap;
use object::File;

use crate::Image;
use crate::dwarf::{Guide, Guides};
use crate::elf::symbols::table;
use crate::elf::{ImageCache, Order, Table};
use crate::index::{Kept, SymbolIndex, cache};

/// The number of symbols from which on their order is cached.
const KEPT_SYMBOLS: usize = 100_000;

/// A mangled name and its demangled form.
pub(super) type NamePair = (Arc<str>, Arc<str>);

/// The cache of a file.
pub(super) struct Known {
    cache: Option<ImageCache>,
    index: Option<SymbolIndex>,
}

/// The parts that were read and not in the cache.
pub(super) struct Learned {
    /// Guides to units, with the units' offsets.
    pub(super) guides: Vec<(usize, Guide)>,
    pub(super) names: Vec<NamePair>,
    /// The order of the symbols.
    pub(super) symbols: Option<Vec<u8>>,
}

impl Known {
    pub(super) fn from_image(image: &Image) -> Self {
        let cache = image.cache.as_ref().map(ImageCache::of_binutils);
        let index = cache.as_ref().and_then(|cache| cache.open(image));
        Self { cache, index }
    }

    pub(super) fn guides(&self) -> Guides<'_> {
        self.index.as_ref().map(cache::guides).unwrap_or_default()
    }

    /// The order of a table of the file with the debug information, from the cache or computed.
    pub(super) fn order(&self, file: &File<'_>, table: Table) -> Order<'_> {
        let kept = self.index.as_ref().and_then(cache::symbol_part);
        let kept = kept.and_then(|bytes| Order::read(bytes, file, table).ok());
        kept.unwrap_or_else(|| Order::new(file, table))
    }

    /// An order to cache: a computed one of many symbols.
    pub(super) fn new_order(&self, order: Order<'_>, file: &File<'_>, table: Table) -> Option<Vec<u8>> {
        let Order { bytes: Cow::Owned(bytes), .. } = order else { return None };
        (self.cache.is_some() && table::count(file, table) >= KEPT_SYMBOLS).then_some(bytes)
    }

    /// The parts with names.
    pub(super) fn names(&self) -> Vec<Cow<'_, [u8]>> {
        self.index.as_ref().map(cache::name_parts).unwrap_or_default()
    }

    /// Also caches what was read.
    pub(super) fn add(self, image: &Image, learned: Learned) {
        let Learned { guides, names, symbols } = learned;
        let is_new = !guides.is_empty() || !names.is_empty() || symbols.is_some();
        if let Some(cache) = self.cache.filter(|_| is_new) {
            cache.add(image, self.index, Kept { guides, names, symbols, ..Kept::default() });
        }
    }
}

/// Demangled names by mangled ones.
pub(super) fn by_mangled<'p>(parts: &'p [Cow<'_, [u8]>]) -> HashMap<&'p str, &'p str> {
    let mut names = HashMap::default();
    for part in parts {
        cache::each_name(part, |mangled, name| {
            names.insert(mangled, name);
        });
    }
    names
}
