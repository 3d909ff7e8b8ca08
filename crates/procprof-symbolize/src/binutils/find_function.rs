//! The symbol around an address, by the rules of binutils' ELF reader.

use object::elf::{SHF_ALLOC, STB_LOCAL, STT_FILE, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, STT_SECTION, STT_TLS, SymbolType};
use object::{File, Object, ObjectSection, SectionFlags};

use super::ladder::Ladder;
use super::symbol_table::{self, RawSymbol, Table};

/// What symbols say of addresses.
#[derive(Default)]
pub(super) struct SymbolFunctions<'data> {
    /// Loaded sections: start, end, index.
    sections: Vec<(u64, u64, usize)>,
    /// By section and address, those of one address in the file's order.
    symbols: Vec<Function<'data>>,
}

/// A symbol that may be a function.
#[derive(Debug, Clone)]
pub(super) struct Function<'data> {
    section: usize,
    pub(super) start: u64,
    /// At least 1.
    size: u64,
    kind: SymbolType,
    pub(super) name: &'data str,
    /// The source file named before it, where that can be its own.
    pub(super) file: Option<&'data str>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Symbol,
    FileAfterSymbol,
}

impl<'data> SymbolFunctions<'data> {
    /// What is to be known of `addresses`, which ascend.
    pub(super) fn at(object: &File<'data>, addresses: &[u64]) -> Self {
        let loaded = object.sections().filter(|section| {
            let flags = section.flags();
            matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_ALLOC.0 != 0)
        });
        let sections: Vec<(u64, u64, usize)> =
            loaded.map(|section| (section.address(), section.address().saturating_add(section.size()), section.index().0)).collect();
        let places: Vec<Places> = sections.iter().filter_map(|section| Places::of(*section, addresses)).collect();
        let table = if symbol_table::count(object, Table::All) > 1 { Table::All } else { Table::Dynamic };
        let mut symbols = functions(object, table, places);
        symbols.sort_by_key(|symbol| (symbol.section, symbol.start));
        Self { sections, symbols }
    }

    /// The loaded sections that hold an address.
    pub(super) fn sections(&self, address: u64) -> impl Iterator<Item = usize> + '_ {
        let holding = self.sections.iter().filter(move |(start, end, _)| *start <= address && address < *end);
        holding.map(|(_, _, index)| *index)
    }

    /// The last symbol of the section that begins at or before the address; of several the best.
    pub(super) fn find(&self, section: usize, address: u64) -> Option<&Function<'data>> {
        let after = self.symbols.partition_point(|symbol| (symbol.section, symbol.start) <= (section, address));
        let last = self.symbols.get(after.checked_sub(1)?).filter(|symbol| symbol.section == section)?;
        let first = self.symbols.partition_point(|symbol| (symbol.section, symbol.start) < (section, last.start));
        let mut best = &self.symbols[first];
        for symbol in &self.symbols[first + 1..after] {
            if symbol.is_better(best, address) {
                best = symbol;
            }
        }
        Some(best)
    }
}

impl Function<'_> {
    /// Whether it is to be preferred to another that begins at the same address.
    fn is_better(&self, best: &Self, address: u64) -> bool {
        if best.end() <= address {
            return self.size > best.size;
        }
        if self.end() <= address {
            return false;
        }
        match (best.is_function(), self.is_function()) {
            (true, false) => return false,
            (false, true) => return true,
            _ => {}
        }
        match (best.kind == STT_NOTYPE, self.kind == STT_NOTYPE) {
            (true, false) => return true,
            (false, true) => return false,
            _ => {}
        }
        self.size < best.size
    }

    fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }

    fn is_function(&self) -> bool {
        matches!(self.kind, STT_FUNC | STT_GNU_IFUNC)
    }
}

/// The addresses asked for in a section.
struct Places {
    section: usize,
    addresses: Ladder,
    /// Where the last symbol begins that is not behind each address.
    starts: Vec<Option<u64>>,
}

impl Places {
    /// Those of a section: start, end, index.
    fn of((start, end, section): (u64, u64, usize), addresses: &[u64]) -> Option<Self> {
        let from = addresses.partition_point(|address| *address < start);
        let own = &addresses[from..addresses.partition_point(|address| *address < end).max(from)];
        (!own.is_empty()).then(|| Self { section, addresses: Ladder::new(own.to_vec()), starts: vec![None; own.len()] })
    }

    /// Takes note of where a symbol begins. Addresses behind the first one take it over in `spread`.
    fn add(&mut self, start: u64) {
        if let Some(own) = self.starts.get_mut(self.addresses.place(start)) {
            *own = (*own).max(Some(start));
        }
    }

    fn spread(&mut self) {
        let mut before = None;
        for start in &mut self.starts {
            before = before.max(*start);
            *start = before;
        }
    }

    /// Whether a symbol that begins here is the last one before an address.
    fn has(&self, start: u64) -> bool {
        self.starts.get(self.addresses.place(start)).is_some_and(|own| *own == Some(start))
    }
}

/// The symbols that begin where the last one before a place does, in their order.
fn functions<'data>(object: &File<'data>, table: Table, mut places: Vec<Places>) -> Vec<Function<'data>> {
    // By the number of the section, which of the places are its own.
    let mut own = vec![usize::MAX; places.iter().map(|places| places.section + 1).max().unwrap_or(0)];
    places.iter().enumerate().for_each(|(number, places)| own[places.section] = number);
    let own = |symbol: &RawSymbol| own.get(section_of(symbol)?).copied().filter(|number| *number != usize::MAX);
    symbol_table::each(object, table, |symbol| {
        if let Some(number) = own(&symbol) {
            places[number].add(symbol.address);
        }
    });
    places.iter_mut().for_each(Places::spread);
    let mut found = Vec::new();
    let (mut file, mut seen) = (None, Seen::Nothing);
    symbol_table::each(object, table, |symbol| {
        if symbol.kind == STT_FILE {
            file = Some(symbol.index);
            if seen == Seen::Symbol {
                seen = Seen::FileAfterSymbol;
            }
            return;
        }
        if seen == Seen::Nothing {
            seen = Seen::Symbol;
        }
        let Some(section) = own(&symbol).map(|number| &places[number]).filter(|section| section.has(symbol.address)) else {
            return;
        };
        let Some(name) = symbol_table::name(object, table, symbol.index) else { return };
        let is_own = symbol.bind == STB_LOCAL || seen != Seen::FileAfterSymbol;
        let file = file.filter(|_| is_own).and_then(|file| symbol_table::name(object, table, file));
        let RawSymbol { address, size, kind, .. } = symbol;
        found.push(Function { section: section.section, start: address, size: size.max(1), kind, name, file });
    });
    found
}

/// The section of a symbol that may be a function.
fn section_of(symbol: &RawSymbol) -> Option<usize> {
    symbol.section.filter(|_| !matches!(symbol.kind, STT_SECTION | STT_OBJECT | STT_TLS | STT_FILE))
}
