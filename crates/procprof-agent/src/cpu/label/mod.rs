//! Labels that a program puts on the samples of its own threads, by guards in scope.
//!
//! A thread's labels lie in a buffer of its own (`buffer`), which the handler on the same thread finds by the thread
//! pointer (`places`): thread-local storage of a library loaded at run time must not be touched in a handler. The
//! handler copies the buffer's words into the sample, so nothing has to be interned, and nothing outlives its scope.

mod buffer;
mod places;
mod value;

pub(crate) use buffer::{Decoded, LABEL_WORDS, decode};
pub(crate) use places::{are_used, of_this_thread};

pub use value::LabelValue;

use buffer::Buffer;
use places::Place;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// Labels that found no room since the process started.
static REFUSED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static HOME: Home = Home::settle();
}

/// Samples of this thread carry a label until this guard is dropped. Guards are dropped in the reverse order of their
/// making, as scopes do.
#[must_use = "the label ends when the guard is dropped"]
#[derive(Debug)]
pub struct Label {
    /// Position among the thread's labels from 1; 0 for one that found no room.
    depth: usize,
    /// A label belongs to the thread that made it.
    _not_send: PhantomData<*const ()>,
}

/// Labels the samples of this thread from now on, until the guard is dropped; an inner label replaces an outer one of
/// the same key.
///
/// Costs tens of nanoseconds, whether profiles are taken or not. A thread has room for 16 labels of together 512 bytes;
/// further ones are left out, which profiles count as `#procprof:labels-refused`. Keys are cut at 63 bytes.
///
/// ```
/// let _query = procprof_agent::label("query_id", "0198f2c4-7a01");
/// for shard in 0..4_u32 {
///     let _shard = procprof_agent::label("shard", shard);
///     // Samples here have both labels.
/// }
/// ```
///
/// # In async code
/// A task may go on in another thread after each `.await`, so a guard can't be held across one: the compiler refuses to
/// spawn such a future where tasks move between threads. Label each poll instead:
///
/// ```
/// async fn labelled<T>(id: u64, work: impl Future<Output = T>) -> T {
///     let mut work = std::pin::pin!(work);
///     std::future::poll_fn(|context| {
///         let _query = procprof_agent::label("query_id", id);
///         work.as_mut().poll(context)
///     })
///     .await
/// }
/// ```
#[inline]
pub fn label<'a>(key: &str, value: impl Into<LabelValue<'a>>) -> Label {
    let value = value.into();
    let depth = HOME.try_with(|home| home.buffer().and_then(|buffer| buffer.push(key, value)));
    let depth = depth.ok().flatten().unwrap_or_else(|| {
        REFUSED.fetch_add(1, Ordering::Relaxed);
        0
    });
    Label { depth, _not_send: PhantomData }
}

impl Drop for Label {
    #[inline]
    fn drop(&mut self) {
        // A thread that is ending has no labels any more.
        let _ = HOME.try_with(|home| home.buffer().map(|buffer| buffer.cut(self.depth)));
    }
}

/// Labels that found no room since the process started.
pub(crate) fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// A thread's buffer and where the handler finds it.
struct Home {
    buffer: *mut Buffer,
    place: Option<Place>,
}

impl Home {
    fn settle() -> Self {
        let buffer = Box::into_raw(Box::new(Buffer::new()));
        Self { buffer, place: Place::claim(buffer) }
    }

    #[inline]
    fn buffer(&self) -> Option<&Buffer> {
        self.place.as_ref()?;
        // SAFETY: made in `settle` and freed in `drop` only.
        Some(unsafe { &*self.buffer })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // First no handler of this thread finds the buffer any more (no other thread's ever does), then it is freed.
        self.place = None;
        // SAFETY: made in `settle`, and owned by nothing else.
        drop(unsafe { Box::from_raw(self.buffer) });
    }
}

#[cfg(test)]
mod tests;
