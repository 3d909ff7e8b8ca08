//! Lock contention against exact bookkeeping, over all kinds of locks and of waits that are none.

use crate::isolated::isolated;
use crate::tools::{own_binary, run};
use crate::work::{LONGER_AND_LONGER, wait_until};
use procprof_agent::{Agent, Contention, Listener, Request};
use procprof_profile::format::{Limits, decode};
use procprof_profile::{LocationId, Profile};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// How long a lock is held once a thread waits for it.
const HELD: Duration = Duration::from_millis(100);

fn agent() -> Agent {
    procprof_agent::start(procprof_agent::Config::default()).unwrap()
}

fn get(agent: &Agent, path: &str) -> Profile {
    let response = agent.handle(&Request::get(path));
    assert_eq!(response.status, 200, "{path}: {}", String::from_utf8_lossy(&response.body));
    decode(&response.body, &Limits::default()).unwrap().profile
}

fn names<'a>(profile: &'a Profile, stack: &[LocationId]) -> Vec<&'a str> {
    let lines = stack.iter().flat_map(|place| profile.lines(*place));
    lines.map(|line| profile.string(profile.function(line.function).name)).collect()
}

/// Contentions and delay of stacks with that function in them.
fn of_function(profile: &Profile, function: &str) -> [i64; 2] {
    let has = |stack: &[LocationId]| names(profile, stack).iter().any(|name| name.contains(function));
    let samples = profile.samples().filter(|sample| has(sample.stack));
    samples.fold([0, 0], |sum, sample| [sum[0] + sample.values[0], sum[1] + sample.values[1]])
}

/// Contentions and delay of waits that are not for a lock. A thread that waited for a condition takes its mutex again,
/// and may really have to wait for that.
fn of_idle(profile: &Profile) -> [i64; 2] {
    let is_idle = |stack: &[LocationId]| {
        let names = names(profile, stack);
        let has = |part: &str| names.iter().any(|name| name.contains(part));
        has("idles_") && !has("lock_contended") && !has("lock_slow")
    };
    let samples = profile.samples().filter(|sample| is_idle(sample.stack));
    samples.fold([0, 0], |sum, sample| [sum[0] + sample.values[0], sum[1] + sample.values[1]])
}

fn print_samples(profile: &Profile) {
    for sample in profile.samples() {
        println!("{:?} {:?}", sample.values, names(profile, sample.stack));
    }
    profile.comments().for_each(|comment| println!("# {comment}"));
}

/// Lets another thread wait for what this one holds, which it lets go after a while.
fn wait_for(wait: impl FnOnce() + Send + 'static, let_go: impl FnOnce()) {
    let waiter = spawn_and_block(wait);
    let_go();
    waiter.join().unwrap();
}

