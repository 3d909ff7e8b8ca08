//! The CPU profile of gperftools: words of the profiled machine, then the text of its memory map.
//!
//! ```text
//! header   0, 3, 0, period in microseconds, 0
//! sample   count, depth, depth addresses (leaf first)
//! trailer  0, 1, 0
//! text     build=/usr/bin/prog
//!          00400000-00fcb000 r-xp 00000000 fd:01 1234 /usr/bin/prog
//! ```
//! Words are 32 or 64 bits wide, of either byte order; the header shows which. A first line `--- profile` is skipped.
//! The part after the trailer may be missing (a missing trailer is a warning). Format:
//! <https://gperftools.github.io/gperftools/cpuprofile-fileformat.html>
//!
//! As `google/pprof` does, frames that the signal handler left behind the leaf are removed while decoding, each kind
//! with a warning: up to two times the second frame when it is the same in all but one in 32 samples, and a second
//! frame that repeats the leaf. jeprof removes the former only when it is the same in all samples.
//!
//! Values are `count` and `count * period`. [`encode`] writes 64-bit words in little-endian order, with the period in
//! whole microseconds.

use super::detect::begins;
use super::words::{WordSlice, Words};
use super::{Detect, Format, Limits, legacy_frames};
use crate::format::raw_stacks::{RawStacks, raw_address};
use crate::{Addresses, Error, Place, Profile, Result, maps};

/// Name of the format.
pub const NAME: &str = "gperftools-cpu";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "CPU profile of gperftools, binary",
    detect,
    decode,
    events: None,
    encode: Some(encode),
};

const HEADING: &[u8] = b"--- profile";

/// Whether the bytes are a gperftools CPU profile.
pub fn detect(bytes: &[u8]) -> Detect {
    match begins(bytes, HEADING) {
        Detect::No => Words::detect(bytes, 0),
        answer => answer,
    }
}

/// Decodes a CPU profile of C++ and other native programs.
///
/// # Errors
/// [`Error::Malformed`] with the offset for a header or a count that cannot be, [`Error::Truncated`] when the input
/// ends inside a sample, [`Error::TooLarge`] past the depth limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let heading = match bytes.strip_prefix(HEADING) {
        Some(rest) => HEADING.len() + memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1),
        None => 0,
    };
    let mut words = Words::open(NAME, bytes, heading, 0)?;
    let mut samples = read_samples(&mut words, limits, NAME)?;
    if !samples.has_trailer {
        warnings.push(format!(
            "{NAME}: offset {}: no trailer; the profile may have lost its end and its memory map",
            bytes.len()
        ));
    }
    drop_handler_frames(&mut samples.list, warnings);
    let mut stacks = RawStacks::new(
        NAME,
        &[("samples", "count"), ("cpu", "nanoseconds")],
        Addresses::RawCpu,
        &legacy_frames::PROFILER,
        limits,
    );
    let period = words.period_nanos();
    stacks.builder.period("cpu", "nanoseconds", period);
    stacks.reserve(samples.list.len(), samples.list.iter().map(CpuSample::depth).sum());
    for sample in &samples.list {
        stacks.clear();
        for address in sample.stack() {
            stacks.push(address)?;
        }
        stacks.sample(&[sample.count, sample.count.saturating_mul(period)], &[]);
    }
    stacks.finish(words.rest(), 0, warnings)
}

/// The samples of a CPU profile.
pub(super) struct CpuSamples<'a> {
    pub(super) list: Vec<CpuSample<'a>>,
    has_trailer: bool,
}

/// A sample as it is in the file, but for frames taken out.
pub(super) struct CpuSample<'a> {
    pub(super) count: i64,
    captured: WordSlice<'a>,
    /// How many frames behind the leaf are taken out.
    removed: usize,
}

impl CpuSample<'_> {
    /// The addresses, leaf first.
    #[inline]
    pub(super) fn stack(&self) -> impl Iterator<Item = u64> {
        self.captured.get(0).into_iter().chain(self.captured.iter_from(1 + self.removed))
    }

    fn depth(&self) -> usize {
        self.captured.len() - self.removed
    }

    fn second(&self) -> Option<u64> {
        self.captured.get(1 + self.removed)
    }
}

