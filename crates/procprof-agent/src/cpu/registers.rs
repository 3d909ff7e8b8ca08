//! Where a thread was when the signal interrupted it: program counter, stack pointer, frame pointer.
//!
//! Read from the `ucontext` the kernel hands to the handler, so that a stack never begins in the handler's own frame.

use std::ffi::c_void;

/// The three registers a frame-pointer walk starts from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    /// The interrupted instruction.
    pub(crate) pc: u64,
    /// The interrupted stack pointer; nothing above it in memory is free.
    pub(crate) sp: u64,
    /// The frame pointer; any value in code that uses the register for data.
    pub(crate) fp: u64,
}

impl Registers {
    /// Reads the interrupted registers.
    ///
    /// # Safety
    /// `context` is the third argument of an `SA_SIGINFO` handler that is still running.
    #[cfg(target_arch = "x86_64")]
    pub(crate) unsafe fn interrupted(context: *const c_void) -> Self {
        // SAFETY: by contract this is the kernel's ucontext of the current signal.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        Self {
            pc: machine.gregs[libc::REG_RIP as usize] as u64,
            sp: machine.gregs[libc::REG_RSP as usize] as u64,
            fp: machine.gregs[libc::REG_RBP as usize] as u64,
        }
    }

    /// Reads the interrupted registers.
    ///
    /// # Safety
    /// `context` is the third argument of an `SA_SIGINFO` handler that is still running.
    #[cfg(target_arch = "aarch64")]
    pub(crate) unsafe fn interrupted(context: *const c_void) -> Self {
        // SAFETY: by contract this is the kernel's ucontext of the current signal.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        Self { pc: machine.pc, sp: machine.sp, fp: machine.regs[29] }
    }
}

/// The current thread's control block: glibc and musl put it at the upper end of the stacks they allocate,
/// so it bounds what belongs to this thread's stack.
#[cfg(target_arch = "x86_64")]
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the x86-64 ABI keeps the block's own address in its first word.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}

/// The current thread's control block: glibc and musl put it at the upper end of the stacks they allocate,
/// so it bounds what belongs to this thread's stack.
#[cfg(target_arch = "aarch64")]
pub(crate) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: reads a register that every AArch64 user thread may read.
    unsafe { std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags)) };
    pointer
}

/// A return address without the pointer-authentication bits AArch64 may put into it.
pub(crate) fn plain(address: u64) -> u64 {
    if cfg!(target_arch = "aarch64") { address & 0x0000_ffff_ffff_ffff } else { address }
}
