//! Random valid profiles.

use procprof_profile::{
    Addr, Addresses, FileOffset, Function, FunctionId, Label, Line, Location, LocationId, Mapping, MappingId, Meta,
    Nanos, Profile, ProfileBuilder, ProfileId, ProfileType, Sampling,
};
use proptest::collection::vec;
use proptest::prelude::*;

const MAPPINGS: u32 = 3;
const FUNCTIONS: u32 = 6;
const LOCATIONS: u32 = 12;
const NAMES: &[&str] = &["", "main", "a::b", "größer", "x y", "[vdso]", "/usr/lib/lib.so"];

type Frame = (Option<u32>, u64, bool, Vec<(u32, i64, i64)>);
type SampleRow = (Vec<u32>, [i64; 4], Vec<(usize, usize, Option<i64>)>);

/// Any profile, as captured or never to be adjusted, with addresses and values in the range real ones have.
pub(crate) fn profile() -> impl Strategy<Value = Profile> {
    let mapping = (0u64..4, 1u64..4, 0usize..NAMES.len(), any::<[bool; 4]>());
    let function = (0usize..NAMES.len(), 0usize..NAMES.len(), 0usize..NAMES.len(), -1i64..9);
    let line = (0..FUNCTIONS, -1i64..1000, 0i64..9);
    let location =
        (proptest::option::of(0..MAPPINGS), prop_oneof![Just(0u64), 1u64..0x8000], any::<bool>(), vec(line, 0..3));
    let label = (0usize..NAMES.len(), 0usize..NAMES.len(), proptest::option::of(any::<i64>()));
    let value = || prop_oneof![Just(0i64), 1i64..1 << 40];
    let sample = (vec(0..LOCATIONS, 0..6), [value(), value(), value(), value()], vec(label, 0..3));
    (
        vec(mapping, MAPPINGS as usize),
        vec(function, FUNCTIONS as usize),
        vec(location, LOCATIONS as usize),
        vec(sample, 0..12),
        0usize..3,
        0usize..3,
        any::<[u32; 4]>(),
        meta(),
    )
        .prop_map(|(mappings, functions, locations, samples, sampling, addresses, numbers, meta)| {
            let mut builder = ProfileBuilder::new(&[
                ("objects", "count"),
                ("space", "bytes"),
                ("x", "count"),
                ("time", "nanoseconds"),
            ]);
            for (start, size, name, flags) in mappings {
                add_mapping(&mut builder, start, size, name, flags);
            }
            for (name, system_name, filename, start_line) in functions {
                let [name, system_name, filename] =
                    [name, system_name, filename].map(|index| builder.intern(NAMES[index]));
                builder.parts_mut().functions.push(Function { name, system_name, filename, start_line });
            }
            locations.iter().for_each(|location| add_location(&mut builder, location));
            samples.iter().for_each(|sample| add_sample(&mut builder, sample));
            add_header(
                &mut builder,
                numbers,
                [Sampling::Exact, Sampling::Poisson(4096), Sampling::Linear(4096)][sampling],
            );
            builder.parts_mut().addresses = [Addresses::CallSite, Addresses::RawCpu, Addresses::RawReturn][addresses];
            builder.finish().unwrap().with_meta(&meta).unwrap()
        })
}

fn add_mapping(builder: &mut ProfileBuilder, start: u64, size: u64, name: usize, flags: [bool; 4]) {
    let (filename, build_id) = (builder.intern(NAMES[name]), builder.intern(if start == 3 { "c0ffee" } else { "" }));
    let [has_functions, has_filenames, has_line_numbers, has_inline_frames] = flags;
    builder.mapping(Mapping {
        start: Addr(start << 16),
        limit: Addr((start << 16) + (size << 12)),
        file_offset: FileOffset(size << 12),
        filename,
        build_id,
        has_functions,
        has_filenames,
        has_line_numbers,
        has_inline_frames,
    });
}

fn add_location(builder: &mut ProfileBuilder, (mapping, address, is_folded, lines): &Frame) {
    let lines: Vec<Line> = lines
        .iter()
        .map(|(function, line, column)| Line { function: FunctionId(*function), line: *line, column: *column })
        .collect();
    let mut location = Location::new(mapping.map(MappingId), Addr(*address));
    location.is_folded = *is_folded;
    builder.location(location, &lines);
}

fn add_sample(builder: &mut ProfileBuilder, (stack, values, labels): &SampleRow) {
    let stack: Vec<LocationId> = stack.iter().copied().map(LocationId).collect();
    let label = |builder: &mut ProfileBuilder, (key, text, number): &(usize, usize, Option<i64>)| -> Label {
        match number {
            Some(number) => builder.number_label(NAMES[*key], *number, NAMES[*text]),
            None => builder.text_label(NAMES[*key], NAMES[*text]),
        }
    };
    let labels: Vec<Label> = labels.iter().map(|one| label(builder, one)).collect();
    builder.sample(&stack, values, &labels);
}

fn add_header(builder: &mut ProfileBuilder, numbers: [u32; 4], sampling: Sampling) {
    let [time, duration, period, odd] = numbers.map(i64::from);
    builder.time(Nanos(time), Nanos(duration));
    if odd % 2 == 1 {
        builder.period("cpu", "nanoseconds", period);
        builder.default_sample_type("space");
        builder.comment("a comment of somebody");
        let (drop_frames, doc_url) = (builder.intern("malloc|free"), builder.intern("https://example.com/"));
        builder.parts_mut().drop_frames = drop_frames;
        builder.parts_mut().doc_url = doc_url;
    }
    builder.parts_mut().sampling = sampling;
}

/// Facts of every kind, some of them missing.
fn meta() -> impl Strategy<Value = Meta> {
    (
        any::<Option<u128>>(),
        any::<Option<u64>>(),
        "[a-z =:é]{0,6}",
        vec(("[a-z.]{1,4}", "[a-z]{1,4}"), 0..3),
        any::<Option<i64>>(),
    )
        .prop_map(|(id, number, text, labels, time)| Meta {
            id: id.map(ProfileId),
            node: number,
            node_name: text.clone(),
            cluster: text.clone(),
            labels: labels.into_iter().collect(),
            profile_type: number
                .map(|number| if number % 2 == 0 { ProfileType::Cpu } else { ProfileType::Other("mine".to_owned()) }),
            means: text,
            end: time.map(Nanos),
            instance_start: time.map(Nanos),
            lost: number,
            truncated: number,
            unsampled: number,
            more: [("new-key".to_owned(), "x".to_owned())].into(),
            ..Meta::default()
        })
}
