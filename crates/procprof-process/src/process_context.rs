//! OpenTelemetry's process context: resource attributes that a process publishes in its memory for readers outside.
//!
//! ```text
//! /proc/PID/maps     7f2c8e000000-7f2c8e001000 rw-p 00000000 00:01 4242    /memfd:OTEL_CTX (deleted)
//! header, 32 bytes   "OTEL_CTX" | version 2 (u32) | bytes of payload (u32) | when published (u64, ns) | address of payload (u64)
//! payload            ProcessContext { resource: Resource { attributes: KeyValue* } = 1, attributes: KeyValue* = 2 }, protobuf
//! ```
//! All numbers are those of the machine. A publisher that changes the payload sets the time to 0 meanwhile, so a
//! payload is whole if the header is the same before and after it. Source: OTEP 4719, `process_context.proto` of
//! 1.11.0.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::maps::maps_of;
use crate::{Error, MappedRange, Pid, Result, procfs};

/// Begins the header.
const SIGNATURE: &[u8; 8] = b"OTEL_CTX";
/// The names of mappings with a header.
const NAMES: [&str; 3] = ["/memfd:OTEL_CTX", "[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]"];
const VERSION: u32 = 2;
const HEADER_BYTES: usize = 32;
/// Largest payload that is read, in bytes.
const PAYLOAD_BYTES_MAX: u32 = 64 << 10;
/// Attempts to read a payload that changes.
const ATTEMPTS: u32 = 3;
/// Most attributes; longest key and value, in bytes.
const ATTRIBUTES_MAX: usize = 64;
const KEY_BYTES_MAX: usize = 128;
const VALUE_BYTES_MAX: usize = 512;

/// The attributes that a process publishes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessContext {
    /// Texts, whole numbers and truth values, by key: at most 64, keys of at most 128 bytes, values of at most 512,
    /// none of them with control characters.
    pub attributes: BTreeMap<String, String>,
    /// Attributes beyond these limits, and those with values of other types.
    pub left_out: usize,
}

/// The fields of a header that are not the same in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    payload_bytes: u32,
    published: u64,
    payload: u64,
}

impl Header {
    fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let (signature, rest) = bytes.split_first_chunk::<8>()?;
        let (version, rest) = rest.split_first_chunk()?;
        let (payload_bytes, rest) = rest.split_first_chunk()?;
        let (published, rest) = rest.split_first_chunk()?;
        let (payload, _) = rest.split_first_chunk()?;
        let is_known = signature == SIGNATURE && u32::from_ne_bytes(*version) == VERSION;
        is_known.then_some(Self {
            payload_bytes: u32::from_ne_bytes(*payload_bytes),
            published: u64::from_ne_bytes(*published),
            payload: u64::from_ne_bytes(*payload),
        })
    }
}

/// The context of a process; `None` if it publishes none that can be read.
pub(crate) fn context_of(pid: Pid) -> Result<Option<ProcessContext>> {
    let maps = maps_of(pid)?;
    let mut named = maps.iter().filter(|range| is_named(range)).peekable();
    if named.peek().is_none() {
        return Ok(None);
    }
    let path = procfs::path(pid, "mem");
    let memory = File::open(&path).map_err(|source| Error::of_process(pid, &path, source))?;
    Ok(named.find_map(|range| read(&memory, range.start.0)))
}

fn is_named(range: &MappedRange) -> bool {
    range.readable && NAMES.iter().any(|name| range.path.as_os_str() == *name)
}

/// What cannot be read, since the process changes or unmaps it, is none.
fn read(memory: &File, address: u64) -> Option<ProcessContext> {
    let header = || {
        let mut bytes = [0; HEADER_BYTES];
        memory.read_exact_at(&mut bytes, address).ok()?;
        Header::parse(&bytes)
    };
    for _ in 0..ATTEMPTS {
        let before = header()?;
        if before.published == 0 {
            continue;
        }
        if before.payload_bytes > PAYLOAD_BYTES_MAX {
            return None;
        }
        let mut payload = vec![0; before.payload_bytes as usize];
        let is_read = memory.read_exact_at(&mut payload, before.payload).is_ok();
        if header()? == before {
            return if is_read { ProcessContext::parse(&payload) } else { None };
        }
    }
    None
}

