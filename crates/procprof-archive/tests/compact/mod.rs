//! Compaction: the same sums before, after, and wherever it ends.

mod memory;
mod moments;

use std::collections::BTreeMap;
use std::sync::Arc;

use procprof_archive::{
    Archive, CompactLimits, Compacted, FrameNames, Grain, Hour, Identity, NamedFrame, Objects, Part, PartLimits,
    PartWriter, ProfileSum, ReadLimits, Result, Selection, Span, Writer,
};
use procprof_profile::{Nanos, Profile, ProfileId};

use crate::support::{HOUR, contents, identity, some_profiles};
use memory::Memory;

const SECOND: i64 = 1_000_000_000;
/// Some time after the profiles' days.
const NOW: Nanos = Nanos(1_763_677_534 * SECOND + 48 * 3600 * SECOND);

/// Everything that readers see: each profile once, and the sum of all.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    profiles: BTreeMap<ProfileId, Vec<i64>>,
    sums: Sums,
}

type Sums = BTreeMap<(Vec<String>, Vec<String>), Vec<i128>>;

fn seen(archive: &Archive) -> Result<Seen> {
    let mut profiles = BTreeMap::new();
    for part in archive.parts()?.whole.into_keys() {
        for (_, header) in archive.headers(part)? {
            let totals = header.totals.iter().map(|total| total.value).collect();
            let before = profiles.insert(header.identity.id, totals);
            assert_eq!(before, None, "{} is there twice", header.identity.id);
        }
    }
    let sum = archive.merge(&Selection::default())?;
    let sums = sum.map(|sum| contents(&sum.profile)).unwrap_or_default();
    assert_eq!(summed_by_hours(archive)?, sums);
    Ok(Seen { profiles, sums })
}

/// The sum of all profiles, of those that are rolled up by their hours.
fn summed_by_hours(archive: &Archive) -> Result<Sums> {
    let parts = archive.parts()?;
    let grain = |part: &Part| if parts.rolled.contains(part) { Grain::Hour } else { Grain::Profile };
    let parts: Vec<(Part, Grain)> = parts.whole.keys().map(|part| (*part, grain(part))).collect();
    let mut sum = ProfileSum::new(archive.limits(), &|| false);
    sum.add_parts(archive, &parts, &|part, grain| archive.headers_of(part, grain, &Selection::default()))?;
    Ok(sum.finish()?.map(|sum| contents(&sum.profile)).unwrap_or_default())
}

fn opened(objects: &Arc<impl Objects + 'static>) -> Archive {
    Archive::new(Arc::clone(objects) as Arc<dyn Objects>, ReadLimits::default())
}

fn limits() -> CompactLimits {
    CompactLimits { grace: Nanos(600 * SECOND), lease: Nanos(60 * SECOND), ..CompactLimits::default() }
}

fn compact_at(archive: &Archive, limits: &CompactLimits, now: Nanos, holder: u64) -> Result<Compacted> {
    archive.compact(limits, &|| now, holder, &mut ())
}

/// A part of an hour with profiles whose numbers begin at one.
fn write(objects: &dyn Objects, hour: Hour, writer: u64, first: i64, profiles: &[Profile]) -> Part {
    let archive = Archive::new(Arc::new(Memory::default()), ReadLimits::default());
    let part = Part { writer: Writer(writer), ..archive.next_part(hour, Writer(writer)).unwrap() };
    let mut writer = PartWriter::new(PartLimits::default());
    for (number, profile) in (first..).zip(profiles) {
        let identity = identity(number);
        let completed = Nanos(hour.start().0 + number * SECOND);
        writer.add(Identity { completed, ..identity }, profile.clone()).unwrap();
    }
    writer.write(objects, part).unwrap();
    part
}

