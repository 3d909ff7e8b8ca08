//! Threads that work for the profiler, which are not to be in its profiles of locks and of the heap.

#[cfg(all(feature = "contention", target_os = "linux"))]
thread_local! {
    /// Whether this thread's waits are in no record. Constant at first and without a destructor: it is reached inside
    /// allocators.
    pub(crate) static WAITS_UNSEEN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Leaves the calling thread, which is one of the profiler's, out of both until it ends.
pub(crate) fn leave_out() {
    #[cfg(all(feature = "contention", target_os = "linux"))]
    WAITS_UNSEEN.set(true);
    #[cfg(all(feature = "heap", target_os = "linux"))]
    std::mem::forget(crate::countdown::current().overlook());
}

/// Leaves what `work` allocates, for the profiler and in any thread, out of the heap's profile.
pub(crate) fn left_out<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(all(feature = "heap", target_os = "linux"))]
    let _overlooked = crate::countdown::current().overlook();
    work()
}
