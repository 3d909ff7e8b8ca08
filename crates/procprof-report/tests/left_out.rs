//! The frames that reports omit, how they report it, and that sums stay.

use procprof_profile::{Addr, Mapping, Meta, Profile, ProfileBuilder, ProfileType};
use procprof_report::{REPORTS, shown_by_default};

use crate::samples;

const KEPT: (&str, &str) = ("keep_allocators", "true");

/// The names of `top`, the largest first.
fn top(profile: &Profile, pairs: &[(&str, &str)]) -> Vec<String> {
    let text = samples::text(profile, "top", pairs);
    let rows = text.lines().skip_while(|line| !line.contains("flat%")).skip(1);
    rows.filter_map(|row| row.split_whitespace().nth(5).map(str::to_owned)).collect()
}

#[test]
fn a_heap_profile_blames_who_allocates() {
    let profile = samples::file("rust.heap.pb.gz");
    assert_eq!(top(&profile, &[KEPT])[0], "prof_backtrace_impl");
    let named = top(&profile, &[]);
    assert!(named[0].contains("grow_cache") && named[1].ends_with("write_log"), "{named:?}");
    let totals = |profile: &Profile| (0..4).map(|index| profile.total(index)).collect::<Vec<_>>();
    assert_eq!(totals(&shown_by_default(&profile).unwrap()), totals(&profile));
    let sum = |pairs| {
        let text = samples::text(&profile, "collapsed", pairs);
        text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<i64>().unwrap()).sum::<i64>()
    };
    assert_eq!(sum(&[]), sum(&[KEPT]));
}

#[test]
fn the_flame_graph_states_that_frames_are_left_out_and_every_report_can_show_them() {
    let profile = samples::file("rust.heap.pb.gz");
    for report in REPORTS {
        let bytes = |pairs: &[(&str, &str)]| {
            let options = procprof_report::Options::parse(pairs.iter().copied()).unwrap();
            report.render(&profile, &options, &Default::default()).unwrap()
        };
        let (plain, kept) = (bytes(&[]), bytes(&[KEPT]));
        let has = |bytes: &[u8], text: &str| String::from_utf8_lossy(bytes).contains(text);
        if report.name == "pprof" {
            assert_eq!(plain, kept, "the file keeps what was measured");
            continue;
        }
        if ["tags", "comments", "disasm", "topproto", "pdf"].contains(&report.name) {
            // Some show no frames, or code that was not read; the others are compressed.
            continue;
        }
        assert!(!has(&plain, "prof_backtrace_impl") && has(&kept, "prof_backtrace_impl"), "{}", report.name);
        if ["flamegraph", "html"].contains(&report.name) {
            let remark = "Allocator frames at the leaf are left out; keep_allocators=true shows them";
            assert!(has(&plain, remark) && !has(&kept, remark), "{}", report.name);
        }
    }
    assert!(!samples::text(&samples::mixed(), "flamegraph", &[]).contains("left out"));
}

#[test]
fn a_library_without_symbols_is_left_out_too() {
    let mut builder = ProfileBuilder::new(&[("inuse_space", "bytes")]);
    let filename = builder.intern("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2");
    let mapping = builder.mapping(Mapping { start: Addr(0x1000), limit: Addr(0x9000), filename, ..Mapping::default() });
    let (leaf, root) = (builder.address(Some(mapping), Addr(0x2000)), builder.frame("fill"));
    builder.sample(&[leaf, root], &[5], &[]);
    let profile = builder.finish().unwrap();
    assert_eq!(samples::text(&profile, "collapsed", &[]), "fill 5\n");
    assert_eq!(samples::text(&profile, "collapsed", &[KEPT]), "fill;[libjemalloc.so.2+0x1000] 5\n");
    assert!(samples::text(&profile, "flamegraph", &[]).contains("\u{b7} 1 stack<"));
}

#[test]
fn expressions_that_cannot_be_read_leave_everything_in_and_are_reported() {
    let mut parts = samples::stacks(&[(&["main", "malloc"], 5)]).into_parts();
    parts.drop_frames = parts.intern("malloc(").unwrap();
    let profile = parts.finish().unwrap();
    assert_eq!(samples::text(&profile, "collapsed", &[]), "main;malloc 5\n");
    assert!(samples::text(&profile, "flamegraph", &[]).contains("No frames are left out: drop_frames of the profile:"));
}

/// A profile of waits: two of locks, one of them for a monitor, an idle one and another one.
fn waits() -> Profile {
    let mut builder = ProfileBuilder::new(&[("contentions", "count"), ("delay", "nanoseconds")]);
    let [lock, object, condition, future] =
        ["app.Lock$Sync", "java.lang.Object", "app.Condition", "app.Future"].map(|class| builder.frame(class));
    let [park, support, acquire, task, main] = [
        "jdk.internal.misc.Unsafe.park",
        "java.util.concurrent.locks.LockSupport.park",
        "java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire",
        "App.task",
        "App.main",
    ]
    .map(|method| builder.frame(method));
    for (kind, stack, seconds) in [
        ("lock", &[lock, park, support, acquire, task, main][..], 1),
        ("lock", &[object, task, main], 2),
        ("lock", &[park, support, acquire, task, main], 4),
        ("idle", &[condition, park, support, main], 40),
        ("wait", &[future, park, support, main], 80),
    ] {
        let label = builder.text_label(procprof_profile::waits::LABEL, kind);
        builder.sample(stack, &[1, seconds * 1_000_000_000], &[label]);
    }
    builder.finish().unwrap()
}