/// Starts a thread that waits, and returns when it has done so for a while. A thread that has ended by itself, since it
/// waits only so long, is not waited for.
fn spawn_and_block(wait: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    let (send, id) = mpsc::channel();
    let waiter = thread::spawn(move || {
        // SAFETY: has no arguments.
        send.send(unsafe { libc::gettid() }).unwrap();
        wait();
    });
    let call = format!("/proc/self/task/{}/syscall", id.recv().unwrap());
    // On a busy machine it takes its time to get there, and parking_lot spins for a few turns.
    let blocked = format!("{} ", libc::SYS_futex);
    while std::fs::read_to_string(&call).is_ok_and(|text| !text.starts_with(&blocked)) {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(HELD);
    waiter
}

/// A function per kind of wait, by whose name it is found.
macro_rules! waits {
    ($($name:ident($($argument:ident: $type:ty),*) $body:block)*) => {
        $(#[inline(never)]
        fn $name($($argument: $type),*) {
            $body
            // Not a tail call: the frame has to stay.
            std::hint::black_box(());
        })*
    };
}

waits! {
    waits_for_std_mutex(lock: &Mutex<u64>) { *lock.lock().unwrap() += 1; }
    waits_to_read_std(lock: &RwLock<u64>) { std::hint::black_box(*lock.read().unwrap()); }
    waits_to_write_std(lock: &RwLock<u64>) { *lock.write().unwrap() += 1; }
    waits_for_once(once: &Once) { once.call_once(|| ()); }
    waits_for_parking_lot_mutex(lock: &parking_lot::Mutex<u64>) { *lock.lock() += 1; }
    waits_to_read_parking_lot(lock: &parking_lot::RwLock<u64>) { std::hint::black_box(*lock.read()); }
    waits_to_write_parking_lot(lock: &parking_lot::RwLock<u64>) { *lock.write() += 1; }
    idles_on_std_condvar(pair: &(Mutex<bool>, Condvar)) { drop(pair.1.wait_while(pair.0.lock().unwrap(), |is_done| !*is_done).unwrap()); }
    idles_on_std_condvar_for_a_while(pair: &(Mutex<bool>, Condvar)) { drop(pair.1.wait_timeout(pair.0.lock().unwrap(), HELD).unwrap()); }
    idles_on_parking_lot_condvar(pair: &(parking_lot::Mutex<bool>, parking_lot::Condvar)) { pair.1.wait(&mut pair.0.lock()); }
    idles_parked() { thread::park(); }
    idles_parked_for_a_while() { thread::park_timeout(HELD); }
    idles_on_channel(receiver: &mpsc::Receiver<u64>) { receiver.recv().unwrap(); }
    idles_on_barrier(barrier: &Barrier) { barrier.wait(); }
}

/// Every kind of lock is waited for once.
fn contend() {
    let lock = Arc::new(Mutex::new(0));
    let (seen, guard) = (lock.clone(), lock.lock().unwrap());
    wait_for(move || waits_for_std_mutex(&seen), || drop(guard));
    let lock = Arc::new(RwLock::new(0));
    let (seen, guard) = (lock.clone(), lock.write().unwrap());
    wait_for(move || waits_to_read_std(&seen), || drop(guard));
    let (seen, guard) = (lock.clone(), lock.read().unwrap());
    wait_for(move || waits_to_write_std(&seen), || drop(guard));
    let once = Arc::new(Once::new());
    let seen = once.clone();
    let other = Arc::new(Mutex::new(None));
    once.call_once(|| {
        *other.lock().unwrap() = Some(spawn_and_block(move || waits_for_once(&seen)));
    });
    other.lock().unwrap().take().unwrap().join().unwrap();
    let lock = Arc::new(parking_lot::Mutex::new(0));
    let (seen, guard) = (lock.clone(), lock.lock());
    wait_for(move || waits_for_parking_lot_mutex(&seen), || drop(guard));
    let lock = Arc::new(parking_lot::RwLock::new(0));
    let (seen, guard) = (lock.clone(), lock.write());
    wait_for(move || waits_to_read_parking_lot(&seen), || drop(guard));
    let (seen, guard) = (lock.clone(), lock.read());
    wait_for(move || waits_to_write_parking_lot(&seen), || drop(guard));
}

const LOCKS: [&str; 7] = [
    "waits_for_std_mutex",
    "waits_to_read_std",
    "waits_to_write_std",
    "waits_for_once",
    "waits_for_parking_lot_mutex",
    "waits_to_read_parking_lot",
    "waits_to_write_parking_lot",
];

/// Every kind of wait that is no contention happens once; also a standard condition variable whose word is 2, as a
/// mutex's that is waited for.
fn idle() {
    for notified_before in [0, 2] {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        (0..notified_before).for_each(|_| pair.1.notify_one());
        let seen = pair.clone();
        wait_for(
            move || idles_on_std_condvar(&seen),
            || {
                *pair.0.lock().unwrap() = true;
                pair.1.notify_one();
            },
        );
        idles_on_std_condvar_for_a_while(&(Mutex::new(false), Condvar::new()));
    }
    let pair = Arc::new((parking_lot::Mutex::new(false), parking_lot::Condvar::new()));
    let seen = pair.clone();
    wait_for(move || idles_on_parking_lot_condvar(&seen), || assert!(pair.1.notify_one()));
    let parked = thread::spawn(idles_parked);
    thread::sleep(HELD);
    parked.thread().unpark();
    parked.join().unwrap();
    idles_parked_for_a_while();
    let (sender, receiver) = mpsc::channel();
    wait_for(move || idles_on_channel(&receiver), || sender.send(1).unwrap());
    let barrier = Arc::new(Barrier::new(2));
    let seen = barrier.clone();
    wait_for(
        move || idles_on_barrier(&seen),
        || {
            barrier.wait();
        },
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap();
    runtime.block_on(async {
        for _ in 0..3 {
            tokio::time::sleep(HELD / 3).await;
            tokio::spawn(async { tokio::task::yield_now().await }).await.unwrap();
        }
    });
}

fn check_kinds(profile: &Profile) {
    for function in LOCKS {
        let [count, delay] = of_function(profile, function);
        assert!((1..=3).contains(&count), "{function}: {count} contentions");
        // Some locks give their processor to others before they wait, and on a busy machine that may take long.
        let held = HELD.as_nanos() as i64;
        assert!(delay > held / 20 && delay < 20 * held, "{function}: {delay} ns");
    }
    assert_eq!(of_idle(profile), [0, 0]);
}

#[test]
fn locks_of_all_kinds_are_seen_and_other_waits_are_not() {
    isolated("contention::locks_of_all_kinds_are_seen_and_other_waits_are_not", || {
        Contention::enable().unwrap();
        let agent = agent();
        contend();
        idle();
        let profile = get(&agent, "/debug/pprof/contention");
        print_samples(&profile);
        check_kinds(&profile);
        // Once the functions are known, nothing of other waits is recorded any more.
        idle();
        contend();
        let profile = get(&agent, "/debug/pprof/block");
        assert_eq!(of_idle(&profile), [0, 0]);
        assert!(LOCKS.iter().all(|function| of_function(&profile, function)[0] >= 2));
        let others =
            profile.comments().find_map(|comment| comment.strip_prefix("#procprof:waits-for-no-lock=")).unwrap();
        assert!(others.parse::<u64>().unwrap() > 5, "{others}");
    });
}

/// Waits as the waiting threads themselves measure them.
#[derive(Default)]
struct Exact {
    waits: AtomicU64,
    nanos: AtomicU64,
    /// The nanoseconds that are of waits in which the thread was preempted, too, which it may have been between its
    /// clock and the recorder's.
    preempted: AtomicU64,
}

/// Counts the preemptions of the calling thread.
fn preemptions() -> libc::c_long {
    // SAFETY: all-zero is a valid `rusage` to be filled.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_nivcsw
    }
}

impl Exact {
    /// Takes the lock, and accounts for it if it has to be waited for.
    fn lock<'a>(&self, lock: &'a Mutex<u64>) -> std::sync::MutexGuard<'a, u64> {
        lock.try_lock().unwrap_or_else(|_| {
            let before = preemptions();
            let start = Instant::now();
            let guard = lock.lock().unwrap();
            let nanos = start.elapsed().as_nanos() as u64;
            self.nanos.fetch_add(nanos, Ordering::Relaxed);
            self.waits.fetch_add(1, Ordering::Relaxed);
            if preemptions() != before {
                self.preempted.fetch_add(nanos, Ordering::Relaxed);
            }
            guard
        })
    }

    /// Checks a recorded sum of nanoseconds, to two percent.
    fn is_total(&self, recorded: i64) {
        let [nanos, preempted] = [&self.nanos, &self.preempted].map(|sum| sum.load(Ordering::Relaxed) as i64);
        println!("exact {nanos} ns, {preempted} of them with preemption, recorded {recorded} ns");
        let tolerance = nanos / 50;
        assert!(
            recorded < nanos + tolerance && recorded > nanos - preempted - tolerance,
            "{recorded} of {nanos} ns, {preempted} of them with preemption"
        );
    }
}

