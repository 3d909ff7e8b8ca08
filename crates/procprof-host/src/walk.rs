//! One stack from a sample: registers and a copy of the stack, unwound by the tables of the process's code.

use std::cell::Cell;

use procprof_profile::perf_event::Sample;
use procprof_unwind::{Architecture, Cache, End, Frame, Space, Stack, StackCopy, Walker};

use crate::ending::{Ending, MAX_FRAMES};
use crate::go_stacks::{Crossing, GoStacks};
use crate::images::Images;
use crate::live_memory::{Failure, ProcessMemory};
use crate::registers;

/// A walk by compact rules and the copy of the stack alone.
#[derive(Debug)]
pub(crate) struct Walked {
    pub(crate) ending: Ending,
    /// The places of addresses that are not behind a call: of interrupted frames.
    pub(crate) interrupted: Vec<usize>,
    /// Whether it has gone on from a thread's stack to a goroutine's, or ended where it would have.
    pub(crate) is_crossed: bool,
    /// The outcome of reading the goroutine's stack, if that was tried: callers that count, or why there are none.
    pub(crate) read: Option<Result<(), Failure>>,
}

/// Adds the code addresses of a sample's user stack to `stack`, leaf first: of callers that of the call. `go` has the
/// code of Go, its files, and the memory of the process, if that can still be read.
pub(crate) fn walk(
    architecture: Architecture,
    space: &Space,
    cache: &Cache,
    (go, images, memory): (&GoStacks, &mut Images, Option<&mut ProcessMemory>),
    sample: &Sample<'_>,
    stack: &mut Vec<u64>,
) -> Walked {
    let mut interrupted = Vec::new();
    let found = sample.registers.as_ref().and_then(|found| Some((found, registers::frame(architecture, found)?)));
    let Some((registers, frame)) = found else {
        return Walked { ending: Ending::NoRegisters, interrupted, is_crossed: false, read: None };
    };
    // The address of an interrupted frame is that of an instruction, not behind a call.
    let is_exact = Cell::new(true);
    let mut copy = NotingSwitches { copy: StackCopy { start: frame.sp, bytes: sample.stack }, is_exact: &is_exact };
    let register = |number| registers::by_dwarf_number(architecture, registers, number);
    let keep = |address: u64| {
        let is_exact = is_exact.replace(false);
        if is_exact {
            // What a handler returns to was never called: its first instruction is meant.
            if let Some(signal_frame) = stack.last_mut() {
                *signal_frame += 1;
            }
            interrupted.push(stack.len());
        }
        stack.push(address.wrapping_sub(u64::from(!is_exact)));
        stack.len() < MAX_FRAMES
    };
    let mut last = Frame::default();
    let walker = Walker { architecture, space, cache };
    let end = walker.walk_noting(frame, register, &mut copy, keep, &mut last);
    let mut crossing = Crossing { go, images, walker, memory, sample, first: frame, last, read: None };
    if let Some(ending) = crossing.cross(end, stack) {
        return Walked { ending, interrupted, is_crossed: true, read: crossing.read };
    }
    let ending = match end {
        End::Root => Ending::Root,
        End::Full => Ending::Deep,
        End::Lost(lost) => {
            Ending::without_caller(lost, last.fp, sample.stack.len() as u64, sample.stack_limit, frame.sp)
        }
    };
    let is_crossed = ending == Ending::Root && stack.iter().any(|address| go.is_called_back(*address));
    Walked { ending, interrupted, is_crossed, read: None }
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
