//! The symbols of a file that cover the wanted addresses.
//!
//! A symbol covers its size and nothing beyond. One without a size (assembly) is a label: it covers what follows up to
//! the next symbol or the end of its section, unless it is inside a symbol with a size. Of nested symbols, the
//! innermost is used; of several names for the same span, the one that [`Symbol::rank`] puts first.
//!
//! The tables are read once from end to end, and a symbol without a requested address is discarded at once: sorting
//! half a million of them would take longer than everything else. The tables are read again only if a label may be the
//! name of an address that no symbol with a size covers.

mod covering;
mod labels;
pub(crate) mod order;
pub(crate) mod table;

use object::elf::{SHF_EXECINSTR, STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, SymbolBind};
use object::{File, Object, ObjectSection, SectionFlags};

use self::table::{RawSymbol, Table};
use crate::ranges::{Ladder, Span, spans};

use covering::covered_by;
use labels::{Gaps, Labels};

/// The names at a batch of addresses.
#[derive(Debug, Default)]
pub(crate) struct Symbols<'data> {
    /// One a wanted address, in their order.
    pub(crate) names: Vec<Option<&'data [u8]>>,
    /// Whether no file has a table of all its code symbols; exported ones are only some of them.
    pub(crate) is_partial: bool,
}

/// The place of a symbol of code.
#[derive(Debug, Clone, Copy)]
struct Extent {
    start: u64,
    /// Behind `start`. That of a label is the end of its section.
    end: u64,
    sized: bool,
}

#[derive(Debug, Clone, Copy)]
struct Symbol<'data> {
    extent: Extent,
    function: bool,
    binding: SymbolBind,
    name: &'data [u8],
}

impl<'data> Symbol<'data> {
    /// A symbol of code with its name, if it is a name.
    fn from_raw(raw: &RawSymbol<'data>, extent: Extent) -> Option<Self> {
        // `$x`, `$d` and similar symbols mark code and data for disassemblers.
        raw.initial().filter(|initial| *initial != b'$')?;
        Some(Self { extent, function: raw.kind != STT_NOTYPE, binding: raw.bind, name: raw.name_bytes()? })
    }

    /// The best name of a span has the least rank: functions before labels, global before weak
    /// before local, fewer leading underscores, then by name.
    fn rank(&self) -> (bool, u8, usize, &[u8]) {
        let binding = match self.binding {
            STB_GLOBAL => 0,
            STB_WEAK => 1,
            _ => 2,
        };
        let underscores = self.name.iter().take_while(|byte| **byte == b'_').count();
        (!self.function, binding, underscores, self.name)
    }
}

