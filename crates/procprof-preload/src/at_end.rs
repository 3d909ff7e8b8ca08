//! A function that is called when a thread ends, with a word of that thread's.

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};

/// The function, by a key of the C library's that is made on first use.
pub(crate) struct AtEnd {
    function: extern "C" fn(*mut c_void),
    /// -1 before the first use.
    key: AtomicI64,
}

impl AtEnd {
    pub(crate) const fn new(function: extern "C" fn(*mut c_void)) -> Self {
        Self { function, key: AtomicI64::new(-1) }
    }

    /// Has the function called with a word when the calling thread ends, in the place of a former one; 0 for none any
    /// more. False where the C library has no key left.
    pub(crate) fn call_with(&self, word: usize) -> bool {
        if self.key.load(Ordering::Acquire) < 0 {
            let mut key = 0;
            // SAFETY: `key` is a valid place to write to; the function stays loaded.
            if unsafe { libc::pthread_key_create(&mut key, Some(self.function)) } != 0 {
                return false;
            }
            if self.key.compare_exchange(-1, i64::from(key), Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: made above, and not published.
                unsafe { libc::pthread_key_delete(key) };
            }
        }
        // SAFETY: a key that was made and is never deleted.
        unsafe {
            libc::pthread_setspecific(self.key.load(Ordering::Acquire) as libc::pthread_key_t, word as *const c_void)
                == 0
        }
    }
}
