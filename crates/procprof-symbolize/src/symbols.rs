//! The symbols of a file that cover the wanted addresses.
//!
//! A symbol covers its size and nothing beyond. One without a size (assembly) covers what follows
//! up to the next symbol or the end of its section, unless it is a label inside a sized one. Of
//! nested symbols the innermost counts; of several names for the same span the one that
//! [`Symbol::rank`] puts first.
//!
//! The tables are read once from end to end, and a symbol without a wanted address is forgotten at
//! once: sorting half a million of them would take longer than everything else.

use object::elf::{SHF_EXECINSTR, STB_GLOBAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, SymbolBind};
use object::{File, Object, ObjectSection, ObjectSymbol, SectionIndex, SymbolFlags};
use rustc_hash::FxHashMap;

use crate::ladder::Ladder;
use crate::spans;

/// The names at a batch of addresses.
#[derive(Debug, Default)]
pub(crate) struct Symbols<'data> {
    /// One a wanted address, in their order.
    pub(crate) names: Vec<Option<&'data [u8]>>,
    /// Whether no file has a table of all its code symbols; exported ones are only some of them.
    pub(crate) is_partial: bool,
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

impl<'data> Symbols<'data> {
    /// Looks in `.symtab` and `.dynsym` of all files, which describe the same image. `addresses`
    /// ascend. Symbols with broken names are left out.
    pub(crate) fn at(files: &[&File<'data>], addresses: &[u64]) -> Self {
        let sections: Vec<_> = files.iter().map(|file| executable_sections(file)).collect();
        let ladder = Ladder::new(addresses);
        let found = Self::among(&ladder, |visit| {
            for (file, sections) in files.iter().zip(&sections) {
                let all = file.symbols().chain(file.dynamic_symbols());
                all.filter_map(|symbol| code_symbol(&symbol, sections, |start, end| ladder.has_in(start, end))).for_each(&mut *visit);
            }
        });
        let has_table =
            |(file, sections): (&&File<'_>, _)| file.symbols().any(|symbol| code_symbol(&symbol, sections, |_, _| false).is_some());
        Self { is_partial: !files.iter().zip(&sections).any(has_table), ..found }
    }

    /// The names at all addresses, as [`Symbols::at`] gives them: ascending, not overlapping.
    pub(crate) fn all(files: &[&File<'data>]) -> Vec<spans::Span<&'data [u8]>> {
        let sections: Vec<_> = files.iter().map(|file| executable_sections(file)).collect();
        let mut symbols = Vec::new();
        for (file, sections) in files.iter().zip(&sections) {
            let all = file.symbols().chain(file.dynamic_symbols());
            symbols.extend(all.filter_map(|symbol| code_symbol(&symbol, sections, |_, _| true)));
        }
        symbols.sort_by_key(|symbol| symbol.start);
        let labels = labels(&symbols);
        let spans = spans_of(symbols.into_iter().filter(|symbol| symbol.sized).collect());
        let spans = spans.into_iter().map(|span| spans::Span { begin: span.start, end: span.end, value: (false, span.name) });
        let both = spans.chain(labels).collect();
        let apart = spans::apart(both, |span: &spans::Span<(bool, &[u8])>| span.value.0);
        apart.into_iter().map(|span| spans::Span { begin: span.begin, end: span.end, value: span.value.1 }).collect()
    }

    fn among(ladder: &Ladder<'_>, for_each: impl Fn(&mut dyn FnMut(Symbol<'data>))) -> Self {
        let addresses = ladder.addresses();
        let mut covering = Vec::new();
        let mut starts = Starts { addresses, at: vec![Start::default(); addresses.len()] };
        let mut is_partial = true;
        for_each(&mut |symbol| {
            is_partial = false;
            let first = ladder.place(symbol.start);
            starts.add(symbol, first);
            if symbol.sized && addresses.get(first).is_some_and(|address| *address < symbol.end) {
                covering.push(symbol);
            }
        });
        let spans = spans_of(covering);
        let mut labels = starts.labels();
        drop_inside(&mut labels, for_each);
        let name = |(address, label): (&u64, &Option<Symbol<'data>>)| find(&spans, *address).or(label.map(|label| label.name));
        Self { names: addresses.iter().zip(&labels).map(name).collect(), is_partial }
    }
}

fn find<'data>(spans: &[Span<'data>], address: u64) -> Option<&'data [u8]> {
    let after = spans.partition_point(|span| span.start <= address);
    let span = spans.get(after.checked_sub(1)?)?;
    (address < span.end).then_some(span.name)
}

/// The last symbol that starts between a wanted address and the one before.
#[derive(Debug, Clone, Copy, Default)]
struct Start<'data> {
    /// Where, if there is one.
    start: Option<u64>,
    /// Of those that start there the best without a size, unless one with a size is among them.
    label: Option<Symbol<'data>>,
    sized: bool,
}

struct Starts<'data, 'n> {
    addresses: &'n [u64],
    at: Vec<Start<'data>>,
}