#[inline(never)]
fn holds_for_long(exact: &Exact, lock: &Mutex<u64>) {
    let mut guard = exact.lock(lock);
    *guard += 1;
    thread::sleep(Duration::from_millis(6));
    drop(guard);
    // Letting go is not a tail call: the frame has to stay.
    std::hint::black_box(());
}

#[inline(never)]
fn holds_for_short(exact: &Exact, lock: &Mutex<u64>) {
    let mut guard = exact.lock(lock);
    *guard += 1;
    thread::sleep(Duration::from_millis(1));
    drop(guard);
    // Letting go is not a tail call: the frame has to stay.
    std::hint::black_box(());
}

fn repeat_in_threads(count: usize, length: Duration, body: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for index in 0..count {
            let body = &body;
            scope.spawn(move || {
                let end = Instant::now() + length;
                while Instant::now() < end {
                    body(index);
                }
            });
        }
    });
}

#[test]
fn totals_are_those_of_exact_accounting_and_holders_are_named() {
    isolated("contention::totals_are_those_of_exact_accounting_and_holders_are_named", || {
        Contention::enable().unwrap();
        let agent = agent();
        let (exact, lock) = (Exact::default(), Mutex::new(0));
        repeat_in_threads(4, Duration::from_secs(2), |index| {
            if index % 2 == 0 {
                holds_for_long(&exact, &lock)
            } else {
                holds_for_short(&exact, &lock)
            }
            thread::sleep(Duration::from_millis(1));
        });
        let waits = get(&agent, "/debug/pprof/contention");
        print_samples(&waits);
        let nanos = exact.nanos.load(Ordering::Relaxed);
        exact.is_total(waits.total(1));
        let holders = get(&agent, "/debug/pprof/mutex");
        print_samples(&holders);
        let (long, short) = (of_function(&holders, "holds_for_long")[1], of_function(&holders, "holds_for_short")[1]);
        assert!(long > 3 * short && short > 0, "{long} and {short}");
        exact.is_total(holders.total(1));
        assert!(long + short > nanos as i64 * 7 / 10, "{long} and {short} of {nanos}");
    });
}

