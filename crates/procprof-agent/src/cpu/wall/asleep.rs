//! The stack of a thread that sleeps in a system call, read without waking it.
//!
//! A signal ends most sleeps early (`sleep`, `poll`, `epoll_wait`, …), which makes a program repeat its loop because of
//! the profiler. The kernel reports where a thread sleeps, and its stack is this process's memory:
//!
//! ```text
//! /proc/self/task/TID/syscall   230 0x0 0x0 0x7ffe5c3f0d50 0x7ffe5c3f0d50 0x0 0x0 0x7ffe5c3f0d08 0x7f2b1c4ec7fa
//!                               number, six arguments, stack pointer, program counter; "running" while it is not asleep
//! ```
//!
//! Only these two registers are known. The frame pointer is taken from the stack where it is needed: from the first
//! words that look like its record (a higher place in the stack, and an address behind a call) and lead up to the
//! thread's root. Where none does, the thread has to be signalled after all, and is recognized by its
//! [fingerprint](Reader::fingerprint) when it sleeps there the next time. Memory is copied by the kernel, so a thread
//! that wakes up and unmaps its stack meanwhile costs a failed read, not a fault; the copy counts only if the thread's
//! CPU clock has not advanced.

use crate::cpu::walk::{End, MAX_DEPTH};
use procprof_unwind::{Architecture, Cache, End as WalkEnd, Frame, Lost, Space, StackCopy, Walker};
use std::hash::{BuildHasher, RandomState};

/// Bytes of a stack that are copied.
const STACK_BYTES: usize = 256 << 10;

/// Pages are of this size or a multiple of it.
const PAGE: usize = 4096;

/// Bytes above the stack pointer by which a place is known again.
const FINGERPRINT_BYTES: usize = 4096;

/// Places of frame pointers that are tried.
const MOST_FRAME_POINTERS: usize = 16;

/// The place where a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asleep {
    number: u64,
    sp: u64,
    pc: u64,
}

/// Reads stacks of sleeping threads.
pub(super) struct Reader {
    cache: Box<Cache>,
    bytes: Vec<u8>,
    random: RandomState,
}

/// The result of reading a sleeping thread.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The words of a record: no labels, then the stack's addresses.
    Stack(Vec<u64>, End),
    /// The rules of some of its code are being prepared.
    NotYet,
    /// It can't be read; the place is known again by this.
    Unreadable(u64),
}

/// A thread's state as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whereabouts {
    /// It sleeps in a system call.
    Asleep(Asleep),
    /// It runs, or is ready to.
    Running,
    /// Nothing, or that it sleeps elsewhere.
    Unknown,
}

impl Whereabouts {
    /// Of a thread of this process, now.
    pub(super) fn read(tid: i32) -> Self {
        let line = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall"));
        line.map_or(Self::Unknown, |line| Self::parse(line.trim_end()))
    }

    fn parse(line: &str) -> Self {
        const WORDS: usize = 9;
        if line == "running" {
            return Self::Running;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let address = |index: usize| u64::from_str_radix(words.get(index)?.strip_prefix("0x")?, 16).ok();
        let asleep = || Some(Asleep { number: words[0].parse().ok()?, sp: address(7)?, pc: address(8)? });
        if words.len() == WORDS { asleep().map_or(Self::Unknown, Self::Asleep) } else { Self::Unknown }
    }
}

impl Reader {
    pub(super) fn new() -> Self {
        Self { cache: Box::new(Cache::new()), bytes: Vec::new(), random: RandomState::new() }
    }

    /// Reads the stack of a thread that sleeps there.
    pub(super) fn read(&mut self, asleep: Asleep, space: &Space) -> Read {
        copy(asleep.sp, &mut self.bytes);
        let found = match self.walk(asleep, 0, space) {
            Err(Lost::Pending) => {
                // A look-up requests the rule's table.
                self.words().for_each(|word| _ = space.rule(word));
                return Read::NotYet;
            }
            Ok(found) => Some(found),
            Err(_) => self.frame_pointers(asleep, space).into_iter().find_map(|fp| self.walk(asleep, fp, space).ok()),
        };
        found.map_or_else(|| Read::Unreadable(self.fingerprint(asleep, space)), |(words, end)| Read::Stack(words, end))
    }

    /// Candidates for the frame pointer: places of its records, the nearest first.
    fn frame_pointers(&self, asleep: Asleep, space: &Space) -> Vec<u64> {
        let stack = asleep.sp..asleep.sp + self.bytes.len() as u64;
        let words: Vec<u64> = self.words().collect();
        let places = words.windows(2).zip((asleep.sp..).step_by(8));
        let records = places.filter(|(pair, place)| {
            pair[0] > *place
                && stack.contains(&pair[0])
                && pair[0].is_multiple_of(8)
                && space.find(pair[1]).is_some()
                && follows_call(pair[1])
        });
        records.map(|(_, place)| place).take(MOST_FRAME_POINTERS).collect()
    }

