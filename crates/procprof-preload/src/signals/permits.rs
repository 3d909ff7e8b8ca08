//! How a filter of system calls treats those of the sampler, in the program's threads and in its own: its program is
//! run for each.
//!
//! A filter is a program of the classic Berkeley packet filter over
//! [`seccomp_data`](https://man7.org/linux/man-pages/man2/seccomp.2.html), whose result is the action for the call.

use libc::{c_int, c_long, sock_filter, sock_fprog};
use procprof_agent::is_readable;

/// A call, as a filter sees it: `struct seccomp_data` in words of 32 bits, on a little-endian machine.
type Call = [u32; 16];

/// Instructions that one run takes at most: programs have no loops, and the kernel takes none that are longer.
const STEPS_MAX: usize = 4096;

/// Words of a program's memory.
const MEMORY: usize = 16;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Some address: filters can't look at what is there.
const SOMEWHERE: u64 = 0x7f00_0000_0000;

/// System calls that taking a sample and compiling tables may make, with their arguments.
fn calls() -> [(c_long, [u64; 6]); 17] {
    let file = libc::AT_FDCWD as u64;
    let (private, readable) = ((libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64, libc::PROT_READ as u64);
    let writable = readable | libc::PROT_WRITE as u64;
    [
        (libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as u64, SOMEWHERE, SOMEWHERE, 8, 0, 0]),
        (libc::SYS_mmap, [0, 1 << 18, writable, private, u64::MAX, 0]),
        (libc::SYS_mmap, [0, 1 << 18, writable, private | libc::MAP_NORESERVE as u64, u64::MAX, 0]),
        (libc::SYS_mmap, [0, 1 << 18, readable, libc::MAP_PRIVATE as u64, 9, 0]),
        (libc::SYS_munmap, [SOMEWHERE, 1 << 18, 0, 0, 0, 0]),
        (libc::SYS_mprotect, [SOMEWHERE, 1 << 16, libc::PROT_NONE as u64, 0, 0, 0]),
        (libc::SYS_mprotect, [SOMEWHERE, 1 << 16, writable, 0, 0, 0]),
        (libc::SYS_madvise, [SOMEWHERE, 1 << 12, libc::MADV_WIPEONFORK as u64, 0, 0, 0]),
        (libc::SYS_openat, [file, SOMEWHERE, (libc::O_RDONLY | libc::O_CLOEXEC) as u64, 0, 0, 0]),
        (libc::SYS_read, [9, SOMEWHERE, 1 << 12, 0, 0, 0]),
        (libc::SYS_pread64, [9, SOMEWHERE, 1 << 12, 0, 0, 0]),
        (libc::SYS_close, [9, 0, 0, 0, 0, 0]),
        (libc::SYS_statx, [9, SOMEWHERE, libc::AT_EMPTY_PATH as u64, libc::STATX_ALL.into(), SOMEWHERE, 0]),
        (libc::SYS_newfstatat, [file, SOMEWHERE, SOMEWHERE, 0, 0, 0]),
        (libc::SYS_prlimit64, [0, libc::RLIMIT_STACK as u64, 0, SOMEWHERE, 0, 0]),
        (libc::SYS_sched_yield, [0; 6]),
        (libc::SYS_clock_nanosleep, [libc::CLOCK_MONOTONIC as u64, 0, SOMEWHERE, SOMEWHERE, 0, 0]),
    ]
}

/// Further calls of our threads, to listen and to capture; their arguments vary.
const CALLS_OF_OUR_THREADS: [c_long; 43] = [
    libc::SYS_write,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_dup,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_ppoll,
    libc::SYS_rseq,
    libc::SYS_socket,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_connect,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_setsockopt,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_tgkill,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_delete,
    libc::SYS_perf_event_open,
    libc::SYS_process_vm_readv,
    libc::SYS_prctl,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_unshare,
    libc::SYS_close_range,
    libc::SYS_sched_getaffinity,
];

