//! The handler under signals far denser than any timer's, sent with a slot's ticket.

use super::super::ring::Record;
use super::super::tables::Tables;
use super::*;
use crate::aside::own_tid;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One at a time: the handler and its snapshot belong to the process.
static TURN: Mutex<()> = Mutex::new(());

fn prepared() -> std::sync::MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    sigprof::install().unwrap();
    turn
}

/// Publishes what is mapped now; the former snapshot is leaked, as tests do not wait for its last reader.
fn publish_now() {
    publish(Box::new(Regions::of_this_process(&mut Tables::default())));
}

/// Work that allocates, recurses and makes system calls, so that signals hit all of them; returns its depth.
#[inline(never)]
fn work(depth: u64) -> u64 {
    let kept: Vec<u64> = (0..=depth).collect();
    if depth == 0 {
        return std::fs::metadata("/proc/self").map_or(0, |_| 1);
    }
    work(depth - 1) + kept.len() as u64 - depth
}

#[test]
fn a_signal_storm_over_allocating_threads_breaks_nothing_and_keeps_errno() {
    let _turn = prepared();
    const THREADS: usize = 2;
    let stop = Arc::new(AtomicBool::new(false));
    let ready = Arc::new(Barrier::new(THREADS + 1));
    let tickets = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (stop, ready, tickets) = (stop.clone(), ready.clone(), tickets.clone());
            std::thread::spawn(move || {
                let slot = Slot::create().unwrap();
                tickets.lock().unwrap().push((own_tid(), slot.ticket(), slot));
                ready.wait();
                let mut spoiled = 0;
                while !stop.load(Ordering::Relaxed) {
                    assert!(work(40) > 0);
                    spoiled += u64::from(!errno_is_kept());
                }
                slot.revoke();
                spoiled
            })
        })
        .collect();
    ready.wait();
    publish_now();
    let tickets = tickets.lock().unwrap();
    const ENOUGH: u64 = 5000;
    let (mut sent, mut taken, mut deepest, mut lost) = (0_u64, 0_u64, 0, 0);
    let end = Instant::now() + Duration::from_secs(300);
    while taken < ENOUGH && Instant::now() < end {
        for (tid, ticket, slot) in tickets.iter() {
            sent += u64::from(send(*tid, *ticket));
            slot.ring.drain(|record: Record<'_>| {
                taken += 1;
                deepest = deepest.max(record.addresses().len());
            });
            lost += slot.ring.take_lost();
        }
        // What is sent to a thread that does not run until the next one is the same signal.
        std::thread::sleep(Duration::from_micros(20));
    }
    stop.store(true, Ordering::Relaxed);
    let spoiled: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    println!("{sent} signals, {taken} samples, {lost} lost, deepest {deepest}");
    assert_eq!(spoiled, 0, "errno was changed");
    assert!(taken >= ENOUGH, "{taken} of {sent}");
    assert!(deepest >= 40, "deepest stack {deepest}");
}

/// Spins for a moment with a known errno.
fn errno_is_kept() -> bool {
    // SAFETY: the calling thread's own errno.
    unsafe {
        *libc::__errno_location() = 4242;
        for _ in 0..2000 {
            if std::ptr::read_volatile(libc::__errno_location()) != 4242 {
                return false;
            }
        }
    }
    true
}

#[test]
fn a_full_ring_is_counted_and_a_revoked_ticket_is_dropped() {
    let _turn = prepared();
    publish_now();
    let slot = Slot::create().unwrap();
    let ticket = slot.ticket();
    for _ in 0..8000 {
        assert!(send(own_tid(), ticket));
    }
    let mut taken = 0;
    slot.ring.drain(|_| taken += 1);
    let lost = slot.ring.take_lost();
    assert!(taken > 0 && lost > 0, "{taken} taken, {lost} lost");
    assert_eq!(taken + lost, 8000);
    slot.revoke();
    assert!(send(own_tid(), ticket));
    slot.ring.drain(|_| panic!("a void ticket was taken"));
}