    fn walk(&self, asleep: Asleep, fp: u64, space: &Space) -> Result<(Vec<u64>, End), Lost> {
        let architecture = Architecture::native().ok_or(Lost::Unsupported)?;
        let mut stack = StackCopy { start: asleep.sp, bytes: &self.bytes };
        let frame = Frame { pc: asleep.pc, sp: asleep.sp, fp, ..Frame::default() };
        // No labels.
        let mut words = vec![0];
        let walker = Walker { architecture, space, cache: &self.cache };
        let keep = |address| {
            let is_room = words.len() <= MAX_DEPTH;
            if is_room {
                words.push(address);
            }
            is_room
        };
        match walker.walk(frame, |_| None, &mut stack, keep) {
            WalkEnd::Root => Ok((words, End::Root)),
            WalkEnd::Full => Ok((words, End::Truncated)),
            WalkEnd::Lost(lost) => Err(lost),
        }
    }

    /// By what a place is known again: where it is, and the return addresses near it.
    fn fingerprint(&self, asleep: Asleep, space: &Space) -> u64 {
        let code: Vec<u64> = self.words().filter(|word| space.find(*word).is_some()).collect();
        self.random.hash_one((asleep.number, asleep.sp, asleep.pc, code))
    }

    /// The words next to the stack pointer.
    fn words(&self) -> impl Iterator<Item = u64> {
        let near = &self.bytes[..self.bytes.len().min(FINGERPRINT_BYTES)];
        near.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes))
    }
}

/// Whether the instruction before an address of code is a call.
#[cfg(target_arch = "x86_64")]
fn follows_call(address: u64) -> bool {
    let mut bytes = [0_u8; 7];
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let there = libc::iovec { iov_base: address.wrapping_sub(7) as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: writes to `bytes` alone; the kernel checks where it reads.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &there, 1, 0) };
    copied == bytes.len() as isize && crate::cpu::call::ends(&bytes)
}

/// The instruction before it is not checked: the walk from there decides.
#[cfg(not(target_arch = "x86_64"))]
fn follows_call(_address: u64) -> bool {
    true
}

/// Copies a stack from its stack pointer up, as far as it is there.
fn copy(sp: u64, bytes: &mut Vec<u8>) {
    bytes.resize(STACK_BYTES, 0);
    let mut there = Vec::with_capacity(STACK_BYTES / PAGE + 1);
    let (mut at, end) = (sp, sp.saturating_add(STACK_BYTES as u64));
    while at < end {
        // What is not there ends the copy at its page.
        let next = (at / PAGE as u64 + 1).saturating_mul(PAGE as u64).min(end);
        there.push(libc::iovec { iov_base: at as *mut libc::c_void, iov_len: (next - at) as usize });
        at = next;
    }
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: writes to `bytes` alone; the kernel checks where it reads.
    let copied =
        unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, there.as_ptr(), there.len() as libc::c_ulong, 0) };
    bytes.truncate(usize::try_from(copied).unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::regions::Regions;
    use crate::cpu::tables::Tables;
    use std::time::{Duration, Instant};

    #[test]
    fn the_kernels_line_is_understood() {
        let line = "230 0x0 0x0 0x7ffe5c3f0d50 0x7ffe5c3f0d50 0x0 0x0 0x7ffe5c3f0d08 0x7f2b1c4ec7fa";
        let asleep = Asleep { number: 230, sp: 0x7ffe_5c3f_0d08, pc: 0x7f2b_1c4e_c7fa };
        assert_eq!(Whereabouts::parse(line), Whereabouts::Asleep(asleep));
        assert_eq!(Whereabouts::parse("running"), Whereabouts::Running);
        let strange = ["-1 0x7ffe5c3f0d08 0x7f2b1c4ec7fa", "", "0 1 2 3 4 5 6 7 8"];
        assert_eq!(strange.map(Whereabouts::parse), [Whereabouts::Unknown; 3]);
    }

    #[test]
    fn a_sleeping_thread_is_read_up_to_its_root_and_goes_on_sleeping() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (sleeper, wake) = (std::sync::mpsc::channel::<()>(), Duration::from_secs(600));
        let thread = std::thread::spawn(move || {
            // SAFETY: takes no argument and can't fail.
            sender.send(unsafe { libc::gettid() }).unwrap();
            sleeper.1.recv_timeout(wake).is_ok()
        });
        let tid = receiver.recv().unwrap();
        let start = Instant::now();
        let asleep = loop {
            match Whereabouts::read(tid) {
                Whereabouts::Asleep(asleep) => break asleep,
                _ if start.elapsed() > Duration::from_secs(300) => panic!("it does not sleep"),
                _ => std::thread::yield_now(),
            }
        };
        let space = Regions::of_this_process(&mut Tables::default()).space;
        let mut reader = Reader::new();
        let read = reader.read(asleep, &space);
        assert!(matches!(&read, Read::Stack(words, End::Root) if words.len() > 4 && words[1] == asleep.pc), "{read:?}");
        assert_eq!((reader.read(asleep, &space), Whereabouts::read(tid)), (read, Whereabouts::Asleep(asleep)));
        let nowhere = Asleep { sp: 16, ..asleep };
        let unreadable = reader.read(nowhere, &space);
        assert!(matches!(unreadable, Read::Unreadable(_)) && unreadable == reader.read(nowhere, &space));
        sleeper.0.send(()).unwrap();
        assert!(thread.join().unwrap());
    }
}