/// Nanoseconds that functions held a lock.
#[derive(Default)]
struct Held([AtomicU64; 4]);

/// The place of the threads that wait.
const OTHERS: usize = 3;

impl Held {
    fn hold(&self, which: usize, lock: &Mutex<u64>, length: Duration) {
        let mut guard = lock.lock().unwrap();
        let start = Instant::now();
        *guard += 1;
        if !length.is_zero() {
            thread::sleep(length);
        }
        self.0[which].fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        drop(guard);
    }
}

#[inline(never)]
fn holds_seven_tenths(held: &Held, lock: &Mutex<u64>) {
    held.hold(0, lock, Duration::from_millis(7));
    std::hint::black_box(());
}

#[inline(never)]
fn holds_three_tenths(held: &Held, lock: &Mutex<u64>) {
    held.hold(1, lock, Duration::from_millis(3));
    std::hint::black_box(());
}

#[inline(never)]
fn holds_nearly_always(held: &Held, lock: &Mutex<u64>) {
    held.hold(2, lock, Duration::from_millis(2));
    std::hint::black_box(());
}

/// A thread that lets go takes the lock again before those it has woken come to run.
fn charges_who_takes_the_lock_again(work: impl Fn(&Held, &Mutex<u64>) + Sync, functions: &[(&str, usize)]) {
    Contention::enable().unwrap();
    let agent = agent();
    let charges = || {
        let holders = get(&agent, "/debug/pprof/mutex");
        let of = |(function, _): &(&str, usize)| of_function(&holders, function)[1] as f64;
        (functions.iter().map(of).collect::<Vec<f64>>(), holders.total(1) as f64)
    };
    // On a busy machine threads that wait may not run while one holds the lock for a short time.
    wait_until("a round in which all are charged with their parts", || {
        let (held, lock) = (Held::default(), Mutex::new(0));
        let (before, all_before) = charges();
        repeat_in_threads(3, Duration::from_secs(2), |index| {
            if index == 0 {
                work(&held, &lock);
            } else {
                held.hold(OTHERS, &lock, Duration::ZERO);
                thread::sleep(Duration::from_micros(200));
            }
        });
        let (after, all) = charges();
        let held = held.0.map(|nanos| nanos.into_inner() as f64);
        functions.iter().zip(before).zip(after).all(|(((function, which), before), after)| {
            let exact = held[*which] / held.iter().sum::<f64>();
            let charged = (after - before) / (all - all_before);
            println!("{function}: held for {exact:.3} of the time that it was held, charged with {charged:.3}");
            (charged - exact).abs() < 0.05
        })
    });
}

#[test]
fn a_holder_of_nearly_all_the_time_is_charged_with_it() {
    isolated("contention::a_holder_of_nearly_all_the_time_is_charged_with_it", || {
        charges_who_takes_the_lock_again(holds_nearly_always, &[("holds_nearly_always", 2)]);
    });
}

#[test]
fn two_holders_are_charged_with_their_parts() {
    isolated("contention::two_holders_are_charged_with_their_parts", || {
        let both = |held: &Held, lock: &Mutex<u64>| {
            holds_seven_tenths(held, lock);
            holds_three_tenths(held, lock);
        };
        charges_who_takes_the_lock_again(both, &[("holds_seven_tenths", 0), ("holds_three_tenths", 1)]);
    });
}

#[inline(never)]
fn holds_for_a_moment(exact: &Exact, lock: &Mutex<u64>, length: Duration) {
    let mut guard = exact.lock(lock);
    *guard += 1;
    thread::sleep(length);
}

