//! Publishes the process's service name and resource attributes for readers outside: OpenTelemetry's process context.
//!
//! ```text
//! mapping "OTEL_CTX"   "OTEL_CTX" | version 2 (u32) | bytes of payload (u32) | when published (u64) | address of payload (u64) | payload
//! payload              ProcessContext { resource: Resource { attributes: KeyValue { key, AnyValue { string } }* } }, protobuf
//! ```
//! The signature is written last, so that whoever finds it finds a whole mapping. Source: OTEP 4719.

use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};

const NAME: &CStr = c"OTEL_CTX";
const SIGNATURE: &[u8; 8] = b"OTEL_CTX";
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 32;
/// Largest payload, in bytes; attributes beyond it are left out.
const PAYLOAD_BYTES_MAX: usize = 16 << 10;
/// `PR_SET_VMA` and `PR_SET_VMA_ANON_NAME` of Linux.
const PR_SET_VMA: libc::c_int = 0x5356_4d41;
const PR_SET_VMA_ANON_NAME: libc::c_ulong = 0;

/// A published context; it is withdrawn when it is dropped.
#[derive(Debug)]
pub(crate) struct Published {
    address: NonNull<u8>,
    bytes: usize,
    /// The process that has published it; one that was forked from it does not have the mapping.
    pid: u32,
}

// SAFETY: the mapping is written before the value is made, and only unmapped by its drop.
unsafe impl Send for Published {}
// SAFETY: as above; nothing is read or written through a shared reference.
unsafe impl Sync for Published {}

/// Publishes the service name and the attributes of `OTEL_RESOURCE_ATTRIBUTES`; `None` where there is nothing to
/// publish, where a library of OpenTelemetry has published them already, and where the system permits no such mapping.
pub(crate) fn publish(service_name: Option<&str>) -> Option<Published> {
    let variable = |name| std::env::var(name).ok();
    let (named, attributes) = (variable("OTEL_SERVICE_NAME"), variable("OTEL_RESOURCE_ATTRIBUTES"));
    let attributes = chosen(service_name, named.as_deref(), attributes.as_deref().unwrap_or_default());
    if attributes.is_empty() || is_published() {
        return None;
    }
    Published::new(&payload(&attributes))
}

/// Attributes of the environment, and the service name: as configured, else `OTEL_SERVICE_NAME`, else that among them.
fn chosen(service_name: Option<&str>, named: Option<&str>, attributes: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=')?;
        let (key, value) = (key.trim(), decoded(value.trim()));
        (!key.is_empty() && !value.is_empty()).then(|| (key.to_owned(), value))
    };
    let mut found: Vec<(String, String)> = Vec::new();
    for (key, value) in attributes.split(',').filter_map(pair) {
        if found.iter().all(|(known, _)| *known != key) {
            found.push((key, value));
        }
    }
    if let Some(name) = service_name.or(named).filter(|name| !name.is_empty()) {
        found.retain(|(key, _)| key != "service.name");
        found.insert(0, ("service.name".to_owned(), name.to_owned()));
    }
    found
}

/// A text without percent encoding; as it is if that is broken.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let hex = part.get(..2).filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let hex = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match hex {
            Some(byte) => {
                bytes.push(byte);
                bytes.extend_from_slice(&part.as_bytes()[2..]);
            }
            None => return text.to_owned(),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn payload(attributes: &[(String, String)]) -> Vec<u8> {
    let mut resource = Vec::new();
    for (key, value) in attributes {
        let any_value = field(1, value.as_bytes());
        let attribute = field(1, &[field(1, key.as_bytes()), field(2, &any_value)].concat());
        if resource.len() + attribute.len() <= PAYLOAD_BYTES_MAX {
            resource.extend_from_slice(&attribute);
        }
    }
    field(1, &resource)
}

/// A field of a protobuf message with bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(content);
    bytes
}

/// Whether this process has a context: there is to be one alone.
fn is_published() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let names = ["/memfd:OTEL_CTX", "[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]"];
    maps.lines().any(|line| names.iter().any(|name| line.contains(name)))
}

