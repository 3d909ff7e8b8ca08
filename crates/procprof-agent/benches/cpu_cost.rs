//! The cost of a CPU sample for the sampled thread: a signal with our handler beside one with an empty handler, in one
//! run, interleaved.
//!
//! `cargo bench -p procprof-agent --bench cpu_cost`. The signals carry the ticket of the thread's own timer, which the
//! kernel shows in `/proc/self/timers` (`CONFIG_CHECKPOINT_RESTORE`), so all of it is the handler as it is embedded.
//! Times are the thread's CPU clock.

#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a measurement that can't go on may panic")]

use procprof_agent::{CpuCapture, CpuEngine, CpuOptions};
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr::{null, null_mut};

/// Signals in a row; a ring holds about sixty samples of the deepest stack.
const BATCH: u64 = 50;
const ROUNDS: usize = 400;

/// Calls of one function, which make stacks of 22, 70 and 126 frames with those below it.
const DEPTHS: [usize; 3] = [16, 64, 120];

fn options() -> CpuOptions {
    CpuOptions { hz: 1, engine: CpuEngine::Tick, owner: "the measurement".into(), until: None }
}

/// Nanoseconds of CPU time this thread has used.
fn cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn own_tid() -> i32 {
    // SAFETY: takes no argument and can't fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// The value that signals of this thread's timer carry.
///
/// ```text
/// ID: 0
/// signal: 27/0000707072000100
/// notify: signal/tid.1234
/// ```
fn ticket() -> u64 {
    let timers =
        std::fs::read_to_string("/proc/self/timers").expect("a kernel that shows timers (CONFIG_CHECKPOINT_RESTORE)");
    let (mut value, own) = (0, format!("notify: signal/tid.{}", own_tid()));
    for line in timers.lines() {
        if let Some((_, hex)) = line.strip_prefix("signal: ").and_then(|rest| rest.split_once('/')) {
            value = u64::from_str_radix(hex, 16).unwrap();
        }
        if line == own {
            return value;
        }
    }
    panic!("no timer of this thread in\n{timers}");
}

/// `siginfo_t` of a signal that carries a value.
#[repr(C)]
struct Queued {
    signal: c_int,
    errno: c_int,
    code: c_int,
    padding: c_int,
    sender: [c_int; 2],
    value: u64,
    rest: [u64; 12],
}

fn send(tid: i32, ticket: u64) {
    const SI_TIMER: c_int = -2;
    let info = Queued {
        signal: libc::SIGPROF,
        errno: 0,
        code: SI_TIMER,
        padding: 0,
        sender: [0; 2],
        value: ticket,
        rest: [0; 12],
    };
    // SAFETY: `info` is as long as the kernel's siginfo, which it only reads.
    let sent =
        unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), tid, libc::SIGPROF, &raw const info) };
    assert_eq!(sent, 0);
}

/// Handlers of SIGPROF to choose from: the one that is installed, and one that does nothing.
fn handlers() -> [libc::sigaction; 2] {
    extern "C" fn nothing(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {}
    // SAFETY: all-zero is a valid `sigaction` to be filled; `nothing` has the type that `SA_SIGINFO` requires.
    unsafe {
        let mut ours: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGPROF, null(), &raw mut ours), 0);
        let mut empty = ours;
        empty.sa_sigaction = nothing as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
        [ours, empty]
    }
}

/// Median costs of a signal with each handler, picoseconds.
fn costs(ticket: u64, handlers: &[libc::sigaction; 2]) -> [u64; 2] {
    let tid = own_tid();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (handler, times) in handlers.iter().zip(&mut times) {
            // SAFETY: both are handlers of this process.
            assert_eq!(unsafe { libc::sigaction(libc::SIGPROF, handler, null_mut()) }, 0);
            send(tid, ticket);
            let began = cpu();
            (0..BATCH).for_each(|_| send(tid, ticket));
            times.push((cpu() - began) * 1000 / BATCH);
        }
        // A capture that joins drains the rings before it begins.
        drop(CpuCapture::start(&options()).unwrap());
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[ROUNDS / 2]
    })
}

/// Calls `body` below that many frames of its own.
#[inline(never)]
fn at_depth(depth: usize, body: &mut dyn FnMut()) -> usize {
    if depth == 0 {
        body();
        return 0;
    }
    black_box(at_depth(depth - 1, body)) + 1
}

fn measure() {
    let mut capture = CpuCapture::start(&options()).unwrap();
    let (ticket, handlers) = (ticket(), handlers());
    for depth in DEPTHS {
        capture.cut().unwrap();
        let mut found = [0; 2];
        at_depth(depth, &mut || found = costs(ticket, &handlers));
        let profile = capture.cut().unwrap();
        let frames =
            (0..profile.sample_count()).map(|sample| profile.sample(sample).stack.len()).max().unwrap_or_default();
        let lost = profile.comments().find_map(|comment| comment.strip_prefix("#procprof:lost=").map(str::to_owned));
        assert_eq!(lost.as_deref(), Some("0"), "lost samples are cheaper");
        let [ours, empty] = found.map(|cost| cost as f64 / 1e6);
        println!(
            "{frames:>4} frames: a sample {ours:.3} us, an empty handler {empty:.3} us, added {:.3} us",
            ours - empty
        );
    }
}

fn main() {
    std::thread::spawn(measure).join().unwrap();
}
