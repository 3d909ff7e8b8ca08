//! `prctl` and `syscall`, where they load a filter of system calls: the sampler stops signalling that thread before,
//! and is quiet in it from then on.
//!
//! A filter may end the thread, or the process, for the system call by which every signal handler returns. libseccomp,
//! and all that has no function of the C library's to call, comes by `syscall`. Strict mode permits that call: such a
//! thread is signalled on.
//!
//! A filter for all threads at once (`SECCOMP_FILTER_FLAG_TSYNC`) is for the agent's, too: none of them starts while it
//! is loaded, and where it forbids what they call, they end before.
//!
//! Samples of the heap and of locks are taken in the program's threads, by calls that a filter need not
//! [permit](super::permits) either.
//!
//! All other calls go straight on to the C library's `syscall`, so that nothing of ours is on the stack of a thread
//! that sleeps in one.

use super::permits::{Permits, is_for_all, is_strict};
use crate::next::{Next, keeping_errno};
use crate::thread;
use libc::{c_int, c_long, c_ulong};
use procprof_agent::heap_hook;
use procprof_agent::sigprof_hook::{Loading, before_filter};
use procprof_agent::thread_start_hook::{before_forbidding_filter, before_permitting_filter};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

mod next {
    use libc::{c_int, c_ulong};

    crate::next::next! {
        prctl(option: c_int, second: c_ulong, third: c_ulong, fourth: c_ulong, fifth: c_ulong) -> c_int, or -1;
    }
}

/// The C library's `syscall`; null until it is looked up.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

type Syscall = unsafe extern "C" fn(c_long, c_ulong, c_ulong, c_ulong, c_ulong, c_ulong, c_ulong) -> c_long;

pub(super) fn look_up(around: &'static Around) {
    AROUND.store(std::ptr::from_ref(around).cast_mut(), Ordering::Release);
    next::look_all_up();
    next_syscall();
}

fn next_syscall() -> Option<Syscall> {
    static PLACE: Next = Next::new(c"syscall");
    NEXT.store(PLACE.address(), Ordering::Relaxed);
    // SAFETY: null, or the C library's function of this name, which takes as many words as there are.
    unsafe { std::mem::transmute(NEXT.load(Ordering::Relaxed)) }
}

/// The filter that a call loads.
#[derive(Clone, Copy)]
enum Load {
    /// A filter for the calling thread, by its program's address.
    OwnFilter(c_ulong),
    /// One for all threads.
    CommonFilter(c_ulong),
    Strict,
}

impl Load {
    /// `None` for a call that loads nothing.
    fn of_prctl(option: c_int, mode: c_ulong, program: c_ulong) -> Option<Self> {
        if is_strict(option, mode) {
            return Some(Self::Strict);
        }
        (option == libc::PR_SET_SECCOMP && mode == c_ulong::from(libc::SECCOMP_MODE_FILTER))
            .then_some(Self::OwnFilter(program))
    }

    fn of_seccomp(operation: c_ulong, flags: c_ulong, program: c_ulong) -> Option<Self> {
        match operation as u32 {
            libc::SECCOMP_SET_MODE_STRICT => Some(Self::Strict),
            libc::SECCOMP_SET_MODE_FILTER if is_for_all(flags) => Some(Self::CommonFilter(program)),
            libc::SECCOMP_SET_MODE_FILTER => Some(Self::OwnFilter(program)),
            _ => None,
        }
    }

    /// Loads it by `load`, which answers with something negative if that has failed. Not a single system call may
    /// follow on a filter.
    fn by<T: PartialOrd + From<i8>>(self, load: impl FnOnce() -> T) -> T {
        // Nothing more is called in such a thread, and it is signalled no more.
        if heap_hook::is_quiet(&thread::current().sampler) {
            return load();
        }
        match self {
            Self::OwnFilter(program) => {
                let permits = Permits::from_filter(program as *const libc::sock_fprog);
                load_own(Some(before_filter()), permits.hooks, load)
            }
            Self::Strict => load_own(None, false, load),
            Self::CommonFilter(program) => load_common(Permits::from_filter(program as *const libc::sock_fprog), load),
        }
    }
}

