//! CPU capture: right leaf, right share, right total, under every kind of thread.

use crate::isolated::isolated;
use crate::work::{Symbols, close, flat, hot_other, process_cpu, split_70_30, thread_cpu, thread_of};
use procprof_agent::{CpuCapture, CpuOptions, Error};
use procprof_profile::Profile;
use std::time::Duration;

fn options(hz: u32) -> CpuOptions {
    CpuOptions { hz, owner: "the test".into(), until: None }
}

fn cpu_of(profile: &Profile) -> f64 {
    profile.total(1) as f64
}

#[test]
fn a_known_split_is_found_with_the_right_leaf_and_callers() {
    isolated("cpu::a_known_split_is_found_with_the_right_leaf_and_callers", || {
        let capture = CpuCapture::start(&options(1000)).unwrap();
        let began = process_cpu();
        let worker = std::thread::Builder::new().name("splitter".into());
        let used = worker
            .spawn(|| {
                split_70_30(Duration::from_secs(4));
                thread_cpu()
            })
            .unwrap()
            .join()
            .unwrap();
        let profile = capture.finish().unwrap();
        let used_by_all = process_cpu() - began;

        let flat = flat(&profile);
        let (a, b) = (flat["hot_70"] as f64, flat["hot_30"] as f64);
        let share = 100.0 * a / (a + b);
        println!("share {share:.1} %, flat {flat:?}, used {used:?}");
        assert!((66.0..74.0).contains(&share), "hot_70 has {share:.1} % of the two");
        assert!(a + b > 0.95 * used.as_nanos() as f64, "flat {flat:?} of {used:?}");
        let total = cpu_of(&profile);
        assert!(close(total, used_by_all.as_nanos() as f64, 1.0), "{total} of {used_by_all:?}");
        callers_are_named(&profile);
    });
}

fn callers_are_named(profile: &Profile) {
    let symbols = Symbols::of_this_binary();
    let (mut good, mut all) = (0, 0);
    for index in 0..profile.sample_count() {
        let stack = symbols.stack(profile, index);
        if stack[0].starts_with("hot_") {
            let samples = profile.sample(index).values[0];
            all += samples;
            good += if stack[1].contains("split_70_30") && stack.iter().any(|name| name.contains("thread_start") || name.contains("Thread"))
            {
                samples
            } else {
                0
            };
            assert_eq!(thread_of(profile, index), "splitter");
        }
    }
    println!("{good} of {all} samples have the whole stack");
    assert!(good * 200 >= all * 199, "{good} of {all} samples have the whole stack");
}

#[test]
fn totals_are_the_process_cpu_time_at_any_rate() {
    isolated("cpu::totals_are_the_process_cpu_time_at_any_rate", || {
        for hz in [49, 99, 997] {
            let capture = CpuCapture::start(&options(hz)).unwrap();
            let began = process_cpu();
            let born: Vec<_> = (0..3).map(|_| std::thread::spawn(|| split_70_30(Duration::from_millis(300)))).collect();
            for _ in 0..20 {
                std::thread::spawn(|| hot_other(5_000)).join().unwrap();
            }
            born.into_iter().for_each(|thread| thread.join().unwrap());
            let profile = capture.finish().unwrap();
            let used = (process_cpu() - began).as_nanos() as f64;
            println!("{hz} Hz: {} of {used}, {:?}", cpu_of(&profile), flat(&profile).get("[unsampled CPU]"));
            assert!(close(cpu_of(&profile), used, 1.0), "{hz} Hz: {} of {used}", cpu_of(&profile));
        }
    });
}

#[test]
fn an_illegal_rate_is_refused_by_its_number() {
    for hz in [0, 1001] {
        let refused = CpuCapture::start(&options(hz)).unwrap_err();
        assert_eq!(refused.to_string(), format!("frequency {hz}: expected 1 to 1000 samples a second"));
        assert!(matches!(refused, Error::Frequency { .. }));
    }
}
