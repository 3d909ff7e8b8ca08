//! Destructors of this library's own thread-local variables, which the standard library registers as a thread uses
//! them.
//!
//! The C library's `__cxa_thread_atexit_impl` ends the process where there is no memory for a node of its list. The
//! standard library finds this one in its place, which is not exported: its nodes come from the library's reserve then.
//! A destructor that has no place in the list does not run.

use crate::at_end::AtEnd;
use crate::thread;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_void};

type Destructor = unsafe extern "C" fn(*mut c_void);

/// One that is to run, and those that were registered before it.
struct Node {
    destructor: Destructor,
    object: *mut c_void,
    before: *mut Node,
}

static AT_END: AtEnd = AtEnd::new(run_all);

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".hidden __cxa_thread_atexit_impl",
    ".globl __cxa_thread_atexit_impl",
    ".type __cxa_thread_atexit_impl, %function",
    "__cxa_thread_atexit_impl:",
    "jmp {register}",
    register = sym register,
);

#[cfg(target_arch = "aarch64")]
std::arch::global_asm!(
    ".hidden __cxa_thread_atexit_impl",
    ".globl __cxa_thread_atexit_impl",
    ".type __cxa_thread_atexit_impl, %function",
    "__cxa_thread_atexit_impl:",
    "b {register}",
    register = sym register,
);

/// Has a destructor called when the calling thread ends; as the C library's.
unsafe extern "C" fn register(destructor: Destructor, object: *mut c_void, _library: *mut c_void) -> c_int {
    let list = &thread::current().destructors;
    // SAFETY: a layout of more than no bytes.
    let node = unsafe { crate::heap::Unseen.alloc(Layout::new::<Node>()) }.cast::<Node>();
    if node.is_null() || !AT_END.call_with(1) {
        // It stays where it is: what it would free is this library's.
        return 0;
    }
    // SAFETY: fresh memory for a node.
    unsafe { node.write(Node { destructor, object, before: list.get().cast() }) };
    list.set(node.cast());
    0
}

/// Runs the calling thread's, the last one first, and those that they register.
extern "C" fn run_all(_: *mut c_void) {
    let list = &thread::current().destructors;
    while !list.get().is_null() {
        // SAFETY: made in `register`, and in the list of this thread alone.
        let Node { destructor, object, before } = unsafe { list.get().cast::<Node>().read() };
        // SAFETY: allocated there by this layout.
        unsafe { crate::heap::Unseen.dealloc(list.get().cast(), Layout::new::<Node>()) };
        list.set(before.cast());
        // SAFETY: by the contract of the destructor's registration.
        unsafe { destructor(object) };
    }
}
