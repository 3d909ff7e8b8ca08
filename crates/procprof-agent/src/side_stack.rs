//! Stacks for work that is done in the program's threads and may find no room on theirs: that of a coroutine is often
//! two pages.

use crate::cpu::own_stack::OwnStack;
use crate::cpu::sigprof::blocking_signals;
use crate::spin::Claim;
use std::cell::UnsafeCell;
use std::ffi::c_void;

/// Threads that work at once; more wait.
const STACKS: usize = 8;

/// Bytes to work in; only pages that were used are resident. Compiling unwind tables takes about an eighth of it,
/// unoptimized.
const BYTES: usize = 256 << 10;

/// Below them, a page that can't be touched (64 KiB is the largest page of any kernel we run on), so that an overflow
/// ends the process instead of corrupting it.
const GUARD_BYTES: usize = 64 << 10;

static SIDE_STACKS: [SideStack; STACKS] =
    [const { SideStack { claim: Claim::new(), stack: UnsafeCell::new(None) } }; STACKS];

struct SideStack {
    /// One that a thread of a parent's has is free in a forked child.
    claim: Claim,
    /// Mapped when it is first needed.
    stack: UnsafeCell<Option<OwnStack>>,
}

// SAFETY: the stack is reached only by the thread that has the claim.
unsafe impl Sync for SideStack {}

/// Work to be done, and then its result.
struct Call<F, T> {
    work: Option<F>,
    result: Option<T>,
}

/// Does `work` on a stack of the agent's, or on the caller's own where there is no memory for another.
///
/// No signal comes meanwhile: its handler would find a stack that is not its thread's, or begin on an alternate stack
/// that the caller is on. `work` does not unwind.
pub(crate) fn on_side_stack<T>(work: impl FnOnce() -> T) -> T {
    blocking_signals(|| {
        let taken = take();
        // SAFETY: taken above.
        let stack = unsafe { &mut *taken.stack.get() };
        if stack.is_none() {
            *stack = map();
        }
        let result = match stack {
            Some(stack) => call(stack, work),
            None => work(),
        };
        taken.claim.give_back();
        result
    })
}

fn take() -> &'static SideStack {
    loop {
        match SIDE_STACKS.iter().find(|stack| stack.claim.take().is_some()) {
            Some(stack) => return stack,
            None => std::thread::yield_now(),
        }
    }
}

/// Maps a stack for the rest of the process's life; `None` if the kernel refuses.
fn map() -> Option<OwnStack> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    let bytes = GUARD_BYTES + BYTES;
    // SAFETY: a fresh private mapping that nothing else refers to, whose lower part is made unusable.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return None;
        }
        if libc::mprotect(memory, GUARD_BYTES, libc::PROT_NONE) != 0 {
            libc::munmap(memory, bytes);
            return None;
        }
        Some(OwnStack::below(memory as usize + bytes))
    }
}

fn call<T, F: FnOnce() -> T>(stack: &OwnStack, work: F) -> T {
    extern "C" fn run<T, F: FnOnce() -> T>(call: *mut c_void) {
        // SAFETY: the caller hands over its own, and waits.
        let call = unsafe { &mut *call.cast::<Call<F, T>>() };
        call.result = call.work.take().map(|work| work());
    }
    let mut call = Call { work: Some(work), result: None };
    // SAFETY: the stack is the caller's alone; `run` gets what it expects, and a panic in it ends the process.
    unsafe { stack.call(run::<T, F>, (&raw mut call).cast()) };
    call.result.expect("the work was there and was done")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_elsewhere_and_its_result_comes_back() {
        let here = 0_u8;
        let (there, sum) = on_side_stack(|| {
            let numbers = std::hint::black_box([3_u64; 4 << 10]);
            (numbers.as_ptr() as u64, numbers.iter().sum::<u64>())
        });
        assert_eq!(sum, 3 * (4 << 10));
        assert!(there.abs_diff(&raw const here as u64) > 1 << 20, "{there:x} {:x}", &raw const here as u64);
        // More at once than there are stacks, and one within the other.
        let threads: Vec<_> =
            (0..3 * STACKS as u64).map(|number| std::thread::spawn(move || on_side_stack(|| number))).collect();
        let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, (0..3 * STACKS as u64).sum::<u64>());
        assert_eq!(on_side_stack(|| on_side_stack(|| 7)), 7);
    }
}
