//! Words of the stack a thread is on, read without a fault whatever the address.
//!
//! A thread's own stack is known from its first frame to its end and read directly. Of another one (a coroutine's) only
//! the page of the stack pointer is sure to be mapped: further ones are copied by the kernel, one at a time.

use crate::countdown::ThreadState;
use procprof_unwind::Stack;
use std::cell::Cell;

const PAGE_BYTES: u64 = 4096;

/// A page's words.
pub(super) type Page = [Cell<u64>; PAGE_BYTES as usize / 8];

/// How far above the stack pointer a stack that is not the thread's own is read.
const FOREIGN_BYTES: u64 = 16 << 20;

/// The stack from a live frame upwards.
pub(super) struct Words<'a> {
    start: u64,
    /// The end of what may be read directly.
    end: u64,
    /// The end of the readable range.
    limit: u64,
    copy: &'a Page,
    /// The address of the page that was copied; 0 for none.
    copied: Cell<u64>,
}

impl<'a> Words<'a> {
    /// The stack that `sp` points into, `sp` being the stack pointer of a frame that is alive. The thread is busy.
    pub(super) fn from(sp: u64, thread: &ThreadState, copy: &'a Page) -> Self {
        let (start, end) = own_stack(thread);
        let (end, limit) = if (start..end).contains(&sp) {
            (end, end)
        } else {
            ((sp | (PAGE_BYTES - 1)).saturating_add(1), sp.saturating_add(FOREIGN_BYTES))
        };
        Self { start: sp, end, limit, copy, copied: Cell::new(0) }
    }

    /// The word at an address beyond what is known to be there.
    #[cold]
    fn ask(&self, address: u64) -> Option<u64> {
        let page = address & !(PAGE_BYTES - 1);
        if self.copied.replace(page) != page && !copy_page(page, self.copy) {
            self.copied.set(0);
            return None;
        }
        self.copy.get((address - page) as usize / 8).map(Cell::get)
    }
}

impl Stack for Words<'_> {
    #[inline(always)]
    fn read(&self, address: u64) -> Option<u64> {
        let end = address
            .checked_add(8)
            .filter(|end| address >= self.start && address.is_multiple_of(8) && *end <= self.limit)?;
        if end > self.end {
            return self.ask(address);
        }
        // SAFETY: between the stack pointer of a frame that is alive and the end of the stack, or of the page, it is
        // on.
        Some(unsafe { (address as *const u64).read_volatile() })
    }

    fn switch(&mut self, sp: u64) -> bool {
        (self.start..self.end).contains(&sp)
    }
}

/// Copies a page of this process; false where there is none that can be read, or the system call is refused.
fn copy_page(page: u64, copy: &Page) -> bool {
    let local = libc::iovec { iov_base: copy.as_ptr().cast_mut().cast(), iov_len: PAGE_BYTES as usize };
    let remote = libc::iovec { iov_base: page as *mut libc::c_void, iov_len: PAGE_BYTES as usize };
    // SAFETY: writes to `copy`, whose cells allow it, and reads by the kernel, which checks the address.
    let read = unsafe {
        libc::syscall(libc::SYS_process_vm_readv, libc::getpid(), &local, 1_usize, &remote, 1_usize, 0_usize)
    };
    read == PAGE_BYTES as i64
}

/// The bounds of the thread's own stack; an empty range where they are not known.
fn own_stack(thread: &ThreadState) -> (u64, u64) {
    if thread.stack.get() == (0, 0) {
        thread.stack.set(ask_for_stack().unwrap_or((1, 1)));
    }
    thread.stack.get()
}

/// Queries the C library, which may allocate.
fn ask_for_stack() -> Option<(u64, u64)> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut start, mut length) = (std::ptr::null_mut(), 0_usize);
    // SAFETY: fills `attributes` for the calling thread, reads them, and gives them back.
    let known = unsafe {
        let known = libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) == 0;
        if known {
            libc::pthread_attr_getstack(attributes.as_ptr(), &mut start, &mut length);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
        }
        known
    };
    known.then_some((start as u64, start as u64 + length as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_another_stack_are_read_as_far_as_there_are_any() {
        const PAGES: usize = 3;
        let bytes = (PAGES + 1) * PAGE_BYTES as usize;
        // SAFETY: a fresh mapping, whose last page can't be read.
        let memory = unsafe {
            let memory = libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_eq!(
                libc::mprotect(memory.byte_add(PAGES * PAGE_BYTES as usize), PAGE_BYTES as usize, libc::PROT_NONE),
                0
            );
            memory as u64
        };
        let words = PAGES as u64 * PAGE_BYTES / 8;
        // SAFETY: within the pages that can be written.
        (0..words).for_each(|index| unsafe { ((memory + 8 * index) as *mut u64).write(index) });
        let copy = [const { Cell::new(0) }; 512];
        let stack = Words::from(memory + 800, &ThreadState::new(), &copy);
        (100..words).chain([600, 1500, 600]).for_each(|index| assert_eq!(stack.read(memory + 8 * index), Some(index)));
        assert_eq!(
            [memory + 792, memory + 801, memory + 8 * words, u64::MAX - 7].map(|address| stack.read(address)),
            [None; 4]
        );
        assert_eq!(stack.read(memory + 8 * 1500), Some(1500), "after a page that can't be read");
        // SAFETY: mapped above.
        unsafe { libc::munmap(memory as *mut libc::c_void, bytes) };
    }

    #[test]
    fn a_threads_own_stack_is_read_to_its_end_and_not_beyond() {
        let thread = ThreadState::new();
        let here = 7_u64;
        let sp = std::ptr::from_ref(&here) as u64;
        let copy = [const { Cell::new(0) }; 512];
        let stack = Words::from(sp, &thread, &copy);
        let (_, end) = thread.stack.get();
        assert_eq!(stack.read(sp), Some(7));
        assert!(stack.read(end - 8).is_some() && stack.read(end).is_none());
    }
}
