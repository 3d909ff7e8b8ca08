//! From interrupted registers to the addresses of a stack, by unwind tables and frame pointers.
//!
//! It reads only words between the interrupted stack pointer and the end of the stack the thread is on, goes only
//! upwards, and keeps a return address only if it points into executable memory. So a register that holds data, or a
//! stack that was overwritten, ends the walk early and never faults. A thread's own stack is mapped for as long as the
//! thread lives ([`thread_stack`]); of any other stack (coroutines, alternate stacks) the part above the stack pointer
//! may have been unmapped since the snapshot, and is checked by a system call once a page. Instructions are read on the
//! page that is being executed and nowhere else.

use super::regions::Regions;
use super::registers::{Registers, thread_pointer};
use super::scan;
use super::thread_stack;
use procprof_unwind::{self as unwind, Architecture, Cache, Frame, Lost, Rule, Stack, Walker};
use std::cell::Cell;

/// Frames kept of one stack; what lies nearer the root is dropped and the sample is flagged as truncated.
pub(crate) const MAX_DEPTH: usize = 512;

/// Marks unknown frames before callers that were found by a scan of the stack.
pub(crate) const SCANNED: u64 = u64::MAX;

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At the thread's first frame.
    Root,
    /// [`MAX_DEPTH`] frames were kept and there are more.
    Truncated,
    /// The stack pointer lies in no known stack; only the leaf was kept.
    UnknownStack,
    /// The interrupted instruction lies in no known code: it was mapped after the snapshot, and callers in it can't be
    /// distinguished from data.
    UnknownCode,
    /// At the thread's first frame, with callers that were found by a [`scan`](super::scan); [`SCANNED`] precedes them
    /// among the addresses.
    Scanned,
    /// No further caller was found: code with neither tables nor frame pointers, or tables that are not compiled yet.
    Lost,
}

/// The stack a walk is on: from its stack pointer up to the end of its mapping, cut at the thread's control block.
#[derive(Clone)]
struct LiveStack<'a> {
    start: u64,
    end: u64,
    /// Up to here it can be read, for certain.
    trusted: Cell<u64>,
    regions: &'a Regions,
}

/// Pages are of this size or a multiple of it.
const PAGE: u64 = 4096;

impl<'a> LiveStack<'a> {
    fn at(sp: u64, regions: &'a Regions) -> Option<Self> {
        let stack = regions.stacks.find(sp)?;
        let own = thread_stack::within(&stack).filter(|own| own.contains(&sp));
        let (end, trusted) = match own {
            Some(own) => (own.end, own.end),
            None if regions.main_stack.contains(&sp) => (stack.end, stack.end),
            None => (stack_end(sp, stack.end, thread_pointer()), sp / PAGE * PAGE),
        };
        Some(Self { start: sp, end, trusted: Cell::new(trusted), regions })
    }

    /// Whether a word beyond what is trusted can be read.
    #[cold]
    fn is_readable(&self, address: u64) -> bool {
        if address + 8 > self.end || !crate::is_readable(address) {
            return false;
        }
        if address / PAGE * PAGE == self.trusted.get() {
            self.trusted.set(self.trusted.get() + PAGE);
        }
        true
    }
}

impl Stack for LiveStack<'_> {
    #[inline(always)]
    fn read(&self, address: u64) -> Option<u64> {
        let end = address.checked_add(8)?;
        if address < self.start
            || !address.is_multiple_of(8)
            || (end > self.trusted.get() && !self.is_readable(address))
        {
            return None;
        }
        // SAFETY: from a live stack pointer up to the end of its mapping, by the contract of `walk`.
        Some(unsafe { (address as *const u64).read_volatile() })
    }

    #[inline(always)]
    fn read_pair(&self, address: u64) -> Option<(u64, u64)> {
        let end = address.checked_add(16)?;
        if address < self.start || !address.is_multiple_of(8) || end > self.trusted.get() {
            return Some((self.read(address)?, self.read(address + 8)?));
        }
        let words = address as *const u64;
        // SAFETY: as above.
        Some(unsafe { (words.read_volatile(), words.add(1).read_volatile()) })
    }

    /// The interrupted frame of a signal handler that is still running: its stack is as alive.
    fn switch(&mut self, sp: u64) -> bool {
        match Self::at(sp, self.regions) {
            Some(stack) => {
                *self = stack;
                true
            }
            None => false,
        }
    }
}

/// Hands the interrupted instruction, then return addresses from leaf to root, to `keep`, which answers whether it had
/// room.
///
/// # Safety
/// Runs on the interrupted thread while `registers` are its own, and `regions` were true when the thread was seen.
#[inline]
pub(crate) unsafe fn walk(
    registers: Registers,
    regions: &Regions,
    cache: &Cache,
    mut keep: impl FnMut(u64) -> bool,
) -> End {
    let Some(stack) = LiveStack::at(registers.frame.sp, regions) else {
        keep(registers.frame.pc);
        return End::UnknownStack;
    };
    match frames(registers, stack, regions, cache, keep) {
        End::Lost if regions.space.find(registers.frame.pc).is_none() => End::UnknownCode,
        end => end,
    }
}

