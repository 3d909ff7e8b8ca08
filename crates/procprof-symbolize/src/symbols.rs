//! The symbol tables of a file as spans that do not overlap.
//!
//! A symbol covers its size and nothing beyond. One without a size (assembly) covers what follows
//! up to the next symbol or the end of its section, unless it is a label inside a sized one. Of
//! nested symbols the innermost counts; of several names for the same span the one that
//! [`Symbol::rank`] puts first.

use object::elf::{SHF_EXECINSTR, STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, SymbolBind};
use object::{File, Object, ObjectSection, ObjectSymbol, SectionIndex, SymbolFlags};
use procprof_profile::SymbolAddr;
use rustc_hash::FxHashMap;

/// The code symbols of one or more files that describe the same image.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable<'data> {
    spans: Vec<Span<'data>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span<'data> {
    start: u64,
    end: u64,
    name: &'data [u8],
}

#[derive(Debug, Clone, Copy)]
struct Symbol<'data> {
    start: u64,
    end: u64,
    sized: bool,
    function: bool,
    binding: SymbolBind,
    name: &'data [u8],
}

impl Symbol<'_> {
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

impl<'data> SymbolTable<'data> {
    /// Reads `.symtab` and `.dynsym` of all files. Symbols with broken names are left out.
    pub(crate) fn of(files: &[&File<'data>]) -> Self {
        let mut symbols = Vec::new();
        for file in files {
            let sections = executable_sections(file);
            let all = file.symbols().chain(file.dynamic_symbols());
            symbols.extend(all.filter_map(|symbol| code_symbol(&symbol, &sections)));
        }
        Self { spans: spans_of(symbols) }
    }

    /// The name of the symbol that covers the address.
    pub(crate) fn find(&self, address: SymbolAddr) -> Option<&'data [u8]> {
        let after = self.spans.partition_point(|span| span.start <= address.0);
        let span = self.spans.get(after.checked_sub(1)?)?;
        (address.0 < span.end).then_some(span.name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}

/// Where each section with code ends.
fn executable_sections(file: &File<'_>) -> FxHashMap<SectionIndex, u64> {
    let code = file.sections().filter(|section| match section.flags() {
        object::SectionFlags::Elf { sh_flags, .. } => sh_flags.0 & SHF_EXECINSTR.0 != 0,
        _ => false,
    });
    code.map(|section| (section.index(), section.address().saturating_add(section.size()))).collect()
}

fn code_symbol<'data>(symbol: &object::Symbol<'data, '_>, sections: &FxHashMap<SectionIndex, u64>) -> Option<Symbol<'data>> {
    let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
        return None;
    };
    let kind = st_info.st_type();
    if !matches!(kind, STT_NOTYPE | STT_FUNC | STT_GNU_IFUNC) {
        return None;
    }
    let section_end = *sections.get(&symbol.section_index()?)?;
    let name = symbol.name_bytes().ok()?;
    // `$x`, `$d` and the like mark code and data for disassemblers.
    if name.is_empty() || name.starts_with(b"$") {
        return None;
    }
    let start = symbol.address();
    let end = if symbol.size() == 0 { section_end } else { start.saturating_add(symbol.size()) };
    (start < end).then_some(Symbol {
        start,
        end,
        sized: symbol.size() != 0,
        function: kind != STT_NOTYPE,
        binding: st_info.st_bind(),
        name,
    })
}

/// One pass by ascending start, with the symbols that are still open on a stack: the topmost covers.
fn spans_of(mut symbols: Vec<Symbol<'_>>) -> Vec<Span<'_>> {
    // Of symbols with one start the longer ones come first, so that the shorter ones lie on top;
    // those of one extent come worst name first, so that the best lies on top.
    symbols.sort_unstable_by(|a, b| {
        let place = |symbol: &Symbol<'_>| (symbol.start, symbol.sized, u64::MAX - symbol.end);
        place(a).cmp(&place(b)).then_with(|| b.rank().cmp(&a.rank()))
    });
    let mut spans = Spans::default();
    for symbol in symbols {
        if symbol.sized || spans.sized_until <= symbol.start {
            spans.close_until(symbol.start);
            spans.open(symbol);
        }
    }
    spans.close_until(u64::MAX);
    spans.done
}

#[derive(Default)]
struct Spans<'data> {
    done: Vec<Span<'data>>,
    open: Vec<Symbol<'data>>,
    /// Everything before is done.
    cursor: u64,
    /// The end of the farthest reaching sized symbol so far.
    sized_until: u64,
}

impl<'data> Spans<'data> {
    fn open(&mut self, symbol: Symbol<'data>) {
        // A symbol without size ends where any other begins, so only the topmost can be one.
        self.open.pop_if(|top| !top.sized);
        if symbol.sized {
            self.sized_until = self.sized_until.max(symbol.end);
        }
        self.open.push(symbol);
    }

    /// Closes what ends at or before `address` and cuts the topmost there.
    fn close_until(&mut self, address: u64) {
        while let Some(top) = self.open.last().copied() {
            let end = top.end.min(address);
            if self.cursor.max(top.start) < end {
                let start = self.cursor.max(top.start);
                self.done.push(Span { start, end, name: top.name });
                self.cursor = end;
            }
            if top.end > address {
                break;
            }
            self.open.pop();
        }
        self.cursor = self.cursor.max(address);
    }
}

#[cfg(test)]
mod tests;
