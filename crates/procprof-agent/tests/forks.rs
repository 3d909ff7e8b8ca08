//! A process that forks while it is sampled: the child is not sampled and holds nothing of the capture, whichever
//! engine makes the samples; the parent's goes on; the child may begin its own.

use crate::isolated::isolated;
use crate::work::{around, flat, is_the_cpu_time, split_70_30, thread_cpu, wait_until};
use procprof_agent::{CpuCapture, CpuEngine, CpuOptions, Error};
use std::time::Duration;

fn options(engine: CpuEngine) -> CpuOptions {
    CpuOptions { engine, owner: "the test".into(), ..CpuOptions::default() }
}

/// Descriptors of perf events in the program's own table.
fn counters() -> usize {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    entries
        .filter(|entry| {
            std::fs::read_link(entry.as_ref().unwrap().path())
                .is_ok_and(|file| file.ends_with("anon_inode:[perf_event]"))
        })
        .count()
}

/// Forks; the parent waits for the child, which ends with `body`'s verdict.
fn forked(body: impl FnOnce()) {
    // SAFETY: the child uses only what its allocator and the standard library keep usable after a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let verdict = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit(i32::from(verdict.is_err())) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's verdict");
}

/// Makes the calls fail that give a thread a table of its own, as filters of containers do: descriptors are in the
/// program's then.
fn refuse_own_tables() {
    const CLOSE_RANGE: libc::c_long = 436;
    crate::filters::refuse(&[CLOSE_RANGE, libc::SYS_unshare]);
}

const ENGINES: [CpuEngine; 3] = [CpuEngine::Tick, CpuEngine::Perf, CpuEngine::Auto];

/// Captures with an engine while the process forks, once for each of `of_children`, by which the child captures itself.
fn fork_under(engine: CpuEngine, has_own_table: bool, of_children: &[CpuEngine]) {
    let (mut capture, began) = around(|| CpuCapture::start(&options(engine)).unwrap());
    let burner = std::thread::spawn(|| split_70_30(Duration::from_millis(500)));
    match engine {
        CpuEngine::Perf if !has_own_table => wait_until("counters", || counters() > 0),
        CpuEngine::Auto if !has_own_table => {}
        _ => assert_eq!(counters(), 0, "{engine:?}"),
    }
    for own in of_children {
        forked(|| {
            assert_eq!(counters(), 0, "descriptors of the parent's");
            assert_eq!(std::fs::read_to_string("/proc/self/timers").unwrap_or_default(), "", "timers");
            assert!(matches!(capture.cut(), Err(Error::Forked { .. })));
            let mut own = CpuCapture::start(&CpuOptions { hz: 997, ..options(*own) }).unwrap();
            let mut samples = 0;
            // The kernel's tick seldom meets it on a busy machine.
            wait_until("samples", || {
                split_70_30(thread_cpu() + Duration::from_millis(50));
                samples += own.cut().unwrap().total(0);
                samples > 1
            });
            own.finish().unwrap();
            assert_eq!(counters(), 0, "descriptors left");
            // A child of the child, which has what it takes from both.
            forked(|| assert_eq!(counters(), 0));
        });
    }
    burner.join().unwrap();
    wait_until("the end of counters of ended threads", || {
        counters() <= std::fs::read_dir("/proc/self/task").unwrap().count()
    });
    let (profile, ended) = around(|| capture.finish().unwrap());
    is_the_cpu_time(profile.total(1) as f64, &began, &ended);
    assert!(flat(&profile)["hot_70"] > 50_000_000, "{:?}", flat(&profile));
    let by_perf =
        profile.comments().find_map(|comment| comment.strip_prefix("#procprof:threads-by-perf=")?.parse().ok());
    assert!(engine != CpuEngine::Perf || by_perf.is_some_and(|threads: u64| threads > 0), "{by_perf:?}");
    assert_eq!(counters(), 0);
}

// With the next four tests, each engine of a parent meets each of a child, and both meet descriptors in a table of the
// agent's own and in that of the program.

#[test]
fn a_child_holds_no_timers_and_may_begin_its_own_capture() {
    isolated("forks::a_child_holds_no_timers_and_may_begin_its_own_capture", || {
        fork_under(CpuEngine::Tick, true, &[CpuEngine::Perf, CpuEngine::Auto]);
    });
}

