//! A stack of our own for the handler's work on one thread.
//!
//! The handler begins where the kernel puts it: on the thread's alternate stack, which may hold little more than the
//! kernel's own frame, or on a stack that is nearly full. So it changes to memory that was mapped for its slot, and
//! back before it returns.

use std::ffi::c_void;

/// Memory of a slot's, from its end downwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnStack {
    top: usize,
}

impl OwnStack {
    /// The stack whose memory ends at `top`.
    pub(crate) fn below(top: usize) -> Self {
        Self { top }
    }

    /// Calls `work` with `argument` on this stack. Async-signal-safe.
    ///
    /// # Safety
    /// Nothing else runs on this stack until the call returns, and `work` may be called with `argument` and does not
    /// unwind.
    #[inline]
    pub(crate) unsafe fn call(&self, work: extern "C" fn(*mut c_void), argument: *mut c_void) {
        // SAFETY: by this function's contract; the top is 16-byte aligned, as calls need it, and the former stack
        // pointer is kept in a register that `work` has to restore.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                "mov r12, rsp",
                "mov rsp, {top}",
                "call {work}",
                "mov rsp, r12",
                top = in(reg) self.top,
                work = in(reg) work,
                in("rdi") argument,
                out("r12") _,
                clobber_abi("C"),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(
                "mov x20, sp",
                "mov sp, {top}",
                "blr {work}",
                "mov sp, x20",
                top = in(reg) self.top,
                work = in(reg) work,
                in("x0") argument,
                out("x20") _,
                clobber_abi("C"),
            );
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        work(argument);
    }
}

#[cfg(test)]
mod tests {
    use super::super::slab::{STACK_BYTES, Slab};
    use super::*;

    extern "C" fn fill(place: *mut c_void) {
        let buffer = std::hint::black_box([7_u8; 8 << 10]);
        // SAFETY: the test's own place.
        unsafe {
            *place.cast::<(usize, usize)>() =
                (buffer.as_ptr() as usize, buffer.iter().map(|byte| usize::from(*byte)).sum())
        };
    }

    #[test]
    fn work_is_done_on_it_and_the_caller_goes_on() {
        let stack = Slab::map(1).unwrap().units().next().unwrap().stack();
        for _ in 0..1000 {
            let mut place = (0_usize, 0_usize);
            // SAFETY: nothing else has a reference to the stack; `fill` writes to `place`.
            unsafe { stack.call(fill, (&raw mut place).cast()) };
            assert!((stack.top - STACK_BYTES..stack.top).contains(&place.0), "{place:x?}");
            assert_eq!(place.1, 7 * (8 << 10));
        }
    }
}
