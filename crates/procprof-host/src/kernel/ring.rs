//! The ring buffer that the kernel writes the records of one CPU to.
//!
//! The first page has the two ends as counters that only grow: `data_head`, up to which the kernel has written, and
//! `data_tail`, up to which we have read. The kernel never writes to what is between them. While the thread that reads
//! records is busy with one of them, another thread moves those behind it to memory, so that none is lost.

#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::HashSet;
use perf_event_open_sys::bindings::perf_event_mmap_page;
use procprof_profile::perf_event::{Header, Layout, Record, Subject};

use super::Event;

/// Most bytes of records that are kept in memory while the reader is busy, of all buffers that share a [`Backlog`].
pub(crate) const BACKLOG_BYTES_MAX: usize = 16 << 20;

/// Bytes of records that are kept in memory, of several buffers.
pub(crate) type Backlog = Arc<AtomicUsize>;

/// A ring buffer, from which records are taken one by one.
#[derive(Debug)]
pub(crate) struct Ring {
    mapped: Arc<Mutex<MappedRing>>,
    /// The next record, if it was taken out of the buffer.
    next: Option<Next>,
    record: Vec<u8>,
}

/// A mapped ring buffer, and the records that were moved out of it.
#[derive(Debug)]
pub(crate) struct MappedRing {
    page: NonNull<perf_event_mmap_page>,
    mapped_bytes: usize,
    data: NonNull<u8>,
    data_bytes: usize,
    /// Up to here the records are read.
    tail: u64,
    /// Up to here records may be read.
    head: u64,
    /// Records before those of the buffer, read up to `moved_at`.
    moved: Vec<u8>,
    moved_at: usize,
    backlog: Backlog,
    /// Records of these are passed over, unread.
    passed_over: HashSet<Subject>,
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
    pub(crate) fn map(event: &Event, bytes: usize, backlog: Backlog) -> io::Result<Self> {
        let mapped = Arc::new(Mutex::new(MappedRing::map(event, bytes, backlog)?));
        Ok(Self { mapped, next: None, record: Vec::new() })
    }

    /// The buffer, for a thread that empties it while this one is busy.
    pub(crate) fn mapped(&self) -> Arc<Mutex<MappedRing>> {
        Arc::clone(&self.mapped)
    }

    /// Passes records of these over from now on, and no others.
    pub(crate) fn pass_over(&mut self, subjects: &HashSet<Subject>) {
        locked(&self.mapped).passed_over.clone_from(subjects);
    }

    /// Takes notice of what the kernel has written since the last call.
    pub(crate) fn refresh(&mut self) {
        locked(&self.mapped).refresh();
    }

    /// The next record's header and time; `None` if all have been read.
    pub(crate) fn next(&mut self, layout: &Layout) -> Option<Next> {
        if self.next.is_none() {
            let header = locked(&self.mapped).take_record(&mut self.record)?;
            let time = Record::time(header, self.body(), layout).unwrap_or(0);
            self.next = Some(Next { header, time });
        }
        self.next
    }

    /// The body of the next record.
    pub(crate) fn body(&self) -> &[u8] {
        self.record.get(Header::SIZE..).unwrap_or_default()
    }

    /// Goes on behind the next record.
    pub(crate) fn skip(&mut self) {
        self.next = None;
    }
}

