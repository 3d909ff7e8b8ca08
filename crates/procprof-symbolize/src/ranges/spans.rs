//! Turns overlapping spans of addresses into disjoint ones.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A span of addresses and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span<T> {
    pub(crate) begin: u64,
    /// Behind the last address.
    pub(crate) end: u64,
    pub(crate) value: T,
}

impl<T: Copy> Span<T> {
    /// The part within `begin..end`.
    pub(crate) fn clipped(&self, begin: u64, end: u64) -> Option<Self> {
        let (begin, end) = (self.begin.max(begin), self.end.min(end));
        (begin < end).then_some(Self { begin, end, value: self.value })
    }
}

/// Assigns each address to the span with the least rank that contains it. The result ascends, and does not
/// overlap. Empty spans are left out.
pub(crate) fn apart<T: Copy, R: Ord + Copy>(mut spans: Vec<Span<T>>, rank: impl Fn(&Span<T>) -> R) -> Vec<Span<T>> {
    spans.retain(|span| span.begin < span.end);
    if !spans.is_sorted_by_key(|span| span.begin) {
        spans.sort_by_key(|span| span.begin);
    }
    if spans.is_sorted_by(|a, b| a.end <= b.begin) {
        return spans;
    }
    let mut done: Vec<Numbered> = Vec::with_capacity(spans.len());
    // The open spans, by rank, then by number.
    let mut open: BinaryHeap<Reverse<(R, usize)>> = BinaryHeap::new();
    let mut next = 0;
    let mut at = 0;
    while next < spans.len() || !open.is_empty() {
        while open.peek().is_some_and(|Reverse((_, number))| spans[*number].end <= at) {
            open.pop();
        }
        let Some(Reverse((_, best))) = open.peek() else {
            let Some(span) = spans.get(next) else { break };
            at = span.begin;
            open.push(Reverse((rank(span), next)));
            next += 1;
            continue;
        };
        let best = *best;
        // Spans that begin here compete, too.
        if let Some(span) = spans.get(next).filter(|span| span.begin <= at) {
            open.push(Reverse((rank(span), next)));
            next += 1;
            continue;
        }
        let until = spans.get(next).map_or(spans[best].end, |span| span.begin.min(spans[best].end));
        match done.last_mut() {
            // Cut by one that did not win.
            Some(last) if last.end == at && last.number == best => last.end = until,
            _ => done.push(Numbered { begin: at, end: until, number: best }),
        }
        at = until;
    }
    done.into_iter().map(|span| Span { begin: span.begin, end: span.end, value: spans[span.number].value }).collect()
}

struct Numbered {
    begin: u64,
    end: u64,
    number: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spans: &[(u64, u64, char)], expected: &[(u64, u64, char)]) {
        let span = |(begin, end, value): &(u64, u64, char)| Span { begin: *begin, end: *end, value: *value };
        let apart = apart(spans.iter().map(span).collect(), |span| (span.end - span.begin, span.value));
        assert_eq!(apart, expected.iter().map(span).collect::<Vec<_>>());
    }

    #[test]
    fn the_shorter_one_wins() {
        check(&[(0, 2, 'a'), (2, 4, 'b')], &[(0, 2, 'a'), (2, 4, 'b')]);
        check(&[(0, 9, 'a'), (2, 4, 'b')], &[(0, 2, 'a'), (2, 4, 'b'), (4, 9, 'a')]);
        check(&[(0, 9, 'a'), (2, 20, 'b'), (30, 30, 'c')], &[(0, 9, 'a'), (9, 20, 'b')]);
        check(&[(5, 8, 'b'), (5, 8, 'a')], &[(5, 8, 'a')]);
        check(&[(0, 4, 'a'), (1, 9, 'b'), (2, 30, 'c')], &[(0, 4, 'a'), (4, 9, 'b'), (9, 30, 'c')]);
    }
}
