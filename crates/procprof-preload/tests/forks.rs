//! Processes that a program forks are profiled with it.

use crate::build::program;
use crate::host::{Host, LONGER_AND_LONGER, preloaded, wait_until};
use procprof_profile::format::decode;
use procprof_profile::{LabelValue, Profile};

fn numbers(line: &str) -> Vec<i64> {
    line.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// The samples' labels `pid`.
fn pids(profile: &Profile) -> Vec<Option<i64>> {
    let pid = |sample: procprof_profile::Sample<'_>| {
        sample.labels.iter().find_map(|label| match label.value {
            LabelValue::Number(number, _) if profile.string(label.key) == "pid" => Some(number),
            _ => None,
        })
    };
    profile.samples().map(pid).collect()
}

/// CPU nanoseconds of one process, in stacks with a function in them.
fn cpu(profile: &Profile, pid: i64, function: &str) -> i64 {
    let has = |stack: &[procprof_profile::LocationId]| {
        let mut lines = stack.iter().flat_map(|place| profile.lines(*place));
        lines.any(|line| profile.string(profile.function(line.function).name).contains(function))
    };
    let of_process = profile.samples().zip(pids(profile)).filter(|(_, of)| *of == Some(pid));
    of_process.filter(|(sample, _)| has(sample.stack)).map(|(sample, _)| sample.values[1]).sum()
}

fn comment<'a>(profile: &'a Profile, key: &str) -> Option<&'a str> {
    profile.comments().find_map(|comment| comment.strip_prefix("#procprof:")?.strip_prefix(key)?.strip_prefix('='))
}

#[test]
fn workers_are_in_the_profile_of_the_process_that_forked_them() {
    let mut host = Host::start(preloaded(&program("prefork.c", &[])));
    let workers = numbers(&host.line());
    let are_seen = LONGER_AND_LONGER.into_iter().any(|seconds| {
        host.go_on();
        let before = numbers(&host.line());
        let profile =
            decode(&host.get(&format!("/debug/pprof/profile?seconds={seconds}")), &Default::default()).unwrap().profile;
        host.go_on();
        let after = numbers(&host.line());
        profile.comments().for_each(|comment| println!("{comment}"));
        assert_eq!(comment(&profile, "processes"), Some("4"));
        assert!(pids(&profile).iter().all(Option::is_some), "every sample has its process");
        let functions = ["works_as_one", "works_as_another", "[unsampled CPU]"];
        let used = before.iter().zip(&after).map(|(before, after)| after - before);
        let seen = workers.iter().zip(functions).zip(used).filter(|((pid, function), used)| {
            let (seen, all) = (cpu(&profile, **pid, function), cpu(&profile, **pid, ""));
            println!("process {pid}: {seen} ns in {function}, {all} ns in all, {used} ns used");
            // The program looks before the capture begins and after it has ended, and the worker's profile ends a
            // little later than that; the profiler's own threads are in the worker, too.
            assert!(all <= used + used / 20 + 40_000_000, "{function}: {all} ns of {used}");
            // A worker reads the tables of all its files before it samples, which on a busy machine may take it
            // seconds.
            seen > 0 && all > used / 2
        });
        seen.count() == 3 && comment(&profile, "processes-sampled") == Some("3")
    });
    assert!(are_seen);
    let own = decode(&host.get("/debug/pprof/profile?seconds=1&processes=own"), &Default::default()).unwrap().profile;
    assert!(pids(&own).iter().all(Option::is_none), "without the others");
    assert!(host.finish().success());
}

