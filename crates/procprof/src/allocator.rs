//! The binary's allocator: jemalloc with its heap profiler compiled in and inactive.
//!
//! `prof:true` can only be set at start; it costs a check per allocation until `prof.active` is switched on. Its memory
//! can be in large pages where the kernel has them on request ([`large_pages`]): a report of a large dump touches 100
//! MB for a tenth of a second, and page by page the kernel takes as long to map them. Long-lived processes have small
//! ones, and threads that return memory ([`start_background_threads`]).
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// A C string with the layout of `const char *`.
#[repr(transparent)]
struct Configuration(*const c_char);

// SAFETY: the pointer is to a string literal, which lives for ever and is never written.
unsafe impl Sync for Configuration {}

/// Read once by jemalloc before `main`; the environment's `_RJEM_MALLOC_CONF` is read after it and wins.
// SAFETY: the name is jemalloc's own hook for this purpose, declared weak there, and the type is the one it expects.
#[unsafe(export_name = "_rjem_malloc_conf")]
static CONFIGURATION: Configuration =
    Configuration(c"prof:true,prof_active:false,lg_prof_sample:19,dirty_decay_ms:1000,thp:always".as_ptr());

/// jemalloc's control function, for the agent's heap profiles.
pub(crate) const MALLCTL: unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int =
    tikv_jemalloc_sys::mallctl;

/// Bytes of input from which on large pages pay: below, clearing one costs more than what is used of it.
const LARGE_INPUT: u64 = 1 << 20;

/// Large pages from here on if this much is to be read.
pub(crate) fn expect_input(bytes: u64) {
    if bytes >= LARGE_INPUT {
        large_pages(true);
    }
}

/// Whether the kernel may back this process, and those it starts, by pages of 2 MiB from here on. A kernel without such
/// pages ignores it.
pub(crate) fn large_pages(are_wanted: bool) {
    let _ = rustix::thread::disable_transparent_huge_pages(!are_wanted);
}

/// Gives all memory back that is free.
pub(crate) fn give_back() -> Result<(), i32> {
    // SAFETY: the name is a C string, and this option takes and returns nothing; 4096 is jemalloc's number for all
    // arenas.
    let error = unsafe {
        tikv_jemalloc_sys::mallctl(
            c"arena.4096.purge".as_ptr(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            0,
        )
    };
    if error == 0 { Ok(()) } else { Err(error) }
}

/// Arenas of the C library's allocator. The Rust side has jemalloc; SQLite, the only C that allocates much, is called
/// from every thread of the blocking pool, and with glibc's eight arenas a core each keeps what it once had.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn limit_c_arenas() {
    const ARENAS: c_int = 2;
    // SAFETY: the option takes an integer, and concerns arenas that are made from here on.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
}

/// Other C libraries have one heap.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn limit_c_arenas() {}

/// Has threads of the allocator give memory back that is free for long. Without them, that waits for the next
/// allocation, and a server at rest makes few.
pub(crate) fn start_background_threads() -> Result<(), i32> {
    let mut on = true;
    // SAFETY: the name is a C string, and this option takes one `bool` of the size given; nothing is read back.
    let error = unsafe {
        tikv_jemalloc_sys::mallctl(
            c"background_thread".as_ptr(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            (&raw mut on).cast(),
            size_of::<bool>(),
        )
    };
    if error == 0 { Ok(()) } else { Err(error) }
}
