use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ThreadId};

use super::release;

/// Records which thread drops it.
struct Told(Sender<ThreadId>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.send(thread::current().id()).unwrap();
    }
}

#[test]
fn only_what_is_large_is_dropped_by_a_thread_of_its_own() {
    let (sender, dropped): (Sender<ThreadId>, Receiver<ThreadId>) = channel();
    release(Told(sender.clone()), false);
    assert_eq!(dropped.recv().unwrap(), thread::current().id());
    release(Told(sender), true);
    assert_ne!(dropped.recv().unwrap(), thread::current().id());
}
