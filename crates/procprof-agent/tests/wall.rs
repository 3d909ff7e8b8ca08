//! Wall-clock capture: waiting threads are seen, and hardly disturbed.

use crate::isolated::isolated;
use crate::work::{Symbols, hot_other, thread_of};
use procprof_agent::{Config, Request, start};
use procprof_profile::Profile;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Wall nanoseconds of a thread, and those of them with a frame whose name holds `part`.
fn wall_of(profile: &Profile, thread: &str, part: &str) -> (f64, f64) {
    let symbols = Symbols::of_this_binary();
    let (mut all, mut with) = (0.0, 0.0);
    for index in (0..profile.sample_count()).filter(|index| thread_of(profile, *index) == thread) {
        let sample = profile.sample(index);
        let is_in = symbols.stack(profile, index).iter().any(|name| name.contains(part));
        all += sample.values[1] as f64;
        with += if is_in { sample.values[1] as f64 } else { 0.0 };
    }
    (all, with)
}

fn signals(profile: &Profile) -> u64 {
    let signals = profile.comments().find_map(|comment| comment.strip_prefix("#procprof:signals="));
    signals.unwrap().parse().unwrap()
}

/// Waits in `poll`, which no handler lets go on, until `stop`; counts what was cut short.
#[inline(never)]
fn poll_until(stop: &AtomicBool, interrupted: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        // SAFETY: no descriptors.
        let result = unsafe { libc::poll(std::ptr::null_mut(), 0, 10_000) };
        interrupted.fetch_add(u64::from(result < 0), Ordering::Relaxed);
    }
}

/// Waits; it stays on the stack meanwhile, as the call is not its last act.
#[inline(never)]
fn wait_a_while() {
    std::thread::sleep(Duration::from_millis(70));
    std::hint::black_box(());
}

/// Nanoseconds since the epoch.
fn now() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as i64
}

/// Nanoseconds this thread was ready to run and had no processor.
fn ready() -> i64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Sleeps as a sampler of 50 Hz does, until `stop`; the nanoseconds it came late, since the machine was busy.
fn late_until(stop: &AtomicBool) -> i64 {
    const PERIOD: Duration = Duration::from_millis(20);
    let mut late = 0;
    while !stop.load(Ordering::Relaxed) {
        let before = Instant::now();
        std::thread::sleep(PERIOD);
        late += (before.elapsed() - PERIOD).as_nanos() as i64;
    }
    late
}

/// The percentage of a profile's time that these waits took.
fn waited<'a>(waits: impl Iterator<Item = &'a Range<i64>>, profile: &Profile) -> f64 {
    let (start, length) = (profile.time().0, profile.duration().0);
    let within = |wait: &Range<i64>| (wait.end.min(start + length) - wait.start.max(start)).max(0);
    100.0 * waits.map(within).sum::<i64>() as f64 / length as f64
}

/// A wait: until it was woken, and until it ran.
type Wait = [Range<i64>; 2];

#[test]
fn all_threads_are_seen_for_the_whole_time_and_sleepers_are_left_asleep() {
    isolated("wall::all_threads_are_seen_for_the_whole_time_and_sleepers_are_left_asleep", || {
        let (stop, interrupted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let named = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.into()).spawn(work).unwrap()
        };
        let (of_poller, count) = (stop.clone(), interrupted.clone());
        let _poller = named("poller", Box::new(move || poll_until(&of_poller, &count)));
        let of_mixed = stop.clone();
        let waits: Arc<Mutex<Vec<Wait>>> = Arc::default();
        let of_waits = waits.clone();
        let mixed = named(
            "mixed",
            Box::new(move || {
                let _label = procprof_agent::label("query_id", 7_u64);
                while !of_mixed.load(Ordering::Relaxed) {
                    hot_other(20_000);
                    let (before, ready) = (now(), ready());
                    wait_a_while();
                    let after = now();
                    of_waits.lock().unwrap().push([before..after - (crate::wall::ready() - ready), before..after]);
                }
            }),
        );
        let of_late = stop.clone();
        let late = std::thread::spawn(move || late_until(&of_late));
        let agent = start(Config::default()).unwrap();
        let response = agent.handle(&Request::get("/debug/pprof/wall?seconds=4&frequency=50&symbolize=0"));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(response.status, 200, "{}", String::from_utf8_lossy(&response.body));
        let late = late.join().unwrap();
        let profile = procprof_profile::format::decode(&response.body, &Default::default()).unwrap().profile;
        assert_eq!(profile.sample_type(1), ("wall", "nanoseconds"));
        let (poll, in_poll) = wall_of(&profile, "poller", "poll_until");
        let (all, in_wait) = wall_of(&profile, "mixed", "wait_a_while");
        let waits = waits.lock().unwrap().clone();
        let [asleep, gone] = [0, 1].map(|which| waited(waits.iter().map(|wait| &wait[which]), &profile));
        let share = 100.0 * in_wait / all;
        // A look that comes late finds what has followed.
        let tolerance = 3.0 + 100.0 * late as f64 / profile.duration().0 as f64;
        println!(
            "poller {poll} ns, {in_poll} in poll, {} interrupted; mixed {all} ns, waits {share:.1} % of {asleep:.1} to \
             {gone:.1} %, looks {late} ns late",
            interrupted.load(Ordering::Relaxed)
        );
        println!("{:?}", profile.comments().collect::<Vec<_>>());
        let length = profile.duration().0 as f64;
        let whole = 0.95 * length..1.05 * length;
        assert!(length >= 4e9 && whole.contains(&poll) && whole.contains(&all), "{poll} and {all} of {length} ns");
        assert!(in_poll > 0.9 * poll, "{in_poll} of {poll}");
        // The kernel does not tell how long a thread that is woken waits for a processor from how long one does that
        // had to leave it.
        assert!(
            asleep - tolerance < share && share < gone + tolerance,
            "{share:.1} % of {asleep:.1} to {gone:.1} %, within {tolerance:.1} points"
        );
        assert!(interrupted.load(Ordering::Relaxed) <= 10, "woken at most when something moved");
        assert!(signals(&profile) < 400);
        mixed.join().unwrap();
    });
}

