//! What a recording tells besides its records: the machine, the command line, build ids, names of events.
//!
//! ```text
//! text         length u32, bytes that end with zeros
//! build ids    [header of a record, pid u32, build id of 20 bytes, its size u8 (misc bit 15), u8, u16, path]…
//! command line number u32, texts
//! events       number u32, size of an attribute u32, [attribute, number of ids u32, text, ids u64…]…
//! ```

use foldhash::HashMap;

use crate::perf_event::Header;

const BUILD_ID: usize = 2;
const HOSTNAME: usize = 3;
const OS_RELEASE: usize = 4;
const VERSION: usize = 5;
const ARCHITECTURE: usize = 6;
const COMMAND_LINE: usize = 11;
/// The feature that names the events.
pub(super) const EVENT_DESC: usize = 12;

const BUILD_ID_BYTES: usize = 20;
const MISC_BUILD_ID_SIZE: u16 = 1 << 15;

/// What is known of a recording.
#[derive(Debug, Default)]
pub(super) struct Features<'a> {
    pub(super) host: String,
    pub(super) os_release: String,
    pub(super) version: String,
    pub(super) architecture: String,
    pub(super) command_line: String,
    /// Build ids by path; `None` where a path has had several.
    build_ids: HashMap<&'a [u8], Option<&'a [u8]>>,
}

impl<'a> Features<'a> {
    /// Reads a feature; what can't be read of it stays unknown.
    pub(super) fn read(&mut self, feature: usize, content: &'a [u8]) {
        let mut words = Words(content);
        let mut text = || words.text().unwrap_or_default();
        match feature {
            BUILD_ID => self.read_build_ids(content),
            HOSTNAME => self.host = text(),
            OS_RELEASE => self.os_release = text(),
            VERSION => self.version = text(),
            ARCHITECTURE => self.architecture = text(),
            COMMAND_LINE => self.command_line = command_line(content).unwrap_or_default(),
            _ => {}
        }
    }

    fn read_build_ids(&mut self, mut content: &'a [u8]) {
        while let Some(header) = Header::parse(content)
            && let Some((record, rest)) = content.split_at_checked(usize::from(header.size))
        {
            self.read_build_id(header, &record[Header::SIZE..]);
            content = rest;
        }
    }

    /// Reads the body of a record with a build id.
    pub(super) fn read_build_id(&mut self, header: Header, body: &'a [u8]) {
        let Some((id, path)) = body.get(4..).and_then(|body| body.split_at_checked(BUILD_ID_BYTES + 4)) else { return };
        let is_sized = header.misc & MISC_BUILD_ID_SIZE != 0;
        let size = if is_sized { usize::from(id[BUILD_ID_BYTES]) } else { BUILD_ID_BYTES };
        let Some(id) = id[..BUILD_ID_BYTES].get(..size).filter(|id| !id.is_empty()) else { return };
        let known = self.build_ids.entry(until_zero(path)).or_insert(Some(id));
        if *known != Some(id) {
            *known = None;
        }
    }

    /// The build id of the file with a path.
    pub(super) fn build_id(&self, path: &[u8]) -> Option<&'a [u8]> {
        self.build_ids.get(path).copied().flatten()
    }
}

/// The name of an event and its ids.
type EventName<'a> = (String, &'a [[u8; 8]]);

/// The names of events; `None` if they are cut off.
pub(super) fn event_names(content: &[u8]) -> Option<Vec<EventName<'_>>> {
    let mut words = Words(content);
    let (count, size) = (words.number()?, words.number()?);
    let mut names = Vec::new();
    for _ in 0..count {
        words.take(size as usize)?;
        let ids = words.number()? as usize;
        let name = words.text()?;
        names.push((name, words.take(ids.checked_mul(8)?)?.as_chunks().0));
    }
    Some(names)
}

fn command_line(content: &[u8]) -> Option<String> {
    let mut words = Words(content);
    let count = words.number()?;
    let mut line = Vec::new();
    for _ in 0..count {
        line.push(words.text()?);
    }
    Some(line.join(" "))
}

/// The bytes before the first zero.
pub(super) fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(*self.take(4)?.first_chunk()?))
    }

    fn text(&mut self) -> Option<String> {
        let length = self.number()?;
        Some(String::from_utf8_lossy(until_zero(self.take(length as usize)?)).into_owned())
    }
}
