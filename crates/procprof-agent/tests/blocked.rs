//! Threads that block SIGPROF, for which no sample can arrive.

use crate::isolated::isolated;
use crate::work::{around, is_the_cpu_time, split_70_30, thread_cpu, thread_of, time_of};
use procprof_agent::{CpuCapture, CpuEngine, CpuOptions};
use procprof_profile::Profile;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// Blocks or unblocks all signals for the calling thread.
fn mask(how: libc::c_int) {
    // SAFETY: all-zero is a valid `sigset_t` to be filled.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        assert_eq!(libc::pthread_sigmask(how, &all, std::ptr::null_mut()), 0);
    }
}

/// A thread that is there until the sender is gone.
fn staying(
    name: &str,
    work: impl FnOnce() + Send + 'static,
    done: &Sender<()>,
) -> (Sender<()>, std::thread::JoinHandle<()>) {
    let ((stay, left), done) = (channel::<()>(), done.clone());
    let body = move || {
        work();
        done.send(()).unwrap();
        let _ = left.recv();
    };
    (stay, std::thread::Builder::new().name(name.into()).spawn(body).unwrap())
}

/// Nanoseconds of a thread in the row of threads that block the signal.
fn blocked(profile: &Profile, thread: &str) -> f64 {
    let is_row = |index: &usize| {
        let stack = profile.sample(*index).stack;
        let mut names =
            stack.iter().flat_map(|place| profile.lines(*place)).map(|line| profile.function(line.function).name);
        thread_of(profile, *index) == thread
            && names.any(|name| profile.string(name) == "[unsampled CPU: the thread blocks SIGPROF]")
    };
    (0..profile.sample_count()).filter(is_row).map(|index| profile.sample(index).values[1] as f64).sum()
}

fn time_of_threads_that_block_the_signal_has_a_row(engine: CpuEngine) {
    let options = CpuOptions { engine, owner: "the test".into(), ..CpuOptions::default() };
    let (capture, began) = around(|| CpuCapture::start(&options).unwrap());
    let (done, all_done) = channel();
    let always = || {
        mask(libc::SIG_BLOCK);
        split_70_30(Duration::from_millis(600));
    };
    let at_first = || {
        mask(libc::SIG_BLOCK);
        split_70_30(Duration::from_millis(600));
        mask(libc::SIG_UNBLOCK);
        split_70_30(thread_cpu() + Duration::from_millis(600));
    };
    let threads = [
        staying("never", || split_70_30(Duration::from_millis(600)), &done),
        staying("always", always, &done),
        staying("at-first", at_first, &done),
    ];
    threads.iter().for_each(|_| all_done.recv().unwrap());
    let (profile, ended) = around(|| capture.finish().unwrap());
    for (stay, thread) in threads {
        drop(stay);
        thread.join().unwrap();
    }
    is_the_cpu_time(profile.total(1) as f64, &began, &ended);
    let of = |name| (time_of(&profile, name), blocked(&profile, name));
    let [never, always, at_first] = ["never", "always", "at-first"].map(of);
    println!("{never:?} {always:?} {at_first:?} {:?}", profile.comments().collect::<Vec<_>>());
    assert_eq!(never.1, 0.0);
    // Up to a look, the mask may have been another.
    assert!(always.1 > 0.5 * always.0.0 && always.0.0 > 0.59e9, "{always:?}");
    assert!(at_first.1 > 0.1e9 && at_first.0.1 < 0.8 * at_first.0.0, "{at_first:?}: then it is sampled");
    assert!(profile.comments().any(|comment| comment == "#procprof:threads-that-block-sigprof=2"));
}

#[test]
fn where_ticks_are_blocked_the_time_has_a_row() {
    isolated("blocked::where_ticks_are_blocked_the_time_has_a_row", || {
        time_of_threads_that_block_the_signal_has_a_row(CpuEngine::Tick);
    });
}

#[test]
fn where_perf_events_are_blocked_the_time_has_a_row() {
    isolated("blocked::where_perf_events_are_blocked_the_time_has_a_row", || {
        time_of_threads_that_block_the_signal_has_a_row(CpuEngine::Perf);
    });
}