/// The sampler's calls that a filter of the program permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Permits {
    /// A thread of the program's lives on whatever is called in it: the calls are made, or fail.
    pub(super) hooks: bool,
    /// So does each thread of ours.
    pub(super) threads: bool,
}

impl Permits {
    /// The calls that `filter` permits; all if the kernel would not accept it, so that nothing is loaded.
    pub(super) fn from_filter(filter: *const sock_fprog) -> Self {
        let Some(program) = program_at(filter as u64) else { return Self { hooks: true, threads: true } };
        let is_harmless =
            |number: c_long, arguments: &[u64; 6]| is_harmless(result_of(&program, &call(number, arguments)));
        let is_made = |number: c_long| is_allowed(result_of(&program, &call(number, &[0; 6])));
        let hooks = calls().iter().all(|(number, arguments)| is_harmless(*number, arguments));
        // The C library ends the process where a new thread cannot register its restartable sequences.
        let can_start = is_made(libc::SYS_rseq) || !(is_made(libc::SYS_clone) || is_made(libc::SYS_clone3));
        let threads = can_start && hooks && CALLS_OF_OUR_THREADS.iter().all(|number| is_harmless(*number, &[0; 6]));
        Self { hooks, threads }
    }
}

/// The program that a filter's head points to; `None` where no such memory is.
fn program_at(address: u64) -> Option<Vec<sock_filter>> {
    let mut head = [0; size_of::<sock_fprog>()];
    copy(address, &mut head)?;
    let length = usize::from(u16::from_ne_bytes([head[0], head[1]])).min(STEPS_MAX);
    let address = u64::from_ne_bytes(head[8..16].try_into().ok()?);
    let mut bytes = vec![0; length * size_of::<sock_filter>()];
    copy(address, &mut bytes)?;
    let word = |bytes: &[u8]| bytes.try_into().map(u32::from_ne_bytes).unwrap_or_default();
    let instruction = |bytes: &[u8]| sock_filter {
        code: u16::from_ne_bytes([bytes[0], bytes[1]]),
        jt: bytes[2],
        jf: bytes[3],
        k: word(&bytes[4..]),
    };
    Some(bytes.chunks_exact(size_of::<sock_filter>()).map(instruction).collect())
}

/// Copies the process's own memory where it is there. A filter that was there before may forbid all but what the
/// sampler calls anyway.
fn copy(address: u64, into: &mut [u8]) -> Option<()> {
    const PAGE: u64 = 4096;
    let end = address.checked_add(into.len() as u64)?;
    let mut pages = (address / PAGE * PAGE..end).step_by(PAGE as usize);
    // SAFETY: all pages of the source are there.
    pages
        .all(is_readable)
        .then(|| unsafe { std::ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), into.len()) })
}

fn call(number: c_long, arguments: &[u64; 6]) -> Call {
    let mut words = [0; 16];
    (words[0], words[1]) = (number as u32, ARCHITECTURE);
    let code = SOMEWHERE;
    for (at, value) in std::iter::once(&code).chain(arguments).enumerate() {
        (words[2 + 2 * at], words[3 + 2 * at]) = (*value as u32, (*value >> 32) as u32);
    }
    words
}

fn is_harmless(result: Option<u32>) -> bool {
    result.is_some_and(|result| {
        matches!(
            result & libc::SECCOMP_RET_ACTION_FULL,
            libc::SECCOMP_RET_ALLOW | libc::SECCOMP_RET_LOG | libc::SECCOMP_RET_ERRNO
        )
    })
}

fn is_allowed(result: Option<u32>) -> bool {
    result.is_some_and(|result| {
        matches!(result & libc::SECCOMP_RET_ACTION_FULL, libc::SECCOMP_RET_ALLOW | libc::SECCOMP_RET_LOG)
    })
}