#[test]
fn waits_that_are_not_for_locks_are_left_out_and_named() {
    let profile = waits();
    let seconds = |pairs: &[(&str, &str)]| {
        let text = samples::text(&profile, "collapsed", pairs);
        text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<i64>().unwrap()).sum::<i64>() / 1_000_000_000
    };
    let cases: [(&[(&str, &str)], i64); 7] = [
        (&[], 7),
        (&[("waits", "lock")], 7),
        (&[("waits", "idle")], 40),
        (&[("waits", "wait")], 80),
        (&[("waits", "all")], 127),
        (&[("tagfocus", "wait=idle")], 40),
        (&[("tagroot", "wait")], 127),
    ];
    for (pairs, expected) in cases {
        assert_eq!(seconds(pairs), expected, "{pairs:?}");
    }
    let line = "Left out: 40s idle, 80s waits (waits=all shows them)";
    for report in ["top", "tree", "traces", "dot"] {
        let has = |pairs| samples::text(&profile, report, pairs).contains(line);
        assert!(has(&[]) && !has(&[("waits", "all")]), "{report}");
    }
    for report in REPORTS {
        let unstated = |pairs: &[(&str, &str)]| {
            let options = procprof_report::Options::parse(pairs.iter().copied()).unwrap();
            report.unstated(&profile, &options).unwrap()
        };
        let bytes = report.render(&profile, &Default::default(), &Default::default()).unwrap_or_default();
        let says = String::from_utf8_lossy(&bytes).contains("idle");
        match report.name {
            // They leave nothing out, or have no values; the PDF is compressed.
            "pprof" | "comments" | "symbols" | "pdf" => assert_eq!(unstated(&[]), None, "{}", report.name),
            name => assert_eq!(unstated(&[]).as_deref(), (!says).then_some(line), "{name}"),
        }
        assert_eq!(unstated(&[("waits", "all")]), None, "{}", report.name);
    }
    let other_viewer = |report, pairs| samples::bytes(&profile, report, pairs);
    for report in ["speedscope", "otlp"] {
        let has = |pairs| String::from_utf8_lossy(&other_viewer(report, pairs)).contains(line);
        assert!(has(&[]) && !has(&[("waits", "all")]), "{report}");
        assert!(has(&[("sample_index", "delay")]), "{report}");
    }
    let read = procprof_profile::format::decode(&other_viewer("otlp", &[]), &Default::default()).unwrap().profile;
    assert_eq!(read.comments().collect::<Vec<_>>(), [line]);
    for remark in ["40.0 s idle left out; waits=all shows them", "80.0 s waits left out; waits=all shows them"] {
        assert!(samples::text(&profile, "flamegraph", &[]).contains(remark), "{remark}");
    }
    let total = |pairs: &[(&str, &str)]| {
        let options = procprof_report::Options::parse(pairs.iter().copied()).unwrap();
        let bytes = procprof_report::render(&profile, "pprof", &options, &Default::default()).unwrap();
        procprof_profile::format::decode(&bytes, &Default::default()).unwrap().profile.total(1) / 1_000_000_000
    };
    assert_eq!((total(&[]), total(&[("waits", "lock")])), (127, 7), "the file keeps all but on request");
    assert_eq!(shown_by_default(&profile).unwrap().total(1), 7_000_000_000);
}

#[test]
fn a_wait_is_shown_by_its_method_with_the_class_beside_it() {
    let text = samples::text(&waits(), "collapsed", &[]);
    let stacks: Vec<&str> = text.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0)).collect();
    let expected = ["App.main;App.task", "App.main;App.task (app.Lock$Sync)", "App.main;App.task (java.lang.Object)"];
    assert_eq!(stacks, expected);
    let kept = samples::text(&waits(), "collapsed", &[KEPT]);
    assert!(kept.contains("LockSupport.park;jdk.internal.misc.Unsafe.park;app.Lock$Sync "), "{kept}");
}

#[test]
fn a_profile_that_go_does_not_record_by_default_names_the_call_that_begins_it() {
    for (profile_type, engine, call) in [
        (ProfileType::Mutex, "go", Some("runtime.SetMutexProfileFraction")),
        (ProfileType::Contention, "go", Some("runtime.SetBlockProfileRate")),
        (ProfileType::Contention, "brpc", None),
        (ProfileType::Cpu, "go", None),
    ] {
        let meta = Meta { profile_type: Some(profile_type.clone()), engine: engine.to_owned(), ..Meta::default() };
        let empty = ProfileBuilder::new(profile_type.sample_types()).finish().unwrap().with_meta(&meta).unwrap();
        let shown = samples::text(&empty, "flamegraph", &[]);
        assert_eq!(shown.contains("has samples only if the program calls"), call.is_some(), "{profile_type} {engine}");
        assert!(call.is_none_or(|call| shown.contains(call)), "{shown}");
        let mut builder = ProfileBuilder::new(profile_type.sample_types());
        let frame = builder.frame("main");
        builder.sample(&[frame], &[1, 1], &[]);
        let profile = builder.finish().unwrap().with_meta(&meta).unwrap();
        assert!(!samples::text(&profile, "flamegraph", &[]).contains("only if"), "{profile_type} {engine}");
    }
}