/// A buffer, whatever has happened to another thread that used it: it is changed as a whole or not at all.
pub(crate) fn locked(ring: &Mutex<MappedRing>) -> MutexGuard<'_, MappedRing> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MappedRing {
    fn map(event: &Event, bytes: usize, backlog: Backlog) -> io::Result<Self> {
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
        let (moved, moved_at, passed_over) = (Vec::new(), 0, HashSet::default());
        Ok(Self {
            page,
            mapped_bytes,
            data,
            data_bytes: bytes,
            tail: 0,
            head: 0,
            moved,
            moved_at,
            backlog,
            passed_over,
        })
    }

    fn counter(&self, field: *mut u64) -> &AtomicU64 {
        debug_assert!(field.is_aligned());
        // SAFETY: a field of the mapped page, aligned, that the kernel and we only access atomically.
        unsafe { AtomicU64::from_ptr(field) }
    }

    fn refresh(&mut self) {
        // SAFETY: the page is mapped for as long as `self` lives; no reference to the field is made.
        let head = unsafe { &raw mut (*self.page.as_ptr()).data_head };
        self.head = self.counter(head).load(Ordering::Acquire);
    }

    /// Gives what was read back to the kernel.
    fn release(&mut self) {
        // SAFETY: as in `refresh`.
        let tail = unsafe { &raw mut (*self.page.as_ptr()).data_tail };
        self.counter(tail).store(self.tail, Ordering::Release);
    }

    /// Replaces `record` by the next record; its header.
    fn take_record(&mut self, record: &mut Vec<u8>) -> Option<Header> {
        record.clear();
        if let Some(rest) = self.moved.get(self.moved_at..).filter(|rest| !rest.is_empty()) {
            // Only whole records are moved.
            let header = Header::parse(rest.get(..Header::SIZE)?)?;
            record.extend_from_slice(rest.get(..usize::from(header.size))?);
            self.moved_at += usize::from(header.size);
            if self.moved_at >= self.moved.len() {
                self.backlog.fetch_sub(self.moved.len(), Ordering::Relaxed);
                (self.moved, self.moved_at) = (Vec::new(), 0);
            }
            return Some(header);
        }
        let header = self.header()?;
        self.copy(usize::from(header.size), record);
        self.tail = self.tail.wrapping_add(u64::from(header.size));
        self.release();
        Some(header)
    }

    /// Moves what the kernel has written to memory, as far as there is room, so that it can write more.
    pub(crate) fn make_room(&mut self) {
        self.refresh();
        while let Some(header) = self.header() {
            let size = usize::from(header.size);
            if self.backlog.fetch_add(size, Ordering::Relaxed) + size > BACKLOG_BYTES_MAX {
                self.backlog.fetch_sub(size, Ordering::Relaxed);
                break;
            }
            let mut moved = std::mem::take(&mut self.moved);
            self.copy(size, &mut moved);
            self.moved = moved;
            self.tail = self.tail.wrapping_add(size as u64);
        }
        self.release();
    }

    /// The header of the next record in the buffer, behind those that are passed over.
    fn header(&mut self) -> Option<Header> {
        const SUBJECT_END: usize = Header::SIZE + Header::SUBJECT;
        let begun = self.tail;
        loop {
            let unread = self.head.wrapping_sub(self.tail);
            if unread < Header::SIZE as u64 {
                break;
            }
            let mut bytes = [0; SUBJECT_END];
            let known = SUBJECT_END.min(unread as usize);
            self.peek(&mut bytes[..known]);
            let Some(header) = Header::parse(&bytes).filter(|header| u64::from(header.size) <= unread) else {
                // Not what a kernel writes; what is behind it can't be found.
                self.tail = self.head;
                break;
            };
            let body = bytes.last_chunk().filter(|_| usize::from(header.size) >= SUBJECT_END);
            let subject = body.and_then(|body| header.subject(body));
            if !subject.is_some_and(|subject| self.passed_over.contains(&subject)) {
                return Some(header);
            }
            self.tail = self.tail.wrapping_add(u64::from(header.size));
        }
        if self.tail != begun {
            self.release();
        }
        None
    }

    /// Copies what is behind the tail, at most up to the head.
    fn peek(&self, into: &mut [u8]) {
        let start = (self.tail % self.data_bytes as u64) as usize;
        let first = into.len().min(self.data_bytes - start);
        let (before_end, from_start) = into.split_at_mut(first);
        for (place, part) in [(start, before_end), (0, from_start)] {
            // SAFETY: inside the buffer, and between tail and head, where the kernel does not write until `release`
            // moves the tail; `part` is ours.
            unsafe { std::ptr::copy_nonoverlapping(self.data.as_ptr().add(place), part.as_mut_ptr(), part.len()) };
        }
    }

    /// Appends so many bytes from the tail on, at most up to the head.
    fn copy(&self, length: usize, into: &mut Vec<u8>) {
        let start = (self.tail % self.data_bytes as u64) as usize;
        let first = length.min(self.data_bytes - start);
        // SAFETY: inside the buffer, and between tail and head, where the kernel does not write until `release` moves
        // the tail.
        into.extend_from_slice(unsafe { std::slice::from_raw_parts(self.data.as_ptr().add(start), first) });
        // SAFETY: as above; the rest is at the beginning of the buffer.
        into.extend_from_slice(unsafe { std::slice::from_raw_parts(self.data.as_ptr(), length - first) });
    }
}

// SAFETY: the mapping belongs to the process and to this ring alone, so any thread may read it, one at a time (`&mut`).
unsafe impl Send for MappedRing {}

impl Drop for MappedRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's, and nothing refers to it any more.
        unsafe {
            libc::munmap(self.page.as_ptr().cast(), self.mapped_bytes);
        }
    }
}
