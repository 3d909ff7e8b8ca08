//! The ring buffer that the kernel writes the records of one CPU to.
//!
//! The first page has the two ends as counters that only grow: `data_head`, up to which the kernel has written, and
//! `data_tail`, up to which we have read. The kernel never writes to what is between them.

#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;
use procprof_profile::perf_event::{Header, Layout, Record};

use super::Event;

/// A mapped ring buffer.
#[derive(Debug)]
pub(crate) struct Ring {
    page: NonNull<perf_event_mmap_page>,
    mapped_bytes: usize,
    data: NonNull<u8>,
    data_bytes: usize,
    /// Up to here the records are read, and behind it they are not yet given back.
    tail: u64,
    /// Up to here records may be read.
    head: u64,
    /// A record that reaches over the end of the buffer, in one piece.
    joined: Vec<u8>,
}

/// The next record of a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Next {
    pub(crate) header: Header,
    /// The time of the record; 0 if it has none.
    pub(crate) time: u64,
}

impl Ring {
    /// Maps a buffer of that many bytes, a power of two of at least a page, for an event.
    pub(crate) fn map(event: &Event, bytes: usize) -> io::Result<Self> {
        let page_bytes = rustix::param::page_size();
        let mapped_bytes = page_bytes + bytes;
        // SAFETY: a new mapping at an address that the kernel chooses, of a descriptor of an event.
        let address = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), mapped_bytes, access, libc::MAP_SHARED, event.descriptor(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = NonNull::new(address.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: the buffer begins behind the first page, inside the mapping.
        let data = unsafe { page.cast::<u8>().add(page_bytes) };
        Ok(Self { page, mapped_bytes, data, data_bytes: bytes, tail: 0, head: 0, joined: Vec::new() })
    }

    fn counter(&self, field: *mut u64) -> &AtomicU64 {
        debug_assert!(field.is_aligned());
        // SAFETY: a field of the mapped page, aligned, that the kernel and we only access atomically.
        unsafe { AtomicU64::from_ptr(field) }
    }

    /// Takes notice of what the kernel has written since the last call.
    pub(crate) fn refresh(&mut self) {
        // SAFETY: the page is mapped for as long as `self` lives; no reference to the field is made.
        let head = unsafe { &raw mut (*self.page.as_ptr()).data_head };
        self.head = self.counter(head).load(Ordering::Acquire);
    }

    /// Gives what was read back to the kernel.
    pub(crate) fn release(&mut self) {
        // SAFETY: as in `refresh`.
        let tail = unsafe { &raw mut (*self.page.as_ptr()).data_tail };
        self.counter(tail).store(self.tail, Ordering::Release);
    }

    /// The next record's header and time; `None` if all have been read.
    pub(crate) fn next(&mut self, layout: &Layout) -> Option<Next> {
        let unread = self.head.wrapping_sub(self.tail);
        if unread < Header::SIZE as u64 {
            return None;
        }
        let header =
            Header::parse(self.bytes(self.tail, Header::SIZE)).filter(|header| u64::from(header.size) <= unread);
        let Some(header) = header else {
            // Not what a kernel writes; what is behind it can't be found.
            self.tail = self.head;
            return None;
        };
        let time = Record::time(header, self.body(header), layout).unwrap_or(0);
        Some(Next { header, time })
    }

    /// The body of the next record, whose header this is.
    pub(crate) fn body(&mut self, header: Header) -> &[u8] {
        let place = self.tail.wrapping_add(Header::SIZE as u64);
        self.bytes(place, usize::from(header.size) - Header::SIZE)
    }

    /// Goes on behind the next record.
    pub(crate) fn skip(&mut self, header: Header) {
        self.tail = self.tail.wrapping_add(u64::from(header.size));
    }

    /// So many bytes from a place between tail and head on.
    fn bytes(&mut self, place: u64, length: usize) -> &[u8] {
        let start = (place % self.data_bytes as u64) as usize;
        let first = length.min(self.data_bytes - start);
        // SAFETY: inside the buffer, and between tail and head, where the kernel does not write until `release` moves
        // the tail, which takes `&mut self`.
        let whole = unsafe { std::slice::from_raw_parts(self.data.as_ptr().add(start), first) };
        if first == length {
            return whole;
        }
        self.joined.clear();
        self.joined.extend_from_slice(whole);
        // SAFETY: as above; the rest is at the beginning of the buffer.
        self.joined.extend_from_slice(unsafe { std::slice::from_raw_parts(self.data.as_ptr(), length - first) });
        &self.joined
    }
}

// SAFETY: the mapping belongs to the process and to this ring alone, so any thread may read it, one at a time (`&mut`).
unsafe impl Send for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's, and nothing refers to it any more.
        unsafe {
            libc::munmap(self.page.as_ptr().cast(), self.mapped_bytes);
        }
    }
}
