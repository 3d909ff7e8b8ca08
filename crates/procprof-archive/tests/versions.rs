//! Every version of what is written into an archive is read whole.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use procprof_archive::{
    Archive, CompactLimits, Compacted, Error, Hour, Identity, ObjectFolder, Part, PartLimits, PartWriter, ReadLimits,
    Selection, Writer,
};
use procprof_profile::Nanos;

use crate::law::{Contents, Mark, Row, check, line};
use crate::support::{HOUR, contents, identity, some_profiles};

const SECOND: i64 = 1_000_000_000;
/// When the fixtures are compacted: after the days of their profiles.
const NOW: Nanos = Nanos(1_763_677_534 * SECOND + 48 * 3600 * SECOND);

#[test]
fn parts() {
    let mark = Mark::new("profiles/date=2025-11-20/hour=24/0000000000000007-0000.parquet", b"procprof.archive\x18\x01");
    check(&Row { name: "archive", version: 1, make: make_archive, read: read_archive, mark: Some(mark) });
}

#[test]
fn changes() {
    let mark = Mark::new("compactions/date=2025-11-20/0001", b"procprof.compaction ");
    check(&Row { name: "compactions", version: 1, make: make_changes, read: read_changes, mark: Some(mark) });
}

#[test]
fn leases() {
    let mark =
        Mark { bytes: |version| format!("{version}:").into_bytes(), ..Mark::new("leases/compaction-0000000001", b"") };
    check(&Row { name: "leases", version: 1, make: make_leases, read: read_leases, mark: Some(mark) });
}

fn opened(folder: &Path) -> Archive {
    Archive::new(Arc::new(ObjectFolder::open(folder).unwrap()), ReadLimits::default())
}

fn compact(archive: &Archive, now: Nanos, holder: u64) -> procprof_archive::Result<Compacted> {
    let limits = CompactLimits { grace: Nanos(600 * SECOND), lease: Nanos(60 * SECOND), ..CompactLimits::default() };
    archive.compact(&limits, &|| now, holder, &mut ())
}

/// Writes a part of an hour with one profile.
fn write(folder: &Path, hour: Hour, writer: u64, number: i64) {
    let mut part = PartWriter::new(PartLimits::default());
    let completed = Nanos(hour.start().0 + number * SECOND);
    let profile = some_profiles().swap_remove(number as usize);
    part.add(Identity { completed, ..identity(number) }, profile).unwrap();
    part.write(&ObjectFolder::open(folder).unwrap(), Part::of_hour(hour, Writer(writer), 0)).unwrap();
}

/// The text of an archive as readers see it.
fn seen(archive: &Archive) -> Contents {
    let parts = archive.parts()?;
    let mut text = String::new();
    line(&mut text, &parts);
    for part in parts.whole.keys() {
        archive.headers(*part)?.iter().for_each(|header| line(&mut text, header));
        line(&mut text, archive.check(*part)?.wrong);
    }
    if let Some(sum) = archive.merge(&Selection::default())? {
        contents(&sum.profile).iter().for_each(|stack| line(&mut text, stack));
    }
    Ok(text)
}

fn make_archive(folder: &Path) {
    // A day that is compacted, with its roll-up, and an hour of the next one.
    write(folder, HOUR, 1, 0);
    write(folder, HOUR, 2, 1);
    write(folder, Hour(HOUR.0 + 72), 1, 2);
    let archive = opened(folder);
    assert_eq!(compact(&archive, NOW, 7).unwrap().written, 1);
    compact(&archive, Nanos(NOW.0 + 700 * SECOND), 8).unwrap();
    for below in ["compactions", "leases"] {
        std::fs::remove_dir_all(folder.join(below)).unwrap();
    }
}

fn read_archive(folder: &Path) -> Contents {
    seen(&opened(folder))
}

fn make_changes(folder: &Path) {
    write(folder, HOUR, 1, 0);
    write(folder, HOUR, 2, 1);
    assert_eq!(compact(&opened(folder), NOW, 7).unwrap().written, 1);
    std::fs::remove_dir_all(folder.join("leases")).unwrap();
}

fn read_changes(folder: &Path) -> Contents {
    let archive = opened(folder);
    let mut text = seen(&archive)?;
    let done = compact(&archive, Nanos(NOW.0 + 700 * SECOND), 8)?;
    line(&mut text, done);
    Ok(text + &seen(&archive)?)
}

fn make_leases(folder: &Path) {
    // A compaction that is suspended for an hour: it has lost its lease, which it leaves as it is.
    let is_first = Cell::new(true);
    let clock = || if is_first.replace(false) { NOW } else { Nanos(NOW.0 + 3600 * SECOND) };
    let limits = CompactLimits { lease: Nanos(60 * SECOND), ..CompactLimits::default() };
    opened(folder).compact(&limits, &clock, 0x6f0c_1b9a_2d3e_4f50, &mut ()).unwrap();
}

fn read_leases(folder: &Path) -> Contents {
    let mut text = String::new();
    for passed in [10, 59, 60] {
        match compact(&opened(folder), Nanos(NOW.0 + passed * SECOND), 8) {
            Err(Error::Busy { left }) => line(&mut text, (passed, left)),
            Err(error) => return Err(error.into()),
            Ok(done) => line(&mut text, (passed, done)),
        }
    }
    Ok(text)
}
