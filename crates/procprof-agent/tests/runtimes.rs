//! The usual ways to spread work over threads: tokio, rayon, plain threads. All of it is seen, under the names of the
//! threads that did it.

use crate::isolated::isolated;
use crate::work::{around, is_the_cpu_time, split_70_30, thread_cpu, thread_of};
use procprof_agent::{CpuCapture, CpuOptions};
use procprof_profile::Profile;
use rayon::prelude::*;
use std::time::Duration;

/// CPU nanoseconds of threads whose names begin so.
fn cpu_of(profile: &Profile, thread: &str) -> f64 {
    let of_them = (0..profile.sample_count()).filter(|index| thread_of(profile, *index).starts_with(thread));
    of_them.map(|index| profile.sample(index).values[1] as f64).sum()
}

fn burn(millis: u64) {
    split_70_30(thread_cpu() + Duration::from_millis(millis));
}

/// Captures `work`, in which threads of the given name compute at least `millis`. Each thread may end with a tick or
/// two that no sample represents, and a busy kernel merges ticks; threads that are not seen at all lack everything.
fn check(threads: &str, millis: u64, work: impl FnOnce()) {
    let (capture, began) = around(|| CpuCapture::start(&CpuOptions::default()).unwrap());
    work();
    let (profile, ended) = around(|| capture.finish().unwrap());
    let of_them = cpu_of(&profile, threads);
    is_the_cpu_time(profile.total(1) as f64, &began, &ended);
    assert!(of_them > 0.8e6 * millis as f64, "{threads} have {of_them} of {millis} ms");
}

#[test]
fn tasks_and_blocking_calls_of_tokio_are_seen() {
    isolated("runtimes::tasks_and_blocking_calls_of_tokio_are_seen", || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("tokio-test")
            .enable_time()
            .build()
            .unwrap();
        check("tokio-test", 700, || {
            runtime.block_on(async {
                let tasks: Vec<_> = (0..40)
                    .map(|_| {
                        tokio::spawn(async {
                            burn(10);
                            tokio::time::sleep(Duration::from_millis(3)).await;
                        })
                    })
                    .collect();
                let blocking: Vec<_> = (0..3).map(|_| tokio::task::spawn_blocking(|| burn(100))).collect();
                for task in tasks.into_iter().chain(blocking) {
                    task.await.unwrap();
                }
            });
        });
    });
}

#[test]
fn the_pool_of_rayon_is_seen() {
    isolated("runtimes::the_pool_of_rayon_is_seen", || {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(3)
            .thread_name(|index| format!("rayon-test{index}"))
            .build()
            .unwrap();
        check("rayon-test", 600, || pool.install(|| (0..60).into_par_iter().for_each(|_| burn(10))));
    });
}

#[test]
fn plain_threads_and_threads_in_scope_are_seen() {
    isolated("runtimes::plain_threads_and_threads_in_scope_are_seen", || {
        let named = |index: u64| std::thread::Builder::new().name(format!("plain-test{index}"));
        check("plain-test", 800, || {
            let outer = named(0).spawn(|| burn(200)).unwrap();
            std::thread::scope(|scope| {
                (1..4).for_each(|index| drop(named(index).spawn_scoped(scope, || burn(200)).unwrap()))
            });
            outer.join().unwrap();
        });
    });
}
