//! The cost of a sample: signals to this thread with the profiler's handler beside an empty one, interleaved, by the
//! thread's CPU clock.

use crate::clock::thread_cpu;
use crate::profiler::Profiler;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr::{null, null_mut};

/// Signals in a row, after one to warm up.
const BATCH: u64 = 50;
const ROUNDS: usize = 200;

/// Measures below `depth` calls of one function.
pub fn measure(depth: usize) {
    let profiler = Profiler::start(1);
    let ticket = if cfg!(feature = "ours") { ticket() } else { 0 };
    let handlers = handlers();
    let mut costs = [0.0; 2];
    at_depth(depth, &mut || costs = measure_here(&profiler, ticket, &handlers));
    // SAFETY: the handler that was there.
    assert_eq!(unsafe { libc::sigaction(libc::SIGPROF, &raw const handlers[0], null_mut()) }, 0);
    println!("sample_ns {:.1}\nempty_ns {:.1}\nframes {}", costs[0], costs[1], profiler.finish().frames);
}

fn measure_here(profiler: &Profiler, ticket: u64, handlers: &[libc::sigaction; 2]) -> [f64; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (handler, times) in handlers.iter().zip(&mut times) {
            // SAFETY: both are handlers of this process.
            assert_eq!(unsafe { libc::sigaction(libc::SIGPROF, handler, null_mut()) }, 0);
            send(ticket);
            let began = thread_cpu();
            (0..BATCH).for_each(|_| send(ticket));
            times.push(thread_cpu() - began);
        }
        profiler.drain();
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[ROUNDS / 2] as f64 / BATCH as f64
    })
}

#[inline(never)]
fn at_depth(depth: usize, body: &mut dyn FnMut()) -> usize {
    if depth == 0 {
        body();
        return 0;
    }
    black_box(at_depth(depth - 1, body)) + 1
}

/// The value that signals of this thread's timer carry, which the kernel shows (`CONFIG_CHECKPOINT_RESTORE`).
///
/// ```text
/// signal: 27/0000707072000100
/// notify: signal/tid.1234
/// ```
fn ticket() -> u64 {
    let timers = std::fs::read_to_string("/proc/self/timers").expect("a kernel that shows timers");
    // SAFETY: takes no argument and can't fail.
    let (mut value, own) = (0, format!("notify: signal/tid.{}", unsafe { libc::gettid() }));
    for line in timers.lines() {
        if let Some((_, hex)) = line.strip_prefix("signal: ").and_then(|rest| rest.split_once('/')) {
            value = u64::from_str_radix(hex, 16).expect("a hexadecimal value");
        }
        if line == own {
            return value;
        }
    }
    panic!("no timer of this thread in\n{timers}");
}

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

fn send(ticket: u64) {
    const SI_TIMER: c_int = -2;
    let info = Queued { signal: libc::SIGPROF, errno: 0, code: SI_TIMER, padding: 0, sender: [0; 2], value: ticket, rest: [0; 12] };
    // SAFETY: `info` is as long as the kernel's siginfo, which it only reads.
    let sent = unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), libc::gettid(), libc::SIGPROF, &raw const info) };
    assert_eq!(sent, 0);
}

/// The handler that is installed, and one that does nothing.
fn handlers() -> [libc::sigaction; 2] {
    extern "C" fn nothing(_: c_int, _: *mut libc::siginfo_t, _: *mut c_void) {}
    // SAFETY: all-zero is a valid `sigaction` to be filled; `nothing` has the type that `SA_SIGINFO` requires.
    unsafe {
        let mut installed: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGPROF, null(), &raw mut installed), 0);
        let mut empty = installed;
        empty.sa_sigaction = nothing as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
        empty.sa_flags |= libc::SA_SIGINFO;
        [installed, empty]
    }
}
