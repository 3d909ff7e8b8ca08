//! Any bytes as the body of a host agent's push, in pieces whose length the first byte gives: the same parts come of it
//! as of the whole, and a body is complete only where a frame ends. `FUZZ_PART=heartbeat`: as a heartbeat.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use procprof_core::hosts::protocol::Heartbeat;
use procprof_core::hosts::{FrameError, FramePart, Frames};
use procprof_fuzz::{Bound, Meter, part};

thread_local! {
    // A label takes two strings and a place in a map, of five bytes.
    static METER: RefCell<Meter> =
        const { RefCell::new(Meter::new(Bound { multiple: 160, free: 1 << 20 })) };
}

fuzz_target!(|bytes: &[u8]| METER.with_borrow_mut(|meter| {
    meter.hold(bytes.len(), || match part().as_deref() {
        Some("heartbeat") => drop(serde_json::from_slice::<Heartbeat>(bytes)),
        _ => exercise(bytes),
    });
}));

fn exercise(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first() else { return };
    let whole = read(body, body.len().max(1));
    let pieces = read(body, usize::from(*first) + 1);
    assert_eq!(whole, pieces);
}

/// A header's id, the length that it gives, and the length that came.
type Frame = (String, u32, usize);

/// The frames of a body, and how it ended.
fn read(body: &[u8], piece: usize) -> (Vec<Frame>, Result<(), FrameError>) {
    let (mut frames, mut read) = (Frames::default(), Vec::new());
    for bytes in body.chunks(piece) {
        frames.push(bytes);
        loop {
            match frames.part() {
                Ok(Some(FramePart::Header(header, length))) => read.push((header.id, length, 0)),
                Ok(Some(FramePart::Piece(bytes))) => read.last_mut().expect("a header came first").2 += bytes.len(),
                Ok(Some(FramePart::End)) => {
                    let (_, length, came) = read.last().expect("a header came first");
                    assert_eq!(*length as usize, *came);
                }
                Ok(None) => break,
                Err(error) => return (read, Err(error)),
            }
        }
    }
    let ended = frames.finish();
    (read, ended)
}
