//! The parts of a line: counts, numbers, stacks.

use std::convert::Infallible;

use procprof_profile::format::StackLines;

use crate::stacks::{PcId, Pcs};

/// Objects and bytes, in use and allocated.
pub(super) type Counts = [f64; 4];

/// Reads `N: S [N: S]`.
pub(super) fn counts_of(text: &[u8]) -> Option<Counts> {
    let mut numbers = Numbers { rest: text };
    let objects = numbers.number()?;
    numbers.eat(b':')?;
    let bytes = numbers.number()?;
    numbers.eat(b'[')?;
    let allocated_objects = numbers.number()?;
    numbers.eat(b':')?;
    let allocated_bytes = numbers.number()?;
    numbers.eat(b']')?;
    Some([objects, bytes, allocated_objects, allocated_bytes])
}

/// Numbers and marks between blanks.
pub(super) struct Numbers<'a> {
    pub(super) rest: &'a [u8],
}

impl Numbers<'_> {
    fn eat(&mut self, mark: u8) -> Option<()> {
        self.rest = self.rest.trim_ascii_start().strip_prefix(&[mark])?;
        Some(())
    }

    pub(super) fn number(&mut self) -> Option<f64> {
        self.rest = self.rest.trim_ascii_start();
        let digits = self.rest.iter().take_while(|digit| digit.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        let number = number.iter().try_fold(0, add)?;
        (digits > 0).then_some(number as f64)
    }
}

/// Reads the addresses of a stack, leaf first; 1 is subtracted from callers, so that they point into their calls. Other
/// words are skipped.
pub(super) fn read_stack<'s, 'a>(text: &'a [u8], pcs: &mut Pcs, lines: &'s mut StackLines<'a, PcId>) -> &'s [PcId] {
    let frame = |word: &'a [u8], is_first| {
        let digits = word.strip_prefix(b"0x").unwrap_or(word);
        let add = |sum: u64, digit: &u8| Some(sum << 4 | u64::from((*digit as char).to_digit(16)?));
        let address = digits.iter().try_fold(0u64, add);
        Ok::<_, Infallible>(address.map(|address| pcs.id(if is_first { address } else { address.wrapping_sub(1) })))
    };
    let Ok(stack) = lines.read(text, frame);
    stack
}
