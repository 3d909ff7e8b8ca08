//! `sigaction`, `signal` and their kin.
//!
//! For SIGPROF each is done by one exchange of actions with the sampler, as glibc does it by one with the kernel; other
//! signals are the C library's affair.

use libc::{c_int, sighandler_t};
use procprof_agent::sigprof_hook::{Action, exchange};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

mod next {
    use libc::{c_int, sighandler_t};

    crate::next::next! {
        sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int, or -1;
        signal(signal: c_int, handler: sighandler_t) -> sighandler_t, or libc::SIG_ERR;
        sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t, or libc::SIG_ERR;
        sigset(signal: c_int, handler: sighandler_t) -> sighandler_t, or libc::SIG_ERR;
        sigignore(signal: c_int) -> c_int, or -1;
        siginterrupt(signal: c_int, interrupts: c_int) -> c_int, or -1;
    }
}

/// SIGPROF's bit in a mask.
const OWN_BIT: u64 = 1 << (libc::SIGPROF - 1);

/// Whether system calls that SIGPROF interrupts shall fail, by the program's `siginterrupt`.
static INTERRUPTS: AtomicBool = AtomicBool::new(false);

pub(super) fn look_up() {
    next::look_all_up();
}

/// Returns the program's action, after replacing it if `new` is given; `None` on failure, with `errno` set.
fn exchanged(new: Option<&Action>) -> Option<Action> {
    let kept = exchange(new);
    if let Err(error) = &kept {
        fail(error);
    }
    kept.ok()
}

fn fail(error: &io::Error) {
    // SAFETY: the calling thread's own errno.
    unsafe { *libc::__errno_location() = error.raw_os_error().unwrap_or(libc::EINVAL) };
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    if signal != libc::SIGPROF {
        // SAFETY: by the caller's promise.
        return unsafe { next::sigaction(signal, new, old) };
    }
    // SAFETY: null or readable, by the caller's promise.
    let wanted = unsafe { new.as_ref() }.map(|new| Action {
        handler: new.sa_sigaction,
        flags: u64::from(new.sa_flags as u32),
        mask: mask_of(&new.sa_mask),
    });
    let Some(former) = exchanged(wanted.as_ref()) else { return -1 };
    if !old.is_null() {
        // SAFETY: writable, by the caller's promise; all-zero is a valid `sigaction`.
        unsafe {
            let mut answer: libc::sigaction = std::mem::zeroed();
            (answer.sa_sigaction, answer.sa_flags) = (former.handler, former.flags as c_int);
            (&raw mut answer.sa_mask).cast::<u64>().write(former.mask);
            old.write(answer);
        }
    }
    0
}

/// The kernel's part of a set: its first word.
fn mask_of(set: &libc::sigset_t) -> u64 {
    // SAFETY: the C library's set is longer than a word, and aligned as one.
    unsafe { std::ptr::from_ref(set).cast::<u64>().read() }
}

/// # Safety
/// As `sigaction`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { sigaction(signal, new, old) }
}

/// Installs a handler; the former one.
fn replace(handler: sighandler_t, flags: c_int, mask: u64) -> sighandler_t {
    if handler == libc::SIG_ERR {
        fail(&io::Error::from_raw_os_error(libc::EINVAL));
        return libc::SIG_ERR;
    }
    exchanged(Some(&Action { handler, flags: flags as u64, mask })).map_or(libc::SIG_ERR, |former| former.handler)
}

/// Functions that install a handler as BSD did: it stays, and system calls go on.
macro_rules! as_in_bsd {
    ($($name:ident)*) => {$(
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(signal: c_int, handler: sighandler_t) -> sighandler_t {
            if signal != libc::SIGPROF {
                // SAFETY: by the caller's promise.
                return unsafe { next::signal(signal, handler) };
            }
            replace(handler, if INTERRUPTS.load(Ordering::Relaxed) { 0 } else { libc::SA_RESTART }, OWN_BIT)
        }
    )*};
}

as_in_bsd! { signal bsd_signal ssignal }

/// Functions that install a handler as System V did: for one signal.
macro_rules! as_in_system_v {
    ($($name:ident)*) => {$(
        /// # Safety
        /// As in C.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(signal: c_int, handler: sighandler_t) -> sighandler_t {
            if signal != libc::SIGPROF {
                // SAFETY: by the caller's promise.
                return unsafe { next::sysv_signal(signal, handler) };
            }
            replace(handler, libc::SA_RESETHAND | libc::SA_NODEFER, 0)
        }
    )*};
}

as_in_system_v! { sysv_signal __sysv_signal }

/// # Safety
/// As in glibc.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t {
    const SIG_HOLD: sighandler_t = 2;
    if signal != libc::SIGPROF {
        // SAFETY: by the caller's promise.
        return unsafe { next::sigset(signal, handler) };
    }
    let former = if handler == SIG_HOLD {
        exchanged(None).map_or(libc::SIG_ERR, |former| former.handler)
    } else {
        replace(handler, 0, 0)
    };
    if former == libc::SIG_ERR {
        return former;
    }
    let was_blocked = change_block(if handler == SIG_HOLD { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK });
    if was_blocked { SIG_HOLD } else { former }
}

/// Blocks or unblocks SIGPROF in the calling thread; whether it was blocked.
fn change_block(how: c_int) -> bool {
    // SAFETY: all-zero is a valid set; both are filled before they are read.
    unsafe {
        let (mut set, mut former): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigaddset(&mut set, libc::SIGPROF);
        libc::pthread_sigmask(how, &set, &mut former);
        mask_of(&former) & OWN_BIT != 0
    }
}

/// # Safety
/// As in glibc.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigignore(signal: c_int) -> c_int {
    if signal != libc::SIGPROF {
        // SAFETY: by the caller's promise.
        return unsafe { next::sigignore(signal) };
    }
    if replace(libc::SIG_IGN, 0, 0) == libc::SIG_ERR { -1 } else { 0 }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
unsafe extern "C" fn siginterrupt(signal: c_int, interrupts: c_int) -> c_int {
    if signal != libc::SIGPROF {
        // SAFETY: by the caller's promise.
        return unsafe { next::siginterrupt(signal, interrupts) };
    }
    INTERRUPTS.store(interrupts != 0, Ordering::Relaxed);
    let Some(mut action) = exchanged(None) else { return -1 };
    let restart = libc::SA_RESTART as u64;
    action.flags = if interrupts != 0 { action.flags & !restart } else { action.flags | restart };
    exchanged(Some(&action)).map_or(-1, |_| 0)
}