/// So many waits that most of them are not sampled.
#[test]
fn totals_of_many_short_waits_are_right_within_the_budget() {
    isolated("contention::totals_of_many_short_waits_are_right_within_the_budget", || {
        Contention::enable().unwrap();
        let agent = agent();
        const SECONDS: u64 = 2;
        let (exact, lock) = (Exact::default(), Mutex::new(0));
        repeat_in_threads(8, Duration::from_secs(SECONDS), |index| {
            holds_for_a_moment(&exact, &lock, Duration::from_micros(if index == 0 { 400 } else { 10 }));
        });
        let profile = get(&agent, "/debug/pprof/contention");
        print_samples(&profile);
        let waits = exact.waits.load(Ordering::Relaxed);
        println!("exact {waits} waits; recorded {} waits", profile.total(0));
        let samples = profile.comments().find_map(|comment| comment.strip_prefix("#procprof:samples=")).unwrap();
        assert!((samples.parse::<u64>().unwrap()) < 2 * SECONDS * 2000, "{samples} samples");
        assert!(profile.total(0) as u64 > waits / 2);
        exact.is_total(profile.total(1));
    });
}

fn texts(agent: &Agent, path: &str) -> (String, Profile) {
    let body = agent.handle(&Request::get(path)).body;
    let profile = decode(&body, &Limits::default()).unwrap().profile;
    (String::from_utf8(body).unwrap(), profile)
}

#[test]
fn text_and_pprof_say_the_same_and_tools_read_them() {
    isolated("contention::text_and_pprof_say_the_same_and_tools_read_them", || {
        Contention::enable().unwrap();
        let agent = agent();
        contend();
        // The names of the locks' functions are cut by pprof, and without names there is nothing to cut.
        for (text_path, path) in [
            ("/pprof/contention", "/debug/pprof/contention?symbolize=0"),
            ("/debug/pprof/mutex?format=legacy", "/debug/pprof/mutex?symbolize=0"),
        ] {
            let (text, of_text) = texts(&agent, text_path);
            let of_proto = get(&agent, path);
            assert!(text.starts_with("--- ") && text.contains("\ncycles/second=1000000000\n"), "{}", &text[..60]);
            let of_rows = |profile: &Profile| -> Vec<(Vec<u64>, Vec<i64>)> {
                let addresses = |stack: &[LocationId]| {
                    stack.iter().map(|place| profile.location(*place).address.0).collect::<Vec<u64>>()
                };
                let mut rows: Vec<_> =
                    profile.samples().map(|sample| (addresses(sample.stack), sample.values.to_vec())).collect();
                rows.retain(|(addresses, _)| addresses.iter().all(|address| *address != 0));
                rows.sort();
                rows
            };
            let of_text = of_text.adjusted(procprof_profile::Grammar::Pprof).unwrap();
            assert_eq!(of_rows(&of_text), of_rows(&of_proto));
        }
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), agent.clone(), None).unwrap();
        let address = listener.address();
        for path in ["debug/pprof/contention", "debug/pprof/block", "debug/pprof/mutex"] {
            let url = format!("http://{address}/{path}");
            run("go", &["tool", "pprof", "-raw", &url]);
            let table = run("go", &["tool", "pprof", "-top", &url]);
            assert!(table.contains("Type: delay"), "{table}");
            let is_holder = path.ends_with("mutex");
            let function =
                if is_holder { "main::contention::contend" } else { "main::contention::waits_to_write_parking_lot" };
            assert!(table.contains(function), "{path}: {table}");
            assert!(
                !["futex_wait", "lock_contended", "RawRwLock", "Guard<"].iter().any(|part| table.contains(part)),
                "{path}: {table}"
            );
        }
        let url = format!("http://{address}/pprof/contention");
        let table = run("jeprof", &["--text", "--cum", &own_binary(), &url]);
        assert!(table.contains("waits_for_std_mutex"), "{table}");
    });
}

