//! A thread that empties the buffers while the one that takes records in is busy.
//!
//! To take in a record, files may have to be opened, unwind tables made and texts of `/proc` read, of whatever process a
//! sample is: meanwhile the kernel goes on to write, and what finds no room is lost, of all processes.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::kernel::{MappedRing, locked};

/// Time between two looks at the buffers while the other thread is busy: a buffer of 2 MiB has room for 30 samples with
/// whole copies of stacks.
const INTERVAL: Duration = Duration::from_millis(20);

/// The state of the other thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Busy,
    Waiting,
    Ended,
}

#[derive(Debug)]
struct Watch {
    reader: Mutex<Reader>,
    changed: Condvar,
}

impl Watch {
    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, reader: Reader) {
        *self.reader() = reader;
        self.changed.notify_one();
    }
}

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Drain {
    watch: Arc<Watch>,
    thread: Option<JoinHandle<()>>,
}

impl Drain {
    /// Starts the thread. The calling one counts as busy but in [`Drain::while_waiting`].
    pub(super) fn start(rings: Vec<Arc<Mutex<MappedRing>>>) -> std::io::Result<Self> {
        let watch = Arc::new(Watch { reader: Mutex::new(Reader::Busy), changed: Condvar::new() });
        let own = Arc::clone(&watch);
        let thread = std::thread::Builder::new().name("perf-buffers".to_owned()).spawn(move || run(&own, &rings))?;
        Ok(Self { watch, thread: Some(thread) })
    }

    /// Calls a function that only waits for the buffers.
    pub(super) fn while_waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.watch.set(Reader::Waiting);
        let result = wait();
        self.watch.set(Reader::Busy);
        result
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.watch.set(Reader::Ended);
        // It has no result.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn run(watch: &Watch, rings: &[Arc<Mutex<MappedRing>>]) {
    let mut reader = watch.reader();
    loop {
        match *reader {
            Reader::Ended => return,
            Reader::Waiting => reader = watch.changed.wait(reader).unwrap_or_else(PoisonError::into_inner),
            Reader::Busy => {
                let waited = watch.changed.wait_timeout(reader, INTERVAL).unwrap_or_else(PoisonError::into_inner);
                reader = waited.0;
                if *reader == Reader::Busy && waited.1.timed_out() {
                    drop(reader);
                    rings.iter().for_each(|ring| locked(ring).make_room());
                    reader = watch.reader();
                }
            }
        }
    }
}