/// Sleeps for a second, as far as it is let, and then works for a moment, until `stop`; the seconds it could have slept
/// are its rounds.
#[inline(never)]
fn sleep_and_work_until(stop: &AtomicBool, rounds: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        // SAFETY: takes a number.
        let left = unsafe { libc::sleep(1) };
        rounds.fetch_add(1, Ordering::Relaxed);
        hot_other(1000);
        std::hint::black_box(left);
    }
}

/// A signal would end the sleep, and the work after it would be the reason for the next signal.
#[test]
fn a_thread_that_sleeps_and_works_in_turn_is_not_woken() {
    isolated("wall::a_thread_that_sleeps_and_works_in_turn_is_not_woken", || {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (of_sleeper, count) = (stop.clone(), rounds.clone());
        let sleeper = std::thread::Builder::new().name("sleeper".into());
        let sleeper = sleeper.spawn(move || sleep_and_work_until(&of_sleeper, &count)).unwrap();
        let agent = start(Config::default()).unwrap();
        let response = agent.handle(&Request::get("/debug/pprof/wall?seconds=6&frequency=50&symbolize=0"));
        let rounds = rounds.load(Ordering::Relaxed);
        let profile = procprof_profile::format::decode(&response.body, &Default::default()).unwrap().profile;
        let (all, asleep) = wall_of(&profile, "sleeper", "sleep_and_work_until");
        println!("{rounds} rounds in 6 s, {all} ns, {asleep} of them in its loop; {} signals", signals(&profile));
        // By a signal a visit it would be a hundred and more.
        assert!((1..=20).contains(&rounds), "{rounds} rounds in 6 s");
        assert!(asleep > 0.9 * all && all > 0.9 * profile.duration().0 as f64, "{asleep} of {all}");
        stop.store(true, Ordering::Relaxed);
        sleeper.join().unwrap();
    });
}

#[test]
fn one_capture_at_a_time_and_an_error_names_its_owner() {
    isolated("wall::one_capture_at_a_time_and_an_error_names_its_owner", || {
        let agent = start(Config::default()).unwrap();
        // Whichever of the two begins first is the capture; on a busy machine it may be over before the other one asks.
        let refused = std::iter::repeat_with(|| {
            let of_first = agent.clone();
            let first = std::thread::spawn(move || {
                of_first.handle(&Request { client: "10.0.0.7", ..Request::get("/pprof/wall?seconds=2") })
            });
            std::thread::sleep(Duration::from_millis(50));
            let second = agent.handle(&Request::get("/debug/pprof/wall?seconds=1"));
            (first.join().unwrap().status, second)
        });
        let (status, refused) = refused.take(100).find(|(_, second)| second.status == 409).unwrap();
        let message = String::from_utf8_lossy(&refused.body).into_owned();
        assert!(message.starts_with("wall time is being captured by 10.0.0.7 until 20"), "{message}");
        assert_eq!(status, 200);
        let refused = agent.handle(&Request::get("/debug/pprof/wall?frequency=101"));
        assert_eq!(String::from_utf8_lossy(&refused.body), "frequency=101: expected a whole number from 1 to 100\n");
    });
}
