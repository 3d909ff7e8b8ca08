//! Memory that is reserved at once and takes room only where something was written to it.

#![allow(unsafe_code)]

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Zeros, until something is written to them; pages that were not written take no memory, also when they are read.
#[derive(Debug)]
pub(crate) struct ReservedMemory {
    address: NonNull<u8>,
    length: usize,
}

impl ReservedMemory {
    /// Reserves so many bytes, at least one.
    pub(crate) fn new(length: usize) -> io::Result<Self> {
        let length = length.max(1);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let address = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A huge page would take room for all its bytes when one of them is written. Kernels without them answer with an
        // error.
        // SAFETY: the mapping made above.
        unsafe { libc::madvise(address, length, libc::MADV_NOHUGEPAGE) };
        let address = NonNull::new(address.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { address, length })
    }
}

impl Deref for ReservedMemory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has so many bytes, all of them initialized to zero, and changes through `&mut self` alone.
        unsafe { std::slice::from_raw_parts(self.address.as_ptr(), self.length) }
    }
}

impl DerefMut for ReservedMemory {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; nothing else refers to the mapping.
        unsafe { std::slice::from_raw_parts_mut(self.address.as_ptr(), self.length) }
    }
}

// SAFETY: the mapping belongs to this value alone, so any thread may use it.
unsafe impl Send for ReservedMemory {}
// SAFETY: it changes through `&mut self` alone.
unsafe impl Sync for ReservedMemory {}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing refers to it any more.
        unsafe {
            libc::munmap(self.address.as_ptr().cast(), self.length);
        }
    }
}
