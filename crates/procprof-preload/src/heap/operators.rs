//! C++'s `operator new` and `operator delete`.
//!
//! Those of libstdc++ and libc++ call `malloc` and `free`, which are counted there. jemalloc and tcmalloc have
//! operators of their own that mostly do not (jemalloc's aligned ones call its exported `aligned_alloc`). So where the
//! next operators are in the same library as the next `malloc`, each of them is tried once: it is counted here if
//! nothing arrives there.
//!
//! A library that was loaded privately (`dlopen` without `RTLD_GLOBAL`) may find these functions though no C++ library
//! follows them in the loader's order. Then the one that it has loaded is called, and if there is none, `malloc`
//! itself.

use super::{allocate_and_note, family, forget_and_free, next};
use crate::stderr::print;
use crate::thread;
use procprof_agent::heap_hook::{arrives, count_down, is_noted};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Whether the operators behind this library are the allocator's own: what they allocate and free need not come to
/// `malloc` and `free`.
static ARE_THE_ALLOCATORS: AtomicBool = AtomicBool::new(false);

/// Libraries that bring the operators.
const LIBRARIES: [&CStr; 2] = [c"libstdc++.so.6", c"libc++.so.1"];

/// Looks once where the operators lead to; called before `main`.
pub(super) fn at_load() {
    // SAFETY: looks a name up in what is loaded.
    let operator = unsafe { libc::dlsym(libc::RTLD_NEXT, c"_Znwm".as_ptr()) };
    if !operator.is_null()
        && library_of(operator).is_some_and(|library| library_of(next::address_of_malloc()) == Some(library))
    {
        ARE_THE_ALLOCATORS.store(true, Ordering::Relaxed);
        try_all();
    }
}

/// The start of a function's library.
fn library_of(function: *mut c_void) -> Option<usize> {
    // SAFETY: all-zero is a valid `Dl_info` to be filled.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: fills `found` for any address.
    (unsafe { libc::dladdr(function, &mut found) } != 0).then_some(found.dli_fbase as usize)
}

/// The operator behind this library, or `otherwise`.
#[cold]
fn look_up(name: &CStr, otherwise: *mut ()) -> *mut () {
    // SAFETY: looks names up in what is loaded; `RTLD_NOLOAD` loads nothing, and the reference to the library it
    // returns is kept, as is the library.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if !next.is_null() {
            return next.cast();
        }
        let private = LIBRARIES
            .iter()
            .map(|library| libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD))
            .find(|library| !library.is_null());
        let found = private.map_or(std::ptr::null_mut(), |library| libc::dlsym(library, name.as_ptr()));
        if found.is_null() { otherwise } else { found.cast() }
    }
}

/// Exports operators that allocate: the bytes are always the first argument. The value after each further one is for
/// trying it.
macro_rules! news {
    ($($name:ident $symbol:literal ($($argument:ident: $type:ty = $tried:expr),*) otherwise $otherwise:expr;)*) => {
        $(
            mod $name {
                use super::*;

                type Function = unsafe extern "C-unwind" fn(usize $(, $type)*) -> *mut c_void;
                static NEXT: AtomicPtr<()> = AtomicPtr::new(first as *const () as *mut ());
                /// Whether nothing arrives at `malloc` and its family when this one is called.
                static IS_COUNTED: AtomicBool = AtomicBool::new(false);

                unsafe extern "C-unwind" fn first(size: usize $(, $argument: $type)*) -> *mut c_void {
                    unsafe extern "C-unwind" fn otherwise(size: usize $(, $argument: $type)*) -> *mut c_void {
                        let otherwise: fn(usize $(, $type)*) -> *mut c_void = $otherwise;
                        otherwise(size $(, $argument)*)
                    }
                    const SYMBOL: &CStr = match CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                        Ok(symbol) => symbol,
                        Err(_) => panic!("a symbol has no zero byte"),
                    };
                    NEXT.store(look_up(SYMBOL, otherwise as *const () as *mut ()), Ordering::Relaxed);
                    // SAFETY: by the caller's promise.
                    unsafe { call(size $(, $argument)*) }
                }

                #[inline(always)]
                unsafe fn call(size: usize $(, $argument: $type)*) -> *mut c_void {
                    // SAFETY: the pointer holds functions of this type only, and the caller keeps the promises of this
                    // one.
                    unsafe { std::mem::transmute::<*mut (), Function>(NEXT.load(Ordering::Relaxed))(size $(, $argument)*) }
                }

                /// # Safety
                /// As in C++.
                #[unsafe(export_name = $symbol)]
                unsafe extern "C-unwind" fn operator(size: usize $(, $argument: $type)*) -> *mut c_void {
                    // SAFETY: by the caller's promise.
                    let allocate = || unsafe { call(size $(, $argument)*) };
                    if IS_COUNTED.load(Ordering::Relaxed) && count_down(&thread::current().sampler, size) {
                        return allocate_and_note(size, allocate);
                    }
                    allocate()
                }

                pub(super) fn attempt() {
                    let arrives = arrives(&thread::current().sampler, || {
                        // SAFETY: the arguments are those that C++ may give; the allocator's `free` takes what its
                        // operators give.
                        unsafe { next::free(call(TRIED $(, $tried)*)) }
                    });
                    IS_COUNTED.store(!arrives, Ordering::Relaxed);
                }
            }
        )*

        /// Tries each of them.
        fn try_all() {
            $($name::attempt();)*
        }
    };
}

