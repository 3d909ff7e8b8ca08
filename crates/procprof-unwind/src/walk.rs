//! A whole stack: steps from an interrupted frame to the thread's root.

use crate::Architecture;
use crate::cache::Cache;
use crate::rule::Packed;
use crate::space::Space;
use crate::stack::Stack;
use crate::step::{Frame, Lost, Step, ordinary, step};

/// Signal frames followed in one stack; more is a loop in overwritten memory.
const MAX_SIGNALS: u32 = 8;

/// The end of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the thread's first frame.
    Root,
    /// The callback stopped the walk.
    Full,
    /// The next caller can't be found.
    Lost(Lost),
}

/// The inputs of a walk.
#[derive(Clone, Copy, Debug)]
pub struct Walker<'a> {
    /// The machine of the frames; a constant makes a walk without a branch on it.
    pub architecture: Architecture,
    /// The code.
    pub space: &'a Space,
    /// The walking thread's cache.
    pub cache: &'a Cache,
}

impl Walker<'_> {
    /// Calls `keep` with the interrupted instruction, then with return addresses from leaf to root; it returns whether
    /// it has room for more.
    ///
    /// Bounded by what `keep` takes. Async-signal-safe if `stack`, `register` (other registers of the interrupted frame
    /// by DWARF number) and `keep` are.
    #[inline]
    pub fn walk(
        &self,
        interrupted: Frame,
        register: impl Fn(u8) -> Option<u64>,
        stack: &mut impl Stack,
        keep: impl FnMut(u64) -> bool,
    ) -> End {
        self.walk_noting(interrupted, register, stack, keep, &mut Frame::default())
    }

    /// As [`Walker::walk`]; `last` is the last frame, whose caller can't be found if the walk fails. It was not kept if
    /// it is in no code, or interrupted by a signal on a stack that can't be read.
    #[inline]
    pub fn walk_noting(
        &self,
        interrupted: Frame,
        register: impl Fn(u8) -> Option<u64>,
        stack: &mut impl Stack,
        mut keep: impl FnMut(u64) -> bool,
        last: &mut Frame,
    ) -> End {
        *last = interrupted;
        if !keep(interrupted.pc) {
            return End::Full;
        }
        let rule = self.cache.rule(self.space, interrupted.lookup()).unwrap_or(Packed::UNKNOWN);
        let mut next = step(self.architecture, &interrupted, rule, |address| stack.read(address), register);
        let mut signals = 0;
        loop {
            let mut frame = match next {
                Step::Caller(frame) => frame,
                Step::Root => return End::Root,
                Step::Lost(lost) => return End::Lost(lost),
            };
            let rule = loop {
                let Some(rule) = self.cache.rule(self.space, frame.lookup()) else {
                    *last = frame;
                    return End::Lost(Lost::NotCode);
                };
                if !frame.is_return {
                    signals += 1;
                    if signals > MAX_SIGNALS || !stack.switch(frame.sp) {
                        *last = frame;
                        return End::Lost(Lost::OutsideStack);
                    }
                }
                if !keep(frame.pc) {
                    return End::Full;
                }
                match self.architecture {
                    Architecture::X86_64 => match ordinary(&frame, rule, stack) {
                        Some(caller) => frame = caller,
                        None => break rule,
                    },
                    Architecture::Aarch64 => break rule,
                }
            };
            *last = frame;
            next = self.step(&frame, rule, stack);
        }
    }

    /// One step of any kind. Not inlined, so that ordinary ones keep all registers.
    #[inline(never)]
    fn step(&self, frame: &Frame, rule: Packed, stack: &impl Stack) -> Step {
        step(self.architecture, frame, rule, |address| stack.read(address), |_| None)
    }
}
