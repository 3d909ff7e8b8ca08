//! The registers of an interrupted thread: program counter, stack pointer, frame pointer.
//!
//! Read from the `ucontext` the kernel hands to the handler, so that a stack never begins in the handler's own frame.

use procprof_unwind::Frame;
use std::ffi::c_void;

/// The registers from which a walk starts; others are read from the context when a rule needs them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registers {
    /// The interrupted frame.
    pub(crate) frame: Frame,
    pub(crate) context: *const c_void,
}

impl Registers {
    /// Reads the interrupted registers.
    ///
    /// # Safety
    /// `context` is the third argument of an `SA_SIGINFO` handler that runs for as long as the value is used.
    #[cfg(target_arch = "x86_64")]
    pub(crate) unsafe fn interrupted(context: *const c_void) -> Self {
        // SAFETY: by contract this is the kernel's ucontext of the current signal.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        let register = |number: libc::c_int| machine.gregs[number as usize] as u64;
        let (pc, sp, fp) = (register(libc::REG_RIP), register(libc::REG_RSP), register(libc::REG_RBP));
        Self { frame: Frame { pc, sp, fp, ..Frame::default() }, context }
    }

    /// Reads the interrupted registers.
    ///
    /// # Safety
    /// `context` is the third argument of an `SA_SIGINFO` handler that runs for as long as the value is used.
    #[cfg(target_arch = "aarch64")]
    pub(crate) unsafe fn interrupted(context: *const c_void) -> Self {
        // SAFETY: by contract this is the kernel's ucontext of the current signal.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        let frame =
            Frame { pc: machine.pc, sp: machine.sp, fp: machine.regs[29], lr: machine.regs[30], is_return: false };
        Self { frame, context }
    }

    /// Another register by its DWARF number (System V ABI AMD64, figure 3.36).
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn other(&self, number: u8) -> Option<u64> {
        use libc::{REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
        use libc::{REG_RAX, REG_RBP, REG_RBX, REG_RCX, REG_RDI, REG_RDX, REG_RSI, REG_RSP};
        const BY_NUMBER: [libc::c_int; 16] = [
            REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8, REG_R9, REG_R10, REG_R11,
            REG_R12, REG_R13, REG_R14, REG_R15,
        ];
        // SAFETY: by the contract of `interrupted`.
        let machine = unsafe { &(*self.context.cast::<libc::ucontext_t>()).uc_mcontext };
        BY_NUMBER.get(usize::from(number)).map(|register| machine.gregs[*register as usize] as u64)
    }

    /// Another register by its DWARF number: compilers for AArch64 use none.
    #[cfg(target_arch = "aarch64")]
    pub(crate) fn other(&self, _: u8) -> Option<u64> {
        let _ = self.context;
        None
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