/// Two days with parts of several hours and writers, and a day that has begun.
fn some_days() -> Arc<Memory> {
    let objects = Arc::new(Memory::default());
    let profiles = some_profiles();
    let hour = |at: i64| Hour(HOUR.day().0 + at);
    write(&*objects, hour(10), 1, 0, &profiles[..2]);
    write(&*objects, hour(10), 2, 10, &profiles[1..2]);
    write(&*objects, hour(22), 1, 20, &profiles[2..3]);
    write(&*objects, hour(24), 1, 30, &profiles[3..4]);
    write(&*objects, hour(25), 2, 40, &profiles[3..5]);
    write(&*objects, hour(48), 1, 50, &profiles[5..6]);
    write(&*objects, hour(49), 1, 60, &profiles[5..6]);
    objects
}

/// A day of three parts, and one that has begun: little to do, for tests that do it often.
fn one_day() -> Arc<Memory> {
    let objects = Arc::new(Memory::default());
    let profiles = some_profiles();
    let hour = |at: i64| Hour(HOUR.day().0 + at);
    write(&*objects, hour(10), 1, 0, &profiles[..1]);
    write(&*objects, hour(10), 2, 10, &profiles[1..2]);
    write(&*objects, hour(22), 1, 20, &profiles[2..3]);
    write(&*objects, hour(48), 1, 50, &profiles[5..6]);
    objects
}

#[test]
fn closed_days_become_parts_of_days() {
    let objects = some_days();
    let archive = opened(&objects);
    let before = seen(&archive).unwrap();
    assert_eq!(before.profiles.len(), 9);
    let done = compact_at(&archive, &limits(), NOW, 7).unwrap();
    assert_eq!((done.replaced, done.written, done.removed, &*done.failed), (5, 2, 0, &[][..]));
    assert!(done.written_bytes < done.replaced_bytes, "{done:?}");
    assert_eq!(done.waits_until, Some(Nanos(NOW.0 + 600 * SECOND)));
    assert_eq!(seen(&archive).unwrap(), before);
    let parts = archive.parts().unwrap();
    assert_eq!((parts.whole.len(), parts.replaced.len()), (4, 5));
    let days: Vec<&Part> = parts.whole.keys().filter(|part| part.span == Span::Day).collect();
    assert_eq!(days.iter().map(|part| part.hour).collect::<Vec<_>>(), [HOUR.day(), HOUR.next_day()]);
    for part in parts.whole.keys() {
        assert_eq!(archive.check(*part).unwrap().wrong, Vec::<String>::new());
    }
    // After the grace, what is replaced is removed, and nothing else happens.
    let done = compact_at(&archive, &limits(), Nanos(NOW.0 + 700 * SECOND), 8).unwrap();
    assert_eq!(done, Compacted { removed: 5, ..Compacted::default() });
    assert_eq!(seen(&archive).unwrap(), before);
    assert_eq!(archive.parts().unwrap().replaced.len(), 0);
    assert_eq!(objects.list("staged").unwrap(), []);
}

#[test]
fn a_part_that_comes_later_is_added() {
    let objects = some_days();
    let archive = opened(&objects);
    compact_at(&archive, &limits(), NOW, 7).unwrap();
    let late = Hour(HOUR.day().0 + 11);
    write(&*objects, late, 3, 70, &some_profiles()[6..7]);
    let before = seen(&archive).unwrap();
    // Its name and those of the replaced parts are not used again.
    let ten = Hour(HOUR.day().0 + 10);
    assert_eq!(archive.next_part(late, Writer(3)).unwrap().number, 1);
    assert_eq!(archive.next_part(ten, Writer(1)).unwrap().number, 1);
    assert_eq!(archive.parts_of_hour(late).unwrap().len(), 2);
    let later = Nanos(NOW.0 + 700 * SECOND);
    let done = compact_at(&archive, &limits(), later, 8).unwrap();
    assert_eq!((done.replaced, done.written, done.removed), (2, 1, 5));
    assert_eq!(seen(&archive).unwrap(), before);
    assert_eq!(archive.next_part(ten, Writer(1)).unwrap().number, 1);
    compact_at(&archive, &limits(), Nanos(later.0 + 700 * SECOND), 9).unwrap();
    assert_eq!(seen(&archive).unwrap(), before);
    let parts = archive.parts().unwrap();
    assert_eq!((parts.whole.len(), parts.replaced.len(), parts.unfinished.len()), (4, 0, 0));
}

