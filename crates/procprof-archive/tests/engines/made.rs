//! An archive of several days, hours, nodes, types and writers: made-up profiles of two nodes, and recorded ones of a Go
//! process.

use std::path::Path;

use procprof_archive::{Hour, Identity, ObjectFolder, Objects, Part, PartLimits, PartWriter, Table, Writer};
use procprof_profile::format::{Limits, decode};
use procprof_profile::{
    Addr, FileOffset, Function, Grammar, Label, Line, Location, LocationId, Mapping, MappingId, Meta, Nanos, Profile,
    ProfileBuilder, ProfileId, ProfileType,
};

const SECOND: i64 = 1_000_000_000;
/// 2026-11-23T21:00:00Z.
const FIRST: Hour = Hour(498_741);
/// Hours after the first, of which there are profiles; three of them are of the next day.
const HOURS: &[i64] = &[0, 3, 4, 17];
const SERVER: &str = "/opt/starrocks/be/lib/starrocks_be";
const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";

/// A profile of the archive, with the facts that it is archived with.
pub(super) struct Made {
    pub(super) identity: Identity,
    pub(super) profile: Profile,
    pub(super) meta: Meta,
}

/// Frames from the root to the leaf: `b<a` is `a` inlined into `b`, `#12` an address of the C library without a name.
const CPU: &[&[&str]] = &[
    &["main", "execute", "scan", "read_page", "#4096"],
    &["main", "execute", "scan", "read_column<decode"],
    &["main", "execute", "hash_join", "probe", "hash_join", "probe"],
    &["main", "execute", "aggregate"],
    &["main", "#8192", "execute", "sort", "#12288"],
    &["main", "idle"],
];
const MEMORY: &[&[&str]] = &[
    &["main", "load_tablet", "new_page", "malloc"],
    &["main", "execute", "hash_join", "new_page", "malloc"],
    &["main", "execute", "aggregate<grow", "malloc"],
];
const WAITS: &[&[&str]] =
    &[&["main", "flush", "lock"], &["main", "publish<commit", "lock"], &["main", "flush", "write", "lock"], &["lock"]];

/// Numbers without order that are always the same.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The moment within the hour, `second` seconds after its begin.
fn moment(hour: i64, second: i64) -> Nanos {
    Nanos(Hour(FIRST.0 + hour).start().0 + second * SECOND)
}

fn location(builder: &mut ProfileBuilder, server: MappingId, libc: MappingId, text: &str) -> LocationId {
    if let Some(offset) = text.strip_prefix('#') {
        return builder.address(Some(libc), Addr(0x7f00_0000_0000 + offset.parse::<u64>().unwrap()));
    }
    let names: Vec<&str> = text.split('<').rev().collect();
    let lines: Vec<Line> = names
        .iter()
        .map(|name| {
            let function = Function {
                name: builder.intern(name),
                system_name: builder.intern(&format!("_Z{}{name}v", name.len())),
                filename: builder.intern(&format!("src/{name}.cpp")),
                start_line: 10,
            };
            Line { function: builder.function(function), line: 10 + name.len() as i64, column: 0 }
        })
        .collect();
    let address = Addr(0x40_0000 + names.iter().flat_map(|name| name.bytes()).map(u64::from).sum::<u64>() * 16);
    builder.location(Location::new(Some(server), address), &lines)
}

/// A profile with samples of these stacks; `value` is that of a sample of the stack with this number.
fn profile(
    types: &[(&str, &str)],
    build_id: &str,
    stacks: &[&[&str]],
    labels: &[Option<u64>],
    value: &mut dyn FnMut(usize) -> Vec<i64>,
) -> Profile {
    let mut builder = ProfileBuilder::new(types);
    let mut mapping = |start: u64, name: &str, build_id: &str| {
        let (filename, build_id) = (builder.intern(name), builder.intern(build_id));
        builder.mapping(Mapping {
            start: Addr(start),
            limit: Addr(start + 0x10_0000),
            file_offset: FileOffset(0x1000),
            filename,
            build_id,
            ..Mapping::default()
        })
    };
    let (server, libc) = (mapping(0x40_0000, SERVER, build_id), mapping(0x7f00_0000_0000, LIBC, "c0ffee"));
    for (number, stack) in stacks.iter().enumerate() {
        let stack: Vec<LocationId> =
            stack.iter().rev().map(|text| location(&mut builder, server, libc, text)).collect();
        for label in labels {
            let mut set: Vec<Label> = Vec::new();
            if let Some(query) = label {
                set.push(builder.text_label("query_id", &format!("q{query}")));
                set.push(builder.text_label("user", if query % 2 == 0 { "etl" } else { "dashboard" }));
                set.push(builder.number_label("rows", *query as i64 * 1000, "count"));
            }
            builder.sample(&stack, &value(number), &set);
        }
    }
    builder.finish().unwrap()
}

