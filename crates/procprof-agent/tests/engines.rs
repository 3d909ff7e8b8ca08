//! CPU engines: bursts between two kernel ticks, and a kernel that refuses perf events.

use crate::isolated::{isolated, isolated_with};
use crate::work::{around, is_split_70_30, is_the_cpu_time, split_70_30, thread_cpu, thread_of, time_of, wait_until};
use procprof_agent::{Config, CpuCapture, CpuEngine, CpuOptions, Request, start};
use procprof_profile::Profile;
use std::time::Duration;

fn options(engine: CpuEngine) -> CpuOptions {
    CpuOptions { engine, owner: "the test".into(), ..CpuOptions::default() }
}

fn comment(profile: &Profile, key: &str) -> String {
    let start = format!("#procprof:{key}=");
    profile.comments().find_map(|comment| comment.strip_prefix(&start)).unwrap_or_default().to_owned()
}

/// A millisecond of work every `every` milliseconds until `cpu` is used.
fn bursts(every: u64, cpu: Duration) {
    while thread_cpu() < cpu {
        split_70_30(thread_cpu() + Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(every - 1));
    }
}

fn engine_of(profile: &Profile, thread: &str) -> String {
    let mut of_thread = (0..profile.sample_count()).filter(|index| thread_of(profile, *index) == thread);
    let labels = of_thread.next().map(|index| profile.sample(index).labels).unwrap_or_default();
    let engine = labels.iter().find(|label| profile.string(label.key) == "engine");
    engine.map_or_else(String::new, |label| match label.value {
        procprof_profile::LabelValue::Text(text) => profile.string(text).to_owned(),
        procprof_profile::LabelValue::Number(..) => panic!("an engine's name is a text"),
    })
}

fn named(name: &str, work: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
    std::thread::Builder::new().name(name.into()).spawn(work).unwrap()
}

