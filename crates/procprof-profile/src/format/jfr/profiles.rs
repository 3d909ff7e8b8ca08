//! The profiles of a recording: one for each kind of event that it has samples of.

use super::build::Builder;
use super::recording::{Key, Measure, Recording};
use super::{Event, NAME};
use crate::{Error, Label, Profile, ProfileType, Result};

/// Bytes that the samples of a recording's profiles take, in times its size: every sample repeats its stack, which the
/// recording has once.
const SAMPLES_MULTIPLE: usize = 24;
const SAMPLES_FREE: usize = 8 << 10;

type Types = &'static [(&'static str, &'static str)];

const ALLOCATIONS: Types = &[("samples", "count"), ("alloc_space", "bytes")];
const LIVE: Types = &[("inuse_objects", "count"), ("inuse_space", "bytes")];
const CALLS: Types = &[("calls", "count"), ("wall", "nanoseconds")];
const NATIVE: Types = &[("samples", "count"), ("wall", "nanoseconds")];

/// A kind of event that readers choose by.
pub(super) struct EventRow {
    pub(super) name: &'static str,
    /// What it is made of: the first that has samples.
    measures: &'static [Measure],
    pub(super) kind: Option<ProfileType>,
    types: Types,
}

/// All kinds; the first four are shown by default, in this order.
fn rows() -> [EventRow; 9] {
    let of_type =
        |name, measures, kind: ProfileType| EventRow { name, measures, types: kind.sample_types(), kind: Some(kind) };
    let with_types = |name, measures, types, kind| EventRow { name, measures, kind, types };
    [
        of_type("cpu", &[Measure::CpuTime, Measure::Execution], ProfileType::Cpu),
        of_type("wall", &[Measure::Wall], ProfileType::Wall),
        with_types(
            "alloc",
            &[Measure::AllocationSample, Measure::AllocationBuffer],
            ALLOCATIONS,
            Some(ProfileType::Alloc),
        ),
        of_type("lock", &[Measure::Lock], ProfileType::Contention),
        with_types("live", &[Measure::LiveObject], LIVE, Some(ProfileType::Heap)),
        of_type("nativemem", &[Measure::NativeMemory], ProfileType::Heap),
        of_type("nativelock", &[Measure::NativeLock], ProfileType::Contention),
        with_types("native", &[Measure::NativeMethod], NATIVE, None),
        with_types("trace", &[Measure::MethodTrace], CALLS, None),
    ]
}

/// The profile that is shown when nobody chooses.
///
/// # Errors
/// [`Error::TooLarge`] when its samples are larger than a recording of that size should make.
pub(super) fn shown(recording: &Recording, bytes: usize, warnings: &mut Vec<String>) -> Result<Profile> {
    let rows = rows();
    let row = rows.iter().find(|row| measure(recording, row).is_some()).unwrap_or(&rows[0]);
    build(recording, row, &mut Room::for_input(bytes), warnings)
}

/// All profiles; of a recording without samples, a CPU profile without any.
///
/// # Errors
/// As [`shown`].
pub(super) fn all(recording: &Recording, bytes: usize, warnings: &mut Vec<String>) -> Result<Vec<Event>> {
    let (rows, mut room) = (rows(), Room::for_input(bytes));
    let with_samples: Vec<&EventRow> = rows.iter().filter(|row| measure(recording, row).is_some()).collect();
    let rows = if with_samples.is_empty() { vec![&rows[0]] } else { with_samples };
    let event =
        |row: &EventRow| Ok(Event { name: row.name.to_owned(), profile: build(recording, row, &mut room, warnings)? });
    rows.into_iter().map(event).collect()
}

fn measure(recording: &Recording, row: &EventRow) -> Option<Measure> {
    row.measures.iter().copied().find(|measure| !recording.samples[*measure as usize].all.is_empty())
}

/// What the samples may take.
struct Room(usize);

