//! Threads that live for milliseconds, which the sampler's look at all threads hardly meets.

use crate::build::program;
use crate::host::{Host, preloaded, wait_until};
use procprof_profile::Profile;
use procprof_profile::format::decode;

/// Samples and nanoseconds of the stacks with a function.
fn of_function(profile: &Profile, function: &str) -> [f64; 2] {
    let samples = profile.samples().filter(|sample| {
        let mut lines = sample.stack.iter().flat_map(|place| profile.lines(*place));
        lines.any(|line| profile.string(profile.function(line.function).name) == function)
    });
    samples.fold([0.0; 2], |sum, sample| [sum[0] + sample.values[0] as f64, sum[1] + sample.values[1] as f64])
}

fn captured(way: &[&str], query: &str) -> Profile {
    let mut command = preloaded(&program("births.c", &[]));
    command.args(way);
    let mut host = Host::start(command);
    assert_eq!(host.line(), "ready");
    let profile = decode(&host.get(&format!("/debug/pprof/profile?{query}")), &Default::default()).unwrap().profile;
    assert!(host.finish().success());
    profile
}

/// Time in no sample: four fifths and more where threads are found by looking for them.
fn unsampled(profile: &Profile) -> f64 {
    of_function(profile, "[unsampled CPU]")[1] / profile.total(1) as f64
}

/// On a busy machine ticks may meet few of the threads for a while: such captures are left out.
#[test]
fn threads_of_two_milliseconds_are_sampled_as_they_divide_their_time() {
    const ENOUGH: f64 = 600.0;
    let (mut samples, mut seven, mut three) = (0.0, 0.0, 0.0);
    wait_until("enough samples", || {
        let profile = captured(&["mixed", "2"], "seconds=1&frequency=250&engine=tick");
        let (of_seven, of_three, part) =
            (of_function(&profile, "seven"), of_function(&profile, "three"), unsampled(&profile));
        println!("{:.1} % unsampled, {of_seven:?}, {of_three:?}", 100.0 * part);
        // What threads take from their creation to their first own instruction, and at their ends, is in none.
        if part < 0.3 {
            samples += of_seven[0] + of_three[0];
            seven += of_seven[1];
            three += of_three[1];
        }
        samples >= ENOUGH
    });
    let (share, sigma) = (seven / (seven + three), (0.7 * 0.3 / samples).sqrt());
    println!("{share:.3} of 0.7 in {samples} samples, sigma {sigma:.3}");
    // Some samples weigh up to twice as much as others.
    assert!((share - 0.7).abs() < 2.0 * 5.0 * sigma, "{share:.3} of 0.7, sigma {sigma:.3}");
}

/// On a busy machine, threads of half a tick's length keep step with the scheduler, and ticks meet them at one age or
/// few: the time of others is in no sample.
#[test]
fn what_short_threads_do_at_one_age_does_not_stand_for_what_they_do_at_another() {
    short_threads_have_their_ages(1);
}

#[test]
#[ignore = "takes a minute: `cargo xtask soak long` runs it"]
fn ages_of_short_threads_are_kept_apart_in_many_captures() {
    short_threads_have_their_ages(20);
}

fn short_threads_have_their_ages(captures: u32) {
    for _ in 0..captures {
        let profile = captured(&["ordered", "2"], "seconds=3&engine=tick");
        let ([samples, seven], [fewer, three], part) =
            (of_function(&profile, "seven"), of_function(&profile, "three"), unsampled(&profile));
        let (all, sigma) = (profile.total(1) as f64, (0.7 * 0.3 / (samples + fewer)).sqrt());
        println!(
            "{:.3} of 0.7, {:.3} of 0.3, {:.1} % unsampled in {} samples",
            seven / all,
            three / all,
            100.0 * part,
            samples + fewer
        );
        // The age at which one follows the other is within one of 16 parts that are distinguished, or fewer of few
        // samples.
        let blur = 1.0 / ((samples + fewer) / 16.0).floor().clamp(1.0, 16.0) + 5.0 * sigma;
        assert!(seven / all < 0.7 + blur && three / all < 0.3 + blur);
    }
}

#[test]
fn threads_of_all_kinds_are_made_and_end_as_without_the_library() {
    let mut host = Host::start(preloaded(&program("creates.c", &[])));
    assert_eq!(host.line(), "ready");
    for engine in ["tick", "auto"] {
        host.get(&format!("/debug/pprof/profile?seconds=1&engine={engine}&frequency=999"));
    }
    host.go_on();
    assert_eq!(host.line(), "right");
    assert!(host.finish().success());
}

/// Stacks end as those of all threads do: nothing of the library is below the thread's first routine.
#[test]
fn a_thread_that_arms_itself_has_the_stack_that_it_has_otherwise() {
    wait_until("stacks of threads that arm themselves", || {
        let profile = captured(&["mixed", "20"], "seconds=1&engine=tick");
        stacks_end_at_the_first_routine(&profile) > 0 && unsampled(&profile) < 0.9
    });
}

/// The number of stacks in which nothing of the library is below the thread's first routine, as in all.
fn stacks_end_at_the_first_routine(profile: &Profile) -> u32 {
    let mut stacks = 0;
    for sample in profile.samples().filter(|sample| sample.values[0] > 0) {
        let lines = sample.stack.iter().flat_map(|place| profile.lines(*place));
        let names: Vec<&str> = lines.map(|line| profile.string(profile.function(line.function).name)).collect();
        let Some(first) = names.iter().position(|name| *name == "short_life") else { continue };
        stacks += 1;
        assert!(
            !names[first..].iter().any(|name| name.contains("procprof") || name.contains("arm_and_work")),
            "{names:?}"
        );
    }
    stacks
}

#[test]
fn threads_are_born_and_end_by_thousands_while_captures_begin_and_end() {
    let mut host = Host::start(preloaded(&program("births.c", &[])));
    assert_eq!(host.line(), "ready");
    host.go_on();
    let off: i64 = host.line().parse().unwrap();
    for query in ["seconds=1&engine=tick", "seconds=1&engine=perf&frequency=1000", "seconds=1"] {
        let capture = host.begin(&format!("/debug/pprof/profile?{query}"));
        while !capture.is_finished() {
            host.go_on();
            let on: i64 = host.line().parse().unwrap();
            println!("{on} ns of CPU time a thread, {off} ns without a capture");
        }
        capture.join().unwrap().unwrap();
    }
    assert!(host.finish().success());
}
