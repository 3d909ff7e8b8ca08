//! The frame-pointer walk: from interrupted registers to the addresses of a stack.
//!
//! It reads only words between the interrupted stack pointer and the end of the stack the thread is on, follows frame
//! pointers only while they strictly rise, and keeps a return address only if it points into executable memory. So a
//! register that holds data, or a stack that was overwritten, ends the walk early and never faults.

use super::regions::Regions;
use super::registers::{Registers, plain, thread_pointer};
use std::ops::Range;

/// Frames kept of one stack; what lies nearer the root is dropped and the sample is flagged as truncated.
pub(crate) const MAX_DEPTH: usize = 512;

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// No further frame was found: the thread's root, or code without frame pointers.
    Reached,
    /// [`MAX_DEPTH`] frames were kept and there are more.
    Truncated,
    /// The stack pointer lies in no known stack; only the leaf was kept.
    UnknownStack,
    /// The interrupted instruction lies in no known code: it was mapped after the snapshot, and callers in it are not told from data.
    UnknownCode,
}

/// Hands the interrupted instruction, then return addresses from leaf to root, to `keep`.
///
/// # Safety
/// Runs on the interrupted thread while `registers` are its own, and `regions` were true when the thread was seen.
#[inline]
pub(crate) unsafe fn walk(registers: Registers, regions: &Regions, mut keep: impl FnMut(u64)) -> End {
    keep(registers.pc);
    let Some(stack) = regions.stacks.find(registers.sp) else { return End::UnknownStack };
    let end = stack_end(registers.sp, stack.end, thread_pointer());
    // SAFETY: from the live stack pointer up to the end of its mapping, cut at the thread's control block.
    let load = |address: u64| unsafe { (address as *const u64).read_volatile() };
    let here = regions.code.find(registers.pc);
    let is_known = here.is_some();
    match frames(registers, here.unwrap_or_default(), end, regions, load, keep) {
        End::Reached if !is_known => End::UnknownCode,
        end => end,
    }
}

/// The first address that is no longer this stack: the control block where it lies in the same mapping.
fn stack_end(sp: u64, mapping_end: u64, control_block: u64) -> u64 {
    if control_block > sp && control_block < mapping_end { control_block } else { mapping_end }
}

/// The walk itself, over any memory; `code` is the code range that was interrupted, empty where it is not known.
#[inline]
fn frames(
    registers: Registers,
    mut code: Range<u64>,
    end: u64,
    regions: &Regions,
    load: impl Fn(u64) -> u64,
    mut keep: impl FnMut(u64),
) -> End {
    let mut depth = 1;
    let (mut lowest, mut frame) = (registers.sp, registers.fp);
    if let Some(address) = caller_of_unfinished_frame(registers, &code, end, regions, &load) {
        keep(address);
        depth += 1;
    }
    while frame >= lowest && frame.is_multiple_of(8) && frame.checked_add(16).is_some_and(|top| top <= end) {
        let (next, address) = (load(frame), plain(load(frame + 8)));
        if !code.contains(&address) {
            match regions.code.find(address) {
                Some(range) => code = range,
                None => break,
            }
        }
        if depth == MAX_DEPTH {
            return End::Truncated;
        }
        keep(address);
        depth += 1;
        (lowest, frame) = (frame + 16, next);
    }
    End::Reached
}

/// The caller of a function that has not set up its frame yet, or has just given it up.
///
/// In that moment the frame pointer is still the caller's, and a plain walk would lose the caller. On x86-64 three
/// instructions tell it for certain: `push rbp` about to run, `mov rbp, rsp` right after it, and `ret`.
#[cfg(target_arch = "x86_64")]
#[inline]
fn caller_of_unfinished_frame(
    registers: Registers,
    code: &Range<u64>,
    end: u64,
    regions: &Regions,
    load: impl Fn(u64) -> u64,
) -> Option<u64> {
    const PUSH_RBP: u8 = 0x55;
    const MOV_RBP_RSP: [[u8; 3]; 2] = [[0x48, 0x89, 0xe5], [0x48, 0x8b, 0xec]];
    const RET: u8 = 0xc3;
    // SAFETY: `address` lies in the mapped, readable code that this thread is executing.
    let byte = |address: u64| code.contains(&address).then(|| unsafe { (address as *const u8).read_volatile() });
    let offset = match byte(registers.pc)? {
        PUSH_RBP | RET => 0,
        0x48 if byte(registers.pc - 1)? == PUSH_RBP => {
            let instruction = [0x48, byte(registers.pc + 1)?, byte(registers.pc + 2)?];
            MOV_RBP_RSP.contains(&instruction).then_some(8)?
        }
        _ => return None,
    };
    let slot = registers.sp.checked_add(offset)?;
    if !slot.is_multiple_of(8) || slot.checked_add(8)? > end {
        return None;
    }
    let address = load(slot);
    regions.code.find(address).map(|_| address)
}

/// On AArch64 the frame record is written in one instruction at entry; the link register can't be told from stale
/// data without unwind tables, so it is not used.
#[cfg(target_arch = "aarch64")]
#[inline]
fn caller_of_unfinished_frame(_: Registers, _: &Range<u64>, _: u64, _: &Regions, _: impl Fn(u64) -> u64) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests;