/// Reads samples up to the trailer or the end of the input.
pub(super) fn read_samples<'a>(words: &mut Words<'a>, limits: &Limits, format: &'static str) -> Result<CpuSamples<'a>> {
    let mut samples = CpuSamples { list: Vec::new(), has_trailer: false };
    while !words.rest().is_empty() {
        let at = words.offset();
        let cut = || Error::Truncated { format, place: Place::Offset(at), what: "a sample" };
        let count = words.next().ok_or_else(cut)?;
        let depth = words.next().ok_or_else(cut)?;
        if depth > limits.depth as u64 {
            return Err(Error::TooLarge { format, what: "frames of a stack", limit: limits.depth as u64 });
        }
        let captured = words.take(depth as usize).ok_or_else(cut)?;
        if count == 0 && depth == 1 && captured.get(0) == Some(0) {
            samples.has_trailer = true;
            break;
        }
        let fits = i64::try_from(count).ok().filter(|count| count.checked_mul(words.period_nanos()).is_some());
        let what = || format!("a count of {count} does not fit with its period");
        let count = fits.ok_or_else(|| Error::Malformed { format, place: Place::Offset(at), what: what() })?;
        samples.list.push(CpuSample { count, captured, removed: 0 });
    }
    Ok(samples)
}

fn drop_handler_frames(samples: &mut [CpuSample<'_>], warnings: &mut Vec<String>) {
    const ROUNDS: usize = 2;
    const ONE_OTHER_IN: usize = 32;
    let total = samples.len();
    for _ in 0..ROUNDS {
        let Some((address, count)) = most_frequent_second(samples) else { break };
        if count < total - total / ONE_OTHER_IN {
            break;
        }
        samples.iter_mut().filter(|sample| sample.second() == Some(address)).for_each(|sample| sample.removed += 1);
        warnings.push(format!(
            "{NAME}: removed the frame {address:#x} behind the leaf of {count} of {total} samples, taken for the \
             signal handler's"
        ));
    }
    let mut repeated = 0;
    for sample in
        samples.iter_mut().filter(|sample| sample.second().is_some() && sample.second() == sample.captured.get(0))
    {
        sample.removed += 1;
        repeated += 1;
    }
    if repeated > 0 {
        warnings.push(format!("{NAME}: removed a second frame that repeats the leaf in {repeated} of {total} samples"));
    }
}

fn most_frequent_second(samples: &[CpuSample<'_>]) -> Option<(u64, usize)> {
    let mut seconds: Vec<u64> = samples.iter().filter_map(CpuSample::second).collect();
    seconds.sort_unstable();
    seconds.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).max_by_key(|(_, count)| *count)
}

/// Encodes a profile with sample counts, its stacks' raw addresses and its mappings.
///
/// Inlined frames, names, labels, times and build ids have no place in the format and are left out.
///
/// # Errors
/// [`Error::Incompatible`] when the profile has no `samples/count` (or other count) values, no period of a microsecond
/// or more, a negative count, or a frame without an address.
pub fn encode(profile: &Profile) -> Result<Vec<u8>> {
    let counts = count_type(profile).ok_or_else(|| refusal("no sample type counts samples"))?;
    let (kind, unit) = (profile.string(profile.period_type().kind), profile.string(profile.period_type().unit));
    if unit != "nanoseconds" || profile.period() < 1000 {
        return Err(refusal(format!("a period of {} {unit} ({kind}) is not a microsecond or more", profile.period())));
    }
    let mut out = Vec::new();
    let period = (profile.period() / 1000) as u64;
    put(&mut out, &[0, 3, 0, period, 0]);
    for sample in profile.samples() {
        let count = u64::try_from(sample.values[counts]).map_err(|_| refusal("a negative count"))?;
        put(&mut out, &[count, sample.stack.len() as u64]);
        for (index, id) in sample.stack.iter().enumerate() {
            put(
                &mut out,
                &[raw_address(profile, *id, index > 0).ok_or_else(|| refusal("a frame without an address"))?.0],
            );
        }
    }
    put(&mut out, &[0, 1, 0]);
    out.extend_from_slice(maps::render(profile).as_bytes());
    Ok(out)
}

fn refusal(why: impl Into<String>) -> Error {
    Error::Incompatible(format!("{NAME} cannot hold this profile: {}", why.into()))
}

fn put(out: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}

fn count_type(profile: &Profile) -> Option<usize> {
    let is_count = |index: &usize| profile.sample_type(*index).1 == "count";
    profile.sample_type_index("samples").filter(is_count).or_else(|| (0..profile.sample_types().len()).find(is_count))
}

#[cfg(test)]
mod tests;
