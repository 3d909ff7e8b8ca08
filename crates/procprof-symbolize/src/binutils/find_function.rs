//! The symbol around an address, by the rules of binutils' ELF reader.

use object::elf::{SHF_ALLOC, STB_LOCAL, STT_FILE, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, STT_SECTION, STT_TLS, SymbolType};
use object::{File, Object, ObjectSection, ObjectSymbol, SectionFlags, Symbol, SymbolFlags};

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
        let places = addresses.iter().flat_map(|address| {
            let holding = sections.iter().filter(move |(start, end, _)| start <= address && address < end);
            holding.map(|(_, _, section)| (*section, *address))
        });
        let mut places: Vec<(usize, u64)> = places.collect();
        places.sort_unstable();
        let mut symbols = functions(|| object.symbols(), &places);
        if object.symbols().next().is_none() {
            symbols = functions(|| object.dynamic_symbols(), &places);
        }
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

/// The symbols that begin where the last one before a place (section and address, ascending) does.
fn functions<'data: 'file, 'file, I: Iterator<Item = Symbol<'data, 'file>>>(
    symbols: impl Fn() -> I,
    places: &[(usize, u64)],
) -> Vec<Function<'data>> {
    let starts = starts(symbols(), places);
    let mut found = Vec::new();
    let (mut file, mut seen): (Option<Symbol<'data, 'file>>, _) = (None, Seen::Nothing);
    for symbol in symbols() {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
        let kind = st_info.st_type();
        if kind == STT_FILE {
            file = Some(symbol);
            if seen == Seen::Symbol {
                seen = Seen::FileAfterSymbol;
            }
            continue;
        }
        if seen == Seen::Nothing {
            seen = Seen::Symbol;
        }
        let Some(section) = section_of(&symbol, kind) else { continue };
        if starts.binary_search(&(section, symbol.address())).is_err() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        let own = st_info.st_bind() == STB_LOCAL || seen != Seen::FileAfterSymbol;
        let file = file.as_ref().filter(|_| own).and_then(|file| file.name().ok());
        found.push(Function { section, start: symbol.address(), size: symbol.size().max(1), kind, name, file });
    }
    found
}

/// Where the last symbol before each place begins, ascending.
fn starts<'data: 'file, 'file>(symbols: impl Iterator<Item = Symbol<'data, 'file>>, places: &[(usize, u64)]) -> Vec<(usize, u64)> {
    let mut last: Vec<Option<(usize, u64)>> = vec![None; places.len()];
    for symbol in symbols {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { continue };
        let Some(section) = section_of(&symbol, st_info.st_type()) else { continue };
        let start = (section, symbol.address());
        // Places behind this one take it over below.
        if let Some(last) = last.get_mut(places.partition_point(|place| *place < start)) {
            *last = (*last).max(Some(start));
        }
    }
    let mut before = None;
    for (place, last) in places.iter().zip(&mut last) {
        before = before.max(*last);
        *last = before.filter(|(section, _)| *section == place.0);
    }
    let mut starts: Vec<(usize, u64)> = last.into_iter().flatten().collect();
    starts.dedup();
    starts
}

/// The section of a symbol that may be a function.
fn section_of(symbol: &Symbol<'_, '_>, kind: SymbolType) -> Option<usize> {
    let section = symbol.section_index().filter(|_| !matches!(kind, STT_SECTION | STT_OBJECT | STT_TLS | STT_FILE))?;
    Some(section.0)
}
