//! The rules of 64 KiB of code in one flat, position-independent block.
//!
//! ```text
//! u16 words:
//! rows - 1
//! [256]      for every 256 bytes of code, the row its first byte is in
//! [rows]     where each row begins, rising; the first is 0
//! [16]       0xffff
//! [rows]     its rule's number
//! [4 each]   the rules, without repetition, low word first
//! ```
//!
//! A region in which one rule holds throughout has the rule after the first word and nothing else.
//!
//! A look-up touches the block index, sixteen neighbouring starts, one number and one rule. The starts are compared all
//! at once (blocks of real code have about ten rows): no branch depends on where between them an address lies, as every
//! step of a search would. Equal rows are joined, also over the few bytes of padding between functions, so that a row
//! takes a little over 4 bytes.

use crate::rule::Packed;
use std::collections::HashMap;

/// log2 of the bytes of code in a region.
pub(crate) const REGION_SHIFT: u32 = 16;

const BLOCK_SHIFT: u32 = 8;
const BLOCKS: usize = 1 << (REGION_SHIFT - BLOCK_SHIFT);
const INDEX_AT: usize = 1;
const STARTS_AT: usize = INDEX_AT + BLOCKS;
/// Starts compared at once; that many beyond the last can be read.
const WINDOW: usize = 16;
const RULE_WORDS: usize = 4;

/// Padding between functions is never executed: up to this many bytes, it may carry its neighbour's rule.
const MAX_PADDING: u32 = 64;

/// Compiled rules; see the head of this file.
#[derive(Debug)]
pub(crate) struct Region(Box<[u16]>);

impl Region {
    /// The rule at an offset in the region.
    #[inline]
    pub(crate) fn rule(&self, offset: u16) -> Packed {
        self.find(offset).unwrap_or(Packed::UNKNOWN)
    }

    #[inline(always)]
    fn find(&self, offset: u16) -> Option<Packed> {
        let words = &*self.0;
        let rows = usize::from(*words.first()?) + 1;
        if rows == 1 {
            return rule_at(words, INDEX_AT);
        }
        let mut row = usize::from(*words.get(INDEX_AT + usize::from(offset >> BLOCK_SHIFT))?);
        loop {
            let starts: &[u16; WINDOW] = words.get(STARTS_AT + row + 1..)?.first_chunk()?;
            let begun = starts.iter().map(|start| u16::from(*start <= offset)).sum::<u16>();
            row += usize::from(begun);
            if usize::from(begun) < WINDOW || row >= rows {
                break;
            }
        }
        // The last offset is as high as what follows the starts.
        let row = row.min(rows - 1);
        let number = usize::from(*words.get(STARTS_AT + rows + WINDOW + row)?);
        rule_at(words, STARTS_AT + 2 * rows + WINDOW + RULE_WORDS * number)
    }

    /// Bytes it takes.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.0)
    }

    pub(crate) fn rows(&self) -> usize {
        self.0.first().map_or(0, |last| usize::from(*last) + 1)
    }
}

#[inline(always)]
fn rule_at(words: &[u16], at: usize) -> Option<Packed> {
    let [a, b, c, d] = *words.get(at..)?.first_chunk()?;
    Some(Packed::from_bits(u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(d) << 48))
}

fn words_of(rule: u64) -> [u16; RULE_WORDS] {
    [rule as u16, (rule >> 16) as u16, (rule >> 32) as u16, (rule >> 48) as u16]
}

/// Gathers the rows of a region by rising address. Memory is kept from region to region.
#[derive(Debug, Default)]
pub(crate) struct RegionBuilder {
    rows: Vec<(u16, u64)>,
    /// The end of the last function, without its padding.
    covered: u32,
    numbers: HashMap<u64, u16>,
    words: Vec<u16>,
}

