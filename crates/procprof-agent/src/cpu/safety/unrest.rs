//! Kinds of work that a signal may interrupt, each on a thread of its own, over and over.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::process::Command;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// Kinds of unrest: their names and one round of each.
const KINDS: &[(&str, fn())] = &[
    ("allocation", allocation),
    ("alternate stack", alternate_stack),
    ("backtrace", backtrace),
    ("birth and death", birth_and_death),
    ("coroutines", coroutines),
    ("errno", errno),
    ("fork and exec", fork_and_exec),
    ("libraries", libraries),
    ("panic", panic),
    ("small stacks", small_stacks),
];

/// Lets all kinds run for `length`; returns how many rounds of each there were.
pub(super) fn run(length: Duration) -> BTreeMap<&'static str, u64> {
    std::panic::set_hook(Box::new(|_| ()));
    let end = Instant::now() + length;
    let rounds = move |round: fn()| {
        let mut rounds = 0;
        // On a busy machine a thread may begin after the end.
        while rounds == 0 || Instant::now() < end {
            round();
            rounds += 1;
        }
        rounds
    };
    let threads: Vec<_> = KINDS
        .iter()
        .map(|(name, round)| {
            (*name, std::thread::Builder::new().name((*name).into()).spawn(move || rounds(*round)).unwrap())
        })
        .collect();
    let rounds = threads.into_iter().map(|(name, thread)| (name, thread.join())).collect::<Vec<_>>();
    let _ = std::panic::take_hook();
    rounds.into_iter().map(|(name, rounds)| (name, rounds.unwrap_or_else(|_| panic!("{name} failed")))).collect()
}

/// Spins for about so many microseconds.
fn spin(micros: u64) {
    let end = Instant::now() + Duration::from_micros(micros);
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

fn allocation() {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for length in (1..4000).step_by(37) {
        kept.push(vec![1; length]);
        if let Some(first) = kept.first_mut() {
            first.resize(10 * length, 2);
        }
    }
    std::hint::black_box(kept);
}

/// A handler of the program's own runs on an alternate stack of the program's own and is interrupted there.
fn alternate_stack() {
    extern "C" fn handler(_: libc::c_int) {
        spin(300);
    }
    let mut memory = vec![0_u8; 24 << 10];
    // SAFETY: the stack outlives its use: the former one is put back before it is freed; `handler` only reads the
    // clock.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_ONSTACK;
        libc::sigaction(libc::SIGUSR1, &raw const action, null_mut());
        let own = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
        let mut former: libc::stack_t = std::mem::zeroed();
        assert_eq!(libc::sigaltstack(&raw const own, &raw mut former), 0);
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), libc::SIGUSR1);
        assert_eq!(libc::sigaltstack(&raw const former, null_mut()), 0);
    }
}

fn backtrace() {
    fn at_depth(depth: u32) -> usize {
        if depth == 0 {
            format!("{:?}", std::backtrace::Backtrace::force_capture()).len()
        } else {
            at_depth(depth - 1) + 1
        }
    }
    assert!(std::hint::black_box(at_depth(20)) > 20);
}

fn birth_and_death() {
    let threads: Vec<_> = (0..4_u64).map(|number| std::thread::spawn(move || spin(500 * number))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // Long enough to be found now and then.
    std::thread::spawn(|| spin(120_000)).join().unwrap();
}

/// Stacks of the program's own making, mapped one above the other and taken away again.
#[cfg(target_env = "gnu")]
fn coroutines() {
    const BYTES: usize = 64 << 10;
    extern "C" fn body() {
        spin(2000);
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: `body` runs on fresh memory that stays until it has returned to `here`.
    unsafe {
        let memory = libc::mmap(null_mut(), 2 * BYTES, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        let (mut here, mut there): (libc::ucontext_t, libc::ucontext_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::getcontext(&raw mut there);
        there.uc_stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: BYTES };
        there.uc_link = &raw mut here;
        libc::makecontext(&raw mut there, body, 0);
        libc::munmap(memory.byte_add(BYTES), BYTES);
        libc::swapcontext(&raw mut here, &raw const there);
        libc::munmap(memory, BYTES);
    }
}

#[cfg(not(target_env = "gnu"))]
fn coroutines() {}

fn errno() {
    // SAFETY: the calling thread's own errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { errno.write_volatile(4242) };
    for _ in 0..200_000 {
        // SAFETY: as above.
        assert_eq!(unsafe { errno.read_volatile() }, 4242, "errno was changed");
    }
}

fn fork_and_exec() {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("true");
    // SAFETY: nothing is done between fork and exec; that there is something to do keeps the standard library from
    // `posix_spawn`.
    unsafe { command.pre_exec(|| Ok(())) };
    assert!(command.status().unwrap().success());
    assert!(Command::new("true").status().unwrap().success());
}

fn libraries() {
    for name in [c"libresolv.so.2", c"libutil.so.1", c"libanl.so.1", c"libstdc++.so.6"] {
        // SAFETY: libraries that do nothing of note when they are loaded and unloaded.
        unsafe {
            let library = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
            if !library.is_null() {
                std::hint::black_box(libc::dlsym(library, c"ns_initparse".as_ptr()));
                libc::dlclose(library);
            }
        }
    }
}

fn panic() {
    fn at_depth(depth: u32) -> u32 {
        let kept = std::hint::black_box(vec![depth]);
        if depth == 0 {
            std::panic::panic_any(7_u32);
        }
        at_depth(depth - 1) + kept[0]
    }
    let caught = std::panic::catch_unwind(|| at_depth(10)).unwrap_err();
    assert_eq!(caught.downcast_ref::<u32>(), Some(&7));
}

/// The smallest stacks that the C library gives, without an alternate one: the kernel's frame goes on top of what is in
/// use.
fn small_stacks() {
    extern "C" fn body(_: *mut c_void) -> *mut c_void {
        spin(120_000);
        null_mut()
    }
    // SAFETY: the attributes are initialized before they are used, and the threads are joined.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        assert_eq!(libc::pthread_attr_init(&raw mut attributes), 0);
        assert_eq!(libc::pthread_attr_setstacksize(&raw mut attributes, libc::PTHREAD_STACK_MIN), 0);
        let mut threads: [libc::pthread_t; 2] = std::mem::zeroed();
        for thread in &mut threads {
            assert_eq!(libc::pthread_create(thread, &raw const attributes, body, null_mut()), 0);
        }
        for thread in threads {
            assert_eq!(libc::pthread_join(thread, null_mut()), 0);
        }
        libc::pthread_attr_destroy(&raw mut attributes);
    }
}
