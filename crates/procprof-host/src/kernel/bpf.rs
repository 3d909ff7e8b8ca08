//! The system call bpf(2): maps that user code has in its memory, too, and programs at tracepoints.

#![allow(unsafe_code)]

use std::ffi::c_long;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::Event;

const MAP_CREATE: c_long = 0;
const MAP_UPDATE_ELEM: c_long = 2;
const PROG_LOAD: c_long = 5;
const RAW_TRACEPOINT_OPEN: c_long = 17;

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_PERF_EVENT_ARRAY: u32 = 4;
const PROG_TYPE_TRACING: u32 = 26;
const ATTACH_TRACE_RAW_TP: u32 = 23;
/// `mmap` of the map gives its values.
const F_MMAPABLE: u32 = 1 << 10;

/// Bytes of what the kernel says about a program that it rejects.
const LOG_BYTES: usize = 1 << 20;
/// Of these, the last lines are kept.
const LOG_LINES: usize = 6;

/// The fields of `union bpf_attr` for maps.
#[repr(C)]
#[derive(Default)]
struct MapAttributes {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct ElementAttributes {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramAttributes {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

#[repr(C)]
#[derive(Default)]
struct TracepointAttributes {
    name: u64,
    prog_fd: u32,
    padding: u32,
}

/// A map with one value, which programs and we have in memory.
#[derive(Debug)]
pub(crate) struct SharedValue {
    descriptor: OwnedFd,
    memory: NonNull<u8>,
    bytes: usize,
}

/// A map from CPUs to events that programs write to.
#[derive(Debug)]
pub(crate) struct EventMap(OwnedFd);

/// A program at a tracepoint, until it is dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    _link: OwnedFd,
    _program: OwnedFd,
}

/// A program that the kernel does not load.
#[derive(Debug, thiserror::Error)]
#[error("{source}{log}")]
pub(crate) struct Rejected {
    pub(crate) source: io::Error,
    /// The last lines of what the kernel says, each behind a line break; empty if it says nothing.
    pub(crate) log: String,
}

impl SharedValue {
    /// Makes a map with a value of so many bytes, all zero.
    pub(crate) fn new(bytes: u32) -> io::Result<Self> {
        let attributes = MapAttributes {
            map_type: MAP_TYPE_ARRAY,
            key_size: 4,
            value_size: bytes,
            max_entries: 1,
            map_flags: F_MMAPABLE,
        };
        let descriptor = new_descriptor(MAP_CREATE, &attributes)?;
        let page = rustix::param::page_size();
        let bytes = (bytes as usize).next_multiple_of(page);
        // SAFETY: a new mapping at an address that the kernel chooses, of a descriptor of a map.
        let address = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, descriptor.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(address.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { descriptor, memory, bytes })
    }

    /// A word of the value, at an offset that must be a multiple of 4 inside of it.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.bytes, "a word within the value");
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned; programs and we access it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(offset).cast()) }
    }

    /// Two words of the value, at an offset that must be a multiple of 8 inside of it.
    pub(crate) fn double(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes, "a double word within the value");
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().add(offset).cast()) }
    }
}

// SAFETY: the memory is the value's own, and accessed atomically only.
unsafe impl Send for SharedValue {}
// SAFETY: as above.
unsafe impl Sync for SharedValue {}

impl AsFd for SharedValue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for SharedValue {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing refers to it any more.
        unsafe {
            libc::munmap(self.memory.as_ptr().cast(), self.bytes);
        }
    }
}

impl EventMap {
    /// Makes a map for CPUs with numbers below `cpus`.
    pub(crate) fn new(cpus: u32) -> io::Result<Self> {
        let attributes = MapAttributes {
            map_type: MAP_TYPE_PERF_EVENT_ARRAY,
            key_size: 4,
            value_size: 4,
            max_entries: cpus,
            ..MapAttributes::default()
        };
        new_descriptor(MAP_CREATE, &attributes).map(Self)
    }