#[test]
fn a_handler_that_was_there_before_gets_the_signals_that_are_not_ours() {
    static SEEN: AtomicU64 = AtomicU64::new(0);
    extern "C" fn former(_: c_int) {
        SEEN.fetch_add(1, Ordering::Relaxed);
    }
    let _turn = prepared();
    // SAFETY: `former` only counts.
    unsafe { libc::signal(libc::SIGPROF, former as extern "C" fn(c_int) as usize) };
    sigprof::install().unwrap();
    publish_now();
    let slot = Slot::create().unwrap();
    assert!(send(own_tid(), slot.ticket()));
    // SAFETY: a signal to this thread, whose handler is installed.
    unsafe { libc::raise(libc::SIGPROF) };
    assert!(send(own_tid(), 0x7777));
    let mut taken = 0;
    slot.ring.drain(|_| taken += 1);
    assert_eq!((taken, SEEN.load(Ordering::Relaxed)), (1, 2));
    sigprof::forget_program();
}

#[test]
fn a_handler_that_hands_signals_back_gets_each_once() {
    static SEEN: AtomicU64 = AtomicU64::new(0);
    extern "C" fn hands_back(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        assert!(SEEN.fetch_add(1, Ordering::Relaxed) < 10);
        on_sigprof(signal, info, context);
    }
    let _turn = prepared();
    // SAFETY: all-zero is a valid `sigaction`; `hands_back` has the type that `SA_SIGINFO` requires.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = hands_back as Handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGPROF, &action, std::ptr::null_mut()), 0);
    }
    sigprof::install().unwrap();
    for _ in 0..2 {
        // SAFETY: a signal to this thread, whose handler is installed.
        unsafe { libc::raise(libc::SIGPROF) };
    }
    assert_eq!(SEEN.load(Ordering::Relaxed), 2);
    sigprof::forget_program();
}

/// The cost of one sample on this machine, with the delivery of its signal, compared with a handler that does nothing.
#[test]
#[ignore = "a measurement: cargo test --release -p procprof-agent --lib cost -- --ignored --nocapture"]
fn the_cost_of_a_sample() {
    extern "C" fn nothing(_: c_int) {}
    let _turn = prepared();
    publish_now();
    let slot = Slot::create().unwrap();
    for depth in [10, 70, 130] {
        let mut frames = 0;
        let ours = at_depth(depth, &mut || median_of_signals(slot, &mut frames));
        // SAFETY: `nothing` does nothing; ours is put back below.
        let former = unsafe { libc::signal(libc::SIGPROF, nothing as extern "C" fn(c_int) as usize) };
        let empty = at_depth(depth, &mut || median_of_signals(slot, &mut 0));
        assert_ne!(former, libc::SIG_ERR);
        sigprof::install().unwrap();
        sigprof::forget_program();
        println!("{frames} frames: {ours} ns a sample, {empty} ns for an empty handler");
    }
}

/// Calls `body` below that many frames of its own.
#[inline(never)]
fn at_depth(depth: u32, body: &mut dyn FnMut() -> u64) -> u64 {
    let result = if depth == 0 { body() } else { at_depth(depth - 1, body) };
    std::hint::black_box(result)
}

/// Nanoseconds of one signal to oneself, and the depth of the last stack.
fn median_of_signals(slot: &'static Slot, frames: &mut usize) -> u64 {
    const BATCH: u32 = 10;
    let (tid, ticket) = (own_tid(), slot.ticket());
    let mut times: Vec<u64> = (0..2000)
        .map(|_| {
            let began = Instant::now();
            (0..BATCH).for_each(|_| assert!(send(tid, ticket)));
            let took = began.elapsed().as_nanos() as u64 / u64::from(BATCH);
            slot.ring.drain(|record| *frames = record.addresses().len());
            took
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}