/// Of profiles that several parts have, whole days have one, also where they are several parts, so that roll-ups have
/// each once.
#[test]
fn profiles_of_several_parts_are_kept_once() {
    let objects = Arc::new(Memory::default());
    let profiles = some_profiles();
    let hour = |at: i64| Hour(HOUR.day().0 + at);
    write(&*objects, hour(10), 1, 0, &profiles[..3]);
    let archive = opened(&objects);
    let expected = seen(&archive).unwrap();
    write(&*objects, hour(10), 2, 0, &profiles[..2]);
    write(&*objects, hour(10), 3, 2, &profiles[2..3]);
    let rows = |part: &Part| archive.check(*part).unwrap().rows;
    let largest = archive.parts().unwrap().whole.keys().map(rows).max().unwrap();
    // The first does not fit with others, and stays as it is; then it does.
    for (holder, rows, replaced, repeated, parts) in [(6, largest as usize, 2, 0, 2), (7, 1 << 20, 2, 3, 1)] {
        let limits = CompactLimits { part: PartLimits { rows, ..PartLimits::default() }, ..limits() };
        let done = compact_at(&archive, &limits, NOW, holder).unwrap();
        assert_eq!((done.replaced, done.repeated, &*done.failed), (replaced, repeated, &[][..]));
        assert_eq!(archive.parts().unwrap().whole.len(), parts);
    }
    assert_eq!(seen(&archive).unwrap(), expected);
    // One that comes later has nothing new.
    write(&*objects, hour(10), 4, 1, &profiles[1..2]);
    let done = compact_at(&archive, &limits(), NOW, 8).unwrap();
    assert_eq!((done.replaced, done.repeated), (2, 1));
    assert_eq!(seen(&archive).unwrap(), expected);
}

#[test]
fn parts_stay_within_their_limits() {
    let objects = some_days();
    let archive = opened(&objects);
    let before = seen(&archive).unwrap();
    let rows = |part: &Part| archive.check(*part).unwrap().rows;
    let most = archive.parts().unwrap().whole.keys().map(rows).max().unwrap();
    let small = PartLimits { rows: most as usize + 9, ..PartLimits::default() };
    let done = compact_at(&archive, &CompactLimits { part: small, ..limits() }, NOW, 7).unwrap();
    assert!(done.written > 0, "{done:?}");
    assert_eq!(seen(&archive).unwrap(), before);
    for part in archive.parts().unwrap().whole.keys() {
        assert!(rows(part) <= small.rows as u64);
    }
    let again = compact_at(&archive, &CompactLimits { part: small, ..limits() }, Nanos(NOW.0 + SECOND), 8).unwrap();
    assert_eq!(again.written, 0, "what was compacted stays as it is");
}

#[test]
fn limits_of_days_and_bytes_drop_the_oldest() {
    let objects = some_days();
    let archive = opened(&objects);
    let all = seen(&archive).unwrap().profiles.len();
    let days = CompactLimits { days_max: Some(1), ..limits() };
    let done = compact_at(&archive, &days, NOW, 7).unwrap();
    assert_eq!((done.dropped, done.written), (3, 1));
    assert_eq!(seen(&archive).unwrap().profiles.len(), all - 4);
    let bytes_max = archive.parts().unwrap().bytes() - 1;
    let bytes = CompactLimits { bytes_max: Some(bytes_max), ..limits() };
    let done = compact_at(&archive, &bytes, Nanos(NOW.0 + SECOND), 8).unwrap();
    assert_eq!(done.dropped, 1, "the part of the oldest day");
    assert!(archive.parts().unwrap().bytes() <= bytes_max);
    assert_eq!(seen(&archive).unwrap().profiles.len(), 2);
    compact_at(&archive, &limits(), Nanos(NOW.0 + 700 * SECOND), 9).unwrap();
    assert_eq!(seen(&archive).unwrap().profiles.len(), 2);
    let parts = archive.parts().unwrap();
    assert_eq!((parts.replaced.len(), parts.unfinished.len()), (0, 0));
}

