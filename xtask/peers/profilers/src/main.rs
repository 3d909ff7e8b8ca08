//! One profiler, chosen by a feature, measured from inside: `profilers sample DEPTH`, `profilers error HZ SECONDS`,
//! `profilers roots HZ SECONDS`, `profilers bursts WORK_US PERIOD_US SECONDS`, `profilers short SECONDS`. Prints
//! `key value` lines.

mod clock;
mod profiler;
mod sample;
mod work;

use profiler::Profiler;
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| -> u64 { arguments.get(at).and_then(|text| text.parse().ok()).expect("a number") };
    let seconds = |at: usize| Duration::from_secs(number(at));
    match arguments.first().map(String::as_str) {
        Some("sample") => on_a_thread(move || sample::measure(number(1) as usize)),
        Some("error") => account(number(1) as u32, || work::split_70_30(seconds(2))),
        Some("roots") => account(number(1) as u32, || work::of_all_kinds(seconds(2))),
        Some("bursts") => account(99, || work::bursts(Duration::from_micros(number(1)), Duration::from_micros(number(2)), seconds(3))),
        Some("short") => account(99, || work::short_threads(seconds(1))),
        _ => panic!("sample DEPTH | error HZ SECONDS | roots HZ SECONDS | bursts WORK_US PERIOD_US SECONDS | short \
                     SECONDS"),
    }
}

fn on_a_thread(body: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(body).join().expect("a measurement panicked"));
}

/// Profiles work in a thread of its own, and prints the profiled part of the CPU time that the process used meanwhile.
fn account(hz: u32, work: impl FnOnce() + Send) {
    let profiler = Profiler::start(hz);
    let before = clock::read(libc::CLOCK_PROCESS_CPUTIME_ID);
    on_a_thread(work);
    let used = clock::read(libc::CLOCK_PROCESS_CPUTIME_ID) - before;
    let seen = profiler.finish();
    println!("used_ms {:.3}", used as f64 / 1e6);
    println!("total_ms {:.3}", seen.total / 1e6);
    println!("unsampled_ms {:.3}", seen.unsampled / 1e6);
    println!("hot_70_ms {:.3}", seen.hot_70 / 1e6);
    println!("hot_30_ms {:.3}", seen.hot_30 / 1e6);
    println!("samples {}", seen.samples);
    println!("rooted {}", seen.rooted);
}
