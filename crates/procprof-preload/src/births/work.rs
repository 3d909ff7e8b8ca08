//! The work of a new thread, between the call that creates it and its start.
//!
//! It is in one of a fixed number of places, and not in memory of the allocator: where none is free, the thread is
//! created without this library.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

pub(super) type Routine = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// A thread's first routine and what it is called with.
#[repr(C)]
pub(super) struct Work {
    pub(super) routine: Routine,
    pub(super) argument: *mut c_void,
}

/// Threads that have been made and have not begun, at most; of a copy by `fork`, also those that its parent was making.
const PLACES: usize = 256;

static ALL: [Place; PLACES] = [const { Place::new() }; PLACES];

/// The place at which the search starts.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Room for one thread's work.
pub(super) struct Place {
    is_taken: AtomicBool,
    routine: AtomicPtr<c_void>,
    argument: AtomicPtr<c_void>,
}

impl Place {
    const fn new() -> Self {
        let none = std::ptr::null_mut();
        Self { is_taken: AtomicBool::new(false), routine: AtomicPtr::new(none), argument: AtomicPtr::new(none) }
    }

    /// Puts work in a place; `None` where all are taken.
    pub(super) fn take(work: Work) -> Option<&'static Self> {
        let first = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut places = (0..PLACES).map(|index| &ALL[first.wrapping_add(index) % PLACES]);
        let place = places
            .find(|place| !place.is_taken.load(Ordering::Relaxed) && !place.is_taken.swap(true, Ordering::Acquire))?;
        place.routine.store(work.routine as *mut c_void, Ordering::Relaxed);
        place.argument.store(work.argument, Ordering::Relaxed);
        Some(place)
    }

    /// Takes the work out of it, which is free from then on.
    pub(super) fn clear(&self) -> Work {
        // SAFETY: `take` has put a routine there.
        let routine = unsafe { std::mem::transmute::<*mut c_void, Routine>(self.routine.load(Ordering::Relaxed)) };
        let work = Work { routine, argument: self.argument.load(Ordering::Relaxed) };
        self.is_taken.store(false, Ordering::Release);
        work
    }
}