/// The value that a program returns for a call; `None` for one that the kernel would not have taken.
fn result_of(program: &[sock_filter], call: &Call) -> Option<u32> {
    let (mut accumulator, mut index, mut memory) = (0_u32, 0_u32, [0_u32; MEMORY]);
    let mut at = 0_usize;
    for _ in 0..STEPS_MAX {
        let instruction = program.get(at)?;
        at += 1;
        let (code, k) = (u32::from(instruction.code), instruction.k);
        let operand = if code & libc::BPF_X != 0 { index } else { k };
        match code & 0x07 {
            LOAD | LOAD_INDEX => {
                let value = match code & 0xe0 {
                    0x00 => k,
                    0x20 => *call.get(k as usize / 4).filter(|_| k.is_multiple_of(4))?,
                    0x60 => *memory.get(k as usize)?,
                    0x80 => size_of::<Call>() as u32,
                    _ => return None,
                };
                *(if code & 0x07 == LOAD { &mut accumulator } else { &mut index }) = value;
            }
            0x02 => *memory.get_mut(k as usize)? = accumulator,
            0x03 => *memory.get_mut(k as usize)? = index,
            0x04 => accumulator = computed(code & 0xf0, accumulator, operand)?,
            0x05 => {
                let is_met = match code & 0xf0 {
                    0x00 => {
                        at = at.checked_add(k as usize)?;
                        continue;
                    }
                    0x10 => accumulator == operand,
                    0x20 => accumulator > operand,
                    0x30 => accumulator >= operand,
                    0x40 => accumulator & operand != 0,
                    _ => return None,
                };
                at += usize::from(if is_met { instruction.jt } else { instruction.jf });
            }
            0x06 => return Some(if code & 0x18 == 0x10 { accumulator } else { k }),
            _ if code & 0xf8 == 0 => index = accumulator,
            _ => accumulator = index,
        }
    }
    None
}

/// Classes of instructions that load.
const LOAD: u32 = 0x00;
const LOAD_INDEX: u32 = 0x01;

fn computed(operation: u32, accumulator: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        0x00 => accumulator.wrapping_add(operand),
        0x10 => accumulator.wrapping_sub(operand),
        0x20 => accumulator.wrapping_mul(operand),
        0x30 => accumulator.checked_div(operand)?,
        0x40 => accumulator | operand,
        0x50 => accumulator & operand,
        0x60 => accumulator.checked_shl(operand).unwrap_or(0),
        0x70 => accumulator.checked_shr(operand).unwrap_or(0),
        0x80 => accumulator.wrapping_neg(),
        0x90 => accumulator.checked_rem(operand)?,
        0xa0 => accumulator ^ operand,
        _ => return None,
    })
}

/// Filters for all threads at once.
pub(super) fn is_for_all(flags: u64) -> bool {
    flags & libc::SECCOMP_FILTER_FLAG_TSYNC != 0
}