#[test]
fn one_compaction_runs_at_a_time() {
    let objects = some_days();
    let archive = opened(&objects);
    objects.put("leases/compaction-0000000003", format!("feed {}", NOW.0 / 1_000_000 + 5_000).as_bytes()).unwrap();
    let error = compact_at(&archive, &limits(), NOW, 7).unwrap_err().to_string();
    assert_eq!(error, "another compaction of the archive runs, or died: it has the lease for 6 s more");
    compact_at(&archive, &limits(), Nanos(NOW.0 + 5 * SECOND), 7).unwrap();
    assert_eq!(objects.list("leases").unwrap().len(), 1);
    // One that cannot be understood keeps none away.
    objects.put("leases/compaction-0000000009", b"?").unwrap();
    compact_at(&archive, &limits(), Nanos(NOW.0 + 6 * SECOND), 7).unwrap();
}

#[test]
fn objects_of_others_stop_no_compaction() {
    let objects = some_days();
    let archive = opened(&objects);
    let year = NOW.0 / 1_000_000 + 365 * 86_400_000;
    let strays = [
        ("leases/compaction-18446744073709551615", "1:feed 9223372036854775807".to_owned()),
        ("leases/compaction-9999999999", format!("1:feed {year}")),
        ("compactions/date=2025-11-20/4294967295", "procprof.compaction 1\nat 1\n".to_owned()),
        ("compactions/date=2025-11-20/note.txt", "of an operator".to_owned()),
        ("compactions/date=2025-11-20/0001.doner", String::new()),
        ("compactions/note.txt", "of an operator".to_owned()),
    ];
    // A clock that was a year ahead.
    objects.put("leases/compaction-0000000003", format!("1:feed {year}").as_bytes()).unwrap();
    for (path, text) in &strays {
        objects.put(path, text.as_bytes()).unwrap();
    }
    let done = compact_at(&archive, &limits(), NOW, 7).unwrap();
    assert!(done.written > 0 && done.failed.is_empty(), "{done:?}");
    compact_at(&archive, &limits(), Nanos(NOW.0 + 700 * SECOND), 9).unwrap();
    assert!(archive.parts().unwrap().replaced.is_empty());
    for (path, text) in &strays {
        let size = objects.size(path).unwrap();
        assert_eq!(size, text.len() as u64, "{path} is left alone");
    }
}

#[test]
fn a_damaged_change_hides_its_day_alone() {
    let objects = some_days();
    let archive = opened(&objects);
    let before = seen(&archive).unwrap();
    // It is open as long as what it replaced is there.
    compact_at(&archive, &limits(), NOW, 7).unwrap();
    let path = "compactions/date=2025-11-20/0001";
    let sound = objects.read(path, 0, objects.size(path).unwrap() as usize).unwrap();
    let later = Nanos(NOW.0 + 700 * SECOND);
    for damaged in [&sound[..sound.len() / 2], b"", b"procprof.compaction 1\nold \xff\n", b"procprof.compaction 9\n"] {
        objects.put(path, damaged).unwrap();
        let parts = archive.parts().unwrap();
        let days: Vec<Hour> = parts.whole.keys().map(|part| part.hour.day()).collect();
        assert_eq!(days, [HOUR.next_day(), Hour(HOUR.day().0 + 48), Hour(HOUR.day().0 + 48)]);
        assert!(parts.replaced.keys().all(|part| part.hour.day() == HOUR.next_day()) && parts.unfinished.is_empty());
        let [why] = &parts.wrong()[..] else { panic!("{:?}", parts.wrong()) };
        assert!(why.contains("2025-11-20") && why.contains(path), "{why}");
        assert!(seen(&archive).unwrap_err().to_string().contains(path), "a sum of all");
        let rest = Selection { from: Some(HOUR.next_day().start()), ..Selection::default() };
        assert!(archive.merge(&rest).unwrap().is_some());
        // Nothing is written to the day, since it may be there already.
        assert!(archive.parts_of_hour(HOUR).unwrap_err().to_string().contains(path));
        archive.next_part(HOUR, Writer(9)).unwrap_err();
        // The other day is done with; this one stays.
        let others = archive.objects().list("samples/date=2025-11-20").unwrap();
        let done = compact_at(&archive, &limits(), later, 8).unwrap();
        assert_eq!((&done.failed[..], done.written, done.dropped), (&parts.wrong()[..], 0, 0));
        assert_eq!(archive.objects().list("samples/date=2025-11-20").unwrap(), others);
    }
    assert_eq!(archive.parts().unwrap().replaced.len(), 0);
    // It is restored, and all is as before.
    objects.put(path, &sound).unwrap();
    assert_eq!(seen(&archive).unwrap(), before);
    // Or the day is over, whichever of its parts count.
    objects.put(path, b"").unwrap();
    let old = CompactLimits { days_max: Some(1), ..limits() };
    let done = compact_at(&archive, &old, later, 9).unwrap();
    assert_eq!((done.dropped, &done.failed[..]), (4, &[][..]), "three parts of hours and that of the day");
}