    /// Lets programs on a CPU write to an event on it.
    pub(crate) fn set(&self, cpu: u32, event: &Event) -> io::Result<()> {
        let descriptor = event.descriptor();
        let attributes = ElementAttributes {
            map_fd: self.0.as_raw_fd() as u32,
            key: (&raw const cpu).addr() as u64,
            value: (&raw const descriptor).addr() as u64,
            ..ElementAttributes::default()
        };
        // SAFETY: the kernel reads four bytes each of `cpu` and `descriptor`, which live until the call returns.
        unsafe { bpf(MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }
}

impl AsFd for EventMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Loads a program for the tracepoint whose arguments a type of the kernel describes, and lets it run there.
pub(crate) fn attach(name: &str, code: &[[u8; 8]], tracepoint: u32) -> Result<Attached, Rejected> {
    let program = match load(name, code, tracepoint, &mut []) {
        Ok(program) => program,
        Err(source) => {
            // Once more, for the reason; without the log, programs load faster.
            let mut log = vec![0; LOG_BYTES];
            let again = load(name, code, tracepoint, &mut log);
            again.map_err(|_| Rejected { source, log: last_lines(&log) })?
        }
    };
    let attributes = TracepointAttributes { prog_fd: program.as_raw_fd() as u32, ..TracepointAttributes::default() };
    let link = new_descriptor(RAW_TRACEPOINT_OPEN, &attributes);
    let link = link.map_err(|source| Rejected { source, log: String::new() })?;
    Ok(Attached { _link: link, _program: program })
}

fn load(name: &str, code: &[[u8; 8]], tracepoint: u32, log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut prog_name = [0; 16];
    prog_name.iter_mut().zip(name.bytes()).take(15).for_each(|(place, byte)| *place = byte);
    let has_log = !log.is_empty();
    let attributes = ProgramAttributes {
        prog_type: PROG_TYPE_TRACING,
        insn_cnt: u32::try_from(code.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        insns: code.as_ptr().addr() as u64,
        license: c"GPL".as_ptr().addr() as u64,
        log_level: u32::from(has_log),
        log_size: u32::try_from(log.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        log_buf: if has_log { log.as_mut_ptr().addr() as u64 } else { 0 },
        prog_name,
        expected_attach_type: ATTACH_TRACE_RAW_TP,
        attach_btf_id: tracepoint,
        ..ProgramAttributes::default()
    };
    // The kernel reads the instructions and the licence, and writes at most so many bytes of the log; all of them live
    // until the call returns.
    new_descriptor(PROG_LOAD, &attributes)
}

/// The last lines of the kernel's reasons, without its statistics.
fn last_lines(log: &[u8]) -> String {
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter(|line| !line.starts_with("processed ") && !line.is_empty());
    let lines: Vec<&str> = lines.collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| format!("\n{line}")).collect()
}

fn new_descriptor<A>(command: c_long, attributes: &A) -> io::Result<OwnedFd> {
    // SAFETY: of the structs above that name memory, it lives until the call returns (see the callers).
    let descriptor = unsafe { bpf(command, attributes) }?;
    // SAFETY: a new descriptor that nothing else has; these commands return one, which the kernel closes on execution.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// # Safety
/// Memory that the attributes name must live until the call returns, as long as the command says, and be writable where
/// it writes.
unsafe fn bpf<A>(command: c_long, attributes: &A) -> io::Result<i32> {
    // SAFETY: the kernel reads as many bytes as it is told from `attributes`; the rest is as the caller promises.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<A>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_log_the_last_lines_are_kept() {
        let log = b"0: R1=ctx()\n1: (b7)\n2: x\n3: x\n4: x\n5: x\nR0 !read_ok\nprocessed 1 insns\n\0\0garbage";
        assert_eq!(last_lines(log), "\n1: (b7)\n2: x\n3: x\n4: x\n5: x\nR0 !read_ok");
        assert_eq!(last_lines(b"\0"), "");
    }
}