impl Published {
    fn new(payload: &[u8]) -> Option<Self> {
        let bytes = HEADER_BYTES + payload.len();
        let address = map(bytes)?;
        let published = Self { address, bytes, pid: std::process::id() };
        // SAFETY: the mapping is of this many bytes.
        if unsafe { libc::madvise(address.as_ptr().cast(), bytes, libc::MADV_DONTFORK) } != 0 {
            return None;
        }
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is written to a value of this function.
        unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
        let now = (time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64).max(1);
        let behind = address.as_ptr().wrapping_add(HEADER_BYTES) as u64;
        let mut content = Vec::with_capacity(bytes);
        content.extend_from_slice(&[0; 8]);
        content.extend_from_slice(&VERSION.to_ne_bytes());
        content.extend_from_slice(&(payload.len() as u32).to_ne_bytes());
        content.extend_from_slice(&now.to_ne_bytes());
        content.extend_from_slice(&behind.to_ne_bytes());
        content.extend_from_slice(payload);
        // SAFETY: the mapping has this many bytes, and nothing else of this process refers to it.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), address.as_ptr(), content.len()) };
        fence(Ordering::SeqCst);
        // SAFETY: as above; a mapping begins at a multiple of 8.
        unsafe { address.as_ptr().cast::<u64>().write_volatile(u64::from_ne_bytes(*SIGNATURE)) };
        // SAFETY: the kernel copies the name; where it names no mappings, the file has that name.
        unsafe { libc::prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, address.as_ptr(), bytes, NAME.as_ptr()) };
        Some(published)
    }
}

/// New memory in a file without a name in any folder; anonymous where that is not permitted.
fn map(bytes: usize) -> Option<NonNull<u8>> {
    // By number: glibc has the function since 2.27 only.
    // SAFETY: the name ends with a NUL.
    let file = unsafe { libc::syscall(libc::SYS_memfd_create, NAME.as_ptr(), libc::MFD_CLOEXEC) } as libc::c_int;
    // SAFETY: the descriptor is this function's own.
    let is_file = file >= 0 && unsafe { libc::syscall(libc::SYS_ftruncate, file, bytes) } == 0;
    let (flags, descriptor) =
        if is_file { (libc::MAP_PRIVATE, file) } else { (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1) };
    // SAFETY: a new mapping at an address of the kernel's choice changes no other memory.
    let address =
        unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, descriptor, 0) };
    if file >= 0 {
        // SAFETY: the descriptor is this function's own; the mapping stays.
        unsafe { libc::close(file) };
    }
    if address == libc::MAP_FAILED { None } else { NonNull::new(address.cast()) }
}

impl Drop for Published {
    fn drop(&mut self) {
        // In a process that was forked the address may be of something else.
        if std::process::id() == self.pid {
            // SAFETY: the mapping is this value's own, and nothing else of this process refers to it.
            unsafe { libc::munmap(self.address.as_ptr().cast(), self.bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_is_configured_wins() {
        let of = |service: Option<&str>, named: Option<&str>, attributes: &str| {
            let found = chosen(service, named, attributes);
            found.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(None, None, ""), "");
        assert_eq!(
            of(Some("a"), Some("b"), "service.name=c, x = y%20z ,x=2,=3,w=,v=%+f"),
            "service.name=a x=y z v=%+f"
        );
        assert_eq!(of(None, Some("b"), "x=%,service.name=c"), "service.name=b x=%");
        assert_eq!(of(None, Some(""), "service.name=c"), "service.name=c");
    }

    #[test]
    fn a_payload_is_bounded_and_its_lengths_are_varints() {
        let attribute = |key: &str, bytes: usize| (key.to_owned(), "v".repeat(bytes));
        let bytes = payload(&[attribute("a", 200), attribute("long", PAYLOAD_BYTES_MAX), attribute("b", 1)]);
        let value = "v".repeat(200);
        let long = [&[10, 0xd1, 1, 10, 1, b'a', 18, 0xcb, 1, 10, 0xc8, 1], value.as_bytes()].concat();
        let short = [10, 8, 10, 1, b'b', 18, 3, 10, 1, b'v'];
        assert_eq!(bytes, [&[10, 0xde, 1], &*long, &short].concat());
    }
}
