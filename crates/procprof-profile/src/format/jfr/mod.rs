//! Recordings of the JDK's Flight Recorder and of async-profiler (`.jfr`), as profiles: one for each kind of event.
//!
//! A recording is a sequence of chunks (`chunk`), each with metadata that say how its events are laid out (`metadata`),
//! constants that events refer to by number (`constants`), and events. Everything has its size in front, so that only
//! the events of the table in `schema` are read, and only the stacks that they name. Format:
//! <https://github.com/openjdk/jdk/tree/master/src/jdk.jfr/share/classes/jdk/jfr/internal/consumer>
//!
//! | event | made of | sample types |
//! |---|---|---|
//! | `cpu` | `jdk.CPUTimeSample`, else `jdk.ExecutionSample` | samples/count, cpu/nanoseconds |
//! | `wall` | `profiler.WallClockSample`, `jdk.ExecutionSample` of async-profiler's wall clock | samples/count, wall/nanoseconds |
//! | `alloc` | `jdk.ObjectAllocationSample`, else the two of buffers (TLAB) | samples/count, alloc_space/bytes |
//! | `lock` | `jdk.JavaMonitorEnter`, `jdk.ThreadPark` | contentions/count, delay/nanoseconds |
//! | `live` | `profiler.LiveObject` | inuse_objects/count, inuse_space/bytes |
//! | `nativemem` | `profiler.Malloc`, `profiler.Free` | those of a heap |
//! | `nativelock` | `profiler.NativeLock` | contentions/count, delay/nanoseconds |
//! | `native` | `jdk.NativeMethodSample` | samples/count, wall/nanoseconds |
//! | `trace` | `jdk.MethodTrace` | calls/count, wall/nanoseconds |
//!
//! Each wait of `lock` has the label `wait` ([`crate::waits`]): a monitor is a `lock`; a park is one by the class parked
//! on, `idle` by its frames, or a `wait` for something else (`waits`).
//!
//! The leaf of an allocation is the allocated class, that of a wait the class of the lock, as in async-profiler's own
//! output; that of a trace is the method. Events without a stack are counted in the frame `[no stack]`. Samples of an
//! async-profiler are of CPU time or of the wall clock as its setting `event` says; states of threads tell them apart
//! only where it takes both. Frames of Java are in the mapping `[jvm]`, native ones in that of their library. Names are written with
//! dots, and without what differs between runs (`names`). A chunk that is cut off, or broken, is left out with a
//! warning if there are others.
//!
//! The first `jdk.ObjectAllocationSample` of a thread counts all that the thread has allocated before, too. A recording
//! that begins with a [baseline](BASELINE) is read without that; others as other readers do.

mod build;
mod chunk;
mod constants;
mod counts;
mod cursor;
mod history;
mod metadata;
mod names;
mod plan;
mod profiles;
mod recording;
mod resolve;
mod schema;
mod settings;
mod text;
mod waits;

use self::chunk::Chunk;
use self::constants::Constants;
use self::counts::Counts;
use self::history::History;
use self::metadata::Metadata;
use self::recording::Recording;
use self::schema::Schema;
use super::detect::begins;
use super::{Detect, Event, Format, Limits};
use crate::{Error, Profile, Result};

/// Name of the format.
pub const NAME: &str = "jfr";

/// End of the name of a recording whose first chunk is a baseline: it has what threads had allocated when recording
/// began (`jdk.ThreadAllocationStatistics`), and the name (`jdk.ActiveRecording`). Nothing else in it is read.
pub const BASELINE: &str = "-procprof-baseline";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "recording of the JDK's Flight Recorder or async-profiler",
    detect,
    decode,
    events: Some(decode_events),
    encode: None,
};

/// Whether the bytes are a recording.
pub fn detect(bytes: &[u8]) -> Detect {
    begins(bytes, chunk::MAGIC)
}

/// Decodes the profile that is shown when nobody chooses: the first of `cpu`, `wall`, `alloc`, `lock` that has samples,
/// else any that has.
///
/// # Errors
/// [`Error::Truncated`] if not one chunk is whole, [`Error::Malformed`] with the offset if none can be read,
/// [`Error::TooLarge`] past the depth limit, and where a file would make a profile far larger than itself.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let recording = read(bytes, limits, warnings)?;
    profiles::shown(&recording, bytes.len(), warnings)
}

/// Decodes a profile for each kind of event that has samples, in the order of the table above.
///
/// # Errors
/// As [`decode`].
pub fn decode_events(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Vec<Event>> {
    let recording = read(bytes, limits, warnings)?;
    profiles::all(&recording, bytes.len(), warnings)
}

fn read(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Recording> {
    let mut recording = Recording::new(bytes.len());
    // Chunks of one recording mostly have the same metadata.
    let mut last: Option<(&[u8], Schema)> = None;
    let (mut offset, mut failure) = (0, None);
    while offset < bytes.len() {
        let chunk = match Chunk::at(bytes, offset) {
            Ok(chunk) => chunk,
            Err(error) => {
                leave_out(error, &mut failure, warnings)?;
                break;
            }
        };
        match read_chunk(&chunk, last.take(), limits, &mut recording) {
            Ok(schema) => last = Some(schema),
            Err(error) => leave_out(error, &mut failure, warnings)?,
        }
        offset += chunk.bytes.len();
    }
    recording.leave_out_history();
    match failure {
        Some(error) if recording.times.is_empty() => Err(error),
        _ => Ok(recording),
    }
}

/// Notes that a chunk cannot be read; limits are errors of the whole.
fn leave_out(error: Error, failure: &mut Option<Error>, warnings: &mut Vec<String>) -> Result<()> {
    if matches!(error, Error::TooLarge { .. }) {
        return Err(error);
    }
    // One is enough to know of, however many chunks there are.
    if failure.is_none() {
        warnings.push(format!("{error}; this chunk is left out, and perhaps others"));
        *failure = Some(error);
    }
    Ok(())
}

fn read_chunk<'a>(
    chunk: &Chunk<'a>,
    last: Option<(&'a [u8], Schema)>,
    limits: &Limits,
    recording: &mut Recording,
) -> Result<(&'a [u8], Schema)> {
    let range = Metadata::range(chunk)?;
    let metadata = &chunk.bytes[range.clone()];
    let mut schema = match last {
        Some((known, schema)) if known == metadata => schema,
        _ => Schema::new(Metadata::read(chunk, range)?, metadata.len()),
    };
    let counts = Counts::read(chunk, &schema, recording.history.is_some())?;
    let mut constants = Constants::default();
    for (start, end) in &counts.checkpoints {
        constants.add(chunk, &mut schema, *start as usize, *end as usize)?;
    }
    if chunk.offset == 0 && history::is_baseline(chunk, &schema, &constants, &counts.notes) {
        recording.history = Some(History::new(counts.allocated));
        return Ok((metadata, schema));
    }
    resolve::resolve(chunk, &schema, &constants, counts, limits, recording)?;
    Ok((metadata, schema))
}

#[cfg(test)]
mod tests;