#[test]
fn a_child_holds_no_counters_and_may_begin_its_own_capture() {
    isolated("forks::a_child_holds_no_counters_and_may_begin_its_own_capture", || {
        fork_under(CpuEngine::Perf, true, &[CpuEngine::Tick, CpuEngine::Auto]);
    });
}

#[test]
fn a_child_under_either_engine_by_choice_holds_neither() {
    isolated("forks::a_child_under_either_engine_by_choice_holds_neither", || {
        fork_under(CpuEngine::Auto, true, &[CpuEngine::Tick, CpuEngine::Perf]);
    });
}

#[test]
fn where_descriptors_are_the_programs_a_child_holds_none_either() {
    isolated("forks::where_descriptors_are_the_programs_a_child_holds_none_either", || {
        refuse_own_tables();
        ENGINES.iter().for_each(|engine| fork_under(*engine, false, &[*engine]));
    });
}

/// Twice, since the second child finds what the first one's fork left in the parent.
fn fork_under_all(has_own_table: bool) {
    for engine in ENGINES {
        fork_under(engine, has_own_table, &[ENGINES, ENGINES].concat());
    }
}

#[test]
#[ignore = "takes a minute: `cargo xtask soak long` runs it"]
fn children_under_all_engines_hold_nothing() {
    isolated("forks::children_under_all_engines_hold_nothing", || fork_under_all(true));
}

#[test]
#[ignore = "takes a minute: `cargo xtask soak long` runs it"]
fn where_descriptors_are_the_programs_children_under_all_engines_hold_nothing() {
    isolated("forks::where_descriptors_are_the_programs_children_under_all_engines_hold_nothing", || {
        refuse_own_tables();
        fork_under_all(false);
    });
}

/// The C library does not see such a fork; what the child inherited goes when it begins its own capture.
#[test]
fn a_child_made_without_the_c_library_lets_go_when_it_begins() {
    isolated("forks::a_child_made_without_the_c_library_lets_go_when_it_begins", || {
        refuse_own_tables();
        let _capture = CpuCapture::start(&options(CpuEngine::Perf)).unwrap();
        wait_until("counters", || counters() > 0);
        // SAFETY: a plain fork by its number; the child uses little and ends at once.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if child == 0 {
            let inherited = counters();
            let began = CpuCapture::start(&options(CpuEngine::Tick)).is_ok();
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(if inherited > 0 && began && counters() == 0 { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above.
        assert_eq!(i64::from(unsafe { libc::waitpid(child as i32, &raw mut status, 0) }), child);
        assert_eq!(status, 0, "the child's verdict");
    });
}

/// Copies of descriptors in a child that was made without the C library would keep the counters, and their signals,
/// alive.
#[test]
fn no_signal_comes_after_the_end_while_a_child_holds_copies() {
    isolated("forks::no_signal_comes_after_the_end_while_a_child_holds_copies", || {
        refuse_own_tables();
        let capture = CpuCapture::start(&CpuOptions { hz: 1000, ..options(CpuEngine::Perf) }).unwrap();
        split_70_30(thread_cpu() + Duration::from_millis(200));
        // SAFETY: as above.
        let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if child == 0 {
            // SAFETY: waits for the signal that ends the child, which comes also if the parent fails.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::pause();
            }
        }
        drop(capture);
        let caught = signals_caught();
        split_70_30(thread_cpu() + Duration::from_millis(300));
        let later = signals_caught();
        // SAFETY: ends the child made above and waits for it.
        unsafe {
            libc::kill(child as i32, libc::SIGKILL);
            libc::waitpid(child as i32, std::ptr::null_mut(), 0);
        }
        assert!(later - caught < 20, "{} interruptions in 300 ms of work", later - caught);
    });
}

/// From the first call on, how often SIGPROF came.
fn signals_caught() -> u64 {
    extern "C" fn count(_: libc::c_int) {
        COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    // SAFETY: `count` only counts.
    unsafe { libc::signal(libc::SIGPROF, count as extern "C" fn(libc::c_int) as usize) };
    COUNT.load(std::sync::atomic::Ordering::Relaxed)
}