#[test]
fn bursts_between_two_ticks_are_seen_beside_a_busy_thread() {
    isolated("engines::bursts_between_two_ticks_are_seen_beside_a_busy_thread", || {
        let (capture, began) = around(|| CpuCapture::start(&options(CpuEngine::Auto)).unwrap());
        let threads = [
            named("busy", || split_70_30(Duration::from_secs(2))),
            named("every4", || bursts(4, Duration::from_millis(500))),
            named("every10", || bursts(10, Duration::from_millis(300))),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let (profile, ended) = around(|| capture.finish().unwrap());
        for thread in ["busy", "every4", "every10"] {
            let (all, unsampled) = time_of(&profile, thread);
            println!("{thread}: {all} ns, {:.1} % unsampled, {}", 100.0 * unsampled / all, engine_of(&profile, thread));
        }
        println!("{:?}", profile.comments().collect::<Vec<_>>());
        is_the_cpu_time(profile.total(1) as f64, &began, &ended);
        assert_eq!(comment(&profile, "perf"), "permitted");
        for thread in ["busy", "every4", "every10"] {
            let (all, unsampled) = time_of(&profile, thread);
            // A twentieth at rest, which `benches/cpu_accuracy.rs` measures; on a busy machine ticks and counters wait
            // alike.
            assert!(unsampled < 0.2 * all, "{thread}: {unsampled} of {all} unsampled");
        }
    });
}

/// Works below so many frames of its own.
#[inline(never)]
fn deep(frames: u32, cpu: Duration) {
    if frames == 0 {
        split_70_30(cpu);
    } else {
        deep(frames - 1, cpu);
    }
    std::hint::black_box(frames);
}

/// Forty such stacks are twice as much as a ring holds.
#[test]
fn deep_stacks_are_kept_at_a_high_rate() {
    isolated("engines::deep_stacks_are_kept_at_a_high_rate", || {
        // A sampler that is kept from its processor for long loses some; a ring for 180 frames would, and half of all in
        // any case.
        wait_until("a capture that loses few samples", || {
            let capture = CpuCapture::start(&CpuOptions { hz: 999, ..options(CpuEngine::Perf) }).unwrap();
            named("deep", || deep(418, Duration::from_secs(1))).join().unwrap();
            let profile = capture.finish().unwrap();
            let (all, unsampled) = time_of(&profile, "deep");
            let deepest = profile.samples().map(|sample| sample.stack.len()).max().unwrap();
            let lost = comment(&profile, "lost");
            println!("{all} ns, {unsampled} unsampled, {lost} samples lost, {deepest} frames");
            assert!(deepest > 418 && all > 0.95e9);
            lost.parse::<f64>().unwrap() < 0.1 * profile.total(0) as f64
        });
    });
}

#[test]
fn perf_events_keep_a_rate_above_the_kernels_tick() {
    isolated("engines::perf_events_keep_a_rate_above_the_kernels_tick", || {
        let capture = CpuCapture::start(&CpuOptions { hz: 1000, ..options(CpuEngine::Perf) }).unwrap();
        named("busy", || split_70_30(Duration::from_secs(1))).join().unwrap();
        let profile = capture.finish().unwrap();
        println!("{} samples; {:?}", profile.total(0), profile.comments().collect::<Vec<_>>());
        assert_eq!(engine_of(&profile, "busy"), "perf");
        assert!(profile.total(0) > 750, "{} samples of a second at 1000 Hz", profile.total(0));
        is_split_70_30(&profile);
    });
}

#[test]
fn where_perf_events_are_refused_the_tick_is_used_and_the_profile_records_it() {
    isolated("engines::where_perf_events_are_refused_the_tick_is_used_and_the_profile_records_it", || {
        crate::filters::refuse(&[libc::SYS_perf_event_open]);
        let refused = CpuCapture::start(&options(CpuEngine::Perf)).unwrap_err().to_string();
        assert!(refused.starts_with("perf events: perf_event_open: Operation not permitted"), "{refused}");
        let (capture, began) = around(|| CpuCapture::start(&options(CpuEngine::Auto)).unwrap());
        named("busy", || split_70_30(Duration::from_secs(1))).join().unwrap();
        let other = CpuCapture::start(&options(CpuEngine::Tick)).unwrap_err().to_string();
        assert!(other.contains("ask for frequency=99 to share it"), "{other}");
        let (profile, ended) = around(|| capture.finish().unwrap());
        let status = comment(&profile, "perf");
        assert!(status.starts_with("refused: perf_event_open: Operation not permitted"), "{status}");
        assert_eq!(
            (engine_of(&profile, "busy").as_str(), comment(&profile, "threads-by-perf").as_str()),
            ("tick", "0")
        );
        is_the_cpu_time(profile.total(1) as f64, &began, &ended);
        // A hundred where the thread is alone; on a busy machine the kernel's tick seldom meets it.
        assert!(profile.total(0) > 5, "{} samples", profile.total(0));
    });
}

#[test]
fn without_room_for_descriptors_the_tick_goes_on() {
    isolated("engines::without_room_for_descriptors_the_tick_goes_on", || {
        let few = libc::rlimit { rlim_cur: 16, rlim_max: 16 };
        // SAFETY: the kernel only reads `few`.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &few) }, 0);
        let capture = CpuCapture::start(&options(CpuEngine::Auto)).unwrap();
        let threads: Vec<_> = (0..8).map(|_| named("busy", || split_70_30(Duration::from_millis(200)))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let profile = capture.finish().unwrap();
        println!("{:?}", profile.comments().collect::<Vec<_>>());
        assert!(comment(&profile, "perf").starts_with("not for all threads: perf_event_open: Too many open files"));
        assert_eq!(comment(&profile, "threads-without-timer"), "0");
    });
}

#[test]
fn the_environment_and_the_query_choose_the_engine() {
    isolated_with("engines::the_environment_and_the_query_choose_the_engine", &[("PROCPROF_ENGINE", "quartz")], || {
        let refused = start(Config::default()).unwrap_err().to_string();
        assert_eq!(refused, "configuration: PROCPROF_ENGINE=quartz: expected auto, perf or tick");
        let agent = start(Config { engine: Some(CpuEngine::Tick), ..Config::default() }).unwrap();
        let response = agent.handle(&Request::get("/debug/pprof/profile?seconds=1&engine=quartz"));
        assert_eq!(
            (response.status, response.body.as_slice()),
            (400, &b"engine=quartz: expected auto, perf or tick\n"[..])
        );
    });
}
