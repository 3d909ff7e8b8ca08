//! A function of the C library behind one of ours: the next definition in the loader's order.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// One that is looked up once.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address; null where the C library has none. Async-signal-safe after [`Next::look_up`].
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if known.is_null() { self.look_up() } else { known }
    }

    #[cold]
    pub(crate) fn look_up(&self) -> *mut c_void {
        // SAFETY: looks a name up in what is loaded.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Defines functions that call the C library's, or answer as a function that is missing does, and `look_all_up`.
macro_rules! next {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, or $missing:expr;)*) => {
        $(
            /// # Safety
            /// As the C function of that name.
            pub(super) unsafe fn $name($($argument: $type),*) -> $result {
                let address = place::$name.address();
                if address.is_null() {
                    // SAFETY: the calling thread's own errno.
                    unsafe { *libc::__errno_location() = libc::ENOSYS };
                    return $missing;
                }
                // SAFETY: the C library's function of this name is of this type, and the caller keeps its promises.
                unsafe { std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($type),*) -> $result>(address)($($argument),*) }
            }
        )*

        #[allow(non_upper_case_globals, reason = "the functions' names")]
        mod place {
            use crate::next::Next;
            $(
                pub(super) static $name: Next = Next::new(match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a function's name has no zero byte"),
                });
            )*
        }

        /// Looks them up where that may be done: later they may be called in a signal handler, or in a child of
        /// `vfork`.
        pub(super) fn look_all_up() {
            $(place::$name.look_up();)*
        }
    };
}

pub(crate) use next;

/// Runs `call`, which may fail, and then `after`, and leaves `errno` as `call` did.
pub(crate) fn keeping_errno<T>(call: impl FnOnce() -> T, after: impl FnOnce()) -> T {
    let result = call();
    // SAFETY: the calling thread's own errno.
    let errno = unsafe { *libc::__errno_location() };
    after();
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    result
}