impl<'data> Starts<'data, '_> {
    /// Notes a symbol; `first` is the first of the addresses that is not below it.
    fn add(&mut self, symbol: Symbol<'data>, first: usize) {
        // One that starts at an address is the last one before it, too.
        let Some(at) = self.at.get_mut(first) else {
            return;
        };
        if at.start.is_some_and(|start| start > symbol.start) {
            return;
        }
        if at.start != Some(symbol.start) {
            *at = Start { start: Some(symbol.start), label: None, sized: false };
        }
        if symbol.sized {
            at.sized = true;
        } else if at.label.is_none_or(|label| symbol.rank() < label.rank()) {
            at.label = Some(symbol);
        }
    }

    /// The label that reaches each address.
    fn labels(&self) -> Vec<Option<Symbol<'data>>> {
        let mut last = Start::default();
        let mut label = |(address, start): (&u64, &Start<'data>)| {
            if start.start.is_some() {
                last = *start;
            }
            last.label.filter(|label| !last.sized && *address < label.end)
        };
        self.addresses.iter().zip(&self.at).map(&mut label).collect()
    }
}

/// Takes away the labels that are inside a symbol with a size.
fn drop_inside<'data>(labels: &mut [Option<Symbol<'data>>], for_each: impl Fn(&mut dyn FnMut(Symbol<'data>))) {
    let mut starts: Vec<u64> = labels.iter().flatten().map(|label| label.start).collect();
    starts.dedup();
    if starts.is_empty() {
        return;
    }
    // For each start how far the farthest symbol reaches that starts between it and the one before.
    let mut reach = vec![0; starts.len()];
    for_each(&mut |symbol| {
        let after = starts.partition_point(|start| *start <= symbol.start);
        if let Some(reach) = reach.get_mut(after).filter(|_| symbol.sized) {
            *reach = symbol.end.max(*reach);
        }
    });
    let mut farthest = 0;
    let mut inside = Vec::with_capacity(starts.len());
    for (start, reach) in starts.iter().zip(&reach) {
        farthest = farthest.max(*reach);
        inside.push(farthest > *start);
    }
    for label in labels {
        let place = label.and_then(|label| starts.binary_search(&label.start).ok());
        if place.is_some_and(|place| inside[place]) {
            *label = None;
        }
    }
}

/// What the labels cover that are in no symbol with a size: up to the next symbol or the end of their
/// section. The symbols ascend.
fn labels<'data>(symbols: &[Symbol<'data>]) -> Vec<spans::Span<(bool, &'data [u8])>> {
    let mut labels = Vec::new();
    let mut reach = 0;
    let mut groups = symbols.chunk_by(|a, b| a.start == b.start).peekable();
    while let Some(group) = groups.next() {
        let next = groups.peek().and_then(|group| group.first()).map_or(u64::MAX, |symbol| symbol.start);
        let sized = group.iter().filter(|symbol| symbol.sized).map(|symbol| symbol.end).max();
        let best = group.iter().filter(|_| sized.is_none()).min_by(|a, b| a.rank().cmp(&b.rank()));
        if let Some(label) = best.filter(|label| reach <= label.start) {
            labels.push(spans::Span { begin: label.start, end: label.end.min(next), value: (true, label.name) });
        }
        reach = reach.max(sized.unwrap_or(0));
    }
    labels
}

/// Where each section with code ends.
fn executable_sections(file: &File<'_>) -> FxHashMap<SectionIndex, u64> {
    let code = file.sections().filter(|section| match section.flags() {
        object::SectionFlags::Elf { sh_flags, .. } => sh_flags.0 & SHF_EXECINSTR.0 != 0,
        _ => false,
    });
    code.map(|section| (section.index(), section.address().saturating_add(section.size()))).collect()
}

/// The symbol, if it is one of code. Its name is read if it has no size, or if its size is one of those
/// that `is_named`: looking for the ends of half a million names takes longer than everything else here.
fn code_symbol<'data>(
    symbol: &object::Symbol<'data, '_>,
    sections: &FxHashMap<SectionIndex, u64>,
    is_named: impl Fn(u64, u64) -> bool,
) -> Option<Symbol<'data>> {
    let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
        return None;
    };
    let kind = st_info.st_type();
    if !matches!(kind, STT_NOTYPE | STT_FUNC | STT_GNU_IFUNC) {
        return None;
    }
    let section_end = *sections.get(&symbol.section_index()?)?;
    let (start, sized) = (symbol.address(), symbol.size() != 0);
    let end = if sized { start.saturating_add(symbol.size()) } else { section_end };
    if start >= end {
        return None;
    }
    let mut name = &[][..];
    if !sized || kind == STT_NOTYPE || is_named(start, end) {
        name = symbol.name_bytes().ok()?;
        // `$x`, `$d` and the like mark code and data for disassemblers.
        if name.is_empty() || name.starts_with(b"$") {
            return None;
        }
    }
    Some(Symbol { start, end, sized, function: kind != STT_NOTYPE, binding: st_info.st_bind(), name })
}

/// The spans of symbols with a size, which do not overlap any more: one pass by ascending start,
/// with the symbols that are still open on a stack; the topmost covers.
fn spans_of(mut symbols: Vec<Symbol<'_>>) -> Vec<Span<'_>> {
    // Of symbols with one start the longer ones come first, so that the shorter ones lie on top;
    // those of one extent come worst name first, so that the best lies on top.
    symbols.sort_unstable_by(|a, b| {
        let place = |symbol: &Symbol<'_>| (symbol.start, u64::MAX - symbol.end);
        place(a).cmp(&place(b)).then_with(|| b.rank().cmp(&a.rank()))
    });
    let mut spans = Spans::default();
    for symbol in symbols {
        spans.close_until(symbol.start);
        spans.open.push(symbol);
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
}

impl Spans<'_> {
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
