//! The functions of Go's own table with the sizes of their frames.
//!
//! Behind the fields of a record that names need, there are a byte with a number of special functions and a byte of
//! flags: 1 for the first function of a stack, 2 for one that changes the stack pointer in a way that the table does
//! not tell, 4 for assembly (`internal/abi/symtab.go` of Go).

use std::ops::Range;

use super::{GoTable, VALUES_MAX, Version};

const IS_TOP: u64 = 1;
const WRITES_STACK_POINTER: u64 = 2;

/// A function of Go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoFunction<'a> {
    /// Its addresses in the file.
    pub range: Range<u64>,
    /// Its name; empty if it is not UTF-8.
    pub name: &'a str,
    /// It is the first function of a stack to Go.
    pub is_top: bool,
    /// It changes the stack pointer in a way that `frame_sizes` does not tell.
    pub writes_stack_pointer: bool,
    /// Where a part of the code ends, and the bytes between the stack pointer and the return address there.
    pub frame_sizes: Vec<(u64, u32)>,
}

impl<'a> GoTable<'a> {
    /// The functions by rising address, without those that have no frame sizes. None of Go before 1.18, whose table has
    /// no flags.
    pub fn functions(&self) -> impl Iterator<Item = GoFunction<'a>> + '_ {
        let functions = if self.version < Version::Go118 { 0 } else { self.functions };
        // Functions share tables; but those of an honest file have far fewer sizes than the file has bytes.
        let mut sizes_left = self.bytes.len();
        (0..functions)
            .map_while(move |index| {
                let function = self.function(index);
                let sizes = function.as_ref().map_or(0, |function| function.frame_sizes.len());
                sizes_left = sizes_left.checked_sub(sizes)?;
                Some(function)
            })
            .flatten()
    }

    /// The addresses of all functions.
    pub fn text(&self) -> Range<u64> {
        self.text..self.function_start(self.functions).unwrap_or(self.text)
    }

    fn function(&self, index: usize) -> Option<GoFunction<'a>> {
        let (start, next) = (self.function_start(index)?, self.function_start(index + 1)?);
        let fields = self.records.checked_add(self.pair(index, 1)? as usize)?.checked_add(self.pair_bytes())?;
        let field = |index: usize| self.number(fields.checked_add(index * 4)?, 4);
        let flags_at = fields + if self.version >= Version::Go120 { 9 * 4 } else { 8 * 4 } + 1;
        let flags = self.number(flags_at, 1)?;
        let frame_sizes = self.frame_sizes(field(3)? as usize, start, next)?;
        let end = frame_sizes.last()?.0;
        let name = self.text_at(self.names.checked_add(field(0)? as usize)?)?;
        Some(GoFunction {
            range: start..end,
            name: std::str::from_utf8(name).unwrap_or_default(),
            is_top: flags & IS_TOP != 0,
            writes_stack_pointer: flags & WRITES_STACK_POINTER != 0,
            frame_sizes,
        })
    }

    /// The table of stack pointers of a function, up to the next one.
    fn frame_sizes(&self, table: usize, start: u64, next: u64) -> Option<Vec<(u64, u32)>> {
        if table == 0 {
            return None;
        }
        let mut at = self.values.checked_add(table)?;
        let mut sizes = Vec::new();
        let (mut value, mut end) = (-1_i64, start);
        for _ in 0..VALUES_MAX {
            let difference = self.varint(&mut at)?;
            if difference == 0 && end != start {
                break;
            }
            value = value.wrapping_add((difference >> 1) as i64 ^ -((difference & 1) as i64));
            end = end.wrapping_add(self.varint(&mut at)?.wrapping_mul(self.instruction));
            if end <= sizes.last().map_or(start, |(end, _)| *end) || end > next {
                break;
            }
            sizes.push((end, u32::try_from(value).ok()?));
        }
        Some(sizes)
    }
}