/// A profile of a made-up server, the `turn`th of its hour.
fn of_server(profile_type: &ProfileType, hour: i64, numbers: &mut Numbers) -> Profile {
    let is_later = hour >= 3;
    let build_id = if is_later { "bbbb2222" } else { "aaaa1111" };
    let none = [None];
    match profile_type {
        ProfileType::Cpu => {
            let queries = [None, Some(numbers.below(5)), Some(5 + numbers.below(5))];
            profile(&[("samples", "count"), ("cpu", "nanoseconds")], build_id, CPU, &queries, &mut |stack| {
                let more = if stack == 3 && is_later { 3 } else { 1 };
                let count = (numbers.below(40) * more) as i64;
                vec![count, count * 10_000_000]
            })
        }
        ProfileType::Heap => {
            profile(&[("inuse_objects", "count"), ("inuse_space", "bytes")], build_id, MEMORY, &none, &mut |stack| {
                let count = numbers.below(50) as i64 + if stack == 1 { hour * 100 } else { 0 };
                vec![count, count * 4096]
            })
        }
        ProfileType::Alloc => {
            profile(&[("alloc_objects", "count"), ("alloc_space", "bytes")], build_id, MEMORY, &none, &mut |_| {
                let count = numbers.below(1000) as i64;
                vec![count, count * 512]
            })
        }
        _ => profile(&[("contentions", "count"), ("delay", "nanoseconds")], build_id, WAITS, &none, &mut |_| {
            let count = numbers.below(9) as i64;
            vec![count, count * 777_777]
        }),
    }
}

/// What a Go process has recorded.
fn recorded(file: &str) -> Profile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats").join(file);
    let decoded = decode(&std::fs::read(path).unwrap(), &Limits::default()).unwrap();
    decoded.profile.adjusted(Grammar::Pprof).unwrap()
}

/// A node of the archive: writer, cluster, id and name.
const NODES: &[(u64, &str, u64, &str)] =
    &[(0xa, "prod", 10_001, "be1"), (0xa, "prod", 10_002, "be2"), (0xb, "tools", 10_001, "go1")];

/// The profiles of an hour, by writer.
fn hour(hour: i64, numbers: &mut Numbers) -> Vec<(Writer, Made)> {
    let mut made = Vec::new();
    for (writer, cluster, node, name) in NODES {
        for turn in 0..3 {
            let profiles: Vec<(ProfileType, Profile)> = if *name == "go1" {
                vec![
                    (ProfileType::Cpu, recorded("pprof/go-cpu.pb.gz")),
                    (ProfileType::Heap, recorded("pprof/go-heap.pb.gz")),
                    (ProfileType::Mutex, recorded("contention/mutex.txt")),
                ]
            } else {
                let types = [ProfileType::Cpu, ProfileType::Heap, ProfileType::Alloc, ProfileType::Contention];
                types.map(|one| (one.clone(), of_server(&one, hour, numbers))).into()
            };
            for (number, (profile_type, profile)) in profiles.into_iter().enumerate() {
                let completed = moment(hour, 60 + turn * (1000 + numbers.below(200) as i64) + number as i64);
                let is_moment = profile_type == ProfileType::Heap;
                let duration = Nanos(if is_moment { 0 } else { 10 * SECOND });
                let id = ProfileId(0x0193_0c5e_7d1a_7000_8000_0000_0000_0000 | u128::from(numbers.below(1 << 31)));
                let identity = Identity {
                    id,
                    node: *node,
                    profile_type,
                    start: Nanos(completed.0 - duration.0),
                    duration,
                    completed,
                };
                let meta = Meta {
                    node_name: (*name).to_owned(),
                    cluster: (*cluster).to_owned(),
                    role: "BE".to_owned(),
                    lost: (numbers.below(3) == 0).then(|| numbers.below(50)),
                    labels: [("zone".to_owned(), format!("eu-{}", node % 10))].into(),
                    ..Meta::default()
                };
                let profile = profile.with_meta(&meta).unwrap();
                made.push((Writer(*writer), Made { identity, profile, meta }));
            }
        }
    }
    made
}

/// Writes the archive to a folder; the profiles in it.
pub(super) fn write(folder: &Path) -> Vec<Made> {
    let objects = ObjectFolder::create(folder).unwrap();
    let mut numbers = Numbers(7);
    let mut all = Vec::new();
    for offset in HOURS {
        let made = hour(*offset, &mut numbers);
        for writer in [Writer(0xa), Writer(0xb)] {
            write_part(&objects, part(*offset, writer, 0), &made);
        }
        all.extend(made);
    }
    // A part that is replaced by one of the same profiles, and one that was not completed: both count for nothing.
    let first: Vec<(Writer, Made)> = hour(HOURS[0], &mut Numbers(7));
    write_part(&objects, part(HOURS[0], Writer(0xa), 1), &first);
    let unfinished = part(HOURS[1], Writer(0xa), 2);
    write_part(&objects, unfinished, &hour(HOURS[1], &mut Numbers(1000)));
    objects.delete(&unfinished.path(Table::Profiles)).unwrap();
    all.into_iter().map(|(_, made)| made).collect()
}

fn part(hour: i64, writer: Writer, number: u32) -> Part {
    Part::of_hour(Hour(FIRST.0 + hour), writer, number)
}

/// Writes a part of those profiles that are of its writer.
fn write_part(objects: &ObjectFolder, part: Part, made: &[(Writer, Made)]) {
    let mut writer = PartWriter::new(PartLimits::default());
    for (_, one) in made.iter().filter(|(writer, _)| *writer == part.writer) {
        writer.add(one.identity.clone(), one.profile.clone()).unwrap();
    }
    writer.write(objects, part).unwrap();
}