impl ProcessContext {
    /// Decodes a payload; `None` if it is none.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut context = Self::default();
        for field in Fields(payload) {
            match field? {
                (1, Value::Bytes(resource)) => {
                    for field in Fields(resource) {
                        if let (1, Value::Bytes(attribute)) = field? {
                            context.add(attribute)?;
                        }
                    }
                }
                (2, Value::Bytes(attribute)) => context.add(attribute)?,
                _ => {}
            }
        }
        Some(context)
    }

    fn add(&mut self, attribute: &[u8]) -> Option<()> {
        let (mut key, mut value) = (None, None);
        for field in Fields(attribute) {
            match field? {
                (1, Value::Bytes(text)) => key = Some(text),
                (2, Value::Bytes(any)) => {
                    for field in Fields(any) {
                        value = match field? {
                            (1, Value::Bytes(text)) => text_of(text, VALUE_BYTES_MAX),
                            (2, Value::Number(number)) => Some((number != 0).to_string()),
                            (3, Value::Number(number)) => Some(number.cast_signed().to_string()),
                            _ => None,
                        };
                    }
                }
                _ => {}
            }
        }
        let key = key.and_then(|key| text_of(key, KEY_BYTES_MAX)).filter(|key| !key.is_empty());
        match (key, value) {
            (Some(key), Some(value)) if self.attributes.len() < ATTRIBUTES_MAX => {
                // Of several of one key, which there must not be, the first counts.
                self.attributes.entry(key).or_insert(value);
            }
            _ => self.left_out += 1,
        }
        Some(())
    }
}

fn text_of(bytes: &[u8], bytes_max: usize) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= bytes_max)?;
    (!text.chars().any(char::is_control)).then(|| text.to_owned())
}

/// The fields of a protobuf message; `None` where it is broken, which ends it.
struct Fields<'a>(&'a [u8]);

#[derive(Debug, Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of four or eight bytes.
    Fixed,
}

impl<'a> Fields<'a> {
    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        Some((tag >> 3, value))
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..10 {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << (7 * place).min(63);
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
        let field = |(number, content): &(u8, &[u8])| {
            assert!(content.len() < 16384);
            let length = [content.len() as u8 | 0x80, (content.len() >> 7) as u8];
            [&[number << 3 | 2], &length[..], content].concat()
        };
        fields.iter().flat_map(field).collect()
    }

    fn attribute(key: &str, value: &[u8]) -> Vec<u8> {
        message(&[(1, key.as_bytes()), (2, value)])
    }

    fn text(value: &str) -> Vec<u8> {
        message(&[(1, value.as_bytes())])
    }

    #[test]
    fn attributes_of_the_resource_and_beside_it_are_read() {
        let (name, own) = (attribute("service.name", &text("cart")), attribute("own", &text("beside")));
        let (number, truth) = (attribute("number", &[3 << 3, 0x96, 1]), attribute("truth", &[2 << 3, 1]));
        let other = attribute("list", &message(&[(5, &[])]));
        let resource =
            message(&[(1, &name), (1, &number), (1, &truth), (1, &other), (1, &attribute("service.name", &text("x")))]);
        let payload = message(&[(1, &resource), (2, &own), (9, b"unknown")]);
        let context = ProcessContext::parse(&payload).unwrap();
        let expected = [("service.name", "cart"), ("number", "150"), ("truth", "true"), ("own", "beside")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!((context.attributes, context.left_out), (expected.into(), 1));
        assert_eq!(ProcessContext::parse(&[]), Some(ProcessContext::default()));
    }

    #[test]
    fn what_is_broken_or_beyond_the_limits_is_left_out() {
        let name = attribute("service.name", &text("cart"));
        let payload = message(&[(1, &message(&[(1, &name)]))]);
        for length in 1..payload.len() {
            assert_eq!(ProcessContext::parse(&payload[..length]), None, "{length} bytes");
        }
        assert_eq!(ProcessContext::parse(&[0xff; 20]), None);
        assert_eq!(ProcessContext::parse(&[3]), None);
        for bad in [
            attribute(&"k".repeat(129), &text("v")),
            attribute("", &text("v")),
            attribute("k", &text(&"v".repeat(513))),
            attribute("k", &text("a\nb")),
            attribute("k", &message(&[(1, b"\xff")])),
            attribute("k", &[]),
        ] {
            let context = ProcessContext::parse(&message(&[(2, &bad)])).unwrap();
            assert_eq!((context.attributes.len(), context.left_out), (0, 1), "{bad:?}");
        }
        let many: Vec<Vec<u8>> = (0..100).map(|number| attribute(&format!("k{number}"), &text("v"))).collect();
        let many: Vec<(u8, &[u8])> = many.iter().map(|attribute| (2, &**attribute)).collect();
        let context = ProcessContext::parse(&message(&many)).unwrap();
        assert_eq!((context.attributes.len(), context.left_out), (64, 36));
    }

    #[test]
    fn headers_of_other_versions_are_none() {
        let mut bytes = [0; HEADER_BYTES];
        assert_eq!(Header::parse(&bytes), None);
        bytes[..8].copy_from_slice(SIGNATURE);
        assert_eq!(Header::parse(&bytes), None);
        bytes[8..12].copy_from_slice(&VERSION.to_ne_bytes());
        bytes[12..16].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[16..24].copy_from_slice(&8_u64.to_ne_bytes());
        bytes[24..].copy_from_slice(&9_u64.to_ne_bytes());
        assert_eq!(Header::parse(&bytes), Some(Header { payload_bytes: 7, published: 8, payload: 9 }));
    }
}
