//! Recordings of `perf record` (`perf.data`), little-endian, as files, as written to a pipe, and as folders.
//!
//! ```text
//! file     "PERFILE2", size of the header u64, of an attribute u64; sections of attributes, data and event types: each
//!          offset u64, size u64; features, a bit each (256); records; for each feature offset u64, size u64
//! pipe     "PERFILE2", 16 u64; records, among them those of attributes and features
//! ```
//! Records are those of `perf_event`, and some that only `perf` writes, with types from 64 on (`records`). They are
//! read in the order of time: each CPU had a buffer of its own.
//!
//! A file has a profile for each event with samples; they count 1 each (`samples`), and the period where there is one:
//! of `cpu-clock` and `task-clock` as `cpu` in nanoseconds, of others under the event's name. Labels are `process`,
//! `pid`, `thread` and `tid`. Addresses are in the files that processes had mapped, without names.
//!
//! Samples with values of counters (`perf record -e '{a,b}:S'`) count for each event of the group whose value has
//! changed since the sample before; the difference is the period.
//!
//! Of call graphs by frame pointers, the kernel has written the callers (`perf record -g`). With `--call-graph dwarf`
//! it has copied registers and the stack, which takes the unwind tables of the files: [`CodeFiles`] knows these.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt` of Linux.

mod attribute;
mod features;
mod file;
mod processes;
mod profiles;
mod records;
mod replay;

use self::file::File;
pub(super) use self::file::{MAGIC, PIPE_HEADER};
pub(super) use self::records::{COMPRESSED, SAMPLE, following};
use super::packing::join_perf_files;
use super::{Decoded, Detect, Event, Format, Limits, detect::begins, events, unpacked};
use crate::perf_event::{AddressSpace, ImageId, ImageKey, Sample};
use crate::{Profile, Result};

/// Name of the format.
pub const NAME: &str = "perf-data";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "recording of `perf record` (`perf.data`)",
    detect,
    decode,
    events: Some(decode_events),
    encode: None,
};

/// Knows the files whose code was recorded.
pub trait CodeFiles {
    /// Is given the machine before anything else is asked.
    fn recorded_on(&mut self, machine: &Machine);

    /// Adds the addresses of code of a copied stack, leaf first: of callers those of calls.
    fn unwind(&mut self, code: Code<'_>, sample: &Sample<'_>, addresses: &mut Vec<u64>) -> StackEnd;

    /// The build id of one of the recording's images, which has none there.
    fn build_id(&mut self, image: ImageId, images: &[ImageKey]) -> Option<Box<[u8]>>;
}

/// The machine of a recording, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// Its architecture by `uname`: `x86_64`, `aarch64`, …
    pub architecture: String,
}

/// The code of a process at the time of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Code<'a> {
    /// The process.
    pub pid: u32,
    /// Another one whenever the code of the process is another.
    pub version: u64,
    /// Where its code is.
    pub space: &'a AddressSpace,
    /// All images of the recording, by their ids.
    pub images: &'a [ImageKey],
}

/// The end of a copied stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEnd {
    /// At the thread's first frame.
    Root,
    /// The copy ends before it.
    Cut,
    /// At the limit of frames.
    Deep,
    /// The caller can't be found.
    Broken,
    /// It was not unwound.
    NotUnwound,
}

/// Knows no files: copied stacks have their leaf alone.
struct NoFiles;

impl CodeFiles for NoFiles {
    fn recorded_on(&mut self, _: &Machine) {}

    fn unwind(&mut self, _: Code<'_>, _: &Sample<'_>, _: &mut Vec<u64>) -> StackEnd {
        StackEnd::NotUnwound
    }

    fn build_id(&mut self, _: ImageId, _: &[ImageKey]) -> Option<Box<[u8]>> {
        None
    }
}

/// Whether the bytes are a recording, of this byte order.
pub fn detect(bytes: &[u8]) -> Detect {
    begins(bytes, file::MAGIC)
}

/// Decodes the profile of the first event.
///
/// # Errors
/// As [`decode_events`].
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    events::first(NAME, decode_events(bytes, limits, warnings)?, warnings)
}

/// Decodes a profile for each event with samples: those of the processor's work, then others, in the order of the file.
///
/// # Errors
/// [`Error::Truncated`](crate::Error::Truncated) if the header or an attribute is cut off,
/// [`Error::Malformed`](crate::Error::Malformed) without any sample, [`Error::TooLarge`](crate::Error::TooLarge) past
/// the depth limit or for too many events.
pub fn decode_events(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Vec<Event>> {
    decode_events_with(bytes, limits, warnings, &mut NoFiles)
}

/// Decodes a profile for each event, plain or packed, with the help of what knows the files; warnings stand with the
/// first.
///
/// # Errors
/// As [`decode_events`].
pub fn decode_with(bytes: &[u8], limits: &Limits, files: &mut dyn CodeFiles) -> Result<Vec<Decoded>> {
    let bytes = unpacked(bytes, limits)?;
    let mut warnings = Vec::new();
    let events = decode_events_with(&bytes, limits, &mut warnings, files)?;
    let decoded = |Event { name, profile }| {
        let warnings = std::mem::take(&mut warnings);
        Decoded { event: name, ..Decoded::new(profile, NAME, warnings) }
    };
    Ok(events.into_iter().map(decoded).collect())
}

/// The recording in a folder of `perf record --threads` or `--kcore` as one file: `data`, the file of that name, with
/// the records of the files `data.0`, `data.1`, … in any order.
///
/// # Errors
/// [`Error::Truncated`](crate::Error::Truncated) if the header is cut off,
/// [`Error::Malformed`](crate::Error::Malformed) for packed records that cannot be unpacked,
/// [`Error::TooLarge`](crate::Error::TooLarge) past the size limit.
pub fn join_folder(data: &[u8], others: &[Vec<u8>], limits: &Limits) -> Result<Vec<u8>> {
    if detect(data) != Detect::Yes {
        return Err(file::malformed(0, "the file `data` of a folder is no recording".to_owned()));
    }
    join_perf_files(data, others, limits.unpacked_bytes)
}

fn decode_events_with(
    bytes: &[u8],
    limits: &Limits,
    warnings: &mut Vec<String>,
    files: &mut dyn CodeFiles,
) -> Result<Vec<Event>> {
    let mut file = File::read(bytes, warnings)?;
    let records = records::in_order(&mut file, warnings)?;
    files.recorded_on(&Machine { host: file.features.host.clone(), architecture: file.features.architecture.clone() });
    let replayed = replay::replay(&file, records, limits, files)?;
    profiles::profiles(&file, replayed, files, warnings)
}

#[cfg(test)]
mod tests;
