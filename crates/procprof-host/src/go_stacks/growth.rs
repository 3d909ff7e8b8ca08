//! Growth of a goroutine's stack by the runtime: `runtime.morestack` has changed to the thread's stack and called
//! `runtime.newstack`, whose frame has a copy of `m.morebuf`: stack pointer and return address of the caller of the
//! function that needs more stack, and the goroutine.
//!
//! That function is known by the call before the return address, if it is a direct one, and begins with a check of the
//! stack's limit.

use procprof_unwind::{Base, Cfa, Frame, Lost, Rule, Stack, StackCopy};

use super::Crossing;
use crate::ending::{Ending, MAX_FRAMES};

/// Beginnings of a function that checks the stack's limit, by the bytes of its frame: `cmp rsp, [r14+16]`,
/// `lea r12, [rsp-disp]` with one and four bytes, `mov r12, rsp`.
const STACK_CHECKS: [&[u8]; 4] =
    [&[0x49, 0x3b, 0x66, 0x10], &[0x4c, 0x8d, 0x64, 0x24], &[0x4c, 0x8d, 0xa4, 0x24], &[0x49, 0x89, 0xe4]];

/// The caller of the function that needs more stack.
struct Caller {
    pc: u64,
    sp: u64,
    /// The function that needs more stack.
    function: u64,
}

impl Crossing<'_> {
    /// Adds the function that needs more stack and its callers, once `runtime.newstack` has its copy: it has called a
    /// function.
    pub(super) fn leave_growth(&mut self, stack: &mut Vec<u64>) -> Ending {
        let lost = Ending::Lost(Lost::Unsupported);
        let [_, .., newstack, _] = **stack else { return lost };
        if stack.len() + 2 > MAX_FRAMES {
            return lost;
        }
        let Some(Caller { pc, sp, function }) = self.caller_of_growing(newstack) else { return lost };
        stack.push(function);
        let ending = self.read_from(pc, sp, stack);
        ending.unwrap_or_else(|| {
            stack.push(pc.wrapping_sub(1));
            if self.go.is_top(pc.wrapping_sub(1)) { Ending::Root } else { lost }
        })
    }

    /// Finds the copy of `m.morebuf` in the frame of `runtime.newstack`, whose call is at `newstack`; if several words
    /// look like it, none is.
    fn caller_of_growing(&self, newstack: u64) -> Option<Caller> {
        let Rule::Frame { cfa: Cfa::Offset(Base::Sp, size), .. } = self.walker.space.rule(newstack)?.rule() else {
            return None;
        };
        let start = self.last.sp.checked_sub(u64::try_from(size).ok()?)?.max(self.first.sp);
        let end = self.last.sp.min(self.first.sp.saturating_add(self.sample.stack.len() as u64));
        let mut found = (start..end).step_by(8).filter_map(|place| self.caller_at(place));
        found.next().filter(|_| found.next().is_none())
    }

    /// The caller by a copy of `m.morebuf` at an address: stack pointer, return address, goroutine, and words that are
    /// always 0 there.
    fn caller_at(&self, place: u64) -> Option<Caller> {
        let copy = StackCopy { start: self.first.sp, bytes: self.sample.stack };
        let word = |index: u64| copy.read(place.checked_add(8 * index)?);
        let (sp, pc, goroutine) = (word(0)?, word(1)?, word(2)?);
        let is_pointer = |word: u64| word != 0 && word.is_multiple_of(8);
        let is_here = (self.first.sp..self.last.sp).contains(&sp);
        let is_buffer =
            is_pointer(sp) && !is_here && is_pointer(goroutine) && (3..6).all(|index| word(index) == Some(0));
        let function = self.called(pc).filter(|function| is_buffer && self.checks_stack(*function))?;
        Some(Caller { pc, sp, function })
    }

    fn checks_stack(&self, function: u64) -> bool {
        let code = self.code::<4>(function);
        code.is_some_and(|code| STACK_CHECKS.iter().any(|check| code.starts_with(check)))
    }

    /// Reads the stack from the caller on, if its return address is still there: the stack has been copied to another
    /// place by now, but is seldom used anew so soon.
    fn read_from(&mut self, pc: u64, sp: u64, stack: &mut Vec<u64>) -> Option<Ending> {
        let start = sp.wrapping_sub(8);
        let memory = self.read_stack(start)?;
        (StackCopy { start, bytes: &memory }.read(start)? == pc).then_some(())?;
        self.walk_on(Frame { pc, sp, fp: 0, lr: 0, is_return: true }, &memory, start, stack)
    }
}
