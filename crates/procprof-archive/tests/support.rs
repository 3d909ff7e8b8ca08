//! Profiles and archives to test with.

use std::collections::BTreeMap;
use std::sync::Arc;

use procprof_archive::{
    Archive, Hour, Identity, ObjectFolder, Objects, Part, PartLimits, PartWriter, ReadLimits, Writer,
};
use procprof_profile::{
    Addr, FileOffset, Function, Label, LabelValue, Line, Location, LocationId, Mapping, Nanos, Profile, ProfileBuilder,
    ProfileId, ProfileType,
};
use proptest::prelude::*;
use tempfile::TempDir;

pub(crate) const HOUR: Hour = Hour(489_910);
const MINUTE: i64 = 60_000_000_000;

/// A frame of a made-up profile: the number of its function, the line, and what is inlined into it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MadeFrame {
    pub(crate) function: u8,
    pub(crate) line: i64,
    pub(crate) inlined: Vec<u8>,
    pub(crate) has_mapping: bool,
}

/// A sample: leaf first, a value for each of two types, a label.
pub(crate) type MadeSample = (Vec<MadeFrame>, [i64; 2], Option<(u8, bool)>);

pub(crate) fn frames() -> impl Strategy<Value = Vec<MadeFrame>> {
    let frame = (0..6_u8, 0..3_i64, prop::collection::vec(0..6_u8, 0..3), any::<bool>());
    let frame =
        frame.prop_map(|(function, line, inlined, has_mapping)| MadeFrame { function, line, inlined, has_mapping });
    prop::collection::vec(frame, 0..6)
}

pub(crate) fn samples() -> impl Strategy<Value = Vec<MadeSample>> {
    let value = prop_oneof![Just(0_i64), -3..50_i64, any::<i64>().prop_map(|value| value >> 8)];
    let sample = (frames(), [value.clone(), value], prop::option::of((0..3_u8, any::<bool>())));
    prop::collection::vec(sample, 0..12)
}

/// The profile of samples.
pub(crate) fn profile(samples: &[MadeSample], base: u64) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let filename = builder.intern("/usr/bin/näme");
    let build_id = builder.intern("0123abcd");
    let mapping = builder.mapping(Mapping {
        start: Addr(base),
        limit: Addr(base + 0x10_0000),
        file_offset: FileOffset(0x1000),
        filename,
        build_id,
        ..Mapping::default()
    });
    builder.period("cpu", "nanoseconds", 10_000_000);
    for (stack, values, label) in samples {
        let stack: Vec<LocationId> = stack.iter().map(|frame| location(&mut builder, frame, mapping, base)).collect();
        let labels: Vec<Label> = label
            .iter()
            .map(|(number, is_text)| {
                if *is_text {
                    builder.text_label("query_id", &format!("q{number}"))
                } else {
                    builder.number_label("bytes", i64::from(*number), "bytes")
                }
            })
            .collect();
        builder.sample(&stack, values, &labels);
    }
    builder.finish().unwrap()
}

fn location(
    builder: &mut ProfileBuilder,
    frame: &MadeFrame,
    mapping: procprof_profile::MappingId,
    base: u64,
) -> LocationId {
    let number = u64::from(frame.function);
    let address = if frame.has_mapping { base + number * 16 } else { number };
    let names = frame.inlined.iter().chain([&frame.function]);
    let lines: Vec<Line> = names
        .map(|name| {
            let (text, system_name) = (format!("ns::f{name}()"), format!("_ZN2ns2f{name}Ev"));
            let function = Function {
                name: builder.intern(&text),
                system_name: builder.intern(if name % 2 == 0 { &text } else { &system_name }),
                filename: builder.intern("src/f.cc"),
                start_line: 3,
            };
            Line { function: builder.function(function), line: frame.line, column: 0 }
        })
        .collect();
    // The first function has no name, only an address.
    let lines = if frame.function == 0 { &[][..] } else { &lines };
    builder.location(Location::new(frame.has_mapping.then_some(mapping), Addr(address)), lines)
}