#[test]
fn the_recording_is_switched_at_run_time_and_for_the_requested_seconds() {
    isolated("contention::the_recording_is_switched_at_run_time_and_for_the_requested_seconds", || {
        let agent = agent();
        let status = |path: &str| agent.handle(&Request::get(path)).status;
        contend();
        assert_eq!((status("/debug/pprof/contention"), status("/debug/pprof/mutex")), (501, 501));
        // On a busy machine it takes long to wait for all of them.
        let is_seen = LONGER_AND_LONGER.into_iter().any(|seconds| {
            let (other, path) = (agent.clone(), format!("/debug/pprof/contention?seconds={seconds}"));
            let requested = Instant::now();
            let asking = thread::spawn(move || get(&other, &path));
            wait_until("the recording", Contention::is_active);
            contend();
            let is_within = requested.elapsed() < Duration::from_secs(seconds);
            let profile = asking.join().unwrap();
            if is_within {
                check_kinds(&profile);
                assert!(profile.duration().0 >= seconds as i64 * 1_000_000_000, "{:?}", profile.duration());
            }
            is_within
        });
        assert!(is_seen);
        assert!(!Contention::is_active());
        assert_eq!(status("/debug/pprof/contention"), 501);
        for round in 1..=3 {
            let answer = agent.handle(&Request::post("/debug/pprof/contention/enable", &[]));
            assert_eq!((answer.status, &*answer.body), (200, &b"{\"active\":true}\n"[..]));
            contend();
            let seen = of_function(&get(&agent, "/debug/pprof/contention"), "waits_for_std_mutex")[0];
            assert!(seen > round && seen < 4 * (round + 1), "{seen} in round {round}");
            assert_eq!(
                agent.handle(&Request::post("/debug/pprof/contention/disable", &[])).body,
                b"{\"active\":false}\n"
            );
            contend();
        }
        // A thread that has ended can be listed in /proc for a moment longer.
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        wait_until("the end of threads", || threads() <= 4);
    });
}

/// Children are forked while threads wait and release; each of them waits for locks, and records them once switched on.
#[test]
fn a_forked_child_records_nothing_until_switched_on() {
    isolated("contention::a_forked_child_records_nothing_until_switched_on", || {
        Contention::enable().unwrap();
        let (exact, lock, stop) = (Exact::default(), Mutex::new(0), std::sync::atomic::AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        holds_for_a_moment(&exact, &lock, Duration::from_micros(10));
                    }
                });
            }
            for _ in 0..5 {
                thread::sleep(Duration::from_millis(10));
                // SAFETY: the child waits for locks of its own, and leaves by `_exit`.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    let was_active = Contention::is_active();
                    let seen = Contention::enable().is_ok() && {
                        contend();
                        Contention::waits().is_ok_and(|profile| profile.total(0) >= LOCKS.len() as i64)
                    };
                    // SAFETY: ends the child without what the parent would do at its end.
                    unsafe { libc::_exit(if !was_active && seen { 7 } else { 1 }) };
                }
                let mut status = 0;
                // SAFETY: waits for the child made above.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

const LIBRARY: &str = r"
#include <pthread.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
void c_holds(long ms) { pthread_mutex_lock(&lock); nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, 0); pthread_mutex_unlock(&lock); }
void c_waits(void) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); }
";

#[test]
fn a_library_that_is_loaded_later_is_followed_and_left_as_it_was() {
    isolated("contention::a_library_that_is_loaded_later_is_followed_and_left_as_it_was", || {
        let agent = agent();
        Contention::enable().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("locks.c"), folder.path().join("liblocks.so"));
        std::fs::write(&source, LIBRARY).unwrap();
        run(
            "gcc",
            &[
                "-shared",
                "-fPIC",
                "-O1",
                "-Wl,-z,relro,-z,now",
                "-o",
                library.to_str().unwrap(),
                source.to_str().unwrap(),
            ],
        );
        let name = std::ffi::CString::new(library.to_str().unwrap()).unwrap();
        // SAFETY: loads the library made above, which has no constructors, and looks its functions up.
        let (holds, waits) = unsafe {
            let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
            assert!(!library.is_null());
            let function = |name: &std::ffi::CStr| libc::dlsym(library, name.as_ptr());
            (
                std::mem::transmute::<*mut libc::c_void, extern "C" fn(libc::c_long)>(function(c"c_holds")),
                std::mem::transmute::<*mut libc::c_void, extern "C" fn()>(function(c"c_waits")),
            )
        };
        let contend = || {
            let holder = thread::spawn(move || holds(2 * HELD.as_millis() as libc::c_long));
            thread::sleep(HELD);
            waits();
            holder.join().unwrap();
        };
        let waits_seen = || of_function(&get(&agent, "/debug/pprof/contention"), "c_waits");
        // A look at the loaded libraries finds it; on a busy machine the holder may not hold yet.
        wait_until("a recorded wait", || {
            contend();
            waits_seen()[0] > 0
        });
        let [count, delay] = waits_seen();
        print_samples(&get(&agent, "/debug/pprof/contention"));
        assert_eq!(count, 1);
        assert!(delay > HELD.as_nanos() as i64 / 8, "{delay} ns");
        assert_eq!(of_function(&get(&agent, "/debug/pprof/mutex"), "c_holds")[0], 1);
        Contention::disable();
        contend();
        Contention::enable().unwrap();
        assert_eq!(waits_seen()[0], 1);
    });
}
