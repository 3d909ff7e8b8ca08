//! The end of the walk of a stack.

use procprof_unwind::Lost;

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

impl Ending {
    /// The end of a stack whose caller can't be found, by the frame pointer there and by the copy's bytes, its limit
    /// and its start.
    pub(crate) fn without_caller(lost: Lost, fp: u64, bytes: u64, limit: u64, start: u64) -> Ending {
        let is_cut = bytes >= limit;
        // Of code without tables only its frame pointer tells that the stack goes on.
        let goes_on = (bytes..MAX_STACK_BYTES).contains(&fp.wrapping_sub(start));
        match lost {
            Lost::OutsideStack if is_cut => Ending::Cut,
            Lost::NoFramePointer if is_cut && goes_on => Ending::Cut,
            lost => Ending::Lost(lost),
        }
    }
}
