//! Where a thread waits, read from `/proc` while it does: for waits whose beginning no sample tells of.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// What a thread does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It runs, or could.
    Running,
    /// It waits in a call of the kernel.
    Waiting(Place),
    /// It waits, and this user may not know where; or it is gone.
    Unknown,
}

/// Where user code called the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) sp: u64,
    pub(crate) pc: u64,
    /// The first arguments of the call, in registers.
    pub(crate) arguments: Vec<u64>,
    /// The stack from its pointer on.
    pub(crate) stack: Vec<u8>,
}

/// Looks at a thread, with at most so many bytes of its stack. `/proc/PID/task/TID/syscall` is `running`, or the number
/// of the system call with its six arguments, or -1, and in both cases the stack pointer and the program counter.
pub(crate) fn look(pid: u32, tid: u32, stack_bytes: usize) -> Doing {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")) else { return state(pid, tid) };
    match parse(&text) {
        Some(Some(Call { sp, pc, arguments })) => {
            let mut stack = vec![0; stack_bytes];
            let memory = File::open(format!("/proc/{pid}/mem"));
            let length = memory.and_then(|memory| memory.read_at(&mut stack, sp)).unwrap_or(0);
            stack.truncate(length);
            Doing::Waiting(Place { sp, pc, arguments, stack })
        }
        Some(None) => Doing::Running,
        None => state(pid, tid),
    }
}

/// The number of the system call in which a thread waits, -1 for none; `None` if it runs, or this user may not know.
pub(crate) fn call(pid: u32, tid: u32) -> Option<libc::c_long> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// A call of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Call {
    sp: u64,
    pc: u64,
    arguments: Vec<u64>,
}

/// The call in which a thread waits; within, `None` if the thread runs.
fn parse(text: &str) -> Option<Option<Call>> {
    if text.trim() == "running" {
        return Some(None);
    }
    let number = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let mut numbers: Vec<u64> = text.split_ascii_whitespace().skip(1).map(number).collect::<Option<_>>()?;
    let (pc, sp) = (numbers.pop()?, numbers.pop()?);
    Some(Some(Call { sp, pc, arguments: numbers }))
}

/// What everyone may know: the letter behind the name in `/proc/PID/task/TID/stat`.
fn state(pid: u32, tid: u32) -> Doing {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    match text.rsplit_once(") ").is_some_and(|(_, behind)| behind.starts_with('R')) {
        true => Doing::Running,
        false => Doing::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_system_calls_are_read() {
        let futex = "202 0x7f 0x189 0x0 0x0 0x0 0xffffffff 0x7ffd10 0x7f8a21\n";
        let arguments = vec![0x7f, 0x189, 0, 0, 0, 0xffff_ffff];
        assert_eq!(parse(futex), Some(Some(Call { sp: 0x7f_fd10, pc: 0x7f_8a21, arguments })));
        assert_eq!(parse("-1 0x10 0x20\n"), Some(Some(Call { sp: 0x10, pc: 0x20, arguments: Vec::new() })));
        assert_eq!(parse("running\n"), Some(None));
        for wrong in ["", "1", "0x1", "7 8", "0xg 0x1", "0x1 0x11111111111111111"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_waiting_thread_is_seen_with_its_stack_and_a_running_one_as_such() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let (tell, tid) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            receiver.recv().unwrap_err();
        });
        let tid = tid.recv().unwrap();
        let own = std::process::id();
        // It may not have reached its wait yet.
        let place = loop {
            if let Doing::Waiting(place) = look(own, tid, 4096) {
                break place;
            }
            std::thread::yield_now();
        };
        assert!(place.pc != 0 && place.sp % 8 == 0 && place.stack.len() > 64, "{place:?}");
        drop(sender);
        waiting.join().unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let (tell, tid) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let stop = &stop;
            scope.spawn(move || {
                tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let tid = tid.recv().unwrap();
            while look(own, tid, 4096) != Doing::Running {}
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(look(own, u32::MAX, 4096), Doing::Unknown);
    }
}