/// Names for one binary.
struct Names;

impl FrameNames for Names {
    fn has(&mut self, build_id: &str) -> bool {
        build_id == "feed"
    }

    fn name(&mut self, build_id: &str, mapping: &str, offset: u64) -> Vec<NamedFrame> {
        assert_eq!((build_id, mapping), ("feed", "/bin/app"));
        let named = |function: String| NamedFrame { system_name: function.clone(), function, ..NamedFrame::default() };
        match offset {
            0x10 => vec![named("outer".to_owned()), named("inner".to_owned())],
            _ => Vec::new(),
        }
    }
}

#[test]
fn frames_get_names_that_are_known_later() {
    let objects = Arc::new(Memory::default());
    let mut builder = procprof_profile::ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let (filename, build_id) = (builder.intern("/bin/app"), builder.intern("feed"));
    let limit = procprof_profile::Addr(0x1000);
    let mapping = builder.mapping(procprof_profile::Mapping { limit, filename, build_id, ..Default::default() });
    let mut location =
        |at| builder.location(procprof_profile::Location::new(Some(mapping), procprof_profile::Addr(at)), &[]);
    let stack = [location(0x10), location(0x20)];
    builder.sample(&stack, &[1, 10], &[]);
    let profile = builder.finish().unwrap();
    write(&*objects, HOUR, 1, 0, &[profile]);
    let archive = opened(&objects);
    let done = archive.compact(&limits(), &|| NOW, 7, &mut Names).unwrap();
    assert_eq!((done.replaced, done.written), (1, 1));
    let sum = archive.merge(&Selection::default()).unwrap().unwrap().profile;
    let sums: Vec<_> = contents(&sum).into_iter().collect();
    let [((stack, _), values)] = &sums[..] else { panic!("{sums:?}") };
    assert_eq!(
        (&stack[..], &values[..]),
        (
            &[
                "/bin/app feed 0x10 [\"inner inner :0:0\", \"outer outer :0:0\"]".to_owned(),
                "/bin/app feed 0x20 []".to_owned()
            ][..],
            &[1, 10][..]
        )
    );
    assert_eq!(sum.total(1), 10);
}

#[test]
fn parts_that_cannot_be_read_stay() {
    let objects = some_days();
    let archive = opened(&objects);
    let broken = archive.parts().unwrap().whole.into_keys().next().unwrap();
    let path = broken.path(procprof_archive::Table::Stacks);
    objects.put(&path, b"PAR1 no parquet PAR1").unwrap();
    let done = compact_at(&archive, &limits(), NOW, 7).unwrap();
    assert_eq!((done.replaced, done.written, done.failed.len()), (4, 2, 1), "{done:?}");
    assert!(done.failed[0].starts_with(&path), "{done:?}");
    assert!(archive.parts().unwrap().whole.contains_key(&broken));
}
