//! Memory of another process, read while that runs.

#![allow(unsafe_code)]

use std::io;

/// Ranges read at once; the kernel's limit is 1,024.
const RANGES_MAX: usize = 32;

/// Reads ranges of a process's memory one behind another into `into`, up to the first that can't be read; the number of
/// bytes. Ranges beyond the first 32 are left out.
pub(crate) fn read_memory(pid: u32, ranges: &[(u64, usize)], into: &mut [u8]) -> io::Result<usize> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let mut remote = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; RANGES_MAX];
    let mut count = 0;
    for (place, (address, length)) in remote.iter_mut().zip(ranges) {
        *place = libc::iovec { iov_base: *address as *mut libc::c_void, iov_len: *length };
        count += 1;
    }
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: the kernel writes at most `into.len()` bytes to `into`, and reads only the other process's memory at the
    // remote addresses; `count` of `remote` are filled.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), count, 0) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}
