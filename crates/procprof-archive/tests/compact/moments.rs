//! Compaction that ends, or that others overtake, at each of its operations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use procprof_profile::Nanos;

use super::memory::{Event, Eventful, Memory};
use super::{NOW, SECOND, compact_at, limits, one_day, opened, seen};

/// The number of operations of a whole compaction.
fn operations(objects: &Arc<Memory>, now: Nanos) -> usize {
    let counted = Eventful::new(&objects.copy(), usize::MAX, Event::EndBefore);
    compact_at(&opened(&counted), &limits(), now, 7).unwrap();
    counted.count()
}

/// Lets others compact until nothing is left to do, and checks that it is so.
fn recover(objects: &Arc<Memory>, now: Nanos) {
    let before = seen(&opened(objects)).unwrap();
    for (holder, seconds) in [(8, 61), (9, 1_000)] {
        compact_at(&opened(objects), &limits(), Nanos(now.0 + seconds * SECOND), holder).unwrap();
        assert_eq!(seen(&opened(objects)).unwrap(), before);
    }
    let parts = opened(objects).parts().unwrap();
    assert_eq!((parts.whole.len(), parts.replaced.len(), parts.unfinished.len(), parts.odd.len()), (2, 0, 0, 0));
    let paths = objects.paths();
    assert!(!paths.iter().any(|path| path.starts_with("staged/")), "{paths:?}");
    assert_eq!(paths.iter().filter(|path| path.ends_with(".parquet")).count(), 7 + 5, "{paths:?}");
}

/// The days before a compaction, and those after one whose grace is over, so that files are to be removed.
fn starts() -> [(Arc<Memory>, Nanos); 2] {
    let days = one_day();
    let compacted = days.copy();
    compact_at(&opened(&compacted), &limits(), NOW, 7).unwrap();
    [(days, NOW), (compacted, Nanos(NOW.0 + 700 * SECOND))]
}

#[test]
fn it_may_end_at_any_operation() {
    let mut moments = 0;
    // Most operations read: what they leave behind was recovered from already.
    let mut recovered: BTreeSet<Vec<(String, Vec<u8>)>> = BTreeSet::new();
    for (days, now) in starts() {
        let expected = seen(&opened(&days)).unwrap();
        for at in 0..operations(&days, now) {
            for event in [Event::EndBefore, Event::EndAfter] {
                let objects = days.copy();
                let ended = Eventful::new(&objects, at, event);
                compact_at(&opened(&ended), &limits(), now, 7).unwrap_err();
                moments += 1;
                if recovered.insert(objects.all()) {
                    assert_eq!(seen(&opened(&objects)).unwrap(), expected, "operation {at}");
                    recover(&objects, now);
                }
            }
        }
    }
    assert!(moments >= 200, "{moments}");
}

#[test]
fn those_that_complete_it_may_end_as_well() {
    let days = one_day();
    let expected = seen(&opened(&days)).unwrap();
    let all = operations(&days, NOW);
    // Each with another distance.
    for at in 0..all {
        let objects = days.copy();
        let first = Eventful::new(&objects, at, Event::EndAfter);
        compact_at(&opened(&first), &limits(), NOW, 5).unwrap_err();
        let second = Eventful::new(&objects, at * 7 % all, Event::EndBefore);
        let _ = compact_at(&opened(&second), &limits(), Nanos(NOW.0 + 30 * SECOND + at as i64 * SECOND), 6);
        assert_eq!(seen(&opened(&objects)).unwrap(), expected, "operation {at}");
        for (holder, seconds) in [(8, 600), (9, 1_300)] {
            compact_at(&opened(&objects), &limits(), Nanos(NOW.0 + seconds * SECOND), holder).unwrap();
        }
        recover_later(&objects);
    }
}

fn recover_later(objects: &Arc<Memory>) {
    let parts = opened(objects).parts().unwrap();
    assert_eq!((parts.whole.len(), parts.replaced.len(), parts.unfinished.len()), (2, 0, 0));
}

#[test]
fn another_may_overtake_it_at_any_operation() {
    let days = one_day();
    let expected = seen(&opened(&days)).unwrap();
    // The first one does not notice that its lease has ended: its clock stands still.
    for at in 0..operations(&days, NOW) {
        let seconds = if at % 2 == 0 { 61 } else { 700 };
        let objects = days.copy();
        let others = Arc::clone(&objects);
        let event = Event::Before(Box::new(move || {
            let _ = compact_at(&opened(&others), &limits(), Nanos(NOW.0 + seconds * SECOND), 6);
            let _ = compact_at(&opened(&others), &limits(), Nanos(NOW.0 + 2 * seconds * SECOND), 5);
        }));
        let overtaken = Eventful::new(&objects, at, event);
        let _ = compact_at(&opened(&overtaken), &limits(), NOW, 7);
        assert_eq!(seen(&opened(&objects)).unwrap(), expected, "operation {at}");
        for (holder, seconds) in [(8, 2_000), (9, 3_000)] {
            compact_at(&opened(&objects), &limits(), Nanos(NOW.0 + seconds * SECOND), holder).unwrap();
            assert_eq!(seen(&opened(&objects)).unwrap(), expected, "operation {at}");
        }
        recover_later(&objects);
    }
}

#[test]
fn readers_see_the_old_or_the_new() {
    let days = one_day();
    let expected = seen(&opened(&days)).unwrap();
    let counted = Eventful::new(&days, usize::MAX, Event::EndBefore);
    seen(&opened(&counted)).unwrap();
    let gone = AtomicUsize::new(0);
    for at in 0..counted.count() {
        // With a grace that outlasts the reader, and with none, which may take files away from it.
        for grace in [600 * SECOND, 0] {
            let objects = days.copy();
            let others = Arc::clone(&objects);
            let limits = procprof_archive::CompactLimits { grace: Nanos(grace), ..limits() };
            let event = Event::Before(Box::new(move || {
                compact_at(&opened(&others), &limits, NOW, 7).unwrap();
            }));
            match seen(&opened(&Eventful::new(&objects, at, event))) {
                Ok(found) => assert_eq!(found, expected, "operation {at}"),
                Err(error) => {
                    assert!(grace == 0 && error.is_not_found(), "operation {at}: {error}");
                    gone.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    }
    assert!(gone.load(Ordering::SeqCst) > 0, "no reader was disturbed: the test shows nothing");
}
