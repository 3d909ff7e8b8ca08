//! One stack from a sample: registers and a copy of the stack, unwound by the tables of the process's code.

use std::cell::Cell;

use procprof_profile::perf_event::Sample;
use procprof_unwind::{Architecture, Cache, End, Frame, Lost, Space, Stack, StackCopy, Walker};

use crate::go_stacks::{Crossing, GoStacks};
use crate::images::Images;
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

/// A walk by compact rules and the copy of the stack alone.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) ending: Ending,
    /// The places of addresses that are not behind a call: of interrupted frames.
    pub(crate) interrupted: Vec<usize>,
    /// Whether it has gone on from a thread's stack to a goroutine's, or ended where it would have.
    pub(crate) is_crossed: bool,
}

/// Adds the code addresses of a sample's user stack to `stack`, leaf first: of callers that of the call. `go` has the
/// code of Go, its files, and the process, if that can still be read.
pub(crate) fn walk(
    architecture: Architecture,
    space: &Space,
    cache: &Cache,
    (go, images, live): (&GoStacks, &mut Images, Option<u32>),
    sample: &Sample<'_>,
    stack: &mut Vec<u64>,
) -> Walked {
    let mut interrupted = Vec::new();
    let found = sample.registers.as_ref().and_then(|found| Some((found, registers::frame(architecture, found)?)));
    let Some((registers, frame)) = found else {
        return Walked { ending: Ending::NoRegisters, interrupted, is_crossed: false };
    };
    // The address of an interrupted frame is that of an instruction, not behind a call.
    let is_exact = Cell::new(true);
    let mut copy = NotingSwitches { copy: StackCopy { start: frame.sp, bytes: sample.stack }, is_exact: &is_exact };
    let register = |number| registers::by_dwarf_number(architecture, registers, number);
    let keep = |address: u64| {
        let is_exact = is_exact.replace(false);
        if is_exact {
            interrupted.push(stack.len());
        }
        stack.push(address.wrapping_sub(u64::from(!is_exact)));
        stack.len() < MAX_FRAMES
    };
    let mut last = Frame::default();
    let walker = Walker { architecture, space, cache };
    let end = walker.walk_noting(frame, register, &mut copy, keep, &mut last);
    let mut crossing = Crossing { go, images, walker, live, sample, first: frame, last };
    if let Some(ending) = crossing.cross(end, stack) {
        return Walked { ending, interrupted, is_crossed: true };
    }
    let ending = match end {
        End::Root => Ending::Root,
        End::Full => Ending::Deep,
        End::Lost(lost) => ending(lost, last.fp, sample.stack.len() as u64, sample.stack_limit, frame.sp),
    };
    let is_crossed = ending == Ending::Root && stack.iter().any(|address| go.is_called_back(*address));
    Walked { ending, interrupted, is_crossed }
}

/// The end of a stack whose caller can't be found, by the frame pointer there and by the copy's bytes, its limit and
/// its start.
pub(crate) fn ending(lost: Lost, fp: u64, bytes: u64, limit: u64, start: u64) -> Ending {
    let is_cut = bytes >= limit;
    // Of code without tables only its frame pointer tells that the stack goes on.
    let goes_on = (bytes..MAX_STACK_BYTES).contains(&fp.wrapping_sub(start));
    match lost {
        Lost::OutsideStack if is_cut => Ending::Cut,
        Lost::NoFramePointer if is_cut && goes_on => Ending::Cut,
        lost => Ending::Lost(lost),
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
