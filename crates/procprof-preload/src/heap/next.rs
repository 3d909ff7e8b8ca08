//! The allocator behind this library: the next definition of each function in the loader's order.
//!
//! Each function is reached through a pointer that at first leads to a function that looks all of them up. So the
//! ordinary call has no test for what happens once. What is allocated meanwhile by the thread that looks up comes from
//! the [`arena`].

use super::arena;
use crate::thread;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Defines for each function the call of the next one and the look-up.
macro_rules! functions {
    ($($name:ident, $first:ident: ($($argument:ident: $type:ty),*) -> $result:ty, $meanwhile:expr;)*) => {
        $(
            /// # Safety
            /// As the C function of that name.
            #[inline(always)]
            pub(super) unsafe fn $name($($argument: $type),*) -> $result {
                let address = pointer::$name.load(Ordering::Relaxed);
                // SAFETY: the pointer holds functions of this type only, and the caller keeps the promises of this one.
                unsafe { std::mem::transmute::<*mut (), unsafe extern "C" fn($($type),*) -> $result>(address)($($argument),*) }
            }

            #[cold]
            unsafe extern "C" fn $first($($argument: $type),*) -> $result {
                if thread::current().is_resolving.get() {
                    let meanwhile: fn($($type),*) -> $result = $meanwhile;
                    return meanwhile($($argument),*);
                }
                resolve();
                // SAFETY: by the caller's promise.
                unsafe { $name($($argument),*) }
            }
        )*

        #[allow(non_upper_case_globals, reason = "the functions' names")]
        mod pointer {
            use super::*;
            $(pub(super) static $name: AtomicPtr<()> = AtomicPtr::new($first as *const () as *mut ());)*
        }

        /// Looks all of them up; does nothing when that is done.
        #[cold]
        pub(super) fn resolve() {
            let is_resolving = &thread::current().is_resolving;
            is_resolving.set(true);
            $(
                if std::ptr::eq(pointer::$name.load(Ordering::Relaxed), $first as *const ()) {
                    pointer::$name.store(look_up(stringify!($name)), Ordering::Relaxed);
                }
            )*
            is_resolving.set(false);
        }
    };
}

functions! {
    malloc, first_malloc: (size: usize) -> *mut c_void, arena::allocate;
    calloc, first_calloc: (count: usize, size: usize) -> *mut c_void, |count, size| arena::allocate(count.saturating_mul(size));
    realloc, first_realloc: (pointer: *mut c_void, size: usize) -> *mut c_void, arena::grow;
    free, first_free: (pointer: *mut c_void) -> (), drop;
    memalign, first_memalign: (alignment: usize, size: usize) -> *mut c_void, arena::aligned;
    aligned_alloc, first_aligned_alloc: (alignment: usize, size: usize) -> *mut c_void, arena::aligned;
    posix_memalign, first_posix_memalign: (place: *mut *mut c_void, alignment: usize, size: usize) -> c_int, |_, _, _| libc::ENOMEM;
    valloc, first_valloc: (size: usize) -> *mut c_void, |_| std::ptr::null_mut();
    pvalloc, first_pvalloc: (size: usize) -> *mut c_void, |_| std::ptr::null_mut();
    malloc_usable_size, first_malloc_usable_size: (pointer: *mut c_void) -> usize, |_| 0;
}

/// The next definition in the loader's order. Every C library that this one runs with has one, so its lack is the end:
/// there is no allocator.
fn look_up(name: &str) -> *mut () {
    let mut terminated = [0_u8; 24];
    terminated[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the array is longer than each name, so a zero byte follows it.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, terminated.as_ptr().cast()) };
    if found.is_null() {
        const TEXT: &[u8] = b"procprof: no allocator behind libprocprof_preload.so\n";
        // SAFETY: reads that many bytes; ends the process.
        unsafe {
            libc::write(libc::STDERR_FILENO, TEXT.as_ptr().cast(), TEXT.len());
            libc::abort()
        }
    }
    found.cast()
}

/// The function behind `malloc`, after [`resolve`].
pub(super) fn address_of_malloc() -> *mut c_void {
    pointer::malloc.load(Ordering::Relaxed).cast()
}
