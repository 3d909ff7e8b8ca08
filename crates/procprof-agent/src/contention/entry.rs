//! Bypass of the hooks for uncontended locks: a few instructions in front of those of [`pthread`] that are called most.
//!
//! A function that may have a wait to record first makes room for it on the stack, which takes longer than checking
//! whether there is one. So these check first. If there is nothing to record they jump to the C library's function,
//! else to the hook; as they leave registers and stack as the caller set them, the hook sees their caller as its own.
//!
//! A mutex is taken without the hook if it is free and nobody waits for it: where others wait, a thread that takes it
//! before them is charged for it from then on. A mutex is free if its first word is that of a free one (glibc and musl
//! keep that as a part of their interfaces, for static initializers). The wait for a mutex that another thread takes in
//! the few instructions between that check and the C library's own is not seen. A read-write lock is tried, and so
//! can't be missed.

use super::pthread;
use super::waiters;
use libc::{c_int, pthread_mutex_t, pthread_rwlock_t};
use std::arch::naked_asm;

/// Offset in a mutex of the word that is 0 in a free one.
const LOCK_WORD: usize = if cfg!(target_env = "musl") { 4 } else { 0 };

/// Takes a mutex by the hook, unless it is free and nobody may wait for it: see [`waiters::may_have`].
#[unsafe(naked)]
pub(super) unsafe extern "C" fn mutex_lock(mutex: *mut pthread_mutex_t) -> c_int {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        ".cfi_startproc",
        "cmp dword ptr [rdi + {word}], 0",
        "jne {hook}",
        "imul eax, edi, {factor}",
        "shr eax, {shift}",
        "lea rcx, [rip + {counts}]",
        "cmp byte ptr [rcx + rax], 0",
        "jne {hook}",
        "jmp qword ptr [rip + {real}]",
        ".cfi_endproc",
        word = const LOCK_WORD, factor = const waiters::FACTOR as i32, shift = const waiters::SHIFT, counts = sym waiters::COUNTS,
        hook = sym pthread::mutex_lock, real = sym pthread::MUTEX_LOCK,
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        ".cfi_startproc",
        "ldr w16, [x0, {word}]",
        "cbnz w16, 2f",
        "mov w16, {factor_low}",
        "movk w16, {factor_high}, lsl 16",
        "mul w16, w16, w0",
        "lsr w16, w16, {shift}",
        "adrp x17, {counts}",
        "add x17, x17, :lo12:{counts}",
        "ldrb w16, [x17, w16, uxtw]",
        "cbnz w16, 2f",
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "br x16",
        "2:",
        "b {hook}",
        ".cfi_endproc",
        word = const LOCK_WORD, factor_low = const waiters::FACTOR & 0xffff, factor_high = const waiters::FACTOR >> 16,
        shift = const waiters::SHIFT, counts = sym waiters::COUNTS, hook = sym pthread::mutex_lock, real = sym pthread::MUTEX_LOCK,
    );
}

/// Functions that take a read-write lock by the hook, if it can't be had at once.
macro_rules! try_first {
    ($($name:ident $try_lock:ident;)*) => {$(
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name(lock: *mut pthread_rwlock_t) -> c_int {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "call {try_lock}",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "test eax, eax",
                "jne {hook}",
                "ret",
                ".cfi_endproc",
                try_lock = sym libc::$try_lock, hook = sym pthread::$name,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                ".cfi_startproc",
                "stp x30, x0, [sp, -16]!",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset x30, -16",
                "bl {try_lock}",
                "mov w16, w0",
                "ldp x30, x0, [sp], 16",
                ".cfi_def_cfa_offset 0",
                ".cfi_restore x30",
                "cbz w16, 2f",
                "b {hook}",
                "2:",
                "mov w0, wzr",
                "ret",
                ".cfi_endproc",
                try_lock = sym libc::$try_lock, hook = sym pthread::$name,
            );
        }
    )*};
}

/// Functions that release a lock, by the hook if a thread may wait for it: see [`waiters::may_have`].
macro_rules! look_for_waiters {
    ($($name:ident ($type:ty) $real:ident;)*) => {$(
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name(lock: *mut $type) -> c_int {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(
                ".cfi_startproc",
                "imul eax, edi, {factor}",
                "shr eax, {shift}",
                "lea rcx, [rip + {counts}]",
                "cmp byte ptr [rcx + rax], 0",
                "jne {hook}",
                "jmp qword ptr [rip + {real}]",
                ".cfi_endproc",
                factor = const waiters::FACTOR as i32, shift = const waiters::SHIFT, counts = sym waiters::COUNTS,
                hook = sym pthread::$name, real = sym pthread::$real,
            );
            #[cfg(target_arch = "aarch64")]
            naked_asm!(
                ".cfi_startproc",
                "mov w16, {factor_low}",
                "movk w16, {factor_high}, lsl 16",
                "mul w16, w16, w0",
                "lsr w16, w16, {shift}",
                "adrp x17, {counts}",
                "add x17, x17, :lo12:{counts}",
                "ldrb w16, [x17, w16, uxtw]",
                "cbz w16, 2f",
                "b {hook}",
                "2:",
                "adrp x16, {real}",
                "ldr x16, [x16, :lo12:{real}]",
                "br x16",
                ".cfi_endproc",
                factor_low = const waiters::FACTOR & 0xffff, factor_high = const waiters::FACTOR >> 16, shift = const waiters::SHIFT,
                counts = sym waiters::COUNTS, hook = sym pthread::$name, real = sym pthread::$real,
            );
        }
    )*};
}

try_first! {
    rwlock_rdlock pthread_rwlock_tryrdlock;
    rwlock_wrlock pthread_rwlock_trywrlock;
}

look_for_waiters! {
    mutex_unlock (pthread_mutex_t) MUTEX_UNLOCK;
    rwlock_unlock (pthread_rwlock_t) UNLOCK;
}