/// Strict mode, in which a thread may read, write and end.
pub(super) fn is_strict(option: c_int, mode: u64) -> bool {
    option == libc::PR_SET_SECCOMP && mode == libc::SECCOMP_MODE_STRICT as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
        sock_filter { code, jt, jf, k }
    }

    const LOAD_NUMBER: sock_filter = instruction(0x20, 0, 0, 0);

    fn allows(program: &mut [sock_filter]) -> bool {
        let filter = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        Permits::from_filter(&raw const filter).hooks
    }

    #[test]
    fn what_allows_all_or_refuses_with_an_error_is_harmless() {
        assert!(allows(&mut [instruction(0x06, 0, 0, libc::SECCOMP_RET_ALLOW)]));
        assert!(allows(&mut [instruction(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | 1)]));
        for action in [
            libc::SECCOMP_RET_KILL_PROCESS,
            libc::SECCOMP_RET_KILL_THREAD,
            libc::SECCOMP_RET_TRAP,
            libc::SECCOMP_RET_TRACE,
        ] {
            assert!(!allows(&mut [instruction(0x06, 0, 0, action)]), "{action:x}");
        }
    }

    #[test]
    fn each_call_is_tried_by_its_number_and_its_arguments() {
        let kill = instruction(0x06, 0, 0, libc::SECCOMP_RET_KILL_PROCESS);
        let allow = instruction(0x06, 0, 0, libc::SECCOMP_RET_ALLOW);
        for (number, _) in calls() {
            let program = &mut [LOAD_NUMBER, instruction(0x15, 0, 1, number as u32), kill, allow];
            assert!(!allows(program), "{number}");
        }
        assert!(allows(&mut [LOAD_NUMBER, instruction(0x15, 0, 1, libc::SYS_execve as u32), kill, allow]));
        // No memory may be mapped executable: the third argument's low word is looked at.
        let looks = |forbidden: i32| {
            [
                LOAD_NUMBER,
                instruction(0x15, 0, 3, libc::SYS_mmap as u32),
                instruction(0x20, 0, 0, 32),
                instruction(0x45, 0, 1, forbidden as u32),
                kill,
                allow,
            ]
        };
        assert!(allows(&mut looks(libc::PROT_EXEC)));
        assert!(!allows(&mut looks(libc::PROT_WRITE)));
    }

    #[test]
    fn a_refused_call_is_harmless_but_for_those_by_which_a_thread_starts() {
        let refuse = instruction(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | 1);
        let allow = instruction(0x06, 0, 0, libc::SECCOMP_RET_ALLOW);
        let permits = |program: &mut [sock_filter]| {
            let filter = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
            Permits::from_filter(&raw const filter)
        };
        let refuses = |number: c_long| {
            let mut program = [LOAD_NUMBER, instruction(0x15, 0, 1, number as u32), refuse, allow];
            permits(&mut program)
        };
        assert_eq!(refuses(libc::SYS_socket), Permits { hooks: true, threads: true });
        assert_eq!(refuses(libc::SYS_rseq), Permits { hooks: true, threads: false });
        // Without `clone` there is no new thread.
        assert_eq!(permits(&mut [refuse]), Permits { hooks: true, threads: true });
    }

    #[test]
    fn a_head_that_is_nowhere_is_no_filter() {
        let nowhere = Permits { hooks: true, threads: true };
        assert_eq!(Permits::from_filter(std::ptr::null()), nowhere);
        let head = sock_fprog { len: 2, filter: std::ptr::dangling_mut() };
        assert_eq!(Permits::from_filter(&raw const head), nowhere);
    }

    #[test]
    fn programs_compute_and_keep_as_the_kernel_runs_them() {
        let run = |program: &[sock_filter]| result_of(program, &call(7, &[0x1_0000_0005, 0, 0, 0, 0, 0]));
        let end = instruction(0x16, 0, 0, 0);
        assert_eq!(run(&[instruction(0x20, 0, 0, 16), end]), Some(5));
        assert_eq!(run(&[instruction(0x20, 0, 0, 20), end]), Some(1));
        assert_eq!(run(&[instruction(0x20, 0, 0, 4), end]), Some(ARCHITECTURE));
        assert_eq!(run(&[instruction(0x80, 0, 0, 0), end]), Some(64));
        // 7 kept, 3 to the index, 7 - 3, shifted by 1.
        let kept = [
            LOAD_NUMBER,
            instruction(0x02, 0, 0, 1),
            instruction(0x01, 0, 0, 3),
            instruction(0x60, 0, 0, 1),
            instruction(0x1c, 0, 0, 0),
            instruction(0x64, 0, 0, 1),
            end,
        ];
        assert_eq!(run(&kept), Some(8));
        assert_eq!(run(&[instruction(0x05, 0, 0, 1), end, instruction(0x06, 0, 0, 9)]), Some(9));
        assert_eq!(run(&[instruction(0x05, 0, 0, u32::MAX)]), None);
        assert_eq!(run(&[instruction(0x34, 0, 0, 0), end]), None);
    }
}
