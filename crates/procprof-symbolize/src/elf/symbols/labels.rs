//! Symbols without a size, and the addresses that they name: an address that no symbol with a size covers has the name
//! of the last label before it, unless such a symbol covers a part of the gap between.

use std::collections::BTreeMap;

use crate::ranges::{Ladder, Span};

use super::{Extent, Symbol};

/// The last labels before wanted addresses.
#[derive(Default)]
pub(super) struct Labels<'data> {
    /// By the place of the first wanted address that is not below them: the last one, of several the best.
    last: BTreeMap<usize, Symbol<'data>>,
}

impl<'data> Labels<'data> {
    /// Adds a label, which is read only if none that is known for its place begins behind it.
    pub(super) fn add(&mut self, place: usize, start: u64, read: impl FnOnce() -> Option<Symbol<'data>>) {
        let known = self.last.get(&place);
        if known.is_some_and(|known| known.extent.start > start) {
            return;
        }
        if let Some(label) = read()
            && known.is_none_or(|known| known.extent.start < start || label.rank() < known.rank())
        {
            self.last.insert(place, label);
        }
    }

    /// The last label before a wanted address, or at it, if both are in one section.
    pub(super) fn before(&self, place: usize, address: u64) -> Option<Symbol<'data>> {
        let (_, label) = self.last.range(..=place).next_back()?;
        (address < label.extent.end).then_some(*label)
    }
}

/// The gaps between labels and the addresses that they may name.
#[derive(Default)]
pub(super) struct Gaps<'data> {
    gaps: Vec<Gap<'data>>,
}

struct Gap<'data> {
    label: Symbol<'data>,
    /// The last address the label may name.
    last: u64,
    /// The start of the first symbol with a size that begins at `last` or before and ends behind the label's start;
    /// beyond, the label names nothing. That of a symbol which begins before an earlier gap ends is noted only there.
    cut: u64,
    /// The end of those symbols.
    reach: u64,
}

impl<'data> Gaps<'data> {
    /// Adds the label of an address; addresses ascend.
    pub(super) fn add(&mut self, label: Symbol<'data>, address: u64) {
        match self.gaps.last_mut() {
            Some(gap) if gap.label.extent.start == label.extent.start => gap.last = address,
            _ => self.gaps.push(Gap { label, last: address, cut: u64::MAX, reach: 0 }),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// The last address of each gap.
    pub(super) fn ends(&self) -> Vec<u64> {
        self.gaps.iter().map(|gap| gap.last).collect()
    }

    /// Cuts off the part that a symbol covers and all behind it; `ends` are [`Gaps::ends`].
    #[inline]
    pub(super) fn cut(&mut self, ends: &Ladder<'_>, extent: Extent, is_named: impl FnOnce() -> bool) {
        if let Some(gap) = self.gaps.get_mut(ends.place(extent.start))
            && extent.sized
            && gap.label.extent.start < extent.end
            && is_named()
        {
            gap.cut = gap.cut.min(extent.start);
            gap.reach = gap.reach.max(extent.end);
        }
    }

    /// Puts the labels' names at the addresses that they reach and that have none yet.
    pub(super) fn name(&self, addresses: &[u64], names: &mut [Option<&'data [u8]>]) {
        let mut reach = 0;
        for Gap { label, last, cut, reach: further } in &self.gaps {
            let start = label.extent.start;
            let first = addresses.partition_point(|address| *address < start);
            let own = addresses[first..]
                .iter()
                .zip(&mut names[first..])
                .take_while(|(address, _)| *address <= last && *address < cut);
            own.filter(|_| reach <= start).for_each(|(_, name)| *name = name.or(Some(label.name)));
            reach = reach.max(*further);
        }
    }
}

/// The spans of labels that are in no symbol with a size: up to the next symbol or the end of their
/// section. The symbols ascend.
pub(super) fn all<'data>(symbols: &[Symbol<'data>]) -> Vec<Span<&'data [u8]>> {
    let mut labels = Vec::new();
    let mut reach = 0;
    let mut groups = symbols.chunk_by(|a, b| a.extent.start == b.extent.start).peekable();
    while let Some(group) = groups.next() {
        let next = groups.peek().and_then(|group| group.first()).map_or(u64::MAX, |symbol| symbol.extent.start);
        let sized = group.iter().filter(|symbol| symbol.extent.sized).map(|symbol| symbol.extent.end).max();
        let best = group.iter().filter(|_| sized.is_none()).min_by(|a, b| a.rank().cmp(&b.rank()));
        if let Some(Symbol { extent, name, .. }) = best.filter(|label| reach <= label.extent.start) {
            labels.push(Span { begin: extent.start, end: extent.end.min(next), value: *name });
        }
        reach = reach.max(sized.unwrap_or(0));
    }
    labels
}
