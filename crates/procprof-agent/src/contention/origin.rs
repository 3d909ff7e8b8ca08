//! The origin of a hooked function: the C library, or a file that replaces it.
//!
//! A program may define `pthread_mutex_lock` itself, as brpc does to profile its locks, and so may a library that is
//! preloaded. What it does there is its own affair: a mutex need not be one of the C library's any more, so that none
//! of the functions of that family may be led elsewhere.

use super::got::Hook;
use crate::loader;
use std::ffi::{CStr, c_void};

/// Functions that work on the same objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Futex,
    Mutex,
    RwLock,
    Condition,
}

/// How the files are called that the C library consists of: glibc's before and since 2.34, musl's. The preload
/// library's `syscall` hands on to theirs.
const FILES: [&[u8]; 6] = [b"libc.so", b"libc-", b"libpthread", b"libc.musl", b"ld-musl", b"libprocprof_preload"];

/// The address at which the program finds a function; `None` if there is none, or if another file than the C library
/// defines it.
pub(super) fn of_the_c_library(name: &CStr) -> Option<usize> {
    let address = look_up(name);
    (!address.is_null() && !is_anothers(address)).then_some(address as usize)
}

/// The functions that another file than the C library defines.
pub(super) fn defined_by_others(hooks: &[Hook]) -> impl Iterator<Item = &Hook> {
    hooks.iter().filter(|hook| {
        let address = look_up(hook.name);
        !address.is_null() && is_anothers(address)
    })
}

fn look_up(name: &CStr) -> *mut c_void {
    // SAFETY: looks a name up in what is loaded.
    loader::using(|| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) })
}

fn is_anothers(function: *const c_void) -> bool {
    // SAFETY: all-zero is a valid `Dl_info` to be filled.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: fills `found` for any address.
    if loader::using(|| unsafe { libc::dladdr(function, &mut found) }) == 0 || found.dli_fname.is_null() {
        return true;
    }
    // SAFETY: the loader's name of a file that is loaded.
    let path = unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes();
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    !FILES.iter().any(|start| file.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_c_library_are_distinguished_from_others() {
        assert!(of_the_c_library(c"pthread_mutex_lock").is_some());
        assert!(of_the_c_library(c"no_such_function").is_none());
        assert!(is_anothers(functions_of_the_c_library_are_distinguished_from_others as *const c_void));
    }
}
