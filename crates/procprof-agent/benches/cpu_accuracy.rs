//! How true CPU profiles are, engine by engine: totals beside the kernel's account, a known split, and how many stacks
//! reach their thread's root.
//!
//! `cargo bench -p procprof-agent --bench cpu_accuracy [-- totals|bursts|split|roots]..` prints one line a figure:
//! what, engine and rate, measured, goal, whether it is met.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a measurement that can't go on may panic")]

#[path = "cpu_accuracy/mixed.rs"]
mod mixed;
#[expect(dead_code, reason = "tests have more to ask")]
#[path = "../tests/work.rs"]
mod work;

use procprof_agent::{CpuCapture, CpuEngine, CpuOptions};
use procprof_profile::Profile;
use std::time::{Duration, Instant};
use work::{flat, hot_other, process_cpu, split_70_30, thread_cpu, thread_of};

const ENGINES: [CpuEngine; 3] = [CpuEngine::Auto, CpuEngine::Perf, CpuEngine::Tick];
const RATES: [u32; 4] = [99, 250, 1000, 4000];

/// The name of the threads that work.
const WORKER: &str = "worker";

/// A part by its name, and what does it.
const PARTS: &[(&str, fn())] = &[("totals", totals), ("bursts", bursts), ("split", split), ("roots", roots)];

/// The work in a thread of its own, as a capture saw it.
struct Seen {
    profile: Profile,
    /// CPU time of the process meanwhile, by the kernel; nanoseconds.
    used: f64,
}

impl Seen {
    /// Captures while `work` runs.
    fn measure(engine: CpuEngine, hz: u32, work: impl FnOnce() + Send + 'static) -> Self {
        let options = CpuOptions { hz, engine, owner: "the measurement".into(), until: None };
        let began = process_cpu();
        let capture = CpuCapture::start(&options).unwrap();
        std::thread::Builder::new().name(WORKER.into()).spawn(work).unwrap().join().unwrap();
        let profile = capture.finish().unwrap();
        Self { profile, used: (process_cpu() - began).as_nanos() as f64 }
    }

    fn total(&self) -> f64 {
        self.profile.total(1) as f64
    }

    /// Time that no sample represents; of all threads, as is the total.
    fn unsampled(&self) -> f64 {
        let rows = (0..self.profile.sample_count())
            .map(|index| self.profile.sample(index))
            .filter(|sample| sample.values[0] == 0);
        rows.map(|sample| sample.values[1] as f64).sum()
    }

    /// One of the counts among the profile's comments.
    fn count(&self, key: &str) -> f64 {
        let start = format!("#procprof:{key}=");
        self.profile.comments().find_map(|comment| comment.strip_prefix(&start)?.parse().ok()).unwrap_or_default()
    }
}

/// Prints a figure.
fn print_figure(what: &str, engine: CpuEngine, hz: u32, measured: &str, goal: &str, is_met: bool) {
    let verdict = if is_met { "met" } else { "MISSED" };
    println!("{what:<22} {:<4} {hz:>4} Hz  {measured:<58} {goal:<22} {verdict}", engine.name());
}

fn percent(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

/// A busy thread at all rates.
fn totals() {
    for engine in ENGINES {
        for hz in RATES {
            let seen = Seen::measure(engine, hz, || split_70_30(Duration::from_secs(3)));
            let error = percent(seen.total(), seen.used) - 100.0;
            let (samples, lost) = (seen.profile.total(0), seen.count("lost"));
            let measured = format!("error {error:+.3} %, {samples} samples, {lost} lost");
            print_figure(
                "total of a busy thread",
                engine,
                hz,
                &measured,
                "error 1 %",
                (seen.total() - seen.used).abs() <= 0.01 * seen.used,
            );
        }
    }
}

/// A millisecond of work every `every` milliseconds.
fn burst(every: u64) {
    let end = Instant::now() + Duration::from_secs(6);
    while Instant::now() < end {
        let next = Instant::now() + Duration::from_millis(every);
        split_70_30(thread_cpu() + Duration::from_millis(1));
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Threads of 20 ms of work, one after the other.
fn short_threads() {
    let end = Instant::now() + Duration::from_secs(6);
    while Instant::now() < end {
        let short = std::thread::Builder::new().name("short".into());
        short.spawn(|| split_70_30(Duration::from_millis(20))).unwrap().join().unwrap();
    }
}

fn bursts() {
    let works: [(&str, fn()); 3] =
        [("1 ms every 4 ms", || burst(4)), ("1 ms every 10 ms", || burst(10)), ("threads of 20 ms", short_threads)];
    for (what, work) in works {
        for engine in ENGINES {
            let seen = Seen::measure(engine, 99, work);
            let (error, unsampled) = (percent(seen.total(), seen.used) - 100.0, percent(seen.unsampled(), seen.used));
            let of_worker = (0..seen.profile.sample_count()).filter(|index| thread_of(&seen.profile, *index) == WORKER);
            let own: f64 = of_worker.map(|index| seen.profile.sample(index).values[1] as f64).sum();
            let measured = format!(
                "error {error:+.3} %, unsampled {unsampled:.1} %, {:.1} % by that thread",
                percent(own, seen.used)
            );
            let has_perf = engine != CpuEngine::Tick;
            let goal = if has_perf { "1 %, unsampled 5 %" } else { "1 %" };
            print_figure(what, engine, 99, &measured, goal, error.abs() <= 1.0 && (!has_perf || unsampled < 5.0));
        }
    }
}

/// A known split by so many samples that chance leaves less than a point (three standard deviations of 20,000 are
/// 0.97).
fn split() {
    for (engine, hz, seconds) in [(CpuEngine::Perf, 4000, 7), (CpuEngine::Auto, 4000, 7), (CpuEngine::Tick, 250, 20)] {
        let seen = Seen::measure(engine, hz, move || {
            split_70_30(Duration::from_secs(seconds));
            hot_other(10);
        });
        let flat = flat(&seen.profile);
        let of = |name: &str| flat.get(name).copied().unwrap_or_default() as f64;
        let share = percent(of("hot_70"), of("hot_70") + of("hot_30"));
        let samples = seen.profile.total(0);
        let goal = if samples >= 20_000 { 1.0 } else { 300.0 * (0.21 / samples as f64).sqrt() };
        let measured = format!("{share:.2} % of {samples} samples, {} lost", seen.count("lost"));
        print_figure(
            "a split of 70 to 30",
            engine,
            hz,
            &measured,
            &format!("within {goal:.2} points"),
            (share - 70.0).abs() <= goal,
        );
    }
}

/// Work of many kinds in Rust and in the C library.
fn roots() {
    for (engine, hz) in [(CpuEngine::Perf, 1000), (CpuEngine::Auto, 1000), (CpuEngine::Tick, 250)] {
        let seen = Seen::measure(engine, hz, || mixed::work(Duration::from_secs(8)));
        let samples = seen.profile.total(0) as f64;
        let cut = seen.count("samples-without-root") + seen.count("leaf-only-samples");
        let whole = percent(samples - cut, samples);
        let new = seen.count("samples-in-new-code");
        let measured = format!("{whole:.2} % of {samples} stacks, {new} in code that was new");
        print_figure("stacks to the root", engine, hz, &measured, "99.5 %", whole >= 99.5);
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    for (_, part) in PARTS.iter().filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name)) {
        part();
    }
}
