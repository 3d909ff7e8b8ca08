//! One stack from a sample: registers and a copy of the stack, unwound by the tables of the process's code.

use std::cell::Cell;

use procprof_profile::perf_event::Sample;
use procprof_unwind::{Architecture, Cache, End, Frame, Lost, Space, Stack, StackCopy, Walker};

use crate::registers;

/// Most frames of a stack; deeper ones lose those next to the root.
pub(crate) const MAX_FRAMES: usize = 1024;

/// Frame pointers farther above the stack pointer are other data.
const MAX_STACK_BYTES: u64 = 1 << 30;

/// The end of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// At the thread's first frame.
    Root,
    /// The copy of the stack ends before it.
    Cut,
    /// At the limit of frames.
    Deep,
    /// The caller can't be found.
    Lost(Lost),
    /// There are no registers of 64-bit user code.
    NoRegisters,
}

/// Adds the code addresses of a sample's user stack to `stack`, leaf first: of callers that of the call.
pub(crate) fn walk(
    architecture: Architecture,
    space: &Space,
    cache: &Cache,
    sample: &Sample<'_>,
    stack: &mut Vec<u64>,
) -> Ending {
    let Some(registers) = &sample.registers else { return Ending::NoRegisters };
    let Some(frame) = registers::frame(architecture, registers) else { return Ending::NoRegisters };
    // The address of an interrupted frame is that of an instruction, not behind a call.
    let is_exact = Cell::new(true);
    let mut copy = NotingSwitches { copy: StackCopy { start: frame.sp, bytes: sample.stack }, is_exact: &is_exact };
    let register = |number| registers::by_dwarf_number(architecture, registers, number);
    let keep = |address: u64| {
        stack.push(address.wrapping_sub(u64::from(!is_exact.replace(false))));
        stack.len() < MAX_FRAMES
    };
    let mut last = Frame::default();
    let end = Walker { architecture, space, cache }.walk_noting(frame, register, &mut copy, keep, &mut last);
    let is_cut = || sample.stack.len() as u64 >= sample.stack_limit;
    // Of code without tables only its frame pointer tells that the stack goes on.
    let goes_on = || (sample.stack.len() as u64..MAX_STACK_BYTES).contains(&last.fp.wrapping_sub(frame.sp));
    match end {
        End::Root => Ending::Root,
        End::Full => Ending::Deep,
        End::Lost(Lost::OutsideStack) if is_cut() => Ending::Cut,
        End::Lost(Lost::NoFramePointer) if is_cut() && goes_on() => Ending::Cut,
        End::Lost(lost) => Ending::Lost(lost),
    }
}

/// A copy of a stack that notes when the walk passes a signal frame.
struct NotingSwitches<'a> {
    copy: StackCopy<'a>,
    is_exact: &'a Cell<bool>,
}

impl Stack for NotingSwitches<'_> {
    #[inline]
    fn read(&self, address: u64) -> Option<u64> {
        self.copy.read(address)
    }

    fn switch(&mut self, sp: u64) -> bool {
        self.is_exact.set(true);
        self.copy.switch(sp)
    }
}