/// The first address that is no longer this stack: the control block where it lies in the same mapping.
fn stack_end(sp: u64, mapping_end: u64, control_block: u64) -> u64 {
    if control_block > sp && control_block < mapping_end { control_block } else { mapping_end }
}

/// The walk itself, over any memory.
#[inline]
fn frames(
    registers: Registers,
    mut stack: impl Stack + Clone,
    regions: &Regions,
    cache: &Cache,
    mut keep: impl FnMut(u64) -> bool,
) -> End {
    let Some(architecture) = Architecture::native() else { return End::Lost };
    let walker = Walker { architecture, space: &regions.space, cache };
    let mut frame = registers.frame;
    let rule = cache.rule(&regions.space, frame.pc).map_or(Rule::Unknown, |rule| rule.rule());
    if matches!(rule, Rule::Unknown | Rule::Pending)
        && let Some(caller) = caller_of_unfinished_frame(frame, regions, &stack)
    {
        keep(frame.pc);
        frame = caller;
    }
    let mut last = frame;
    match walker.walk_noting(frame, |number| registers.other(number), &mut stack, &mut keep, &mut last) {
        unwind::End::Root => End::Root,
        unwind::End::Full => End::Truncated,
        unwind::End::Lost(Lost::Pending) => {
            ask_for_all(frame.sp, &stack, regions);
            End::Lost
        }
        unwind::End::Lost(_) => match scan::caller(&walker, last, &stack) {
            Some(caller) if keep(SCANNED) => match walker.walk(caller, |_| None, &mut stack, keep) {
                unwind::End::Full => End::Truncated,
                _ => End::Scanned,
            },
            _ => End::Lost,
        },
    }
}

/// Requests the tables of all code that words of the stack point to: requests as the walk meets it would take a tick a
/// frame.
#[cold]
fn ask_for_all(sp: u64, stack: &impl Stack, regions: &Regions) {
    const WORDS: u64 = 1024;
    for word in (0..WORDS).map_while(|word| stack.read(sp.wrapping_add(8 * word))) {
        // A look-up requests the rule's table.
        let _ = regions.space.rule(word);
    }
}

/// The caller of a function without tables that has not set up its frame yet, or has just given it up.
///
/// In that moment the frame pointer is still the caller's, and following it would lose the caller. On x86-64 a few
/// instructions prove it: `endbr64` and `push rbp` about to run, `mov rbp, rsp` right after it, `ret`, and the jump of
/// a linkage stub.
#[cfg(target_arch = "x86_64")]
#[inline]
fn caller_of_unfinished_frame(frame: Frame, regions: &Regions, stack: &impl Stack) -> Option<Frame> {
    const PUSH_RBP: u8 = 0x55;
    const MOV_RBP_RSP: [[u8; 3]; 2] = [[0x48, 0x89, 0xe5], [0x48, 0x8b, 0xec]];
    const RET: u8 = 0xc3;
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    const JMP_RIP_RELATIVE: [u8; 2] = [0xff, 0x25];
    regions.code.find(frame.pc)?;
    let is_beside = |address: u64| address / PAGE == frame.pc / PAGE;
    // SAFETY: `address` lies on the page of readable code that this thread is executing; neighbours may have been
    // unmapped since the snapshot.
    let byte = |address: u64| is_beside(address).then(|| unsafe { (address as *const u8).read_volatile() });
    let offset = match byte(frame.pc)? {
        PUSH_RBP | RET => 0,
        0xff if [0xff, byte(frame.pc + 1)?] == JMP_RIP_RELATIVE => 0,
        0xf3 if [0xf3, byte(frame.pc + 1)?, byte(frame.pc + 2)?, byte(frame.pc + 3)?] == ENDBR64 => 0,
        0x48 if byte(frame.pc - 1)? == PUSH_RBP => {
            let instruction = [0x48, byte(frame.pc + 1)?, byte(frame.pc + 2)?];
            MOV_RBP_RSP.contains(&instruction).then_some(8)?
        }
        _ => return None,
    };
    let slot = frame.sp.checked_add(offset)?;
    let address = stack.read(slot)?;
    regions.code.find(address).map(|_| Frame { pc: address, sp: slot + 8, fp: frame.fp, lr: 0, is_return: true })
}

/// On AArch64 the frame record is written in one instruction at entry; the link register can't be distinguished from
/// stale data without unwind tables, so it is not used.
#[cfg(target_arch = "aarch64")]
#[inline]
fn caller_of_unfinished_frame(_: Frame, _: &Regions, _: &impl Stack) -> Option<Frame> {
    None
}

#[cfg(test)]
mod tests;