/// Exports operators that free: the block is always the first argument.
macro_rules! deletes {
    ($($name:ident $symbol:literal ($($argument:ident: $type:ty),*);)*) => {$(
        /// # Safety
        /// As in C++.
        #[unsafe(export_name = $symbol)]
        unsafe extern "C" fn $name(block: *mut c_void $(, $argument: $type)*) {
            type Function = unsafe extern "C" fn(*mut c_void $(, $type)*);
            static NEXT: AtomicPtr<()> = AtomicPtr::new(first as *const () as *mut ());
            unsafe extern "C" fn first(block: *mut c_void $(, $argument: $type)*) {
                unsafe extern "C" fn otherwise(block: *mut c_void $(, $argument: $type)*) {
                    $(let _ = $argument;)*
                    // SAFETY: by the caller's promise; the fallback for allocating is `malloc`.
                    unsafe { family::free(block) }
                }
                const SYMBOL: &CStr = match CStr::from_bytes_with_nul(concat!($symbol, "\0").as_bytes()) {
                    Ok(symbol) => symbol,
                    Err(_) => panic!("a symbol has no zero byte"),
                };
                NEXT.store(look_up(SYMBOL, otherwise as *const () as *mut ()), Ordering::Relaxed);
                // SAFETY: by the caller's promise.
                unsafe { call(block $(, $argument)*) }
            }
            #[inline(always)]
            unsafe fn call(block: *mut c_void $(, $argument: $type)*) {
                // SAFETY: the pointer holds functions of this type only, and the caller keeps the promises of this one.
                unsafe { std::mem::transmute::<*mut (), Function>(NEXT.load(Ordering::Relaxed))(block $(, $argument)*) }
            }
            // SAFETY: by the caller's promise.
            let free = || unsafe { call(block $(, $argument)*) };
            if ARE_THE_ALLOCATORS.load(Ordering::Relaxed) && is_noted(block.cast()) {
                return forget_and_free(block, free);
            }
            free()
        }
    )*};
}

type NoThrow = *const c_void;

/// `std::nothrow`, an object without contents.
const NOTHROW: NoThrow = std::ptr::dangling();

/// Bytes, and their alignment, of an allocation for trying an operator.
const TRIED: usize = 64;

news! {
    new "_Znwm" () otherwise allocated;
    new_array "_Znam" () otherwise allocated;
    new_nothrow "_ZnwmRKSt9nothrow_t" (_nothrow: NoThrow = NOTHROW) otherwise |size, _| attempted(MALLOC_ALIGNMENT, size);
    new_array_nothrow "_ZnamRKSt9nothrow_t" (_nothrow: NoThrow = NOTHROW) otherwise |size, _| attempted(MALLOC_ALIGNMENT, size);
    new_aligned "_ZnwmSt11align_val_t" (alignment: usize = TRIED) otherwise allocated_aligned;
    new_array_aligned "_ZnamSt11align_val_t" (alignment: usize = TRIED) otherwise allocated_aligned;
    new_aligned_nothrow "_ZnwmSt11align_val_tRKSt9nothrow_t" (alignment: usize = TRIED, _nothrow: NoThrow = NOTHROW) otherwise |size, alignment, _| attempted(alignment, size);
    new_array_aligned_nothrow "_ZnamSt11align_val_tRKSt9nothrow_t" (alignment: usize = TRIED, _nothrow: NoThrow = NOTHROW) otherwise |size, alignment, _| attempted(alignment, size);
}

deletes! {
    delete "_ZdlPv" ();
    delete_array "_ZdaPv" ();
    delete_sized "_ZdlPvm" (size: usize);
    delete_array_sized "_ZdaPvm" (size: usize);
    delete_nothrow "_ZdlPvRKSt9nothrow_t" (nothrow: NoThrow);
    delete_array_nothrow "_ZdaPvRKSt9nothrow_t" (nothrow: NoThrow);
    delete_aligned "_ZdlPvSt11align_val_t" (alignment: usize);
    delete_array_aligned "_ZdaPvSt11align_val_t" (alignment: usize);
    delete_sized_aligned "_ZdlPvmSt11align_val_t" (size: usize, alignment: usize);
    delete_array_sized_aligned "_ZdaPvmSt11align_val_t" (size: usize, alignment: usize);
    delete_aligned_nothrow "_ZdlPvSt11align_val_tRKSt9nothrow_t" (alignment: usize, nothrow: NoThrow);
    delete_array_aligned_nothrow "_ZdaPvSt11align_val_tRKSt9nothrow_t" (alignment: usize, nothrow: NoThrow);
}

/// The alignment of `malloc`, bytes.
const MALLOC_ALIGNMENT: usize = 16;

/// A block, or null; C++ requires that one of no bytes has an address, too.
fn attempted(alignment: usize, size: usize) -> *mut c_void {
    // SAFETY: any size may be asked for; C++ alignments are powers of two.
    unsafe {
        if alignment <= MALLOC_ALIGNMENT {
            family::malloc(size.max(1))
        } else {
            family::memalign(alignment, size.max(1))
        }
    }
}

fn allocated(size: usize) -> *mut c_void {
    allocated_aligned(size, MALLOC_ALIGNMENT)
}

/// A block, or the end: without a C++ library there is no exception to throw.
fn allocated_aligned(size: usize, alignment: usize) -> *mut c_void {
    let block = attempted(alignment, size);
    if block.is_null() {
        print("operator new: out of memory");
        std::process::abort();
    }
    block
}
