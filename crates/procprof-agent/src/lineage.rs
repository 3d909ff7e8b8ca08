//! Identifies the copy of the process's memory in which the caller runs: a forked child has another one.
//!
//! A lock that a thread of the parent held at the fork is never freed in the child. A thread that meets it there has to
//! recognize that its holder is gone, also before the C library has called any handler of ours, and where the fork was
//! made without the C library. So the kernel itself marks the child: it empties one page there (`MADV_WIPEONFORK`,
//! Linux 4.14). A child of `vfork` works in the parent's memory, beside its threads, and rightly finds the parent's
//! number. Older kernels have a handler of `fork` do the same, as late as it is called.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The word in the page that is empty in a new child; null until the first call.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());

/// Used instead of the page where the kernel does not empty it.
static UNWIPED: AtomicU32 = AtomicU32::new(FIRST);

/// The number given last, here or in an ancestor.
static LAST: AtomicU32 = AtomicU32::new(FIRST);

const FIRST: u32 = 1;

/// The number of this copy: never 0, and never that of an ancestor's. Async-signal-safe from the second call on.
#[inline]
pub(crate) fn number() -> u32 {
    // SAFETY: null, or a word that is never unmapped.
    let Some(mark) = (unsafe { MARK.load(Ordering::Acquire).as_ref() }) else { return begin() };
    match mark.load(Ordering::Relaxed) {
        0 => renew(mark),
        number => number,
    }
}

/// In a new child, whose threads may all come here at once.
#[cold]
fn renew(mark: &AtomicU32) -> u32 {
    let number = LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(FIRST);
    mark.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|found| found, |_| number)
}

#[cold]
fn begin() -> u32 {
    let wiped = map_wiped();
    let mark = wiped.unwrap_or(&raw const UNWIPED as *mut AtomicU32);
    let first = MARK.compare_exchange(std::ptr::null_mut(), mark, Ordering::AcqRel, Ordering::Acquire);
    match (first, wiped) {
        // SAFETY: a function of this program that stays loaded.
        (Ok(_), None) => unsafe {
            libc::pthread_atfork(None, None, Some(wipe));
        },
        // SAFETY: mapped above and not published.
        (Err(_), Some(page)) => unsafe {
            libc::munmap(page.cast(), PAGE);
        },
        _ => {}
    }
    number()
}

const PAGE: usize = 4096;

/// A page that begins with [`FIRST`] here and is empty in forked children.
fn map_wiped() -> Option<*mut AtomicU32> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping that nothing else refers to.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), PAGE, protection, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, PAGE);
            return None;
        }
        page.cast::<u32>().write(FIRST);
        Some(page.cast())
    }
}

extern "C" fn wipe() {
    UNWIPED.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number in a child that a plain system call makes, which sees no handler of the C library's.
    fn in_child(count: impl FnOnce() -> u32) -> u32 {
        // SAFETY: the child counts and ends; the parent waits for it.
        unsafe {
            let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32;
            if child == 0 {
                libc::_exit(count() as i32);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert!(libc::WIFEXITED(status));
            libc::WEXITSTATUS(status) as u32
        }
    }

    #[test]
    fn each_generation_has_a_number_of_its_own() {
        let own = number();
        assert_eq!(own, number());
        assert_eq!(in_child(number), own + 1);
        let in_grandchild = || {
            number();
            in_child(number)
        };
        assert_eq!(in_child(in_grandchild), own + 2);
        assert_eq!(own, number());
    }
}
