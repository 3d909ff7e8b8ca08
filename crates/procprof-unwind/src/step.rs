//! One step from a frame to its caller: pure, without locks, allocation or panics.
//!
//! A step reads at most three words through the reader it is given, all of them at or above the frame's stack pointer
//! unless the reader allows more. The stack pointer of the caller is always higher (on AArch64: once, in a leaf, it may
//! stay), so a walk ends.

use crate::Architecture;
use crate::rule::{Kind, Packed};
use crate::stack::Stack;

/// A frame: registers as its code sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The interrupted instruction, or where the callee will return to.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer; any value in code that uses the register for data.
    pub fp: u64,
    /// AArch64's link register in an interrupted frame; 0 where it is not known.
    pub lr: u64,
    /// The program counter is a return address: the call is the instruction before it.
    pub is_return: bool,
}

impl Frame {
    /// The address whose rule is the frame's: a call may be a function's last instruction, so of a return address it is
    /// the byte before.
    #[inline(always)]
    pub fn lookup(&self) -> u64 {
        self.pc.wrapping_sub(u64::from(self.is_return))
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The caller.
    Caller(Frame),
    /// The frame has no caller: the thread started here.
    Root,
    /// The caller can't be found.
    Lost(Lost),
}

/// Why a caller can't be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lost {
    /// The entry has a rule that a step does not support, or is broken.
    Unsupported,
    /// The code is not compiled yet and its frame pointer leads nowhere.
    Pending,
    /// The code has no entry and its frame pointer leads nowhere.
    NoFramePointer,
    /// A word to read is outside the stack.
    OutsideStack,
    /// The caller's stack pointer would not be higher: the stack or a register is overwritten.
    NotRising,
    /// The return address points to no code.
    NotCode,
}

/// The offsets of registers from the stack pointer of a signal frame of Linux: `rt_sigframe` of x86-64 after the return
/// address was popped.
mod x86_64_signal {
    pub(super) const FP: u64 = 120;
    pub(super) const SP: u64 = 160;
    pub(super) const PC: u64 = 168;
}

/// The same on AArch64: 128 bytes `siginfo`, 176 to the machine context, 8 to its registers.
pub(crate) mod aarch64_signal {
    pub(crate) const FIRST: u64 = 312;
    pub(super) const FP: u64 = FIRST + 8 * 29;
    pub(super) const LR: u64 = FIRST + 8 * 30;
    pub(super) const SP: u64 = FIRST + 8 * 31;
    pub(crate) const PC: u64 = FIRST + 8 * 32;
}

/// Steps from a frame, whose rule is `rule`, to its caller.
///
/// `read` returns the word at an address, or `None` if it is not in the stack. `register` returns other registers by
/// DWARF number; only an interrupted frame has them.
#[inline(always)]
pub fn step(
    architecture: Architecture,
    frame: &Frame,
    rule: Packed,
    read: impl Fn(u64) -> Option<u64>,
    register: impl Fn(u8) -> Option<u64>,
) -> Step {
    let (sp, fp, offset) = (frame.sp, frame.fp, i64::from(rule.offset()) as u64);
    let cfa = match rule.kind() {
        Kind::FramePointer => return by_frame_pointer(architecture, frame, read).unwrap_or_else(Step::Lost),
        Kind::Unknown => return guessed(architecture, frame, &read, Lost::NoFramePointer),
        Kind::Sp => sp.wrapping_add(offset),
        Kind::Fp => fp.wrapping_add(offset),
        kind => match rare(architecture, kind, frame, rule, &read, register) {
            Ok(cfa) => cfa,
            Err(step) => return step,
        },
    };
    to_caller(architecture, frame, rule, cfa, read).unwrap_or_else(Step::Lost)
}

/// The most frequent steps of x86-64 in few instructions; `None` for all others, for the thread's first frame and where
/// something is wrong.
#[inline(always)]
pub(crate) fn ordinary(frame: &Frame, rule: Packed, stack: &impl Stack) -> Option<Frame> {
    let (pc, sp, fp) = match rule.kind() {
        Kind::FramePointer => {
            let (fp, pc) = stack.read_pair(frame.fp)?;
            if frame.fp < frame.sp {
                return None;
            }
            (pc, frame.fp.wrapping_add(16), fp)
        }
        Kind::Sp | Kind::Fp if rule.last() == 1 => {
            let base = if rule.kind() == Kind::Sp { frame.sp } else { frame.fp };
            let cfa = base.wrapping_add(i64::from(rule.offset()) as u64);
            if cfa <= frame.sp {
                return None;
            }
            match rule.fp_words() {
                0 => (stack.read(cfa.wrapping_sub(8))?, cfa, frame.fp),
                2 => {
                    let (fp, pc) = stack.read_pair(cfa.wrapping_sub(16))?;
                    (pc, cfa, fp)
                }
                _ if rule.fp_is_at_fp() => return None,
                words => (stack.read(cfa.wrapping_sub(8))?, cfa, stack.read(cfa.wrapping_sub(8 * words))?),
            }
        }
        _ => return None,
    };
    (pc != 0).then_some(Frame { pc, sp, fp, lr: 0, is_return: true })
}

