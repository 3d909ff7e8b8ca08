//! Compaction that ends, or that others overtake, at each of its operations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use procprof_profile::Nanos;

use super::memory::{Event, Eventful, Memory};
use super::{NOW, SECOND, compact_at, limits, one_day, opened, seen};

/// All objects.
type State = Vec<(String, Vec<u8>)>;

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
    let mut recovered: BTreeSet<State> = BTreeSet::new();
    for (days, now) in starts() {
        let expected = seen(&opened(&days)).unwrap();
        // An end before an operation leaves what one after the operation before leaves.
        let ends = (0..operations(&days, now)).map(|at| (at, Event::EndAfter));
        for (at, event) in [(0, Event::EndBefore)].into_iter().chain(ends) {
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
    assert!(moments >= 100, "{moments}");
}

#[test]
fn those_that_complete_it_may_end_as_well() {
    let days = one_day();
    let expected = seen(&opened(&days)).unwrap();
    let all = operations(&days, NOW);
    let mut recovered: BTreeSet<State> = BTreeSet::new();
    // Each with another distance.
    for at in 0..all {
        let objects = days.copy();
        let first = Eventful::new(&objects, at, Event::EndAfter);
        compact_at(&opened(&first), &limits(), NOW, 5).unwrap_err();
        let second = Eventful::new(&objects, at * 7 % all, Event::EndBefore);
        let _ = compact_at(&opened(&second), &limits(), Nanos(NOW.0 + 30 * SECOND + at as i64 * SECOND), 6);
        if !recovered.insert(objects.all()) {
            continue;
        }
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
    // Most operations read, so others find what they found before, and leave the same.
    let overtaking: Arc<Mutex<BTreeMap<(State, i64), State>>> = Arc::default();
    let mut recovered: BTreeSet<State> = BTreeSet::new();
    // The first one does not notice that its lease has ended: its clock stands still.
    for at in 0..operations(&days, NOW) {
        let seconds = if at % 2 == 0 { 61 } else { 700 };
        let objects = days.copy();
        let (others, known) = (Arc::clone(&objects), Arc::clone(&overtaking));
        let event = Event::Before(Box::new(move || {
            let mut known = known.lock().unwrap();
            let left = known.entry((others.all(), seconds)).or_insert_with(|| {
                let _ = compact_at(&opened(&others), &limits(), Nanos(NOW.0 + seconds * SECOND), 6);
                let _ = compact_at(&opened(&others), &limits(), Nanos(NOW.0 + 2 * seconds * SECOND), 5);
                others.all()
            });
            others.set(left);
        }));
        let overtaken = Eventful::new(&objects, at, event);
        let _ = compact_at(&opened(&overtaken), &limits(), NOW, 7);
        if !recovered.insert(objects.all()) {
            continue;
        }
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
    // With a grace that outlasts the reader, and with none, which may take files away from it.
    let compacted = [600 * SECOND, 0].map(|grace| {
        let (objects, limits) = (days.copy(), procprof_archive::CompactLimits { grace: Nanos(grace), ..limits() });
        compact_at(&opened(&objects), &limits, NOW, 7).unwrap();
        (grace, objects.all())
    });
    for at in 0..counted.count() {
        for (grace, after) in compacted.clone() {
            let objects = days.copy();
            let others = Arc::clone(&objects);
            let event = Event::Before(Box::new(move || others.set(&after)));
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
