//! `pthread_create` and `thrd_create`: while CPU time is sampled, each new thread arms itself before its first routine,
//! and disarms itself when it ends.
//!
//! The sampler finds a thread when it looks at all of them, ten times a second. One that lives for two milliseconds
//! would be met by chance, and be half over by then. Nothing of this library is on the stack of the thread's routine:
//! assembly puts itself out of the way before it jumps there.
//!
//! The new thread allocates and frees nothing: that may have its allocator set up a cache or an arena, which a thread
//! that never allocates does without.

mod work;

use crate::at_end::AtEnd;
use crate::next::keeping_errno;
use libc::{c_int, c_void, pthread_attr_t, pthread_t};
use procprof_agent::{thread_hook, thread_start_hook};
use std::sync::atomic::{AtomicBool, Ordering};
use work::{Place, Routine, Work};

mod next {
    use super::Routine;
    use libc::{c_int, c_void, pthread_attr_t, pthread_t};

    /// `thrd_error` of the C library.
    const THREAD_ERROR: c_int = 2;

    crate::next::next! {
        pthread_create(thread: *mut pthread_t, attributes: *const pthread_attr_t, routine: Routine, argument: *mut c_void) -> c_int, or libc::EAGAIN;
        thrd_create(thread: *mut pthread_t, routine: Routine, argument: *mut c_void) -> c_int, or THREAD_ERROR;
    }
}

static HAS_THREADS: AtomicBool = AtomicBool::new(false);

/// Disarms threads when they end.
static DISARMED: AtEnd = AtEnd::new(disarm);

pub(crate) fn at_load() {
    next::look_all_up();
    thread_hook::hook();
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    routine: Routine,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: by the caller's promise, with this routine or one that does the same.
    create(routine, argument, |routine, argument| unsafe {
        next::pthread_create(thread, attributes, routine, argument)
    })
}

/// # Safety
/// As in C, where the routine returns an `int`: as a pointer it is handed on in the same register.
#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_create(thread: *mut pthread_t, routine: Routine, argument: *mut c_void) -> c_int {
    // SAFETY: as above.
    create(routine, argument, |routine, argument| unsafe { next::thrd_create(thread, routine, argument) })
}

/// Creates a thread for the routine, which first arms itself if CPU time is sampled and there is a place for its work;
/// returns the result of `make`.
#[inline]
fn create(routine: Routine, argument: *mut c_void, make: impl FnOnce(Routine, *mut c_void) -> c_int) -> c_int {
    let place = if thread_hook::is_wanted() { Place::take(Work { routine, argument }) } else { None };
    let code = match place {
        None => make(routine, argument),
        Some(place) => {
            let code = make(arm_and_work, std::ptr::from_ref(place).cast_mut().cast());
            if code != 0 {
                // There is no thread that has it.
                place.clear();
            }
            code
        }
    };
    if code == 0 && !thread_start_hook::is_own() {
        HAS_THREADS.store(true, Ordering::Relaxed);
        crate::deferred::keep_listener();
    }
    code
}

/// Whether the program has started a thread so far, here or in an ancestor that was forked.
pub(crate) fn has_threads() -> bool {
    HAS_THREADS.load(Ordering::Relaxed)
}

/// Arms the calling thread, which was made for the work that lies in a place; what that is.
unsafe extern "C" fn arm(place: *const Place) -> Work {
    // SAFETY: taken in `create` for this thread alone.
    let work = unsafe { &*place }.clear();
    keeping_errno(|| work, begin)
}

fn begin() {
    if let Some(ticket) = thread_hook::begin()
        && !DISARMED.call_with(ticket as usize)
    {
        thread_hook::end(ticket);
    }
}

extern "C" fn disarm(ticket: *mut c_void) {
    keeping_errno(|| (), || thread_hook::end(ticket as u64));
}

/// The first routine of a thread that arms itself.
#[unsafe(naked)]
unsafe extern "C" fn arm_and_work(_place: *mut c_void) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        "sub rsp, 8",
        "call {arm}",
        "add rsp, 8",
        "mov rdi, rdx",
        "jmp rax",
        arm = sym arm,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        "stp x29, x30, [sp, -16]!",
        "bl {arm}",
        "ldp x29, x30, [sp], 16",
        "mov x16, x0",
        "mov x0, x1",
        "br x16",
        arm = sym arm,
    );
}