/// The CFA of the less usual kinds, or the step where the CFA is not all.
#[cold]
fn rare(
    architecture: Architecture,
    kind: Kind,
    frame: &Frame,
    rule: Packed,
    read: &impl Fn(u64) -> Option<u64>,
    register: impl Fn(u8) -> Option<u64>,
) -> Result<u64, Step> {
    let offset = i64::from(rule.offset()) as u64;
    let load = |address: u64| read(address).ok_or(Step::Lost(Lost::OutsideStack));
    let plus = i64::from(rule.last() as i16) as u64;
    match kind {
        Kind::DerefSp => Ok(load(frame.sp.wrapping_add(offset))?.wrapping_add(plus)),
        Kind::DerefFp => Ok(load(frame.fp.wrapping_add(offset))?.wrapping_add(plus)),
        Kind::Plt => Ok(frame.sp.wrapping_add(if frame.pc & 15 >= offset { 16 } else { 8 })),
        Kind::Register => match register(rule.last() as u8) {
            Some(value) if !frame.is_return => Ok(value.wrapping_add(offset)),
            _ => Err(Step::Lost(Lost::Unsupported)),
        },
        Kind::Signal => {
            Err(interrupted(architecture, frame.sp, read).map_or(Step::Lost(Lost::OutsideStack), Step::Caller))
        }
        Kind::Root => Err(Step::Root),
        Kind::Pending => Err(guessed(architecture, frame, read, Lost::Pending)),
        _ => Err(Step::Lost(Lost::Unsupported)),
    }
}

/// The registers that the kernel saved when it called a signal handler.
fn interrupted(architecture: Architecture, sp: u64, read: &impl Fn(u64) -> Option<u64>) -> Option<Frame> {
    let word = |offset: u64| read(sp.wrapping_add(offset));
    Some(match architecture {
        Architecture::X86_64 => {
            use x86_64_signal::{FP, PC, SP};
            Frame { pc: word(PC)?, sp: word(SP)?, fp: word(FP)?, lr: 0, is_return: false }
        }
        Architecture::Aarch64 => {
            use aarch64_signal::{FP, LR, PC, SP};
            Frame { pc: word(PC)?, sp: word(SP)?, fp: word(FP)?, lr: word(LR)?, is_return: false }
        }
    })
}

/// Follows the frame pointer of code whose rules are not known, if it looks like one. By the ABIs it is zero in a
/// thread's first frame; but in an interrupted one it may be any function's that uses it for data. A return address of
/// zero is no root here: it is what a frame pointer that is none finds in memory that nothing has written.
#[inline]
fn guessed(architecture: Architecture, frame: &Frame, read: &impl Fn(u64) -> Option<u64>, otherwise: Lost) -> Step {
    if frame.fp < frame.sp || !frame.fp.is_multiple_of(8) {
        let is_first = frame.fp == 0 && frame.is_return && otherwise == Lost::NoFramePointer;
        return if is_first { Step::Root } else { Step::Lost(otherwise) };
    }
    match by_frame_pointer(architecture, frame, read) {
        Err(_) | Ok(Step::Root) => Step::Lost(otherwise),
        Ok(step) => step,
    }
}

/// The caller by the frame pointer: it points to the saved one, and the return address is above it.
#[inline(always)]
fn by_frame_pointer(
    architecture: Architecture,
    frame: &Frame,
    read: impl Fn(u64) -> Option<u64>,
) -> Result<Step, Lost> {
    if frame.fp < frame.sp {
        return Err(Lost::NotRising);
    }
    let fp = read(frame.fp).ok_or(Lost::OutsideStack)?;
    let pc = read(frame.fp.wrapping_add(8)).ok_or(Lost::OutsideStack)?;
    Ok(caller(architecture, pc, frame.fp.wrapping_add(16), fp))
}

/// The caller of a frame whose CFA is known.
#[inline(always)]
fn to_caller(
    architecture: Architecture,
    frame: &Frame,
    rule: Packed,
    cfa: u64,
    read: impl Fn(u64) -> Option<u64>,
) -> Result<Step, Lost> {
    let below = |words: u64| read(cfa.wrapping_sub(8 * words)).ok_or(Lost::OutsideStack);
    let ra_words = match architecture {
        Architecture::X86_64 => 1,
        Architecture::Aarch64 => u64::from(rule.last()),
    };
    let is_in_lr = architecture == Architecture::Aarch64 && ra_words == 0;
    if cfa < frame.sp || (cfa == frame.sp && !(is_in_lr && frame.lr != 0)) {
        return Err(Lost::NotRising);
    }
    let pc = if !is_in_lr {
        below(ra_words)?
    } else if frame.lr != 0 {
        frame.lr
    } else {
        return Err(Lost::Unsupported);
    };
    let fp = match rule.fp_words() {
        0 => frame.fp,
        _ if rule.fp_is_at_fp() => read(frame.fp).ok_or(Lost::OutsideStack)?,
        words => below(words)?,
    };
    Ok(caller(architecture, pc, cfa, fp))
}

#[inline(always)]
fn caller(architecture: Architecture, pc: u64, sp: u64, fp: u64) -> Step {
    let pc = architecture.code_address(pc);
    if pc == 0 { Step::Root } else { Step::Caller(Frame { pc, sp, fp, lr: 0, is_return: true }) }
}

#[cfg(test)]
mod tests;
