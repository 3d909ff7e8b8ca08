//! Ten thousand signals a second to every sampled thread, over a program that is in the midst of everything at once.

use super::isolated::isolated;
use super::{capture, fact, storm_length, unrest};
use crate::cpu::handler::send;
use crate::cpu::slot::Slot;
use crate::options::CpuEngine;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Signals per second and thread.
const HZ: f64 = 10_000.0;

/// Signals of a storm at least.
const SIGNALS: u64 = 15_000;

/// A thread that sends signals until it is stopped.
pub(super) struct Storm {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Storm {
    /// Sends to all threads that are sampled, from now on.
    pub(super) fn start() -> Self {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (stop.clone(), sent.clone());
        let thread = std::thread::Builder::new().name("storm".into()).spawn(move || rage(&stopped, &count)).unwrap();
        Self { stop, sent, thread }
    }

    /// Ends it; returns how many signals were sent.
    pub(super) fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.sent.load(Ordering::Relaxed)
    }

    /// Lets all kinds of unrest run in it for `length` and until so many signals were sent; how many rounds of each
    /// there were.
    fn over_unrest(&self, length: Duration, signals: u64) -> BTreeMap<&'static str, u64> {
        let end = Instant::now() + Duration::from_secs(240);
        let mut rounds = unrest::run(length);
        while self.sent.load(Ordering::Relaxed) < signals && Instant::now() < end {
            for (kind, more) in unrest::run(length / 4) {
                *rounds.entry(kind).or_default() += more;
            }
        }
        rounds
    }
}

fn rage(stop: &AtomicBool, sent: &AtomicU64) {
    // SAFETY: takes no argument and can't fail.
    let own = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
    let (began, mut rounds) = (Instant::now(), 0_u64);
    while !stop.load(Ordering::Relaxed) {
        let due = (began.elapsed().as_secs_f64() * HZ) as u64;
        // What was missed while others had the processor is caught up with, as far as it makes sense.
        for _ in rounds..due.min(rounds + 20) {
            sent.fetch_add(Slot::all().filter(|slot| signal(slot, own)).count() as u64, Ordering::Relaxed);
        }
        rounds = due;
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Sends a signal to the thread that has the slot now.
fn signal(slot: &Slot, own: i32) -> bool {
    // In this order: a ticket that was read before the slot changed hands is void by then.
    let ticket = slot.ticket();
    slot.tid().is_some_and(|tid| tid != own && send(tid, ticket))
}

#[test]
fn a_storm_over_all_kinds_of_unrest_breaks_nothing() {
    isolated("cpu::safety::storm::a_storm_over_all_kinds_of_unrest_breaks_nothing", || {
        let capture = capture(1000, CpuEngine::Auto);
        let length = storm_length();
        let storm = Storm::start();
        let rounds = storm.over_unrest(length, SIGNALS);
        let sent = storm.end();
        let profile = capture.finish().unwrap();
        let lost = fact(&profile, "lost");
        println!("{sent} signals, {} samples, {lost} lost; {rounds:?}", profile.total(0));
        assert!(
            profile.total(0) as u64 + lost > 1000 && sent >= SIGNALS,
            "{sent} signals, {} samples, {lost} lost",
            profile.total(0)
        );
        for (what, rounds) in rounds {
            assert!(rounds > 0, "{what} never came round");
        }
    });
}

#[test]
fn captures_come_and_go_in_a_storm() {
    isolated("cpu::safety::storm::captures_come_and_go_in_a_storm", || {
        let length = storm_length();
        let storm = Storm::start();
        let end = Instant::now() + length;
        let unrest = std::thread::spawn(move || unrest::run(length));
        let mut captures = 0;
        // On a busy machine a capture may take a second.
        while Instant::now() < end || captures < 4 {
            let engine = [CpuEngine::Auto, CpuEngine::Tick, CpuEngine::Perf][captures % 3];
            let capture = capture(997, engine);
            std::thread::sleep(Duration::from_millis(20 * (captures as u64 % 8)));
            capture.finish().unwrap();
            captures += 1;
        }
        unrest.join().unwrap();
        println!("{captures} captures, {} signals", storm.end());
    });
}
