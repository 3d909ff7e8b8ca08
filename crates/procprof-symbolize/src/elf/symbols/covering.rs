//! The spans of symbols with a size, which may be nested or overlap.

use crate::ranges::Span;

use super::Symbol;

/// The spans of symbols with a size, which ascend and do not overlap any more: one pass by ascending start,
/// with the symbols that are still open on a stack; the topmost covers.
pub(super) fn covered_by<'data>(mut symbols: Vec<Symbol<'data>>) -> Vec<Span<&'data [u8]>> {
    // Of symbols with one start the longer ones come first, so that the shorter ones are on top; those of one extent
    // come worst name first, so that the best is on top.
    symbols.sort_unstable_by(|a, b| {
        let place = |symbol: &Symbol<'_>| (symbol.extent.start, u64::MAX - symbol.extent.end);
        place(a).cmp(&place(b)).then_with(|| b.rank().cmp(&a.rank()))
    });
    let mut spans = Spans::default();
    for symbol in symbols {
        spans.close_until(symbol.extent.start);
        spans.open.push(symbol);
    }
    spans.close_until(u64::MAX);
    spans.done
}

#[derive(Default)]
struct Spans<'data> {
    done: Vec<Span<&'data [u8]>>,
    open: Vec<Symbol<'data>>,
    /// Everything before is done.
    cursor: u64,
}

impl Spans<'_> {
    /// Closes what ends at or before `address` and cuts the topmost there.
    fn close_until(&mut self, address: u64) {
        while let Some(Symbol { extent, name, .. }) = self.open.last().copied() {
            let (begin, end) = (self.cursor.max(extent.start), extent.end.min(address));
            if begin < end {
                self.done.push(Span { begin, end, value: name });
                self.cursor = end;
            }
            if extent.end > address {
                break;
            }
            self.open.pop();
        }
        self.cursor = self.cursor.max(address);
    }
}
