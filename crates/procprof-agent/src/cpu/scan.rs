//! Callers above code that has neither unwind tables nor frame pointers: found by looking through the stack.
//!
//! Assembly, compiled scripts and interpreters leave no way from a frame to its caller. But their C callers have
//! tables, and have left a return address above. So the words above the lost frame are looked through for one that is
//!
//! - in code with tables;
//! - the beginning of a walk that reaches a function which the tables mark as the thread's first.
//!
//! The frames between are missing, and a word that an earlier call has left may be taken for the caller; so such
//! callers are marked and counted. A scan is bounded in words and steps.

#[cfg(target_arch = "x86_64")]
use procprof_unwind::{End, Rule};
use procprof_unwind::{Frame, Stack, Walker};

/// Words that are looked through: 16 KiB.
#[cfg(target_arch = "x86_64")]
const WORDS: u64 = 2048;

/// Frames that all tries together may take.
#[cfg(target_arch = "x86_64")]
const STEPS: u32 = 2048;

/// Return addresses that are tried, and frame pointers with each.
#[cfg(target_arch = "x86_64")]
const TRIES: usize = 12;
#[cfg(target_arch = "x86_64")]
const FRAME_POINTERS: usize = 4;

/// How far above its frame the record is that a frame pointer points to.
#[cfg(target_arch = "x86_64")]
const FARTHEST_RECORD: u64 = 1 << 20;

/// The nearest caller above `lost` from which the thread's first frame can be reached. Async-signal-safe if `stack` is.
#[cfg(target_arch = "x86_64")]
#[cold]
#[inline(never)]
pub(super) fn caller(walker: &Walker<'_>, lost: Frame, stack: &(impl Stack + Clone)) -> Option<Frame> {
    let start = lost.sp.checked_next_multiple_of(8)?;
    let slots = (0..WORDS).map(|index| start.wrapping_add(8 * index));
    let words = slots.map_while(|slot| Some((slot, stack.read(slot)?)));
    let mut steps = STEPS;
    let mut reaches_root = |frame: Frame| {
        let keep = |_| {
            steps = steps.saturating_sub(1);
            steps > 0
        };
        let mut last = frame;
        let end = walker.walk_noting(frame, |_| None, &mut stack.clone(), keep, &mut last);
        // A return address of 0 ends a walk, too, but zeros lie about everywhere.
        end == End::Root && walker.cache.rule(walker.space, last.lookup()).is_some_and(|rule| rule.rule() == Rule::Root)
    };
    for (slot, word) in words.filter(|(_, word)| is_return_address(walker, *word)).take(TRIES) {
        let frame = Frame { pc: word, sp: slot.wrapping_add(8), fp: lost.fp, lr: 0, is_return: true };
        if reaches_root(frame) {
            return Some(frame);
        }
        // The frame pointer may be among what the lost frames have saved, the last one nearest to the return address.
        let below = (slot - start) / 8;
        let saved = (1..=below).filter_map(|distance| stack.read(slot - 8 * distance));
        let records =
            saved.filter(|word| word.is_multiple_of(8) && (slot..slot.saturating_add(FARTHEST_RECORD)).contains(word));
        if let Some(frame) =
            records.take(FRAME_POINTERS).map(|fp| Frame { fp, ..frame }).find(|frame| reaches_root(*frame))
        {
            return Some(frame);
        }
    }
    None
}

/// Whether a word may be a return address: one in code with tables. The instruction before it is not checked: a handler
/// reads no code that may be unmapped.
#[cfg(target_arch = "x86_64")]
fn is_return_address(walker: &Walker<'_>, word: u64) -> bool {
    let rule = walker.cache.rule(walker.space, word.wrapping_sub(1));
    rule.is_some_and(|rule| matches!(rule.rule(), Rule::Frame { .. } | Rule::Root))
}

/// Return addresses of leaf functions are in a register there, and no instruction before them distinguishes them from
/// data.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn caller(_walker: &Walker<'_>, _lost: Frame, _stack: &(impl Stack + Clone)) -> Option<Frame> {
    None
}
