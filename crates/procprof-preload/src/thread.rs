//! The state of each thread, in reach of one instruction.
//!
//! Stable Rust reaches a shared library's `thread_local!` by a call of `__tls_get_addr`, which costs more than all the
//! rest of the fast path. A library that is loaded with the program has a fixed place behind the thread pointer: the
//! initial-exec model, which only assembly can select.

use procprof_agent::heap_hook::ThreadState;
use std::cell::Cell;
use std::ffi::c_void;

/// A new thread's is all zero bytes; nothing need be done when the thread ends.
#[repr(C)]
pub(crate) struct Thread {
    pub(crate) sampler: ThreadState,
    /// Whether this thread is looking the next allocator up.
    pub(crate) is_resolving: Cell<bool>,
    /// The stack that replaces its alternate stack.
    pub(crate) substitute: Substitute,
    /// Destructors of this library's thread-local variables; null for none.
    pub(crate) destructors: Cell<*mut c_void>,
}

/// The replacement of a thread's alternate stack; all zero where there is none.
#[derive(Default)]
pub(crate) struct Substitute {
    /// The lowest address of our mapping.
    pub(crate) mapping: Cell<usize>,
    /// The stack that the program has set.
    pub(crate) pointer: Cell<usize>,
    pub(crate) bytes: Cell<usize>,
}

std::arch::global_asm!(
    ".pushsection .tbss.procprof_preload_thread,\"awT\",%nobits",
    ".balign 16",
    ".globl procprof_preload_thread",
    ".hidden procprof_preload_thread",
    ".type procprof_preload_thread,%object",
    ".size procprof_preload_thread,{size}",
    "procprof_preload_thread:",
    ".zero {size}",
    ".popsection",
    size = const size_of::<Thread>(),
);

const _: () = assert!(align_of::<Thread>() <= 16);

/// The calling thread's.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn current<'a>() -> &'a Thread {
    let thread: *const Thread;
    // SAFETY: reads the thread pointer and the place's distance from it; the place is there as long as the thread,
    // which the reference can't leave.
    unsafe {
        std::arch::asm!("mov {0}, qword ptr fs:[0]", "add {0}, qword ptr [rip + procprof_preload_thread@GOTTPOFF]", out(reg) thread, options(pure, nomem, nostack));
        &*thread
    }
}

/// The calling thread's.
#[inline(always)]
#[cfg(target_arch = "aarch64")]
pub(crate) fn current<'a>() -> &'a Thread {
    let thread: *const Thread;
    // SAFETY: as on x86-64.
    unsafe {
        std::arch::asm!(
            "mrs {0}, tpidr_el0",
            "adrp {1}, :gottprel:procprof_preload_thread",
            "ldr {1}, [{1}, :gottprel_lo12:procprof_preload_thread]",
            "add {0}, {0}, {1}",
            out(reg) thread, out(reg) _, options(pure, nomem, nostack, preserves_flags),
        );
        &*thread
    }
}

/// For the sampler where it is not handed in.
pub(crate) extern "C" fn state() -> *const ThreadState {
    &raw const current().sampler
}