impl Room {
    fn for_input(bytes: usize) -> Room {
        Room(bytes.saturating_mul(SAMPLES_MULTIPLE).saturating_add(SAMPLES_FREE))
    }

    fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

fn build(recording: &Recording, row: &EventRow, room: &mut Room, warnings: &mut Vec<String>) -> Result<Profile> {
    let measure = measure(recording, row).unwrap_or(row.measures[0]);
    for other in row.measures.iter().filter(|other| **other != measure) {
        if !recording.samples[*other as usize].all.is_empty() {
            warnings.push(format!(
                "{NAME}: {} is counted by {}; {} is left out",
                row.name,
                event_of(measure),
                event_of(*other)
            ));
        }
    }
    let mut samples = samples(recording, measure);
    let size = |samples: &[Sample]| {
        samples.iter().map(|sample| recording.stacks.get(sample.key.stack).len() * 4 + SAMPLE).sum()
    };
    if !room.take(size(&samples)) {
        warnings.push(format!("{NAME}: {}: threads are left out: with them the profile would be too large", row.name));
        samples = without_threads(samples);
        if !room.take(size(&samples)) {
            let limit = SAMPLES_MULTIPLE as u64;
            return Err(Error::TooLarge {
                format: NAME,
                what: "the size of the samples, in times the recording's,",
                limit,
            });
        }
    }
    let counter = recording.facts.counter.as_str();
    let counted = [("samples", "count"), (counter, "count")];
    let types = if measure == Measure::Execution && !counter.is_empty() { &counted } else { row.types };
    let mut builder = Builder::new(recording, types);
    for sample in &samples {
        builder.add(sample, types.len());
    }
    builder.finish(row, measure, warnings)
}

/// Bytes of a sample besides its stack: values, labels, ends, and a copy of it while they are made.
const SAMPLE: usize = 4 * 8 + 3 * size_of::<Label>() + 2 * 4 + size_of::<Sample>();

/// A sample with up to four values.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    pub(super) key: Key,
    pub(super) values: [u64; 4],
}

/// The samples of a measure; those of native memory with what nothing has freed.
fn samples(recording: &Recording, measure: Measure) -> Vec<Sample> {
    let all = &recording.samples[measure as usize].all;
    let mut samples: Vec<Sample> =
        all.iter().map(|(key, [count, sum])| Sample { key: *key, values: [*count, *sum, 0, 0] }).collect();
    if measure == Measure::NativeMemory {
        for (sample, size) in recording.blocks.values() {
            let values = &mut samples[*sample as usize].values;
            values[2] = values[2].saturating_add(1);
            values[3] = values[3].saturating_add(*size);
        }
    }
    samples
}

fn without_threads(mut samples: Vec<Sample>) -> Vec<Sample> {
    samples.sort_by_key(|sample| (sample.key.stack, sample.key.class, sample.key.wait));
    for sample in &mut samples {
        sample.key.thread = NO_THREAD;
    }
    samples.dedup_by(|next, sample| {
        let is_same = next.key == sample.key;
        if is_same {
            sample.values = std::array::from_fn(|index| sample.values[index].saturating_add(next.values[index]));
        }
        is_same
    });
    samples
}

pub(super) const NO_THREAD: u32 = u32::MAX;

fn event_of(measure: Measure) -> &'static str {
    match measure {
        Measure::CpuTime => "jdk.CPUTimeSample",
        Measure::Execution => "jdk.ExecutionSample",
        Measure::AllocationSample => "jdk.ObjectAllocationSample",
        Measure::AllocationBuffer => "jdk.ObjectAllocationInNewTLAB and jdk.ObjectAllocationOutsideTLAB",
        Measure::Wall
        | Measure::LiveObject
        | Measure::Lock
        | Measure::NativeLock
        | Measure::NativeMemory
        | Measure::NativeMethod
        | Measure::MethodTrace => "others",
    }
}
