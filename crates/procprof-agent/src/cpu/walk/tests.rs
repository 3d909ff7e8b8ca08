//! The walk over made-up stacks: honest, corrupted, endless and deep ones.

use super::*;
use procprof_unwind::{Code, Space, StackCopy};
use std::sync::Arc;

const CODE: u64 = 0x40_0000;
const STACK: u64 = 0x7000_0000;

fn regions() -> Regions {
    let mut regions = Regions::parse("400000-500000 r-xp 0 0:0 0 /bin/a\n70000000-70100000 rw-p 0 0:0 0 \n", 0);
    regions.space = Arc::new(Space::new(vec![Code { range: CODE..CODE + 0x10_0000, bias: 0, table: None }], 1));
    regions
}

fn copied(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Walks `words` laid out from [`STACK`] upwards.
fn walked(words: &[u64], fp: u64) -> (Vec<u64>, End) {
    let registers =
        Registers { frame: Frame { pc: 0x1, sp: STACK, fp, ..Frame::default() }, context: std::ptr::null() };
    let mut kept = Vec::new();
    let bytes = copied(words);
    let stack = StackCopy { start: STACK, bytes: &bytes };
    let how = frames(registers, stack, &regions(), &Cache::new(), |address| {
        let has_room = kept.len() < MAX_DEPTH;
        kept.extend(has_room.then_some(address));
        has_room
    });
    (kept, how)
}

fn at(word: u64) -> u64 {
    STACK + 8 * word
}

#[test]
fn follows_rising_frames_to_the_root() {
    let words = |last| [7, at(4), CODE + 1, 9, last, CODE + 2, 0, 0];
    assert_eq!(walked(&words(0), at(1)), (vec![1, CODE + 1, CODE + 2], End::Root));
    // Zeros are what memory that nothing has written has, too.
    assert_eq!(walked(&words(at(6)), at(1)), (vec![1, CODE + 1, CODE + 2], End::Lost));
}

#[test]
fn stops_where_a_frame_pointer_lies() {
    for (fp, why) in
        [(at(1) + 4, "misaligned"), (STACK - 16, "below the stack"), (at(7), "past the end"), (u64::MAX - 7, "wraps")]
    {
        assert_eq!(walked(&[0; 8], fp).0, vec![1], "{why}");
    }
    let falling = [0, 0, at(0), CODE + 5, 0, 0];
    assert_eq!(walked(&falling, at(2)).0, vec![1, CODE + 5], "falling");
    let itself = [at(0), CODE + 5, 0, 0];
    assert_eq!(walked(&itself, at(0)).0, vec![1, CODE + 5], "points to itself");
    let data = [at(2), 0xdead_beef, at(4), CODE + 1];
    assert_eq!(walked(&data, at(0)).0, vec![1], "return address outside code");
}

#[test]
fn a_deep_stack_is_cut_and_marked() {
    let frames = MAX_DEPTH as u64 + 10;
    let words: Vec<u64> = (0..frames).flat_map(|i| [at(2 * (i + 1)), CODE + 1 + i]).collect();
    let (kept, how) = walked(&words, at(0));
    assert_eq!((kept.len(), how), (MAX_DEPTH, End::Truncated));
}

#[test]
fn the_control_block_ends_a_stack_only_above_the_stack_pointer() {
    assert_eq!(stack_end(100, 1000, 900), 900);
    assert_eq!(stack_end(100, 1000, 50), 1000);
    assert_eq!(stack_end(100, 1000, 2000), 1000);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn the_caller_is_known_at_the_first_instructions_and_at_the_last() {
    let code: [u8; 8] = [0x55, 0x48, 0x89, 0xe5, 0x90, 0xc3, 0x90, 0x90];
    let base = code.as_ptr() as u64;
    let maps = format!("{:x}-{:x} r-xp 0 0:0 0 \n400000-500000 r-xp 0 0:0 0 \n", base, base + 8);
    let mut lines: Vec<&str> = maps.lines().collect();
    lines.sort_by_key(|line| u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap());
    let regions = Regions::parse(&lines.join("\n"), 0);
    let bytes = copied(&[CODE + 1, CODE + 2]);
    let caller = |pc: u64| {
        let frame = Frame { pc, sp: STACK, ..Frame::default() };
        caller_of_unfinished_frame(frame, &regions, &StackCopy { start: STACK, bytes: &bytes })
            .map(|caller| (caller.pc, caller.sp))
    };
    assert_eq!(caller(base), Some((CODE + 1, at(1))), "push rbp");
    assert_eq!(caller(base + 1), Some((CODE + 2, at(2))), "mov rbp, rsp");
    assert_eq!(caller(base + 4), None, "inside");
    assert_eq!(caller(base + 5), Some((CODE + 1, at(1))), "ret");
}