impl RegionBuilder {
    /// Begins a new region, in which nothing is known yet.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.rows.push((0, Packed::UNKNOWN.bits()));
        self.covered = 0;
    }

    /// A function begins at `start`: a former one that reaches into it is cut.
    pub(crate) fn begin(&mut self, start: u16) {
        while self.rows.len() > 1 && self.rows.last().is_some_and(|(row, _)| *row >= start) {
            self.rows.pop();
        }
        let gap = u32::from(start).saturating_sub(self.covered);
        if self.covered > 0 && gap > MAX_PADDING {
            self.row(self.covered as u16, Packed::UNKNOWN);
        }
    }

    /// From `start` on, `rule` holds.
    #[inline]
    pub(crate) fn row(&mut self, start: u16, rule: Packed) {
        let rule = rule.bits();
        if let Some((last_start, last)) = self.rows.last_mut() {
            if *last == rule {
                return;
            }
            if *last_start == start {
                *last = rule;
                self.join();
                return;
            }
        }
        self.rows.push((start, rule));
    }

    /// Joins the last row with the one before if they are equal.
    fn join(&mut self) {
        if let [.., (_, before), (_, last)] = *self.rows
            && before == last
        {
            self.rows.pop();
        }
    }

    /// The function begun last ends at `end`, at most the region's size.
    pub(crate) fn end(&mut self, end: u32) {
        self.covered = end;
    }

    /// The finished block.
    pub(crate) fn finish(&mut self) -> Region {
        if self.covered > 0 && self.covered < 1 << REGION_SHIFT {
            self.row(self.covered as u16, Packed::UNKNOWN);
        }
        self.words.clear();
        self.words.push((self.rows.len() - 1) as u16);
        if let [(_, rule)] = *self.rows {
            self.words.extend(words_of(rule));
        } else {
            self.write_index();
            self.words.extend(self.rows.iter().map(|(start, _)| *start));
            self.words.extend([u16::MAX; WINDOW]);
            let rules = self.write_numbers();
            self.words.extend(rules.into_iter().flat_map(words_of));
        }
        Region(self.words.as_slice().into())
    }

    fn write_index(&mut self) {
        let mut row = 0;
        for block in 0..BLOCKS {
            let start = block << BLOCK_SHIFT;
            while self.rows.get(row + 1).is_some_and(|(next, _)| usize::from(*next) <= start) {
                row += 1;
            }
            self.words.push(row as u16);
        }
    }

    /// Writes each row's rule number; returns the rules by number.
    fn write_numbers(&mut self) -> Vec<u64> {
        const RECENT: usize = 64;
        // Most rows repeat one of a few rules; the others are looked up in the map.
        let mut recent = [(u64::MAX, 0); RECENT];
        let mut rules: Vec<u64> = Vec::new();
        self.numbers.clear();
        for (_, rule) in &self.rows {
            let place = (rule ^ rule >> 7 ^ rule >> 34) as usize % RECENT;
            if recent[place].0 != *rule {
                let number = *self.numbers.entry(*rule).or_insert_with(|| {
                    rules.push(*rule);
                    (rules.len() - 1) as u16
                });
                recent[place] = (*rule, number);
            }
            self.words.push(recent[place].1);
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rule;

    const A: Packed = Packed::ROOT;
    const B: Packed = Packed::SIGNAL;

    /// Start, end, rows.
    type Function<'a> = (u16, u32, &'a [(u16, Packed)]);

    fn region(functions: &[Function<'_>]) -> Region {
        let mut builder = RegionBuilder::default();
        builder.clear();
        for (start, end, rows) in functions {
            builder.begin(*start);
            rows.iter().for_each(|(start, rule)| builder.row(*start, *rule));
            builder.end(*end);
        }
        builder.finish()
    }

    #[test]
    fn neighbours_that_say_the_same_are_joined_also_over_padding() {
        let region = region(&[(16, 100, &[(16, A), (20, B), (40, A)]), (112, 300, &[(112, A), (200, B)])]);
        let rules: Vec<Packed> =
            [15, 16, 19, 20, 39, 40, 105, 199, 200, 299, 300, u16::MAX].map(|offset| region.rule(offset)).into();
        let unknown = Packed::UNKNOWN;
        assert_eq!(rules, [unknown, A, A, B, B, A, A, A, B, B, unknown, unknown]);
        assert_eq!(region.rows(), 6);
    }

    #[test]
    fn a_gap_has_no_rule_and_a_later_function_cuts_an_earlier_one() {
        let region =
            region(&[(0, 5000, &[(0, A), (3000, B)]), (2000, 2100, &[(2000, B)]), (9000, 1 << 16, &[(9000, A)])]);
        let rules: Vec<Rule> =
            [0, 1999, 2000, 2099, 2100, 3000, 8999, 9000, u16::MAX].map(|offset| region.rule(offset).rule()).into();
        use Rule::{Root, Signal, Unknown};
        assert_eq!(rules, [Root, Root, Signal, Signal, Unknown, Unknown, Unknown, Root, Root]);
    }

    #[test]
    fn a_row_a_byte_is_the_most_there_can_be_and_one_rule_is_the_least() {
        let rows: Vec<(u16, Packed)> =
            (0..=u16::MAX).map(|start| (start, if start % 2 == 0 { A } else { B })).collect();
        let full = region(&[(0, 1 << 16, &rows)]);
        assert_eq!(full.rows(), 1 << 16);
        assert!((0..=u16::MAX).all(|offset| full.rule(offset) == if offset % 2 == 0 { A } else { B }));
        let (empty, whole) = (region(&[]), region(&[(0, 1 << 16, &[(0, A)])]));
        assert_eq!((empty.rule(7), whole.rule(u16::MAX)), (Packed::UNKNOWN, A));
        assert_eq!((empty.size(), whole.size()), (10, 10));
    }
}
