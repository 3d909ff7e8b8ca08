//! Whether memory of this process can be read, found out by the kernel and not by a fault.

/// Whether the eight bytes at an address can be read. Async-signal-safe; leaves its trace in `errno`.
///
/// The kernel copies a set of signals from there before it sees that what it is to do with it is nonsense. Any answer
/// but that one is none: a filter of system calls may have refused the call.
pub fn is_readable(address: u64) -> bool {
    const NO_SUCH_CHANGE: libc::c_int = -1;
    let nowhere = std::ptr::null_mut::<u64>();
    // SAFETY: changes nothing: the kernel refuses either the address or the change.
    unsafe {
        // Without a set (null) there is nothing to be done, and no error.
        let answer =
            libc::syscall(libc::SYS_rt_sigprocmask, NO_SUCH_CHANGE, address as *const u64, nowhere, size_of::<u64>());
        answer == -1 && *libc::__errno_location() == libc::EINVAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_memory_is_distinguished_from_unmapped() {
        let word = 7_u64;
        assert!(is_readable(&raw const word as u64));
        assert!(!is_readable(0) && !is_readable(8) && !is_readable(u64::MAX - 7));
    }
}