/// The sums of a profile by everything that a stack shows, in words.
pub(crate) fn contents(profile: &Profile) -> BTreeMap<(Vec<String>, Vec<String>), Vec<i128>> {
    let mut found: BTreeMap<_, Vec<i128>> = BTreeMap::new();
    for sample in profile.samples() {
        let stack = sample.stack.iter().map(|id| location_text(profile, *id)).collect();
        let mut labels: Vec<String> = sample.labels.iter().map(|label| label_text(profile, label)).collect();
        labels.sort();
        let sums = found.entry((stack, labels)).or_insert_with(|| vec![0; sample.values.len()]);
        sums.iter_mut().zip(sample.values).for_each(|(sum, value)| *sum += i128::from(*value));
    }
    found.retain(|_, sums| sums.iter().any(|sum| *sum != 0));
    found
}

fn location_text(profile: &Profile, id: LocationId) -> String {
    let location = profile.location(id);
    let mapping = location.mapping.map(|id| *profile.mapping(id)).unwrap_or_default();
    let is_mapped = location.mapping.is_some();
    let offset =
        if is_mapped { location.address.0 - mapping.start.0 + mapping.file_offset.0 } else { location.address.0 };
    let lines: Vec<String> = profile
        .lines(id)
        .iter()
        .map(|line| {
            let function = profile.function(line.function);
            format!(
                "{} {} {}:{}:{}",
                profile.string(function.name),
                profile.string(function.system_name),
                profile.string(function.filename),
                function.start_line,
                line.line
            )
        })
        .collect();
    format!("{} {} {offset:#x} {lines:?}", profile.string(mapping.filename), profile.string(mapping.build_id))
}

fn label_text(profile: &Profile, label: &Label) -> String {
    match label.value {
        LabelValue::Text(text) => format!("{}={}", profile.string(label.key), profile.string(text)),
        LabelValue::Number(number, unit) => {
            format!("{}={number} {}", profile.string(label.key), profile.string(unit))
        }
    }
}

pub(crate) fn identity(number: i64) -> Identity {
    let completed = Nanos(HOUR.start().0 + number * MINUTE);
    Identity {
        id: ProfileId(0x0193_0c5e_7d1a_7000_8000_0000_0000_0000 | number as u128),
        node: 10_001 + (number as u64 % 2),
        profile_type: ProfileType::Cpu,
        start: Nanos(completed.0 - 10_000_000_000),
        duration: Nanos(10_000_000_000),
        completed,
    }
}

pub(crate) fn part(number: u32) -> Part {
    Part::of_hour(HOUR, Writer(0xfeed), number)
}

/// An archive with a part of these profiles, in a new folder.
pub(crate) fn archive(profiles: &[Profile]) -> (TempDir, Archive) {
    let folder = tempfile::tempdir().unwrap();
    let objects = ObjectFolder::create(folder.path().join("archive")).unwrap();
    fill(&objects, profiles);
    (folder, Archive::new(Arc::new(objects), ReadLimits::default()))
}

/// Writes a part of these profiles.
pub(crate) fn fill(objects: &dyn Objects, profiles: &[Profile]) {
    let mut writer = PartWriter::new(PartLimits::default());
    for (number, profile) in profiles.iter().enumerate() {
        writer.add(identity(number as i64), profile.clone()).unwrap();
    }
    writer.write(objects, part(0)).unwrap();
}

/// Some profiles that are always the same.
pub(crate) fn some_profiles() -> Vec<Profile> {
    let frame =
        |function, line, inlined: &[u8]| MadeFrame { function, line, inlined: inlined.to_vec(), has_mapping: true };
    let samples = |seed: i64| -> Vec<MadeSample> {
        let leaf = |at: u8| vec![frame(at, 7, &[]), frame(2, 5, &[3, 4]), frame(1, 1, &[])];
        (1..5)
            .map(|at| {
                (leaf(at), [i64::from(at) * seed, i64::from(at) * seed * 10_000_000], (at > 2).then_some((at, at > 3)))
            })
            .collect()
    };
    (1..8).map(|seed| profile(&samples(seed), 0x40_0000 * seed as u64)).collect()
}