impl<'data> Symbols<'data> {
    /// Looks in `.symtab` and `.dynsym` of all files, which describe the same image. `addresses`
    /// ascend. Symbols with broken names are left out.
    pub(crate) fn at(files: &[&File<'data>], addresses: &[u64]) -> Self {
        let files = code_of(files);
        let is_partial = !files.iter().any(Code::has_table);
        if addresses.is_empty() {
            return Self { names: Vec::new(), is_partial };
        }
        let ladder = Ladder::new(addresses);
        let mut near = Near::new(&ladder);
        files.iter().for_each(|code| code.each(|symbol, extent| near.add(extent, || Symbol::from_raw(symbol, extent))));
        let (mut names, mut gaps) = near.names();
        if !gaps.is_empty() {
            let ends = gaps.ends();
            let ends = Ladder::new(&ends);
            files.iter().for_each(|code| {
                code.each(|symbol, extent| gaps.cut(&ends, extent, || Symbol::from_raw(symbol, extent).is_some()))
            });
            gaps.name(addresses, &mut names);
        }
        Self { names, is_partial }
    }

    /// The names at all addresses, as [`Symbols::at`] returns them: ascending, not overlapping.
    pub(crate) fn all(files: &[&File<'data>]) -> Vec<Span<&'data [u8]>> {
        let mut symbols = Vec::new();
        for code in code_of(files) {
            code.each(|symbol, extent| symbols.extend(Symbol::from_raw(symbol, extent)));
        }
        Self::named_by(symbols)
    }

    fn named_by(mut symbols: Vec<Symbol<'data>>) -> Vec<Span<&'data [u8]>> {
        symbols.sort_by_key(|symbol| symbol.extent.start);
        let labels = labels::all(&symbols);
        let spans = covered_by(symbols.into_iter().filter(|symbol| symbol.extent.sized).collect());
        let ranked = |is_label: bool| {
            move |Span { begin, end, value }: Span<&'data [u8]>| Span { begin, end, value: (is_label, value) }
        };
        let both = spans.into_iter().map(ranked(false)).chain(labels.into_iter().map(ranked(true))).collect();
        let apart = spans::apart(both, |span: &Span<(bool, &[u8])>| span.value.0);
        apart.into_iter().map(|span| Span { begin: span.begin, end: span.end, value: span.value.1 }).collect()
    }
}

/// The symbols that may name a wanted address.
struct Near<'data, 'n> {
    ladder: &'n Ladder<'n>,
    /// Those with a size that cover one.
    covering: Vec<Symbol<'data>>,
    labels: Labels<'data>,
}

impl<'data, 'n> Near<'data, 'n> {
    fn new(ladder: &'n Ladder<'n>) -> Self {
        Self { ladder, covering: Vec::new(), labels: Labels::default() }
    }

    /// Adds a symbol of code, which is read only if it may be one of them.
    #[inline]
    fn add(&mut self, extent: Extent, read: impl FnOnce() -> Option<Symbol<'data>>) {
        let place = self.ladder.place(extent.start);
        if self.ladder.addresses().get(place).is_some_and(|address| !extent.sized || *address < extent.end) {
            self.add_read(place, extent, read);
        }
    }

    /// Few symbols get here; the others are skipped faster without it.
    #[inline(never)]
    fn add_read(&mut self, place: usize, extent: Extent, read: impl FnOnce() -> Option<Symbol<'data>>) {
        if extent.sized {
            self.covering.extend(read());
        } else {
            self.labels.add(place, extent.start, read);
        }
    }

    /// The names by symbols with a size, one an address; and what labels may name of the rest.
    fn names(self) -> (Vec<Option<&'data [u8]>>, Gaps<'data>) {
        let spans = covered_by(self.covering);
        let mut spans = spans.iter().peekable();
        let mut gaps = Gaps::default();
        let mut name = |(place, address): (usize, &u64)| {
            while spans.next_if(|span| span.end <= *address).is_some() {}
            let name = spans.peek().filter(|span| span.begin <= *address).map(|span| span.value);
            if name.is_none() {
                self.labels.before(place, *address).into_iter().for_each(|label| gaps.add(label, *address));
            }
            name
        };
        let names = self.ladder.addresses().iter().enumerate().map(&mut name).collect();
        (names, gaps)
    }
}

/// A file and which of its sections are code.
struct Code<'f, 'data> {
    file: &'f File<'data>,
    /// By the section's number where it ends, 0 where it is none of code.
    ends: Vec<u64>,
}

fn code_of<'f, 'data>(files: &[&'f File<'data>]) -> Vec<Code<'f, 'data>> {
    files.iter().map(|file| Code { file, ends: ends_of_code(file) }).collect()
}

fn ends_of_code(file: &File<'_>) -> Vec<u64> {
    let mut ends = Vec::new();
    for section in file.sections() {
        if matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_EXECINSTR.0 != 0) {
            ends.resize(section.index().0, 0);
            ends.push(section.address().saturating_add(section.size()));
        }
    }
    ends
}

impl<'data> Code<'_, 'data> {
    /// Calls the function with the symbols of code of both tables. Their names are not read.
    #[inline]
    fn each(&self, mut visit: impl FnMut(&RawSymbol<'data>, Extent)) {
        for table in [Table::All, Table::Dynamic] {
            table::each(self.file, table, |symbol| {
                if let Some(extent) = self.extent(symbol) {
                    visit(symbol, extent);
                }
            });
        }
    }

    /// Whether there is a symbol of code in the table of all symbols.
    fn has_table(&self) -> bool {
        let is_code = |symbol: &RawSymbol<'data>| {
            self.extent(symbol).is_some_and(|extent| Symbol::from_raw(symbol, extent).is_some())
        };
        table::any(self.file, Table::All, is_code)
    }

    /// The place of a symbol, if it is one of code.
    #[inline]
    fn extent(&self, symbol: &RawSymbol<'_>) -> Option<Extent> {
        if !matches!(symbol.kind, STT_NOTYPE | STT_FUNC | STT_GNU_IFUNC) {
            return None;
        }
        let section_end = *self.ends.get(symbol.section?)?;
        let (start, sized) = (symbol.address, symbol.size != 0);
        let end = if sized { start.saturating_add(symbol.size) } else { section_end };
        (section_end != 0 && start < end).then_some(Extent { start, end, sized })
    }
}

#[cfg(test)]
mod tests;