/// Servers may handle all they get in memory of their own.
#[test]
fn workers_that_never_allocate_join_where_they_wait() {
    let mut host = Host::start(preloaded(&program("servers.c", &[])));
    let workers = numbers(&host.line());
    // A worker reads the tables of all its files before it samples, which on a busy machine may take it seconds.
    let are_seen = LONGER_AND_LONGER.into_iter().any(|seconds| {
        let profile =
            decode(&host.get(&format!("/debug/pprof/profile?seconds={seconds}")), &Default::default()).unwrap().profile;
        let found = (comment(&profile, "processes"), comment(&profile, "processes-sampled"));
        let seen = workers.iter().zip(["serves_by_epoll", "serves_by_accept"]).filter(|(pid, function)| {
            let (seen, all) = (cpu(&profile, **pid, function), cpu(&profile, **pid, ""));
            println!("process {pid}: {seen} ns in {function}, {all} ns in all; {found:?}");
            // The rest is the profiler's own threads in that worker, and what it used before it joined.
            assert!(seen <= all, "{function}: {seen} ns of {all}");
            seen > 0
        });
        found == (Some("3"), Some("3")) && seen.count() == 2
    });
    assert!(are_seen);
    assert!(host.finish().success(), "a worker has ended");
}

fn sockets(pid: u32) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

/// No thread is left in a worker, and further captures, also at once and at another rate, find it again.
#[test]
fn captures_of_workers_leave_nothing_behind() {
    let mut host = Host::start(preloaded(&program("prefork.c", &[])));
    let workers = numbers(&host.line());
    for round in 0..3 {
        // A worker has to run to join.
        let have_joined = [1, 4, 16, 64].into_iter().any(|seconds| {
            let path = format!("/debug/pprof/profile?seconds={seconds}&frequency=499");
            let profile = decode(&host.get(&path), &Default::default()).unwrap().profile;
            comment(&profile, "processes-sampled") == Some("3")
        });
        assert!(have_joined, "round {round}");
        let threads = |pid: &i64| std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
        wait_until("the end of threads in workers", || workers.iter().map(threads).sum::<usize>() == workers.len());
        wait_until("the end of sockets", || sockets(host.pid()) <= 1);
    }
    assert!(host.finish().success());
}

/// Captures a program whose workers end all along, until `is_enough`, which is given the profile and what ended workers
/// have used meanwhile.
fn capture_short_lived(ends_by: &str, is_enough: impl Fn(&Profile, i64) -> bool) {
    let mut command = preloaded(&program("shortlived.c", &[]));
    command.arg(ends_by);
    let mut host = Host::start(command);
    assert_eq!(host.line(), "ready");
    // A worker reads the tables of all its files before it samples, which on a busy machine may take it seconds.
    let is_seen = LONGER_AND_LONGER.into_iter().any(|seconds| {
        host.go_on();
        let before = numbers(&host.line())[0];
        let profile =
            decode(&host.get(&format!("/debug/pprof/profile?seconds={seconds}")), &Default::default()).unwrap().profile;
        host.go_on();
        let after = numbers(&host.line())[0];
        let seen: i64 = profile.total(1);
        println!("{seconds} s: {seen} ns in the profile, {} ns used", after - before);
        // The profiler's own threads in the root, and the worker that ran at the end, come on top.
        assert!(seen <= (after - before) + (after - before) / 5 + 2_000_000_000, "{seen} ns of {}", after - before);
        is_enough(&profile, after - before)
    });
    assert!(is_seen);
    assert!(host.finish().success());
}

#[test]
fn workers_that_end_during_a_capture_send_what_they_have_seen() {
    capture_short_lived("exit", |profile, used| {
        let pids: std::collections::BTreeSet<i64> = pids(profile).into_iter().flatten().collect();
        let seen: i64 = pids.iter().map(|pid| cpu(profile, *pid, "works_briefly")).sum();
        println!(
            "{seen} ns in works_briefly of {} processes, {:?} sampled",
            pids.len(),
            comment(profile, "processes-sampled")
        );
        seen > used / 4 && profile.total(1) > used / 2
    });
}

#[test]
fn the_cpu_time_of_workers_that_end_unsampled_is_counted() {
    capture_short_lived("_exit", |profile, used| {
        let ended = profile.samples().filter(|sample| {
            sample.labels.iter().any(|label| match label.value {
                LabelValue::Text(text) => profile.string(text) == "(ended processes)",
                LabelValue::Number(..) => false,
            })
        });
        ended.map(|sample| sample.values[1]).sum::<i64>() > used / 2
    });
}
