//! Calls of the loader, made so that a forked child never finds its locks held by us.
//!
//! `dl_iterate_phdr`, `dlsym` and `dladdr` take locks of the loader's, and `fork` does not free those in the child
//! (glibc 2.36): where another thread held one at that moment, the child hangs in its next `dlopen` or
//! `dl_iterate_phdr`, for ever. So a forking thread waits until none of our threads is in the loader, and none begins
//! before the fork is done.
//!
//! Each waits for the other for a while only: handlers of other code may run before ours and hold a lock that our
//! thread allocates with. Nothing of ours is locked while handlers run.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long one waits for the other. Reading what one file of hundreds of megabytes has for unwinding takes a fraction
/// of it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Threads that are about to fork.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// Threads of ours that use the loader.
static USING: AtomicU32 = AtomicU32::new(0);

/// The calling thread's use of the loader.
struct Use(());

impl Use {
    fn begin() -> Self {
        follow_forks();
        let start = Instant::now();
        loop {
            USING.fetch_add(1, Ordering::SeqCst);
            if FORKING.load(Ordering::SeqCst) == 0 || start.elapsed() > PATIENCE {
                return Self(());
            }
            USING.fetch_sub(1, Ordering::SeqCst);
            pause();
        }
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        USING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Uses the loader, for a moment.
pub(crate) fn using<T>(work: impl FnOnce() -> T) -> T {
    let _use = Use::begin();
    work()
}

/// Hands every loaded file over, while the loader keeps it from being unloaded, until `each` answers false.
pub(crate) fn each_image(mut each: impl FnMut(&libc::dl_phdr_info) -> bool) {
    let mut each: Each<'_> = &mut each;
    // SAFETY: the callback gets back the pointer to `each`, which outlives the call.
    using(|| unsafe { libc::dl_iterate_phdr(Some(on_image), (&raw mut each).cast()) });
}

type Each<'a> = &'a mut dyn FnMut(&libc::dl_phdr_info) -> bool;

unsafe extern "C" fn on_image(info: *mut libc::dl_phdr_info, _size: usize, each: *mut c_void) -> c_int {
    // SAFETY: `dl_iterate_phdr` passes a valid image; `each` is the pointer that `each_image` gave it, which is not
    // used elsewhere meanwhile.
    let (info, each) = unsafe { (&*info, &mut *each.cast::<Each<'_>>()) };
    c_int::from(!each(info))
}

/// A file's headers; none where the loader has none.
pub(crate) fn headers(info: &libc::dl_phdr_info) -> &[libc::Elf64_Phdr] {
    if info.dlpi_phdr.is_null() {
        return &[];
    }
    // SAFETY: the loader's own table of that many headers.
    unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) }
}

/// Of those handlers that are there already, ours is called first: what they take is free when it waits.
fn follow_forks() {
    static ARE_FOLLOWED: AtomicBool = AtomicBool::new(false);
    if !ARE_FOLLOWED.load(Ordering::Relaxed) && !ARE_FOLLOWED.swap(true, Ordering::Relaxed) {
        // SAFETY: functions of this program that stay loaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    }
}

unsafe extern "C" fn before_fork() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    let start = Instant::now();
    while USING.load(Ordering::SeqCst) > 0 && start.elapsed() < PATIENCE {
        pause();
    }
}

unsafe extern "C" fn after_fork() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// The parent's other threads are not here.
unsafe extern "C" fn in_child() {
    FORKING.store(0, Ordering::SeqCst);
    USING.store(0, Ordering::SeqCst);
}

/// Sleeps by the kernel's own call: the C library's would end a thread that is cancelled.
fn pause() {
    let moment = libc::timespec { tv_sec: 0, tv_nsec: 50_000 };
    // SAFETY: reads `moment`.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const moment, std::ptr::null_mut::<libc::timespec>()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// How a child ends that uses the loader, while `SIGALRM` would end one that hangs.
    fn status_of_child() -> c_int {
        // SAFETY: the child uses the loader and ends; the parent waits for it.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(20);
                each_image(|_| true);
                libc::_exit(0);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        }
    }

    #[test]
    fn a_child_finds_the_loader_free_that_a_thread_of_ours_was_in() {
        for _ in 0..5 {
            let (inside, is_inside) = channel();
            let walker = std::thread::spawn(move || {
                each_image(|_| {
                    inside.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(100));
                    false
                });
            });
            is_inside.recv().unwrap();
            assert_eq!(status_of_child(), 0, "it hangs in the loader");
            walker.join().unwrap();
        }
    }

    #[test]
    fn a_fork_waits_for_no_thread_for_ever() {
        let stuck = Use::begin();
        let start = Instant::now();
        // SAFETY: as they are called around a fork.
        unsafe { before_fork() };
        assert!(start.elapsed() >= PATIENCE);
        let other = std::thread::spawn(|| using(|| ()));
        other.join().unwrap();
        // SAFETY: as above.
        unsafe { after_fork() };
        drop(stuck);
        assert!(headers(&without_headers()).is_empty());
    }

    fn without_headers() -> libc::dl_phdr_info {
        // SAFETY: all-zero is a file without a name and headers.
        unsafe { std::mem::zeroed() }
    }
}