/// Loads a filter for the calling thread, which is quiet from then on unless it permits what samples are taken by.
fn load_own<T: PartialOrd + From<i8>>(loading: Option<Loading>, permits_hooks: bool, load: impl FnOnce() -> T) -> T {
    let result = load();
    if result < T::from(0) {
        return keeping_errno(|| result, || drop(loading));
    }
    if let Some(loading) = loading {
        loading.done();
    }
    if !permits_hooks {
        heap_hook::keep_quiet(&thread::current().sampler);
    }
    result
}

/// Loads a filter for all threads. None of this library's is starting meanwhile, and where it forbids what they call,
/// none is there.
fn load_common<T: PartialOrd + From<i8>>(permits: Permits, load: impl FnOnce() -> T) -> T {
    if permits.threads {
        let filter = before_permitting_filter();
        let result = load();
        return keeping_errno(|| result, || filter.done());
    }
    let mut has_ended = false;
    let filter = before_forbidding_filter(|| has_ended = around().is_some_and(|around| (around.end)()));
    // No new thread of the program's is arming itself.
    let loading = before_filter();
    if !permits.hooks {
        heap_hook::keep_all_quiet(true);
    }
    let result = load();
    if result < T::from(0) {
        return keeping_errno(
            || result,
            || {
                heap_hook::keep_all_quiet(false);
                drop((loading, filter));
                if has_ended {
                    around().inspect(|around| (around.begin_again)());
                }
            },
        );
    }
    loading.done();
    filter.done();
    result
}

/// The actions around a filter for all threads that forbids system calls of this library.
pub(crate) struct Around {
    /// Ends the agent; whether there was one.
    pub(crate) end: fn() -> bool,
    /// Begins it again, since the filter was refused.
    pub(crate) begin_again: fn(),
}

/// Null before it is known.
static AROUND: AtomicPtr<Around> = AtomicPtr::new(std::ptr::null_mut());

fn around() -> Option<&'static Around> {
    // SAFETY: null, or what was stored in `look_up`.
    unsafe { AROUND.load(Ordering::Acquire).as_ref() }
}

/// # Safety
/// As in glibc; it is called with as many words as the option has.
#[unsafe(no_mangle)]
unsafe extern "C" fn prctl(option: c_int, second: c_ulong, third: c_ulong, fourth: c_ulong, fifth: c_ulong) -> c_int {
    // SAFETY: by the caller's promise.
    let call = || unsafe { next::prctl(option, second, third, fourth, fifth) };
    match Load::of_prctl(option, second, third) {
        Some(load) => load.by(call),
        None => call(),
    }
}

/// # Safety
/// As in glibc; it is called with as many words as the system call has, and others are not looked at by the kernel.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn syscall(_number: c_long) -> c_long {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        "cmp rdi, {seccomp}",
        "je 2f",
        "cmp rdi, {prctl}",
        "je 2f",
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "je 2f",
        "jmp rax",
        "2:",
        "jmp {filtering}",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        next = sym NEXT,
        filtering = sym filtering,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        "cmp x0, {seccomp}",
        "b.eq 2f",
        "cmp x0, {prctl}",
        "b.eq 2f",
        "adrp x16, {next}",
        "ldr x16, [x16, :lo12:{next}]",
        "cbz x16, 2f",
        "br x16",
        "2:",
        "b {filtering}",
        seccomp = const libc::SYS_seccomp,
        prctl = const libc::SYS_prctl,
        next = sym NEXT,
        filtering = sym filtering,
    );
}

/// The calls that may load a filter, and those that come before the C library's function was looked up.
unsafe extern "C" fn filtering(
    number: c_long,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
    e: c_ulong,
    f: c_ulong,
) -> c_long {
    let Some(next) = next_syscall() else {
        // SAFETY: the calling thread's own errno.
        unsafe { *libc::__errno_location() = libc::ENOSYS };
        return -1;
    };
    // SAFETY: by the caller's promise.
    let call = || unsafe { next(number, a, b, c, d, e, f) };
    let load = match number {
        libc::SYS_seccomp => Load::of_seccomp(a, b, c),
        libc::SYS_prctl => Load::of_prctl(a as c_int, b, c),
        _ => None,
    };
    match load {
        Some(load) => load.by(call),
        None => call(),
    }
}
