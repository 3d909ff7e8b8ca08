//! Why a thread does not run, as far as the system call tells in which it waits.

/// Why a thread does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub(crate) enum Reason {
    /// It could run, but another thread has its CPU.
    Preempted,
    /// Waits that are too short to be told apart, of threads that could run.
    ShortPreempted,
    /// The same of threads that waited.
    ShortBlocked,
    /// A lock or a condition.
    Futex,
    /// A time.
    Sleep,
    /// One of several inputs or outputs.
    Poll,
    /// Input or output in a call: of a pipe, a socket, a terminal, a file.
    Io,
    /// A device with a file system: the kernel counts it as waiting for I/O.
    Disk,
    /// Another process.
    Child,
    /// A signal.
    Signal,
    /// Memory, or something else that the thread did not call for.
    Fault,
    /// Any other system call.
    Other,
    /// Work, of a thread of the kernel.
    Kernel,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 13] = [
        Self::Preempted,
        Self::ShortPreempted,
        Self::ShortBlocked,
        Self::Futex,
        Self::Sleep,
        Self::Poll,
        Self::Io,
        Self::Disk,
        Self::Child,
        Self::Signal,
        Self::Fault,
        Self::Other,
        Self::Kernel,
    ];

    /// What a thread waits for in a system call; -1 is none.
    pub(crate) fn of_call(number: libc::c_long) -> Self {
        let otherwise = if number < 0 { Self::Fault } else { Self::Other };
        CALLS.iter().find(|(call, _)| *call == number).map_or(otherwise, |(_, reason)| *reason)
    }

    /// The value of the label `reason`; `None` where there is nothing to tell besides the state.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Self::Preempted | Self::ShortPreempted | Self::ShortBlocked => None,
            Self::Futex => Some("futex"),
            Self::Sleep => Some("sleep"),
            Self::Poll => Some("poll"),
            Self::Io => Some("i/o"),
            Self::Disk => Some("disk"),
            Self::Child => Some("child"),
            Self::Signal => Some("signal"),
            Self::Fault => Some("fault"),
            Self::Other => Some("other"),
            Self::Kernel => Some("kernel"),
        }
    }

    /// Whether a thread with this reason could run.
    pub(crate) fn is_preempted(self) -> bool {
        matches!(self, Self::Preempted | Self::ShortPreempted)
    }

    /// Whether these waits are shorter than the least duration.
    pub(crate) fn is_short(self) -> bool {
        matches!(self, Self::ShortPreempted | Self::ShortBlocked)
    }
}

/// System calls and what a thread waits for in them; all others are [`Reason::Other`].
const CALLS: &[(libc::c_long, Reason)] = &[
    (libc::SYS_futex, Reason::Futex),
    (libc::SYS_futex_waitv, Reason::Futex),
    (FUTEX_WAIT, Reason::Futex),
    (libc::SYS_nanosleep, Reason::Sleep),
    (libc::SYS_clock_nanosleep, Reason::Sleep),
    (libc::SYS_ppoll, Reason::Poll),
    (libc::SYS_pselect6, Reason::Poll),
    (libc::SYS_epoll_pwait, Reason::Poll),
    (libc::SYS_epoll_pwait2, Reason::Poll),
    (libc::SYS_io_getevents, Reason::Poll),
    (libc::SYS_io_uring_enter, Reason::Poll),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, Reason::Poll),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, Reason::Poll),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, Reason::Poll),
    (libc::SYS_read, Reason::Io),
    (libc::SYS_readv, Reason::Io),
    (libc::SYS_pread64, Reason::Io),
    (libc::SYS_preadv, Reason::Io),
    (libc::SYS_preadv2, Reason::Io),
    (libc::SYS_write, Reason::Io),
    (libc::SYS_writev, Reason::Io),
    (libc::SYS_pwrite64, Reason::Io),
    (libc::SYS_pwritev, Reason::Io),
    (libc::SYS_pwritev2, Reason::Io),
    (libc::SYS_sendfile, Reason::Io),
    (libc::SYS_splice, Reason::Io),
    (libc::SYS_copy_file_range, Reason::Io),
    (libc::SYS_recvfrom, Reason::Io),
    (libc::SYS_recvmsg, Reason::Io),
    (libc::SYS_recvmmsg, Reason::Io),
    (libc::SYS_sendto, Reason::Io),
    (libc::SYS_sendmsg, Reason::Io),
    (libc::SYS_sendmmsg, Reason::Io),
    (libc::SYS_accept, Reason::Io),
    (libc::SYS_accept4, Reason::Io),
    (libc::SYS_connect, Reason::Io),
    (libc::SYS_fsync, Reason::Disk),
    (libc::SYS_fdatasync, Reason::Disk),
    (libc::SYS_sync_file_range, Reason::Disk),
    (libc::SYS_syncfs, Reason::Disk),
    (libc::SYS_sync, Reason::Disk),
    (libc::SYS_msync, Reason::Disk),
    (libc::SYS_wait4, Reason::Child),
    (libc::SYS_waitid, Reason::Child),
    (libc::SYS_rt_sigtimedwait, Reason::Signal),
    (libc::SYS_rt_sigsuspend, Reason::Signal),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_pause, Reason::Signal),
];

/// futex_wait, which the libc crate does not have.
const FUTEX_WAIT: libc::c_long = 455;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_in_the_order_of_their_numbers() {
        for (number, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number);
        }
        assert!(CALLS.iter().all(|(call, _)| (0..512).contains(call)));
    }
}
