//! The symbol around an address, by the rules of binutils' ELF reader.

use object::elf::{SHF_ALLOC, STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, SymbolType};
use object::{File, Object, ObjectSection, SectionFlags};

use crate::elf::symbols::table;
use crate::elf::{Entry, Order, Table};

/// The symbols at addresses.
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
    /// The source file named before it, if that can be its own.
    pub(super) file: Option<&'data str>,
}

impl<'data> SymbolFunctions<'data> {
    /// Finds the symbols at `addresses`, which ascend; `order` is that of the table.
    pub(super) fn at(object: &File<'data>, table: Table, order: &Order<'_>, addresses: &[u64]) -> Self {
        let loaded = object.sections().filter(|section| {
            let flags = section.flags();
            matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_ALLOC.0 != 0)
        });
        let sections: Vec<(u64, u64, usize)> = loaded
            .map(|section| (section.address(), section.address().saturating_add(section.size()), section.index().0))
            .collect();
        let places: Vec<Places<'_>> = sections.iter().filter_map(|section| Places::new(*section, addresses)).collect();
        let function = |symbol: (usize, u32)| function(object, table, order, symbol);
        let mut symbols: Vec<Function<'data>> = wanted(order, places).into_iter().filter_map(function).collect();
        symbols.sort_by_key(|symbol| (symbol.section, symbol.start));
        Self { sections, symbols }
    }

    /// The loaded sections that contain an address.
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
    /// Whether it is preferred to another that begins at the same address.
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

/// The requested addresses in a section, and the current symbols.
struct Places<'w> {
    section: usize,
    /// Those that the next symbol may be behind.
    addresses: &'w [u64],
    /// The start of the last symbols, and their numbers.
    start: u64,
    last: Vec<u32>,
}

impl<'w> Places<'w> {
    /// Those of a section: start, end, index.
    fn new((start, end, section): (u64, u64, usize), addresses: &'w [u64]) -> Option<Self> {
        let from = addresses.partition_point(|address| *address < start);
        let own = &addresses[from..addresses.partition_point(|address| *address < end).max(from)];
        (!own.is_empty()).then(|| Self { section, addresses: own, start: 0, last: Vec::new() })
    }

    /// Adds a symbol; those before are found if an address is behind them and not behind this one.
    fn add(&mut self, entry: Entry, found: &mut Vec<(usize, u32)>) {
        if entry.address != self.start {
            self.pass(entry.address, found);
            self.start = entry.address;
        }
        self.last.push(entry.index);
    }

    /// Continues with the addresses from `start` on.
    fn pass(&mut self, start: u64, found: &mut Vec<(usize, u32)>) {
        let passed = self.addresses.iter().take_while(|address| **address < start).count();
        if passed > 0 {
            found.extend(self.last.iter().map(|index| (self.section, *index)));
            self.addresses = &self.addresses[passed..];
        }
        self.last.clear();
    }
}

/// The symbols that begin where the last one before an address does, with the section; those of a section by address,
/// then number.
fn wanted(order: &Order<'_>, mut places: Vec<Places<'_>>) -> Vec<(usize, u32)> {
    // By the number of the section, which of the places are its own.
    let mut own = vec![usize::MAX; places.iter().map(|places| places.section + 1).max().unwrap_or(0)];
    places.iter().enumerate().for_each(|(number, places)| own[places.section] = number);
    let mut found = Vec::new();
    for entry in order.entries() {
        let own = entry.section.and_then(|section| own.get(section)).and_then(|number| places.get_mut(*number));
        if let Some(places) = own {
            places.add(entry, &mut found);
        }
    }
    for places in &mut places {
        // No address is beyond.
        places.pass(u64::MAX, &mut found);
    }
    found
}

/// The kind of a symbol; `None` if its name is broken.
fn function<'data>(
    object: &File<'data>,
    table: Table,
    order: &Order<'_>,
    (section, index): (usize, u32),
) -> Option<Function<'data>> {
    let symbol = table::at(object, table, index)?;
    let is_own = symbol.bind == STB_LOCAL || !order.is_behind_files(index);
    let file = order.file_before(index).filter(|_| is_own).and_then(|file| table::at(object, table, file)?.name());
    Some(Function {
        section,
        start: symbol.address,
        size: symbol.size.max(1),
        kind: symbol.kind,
        name: symbol.name()?,
        file,
    })
}
