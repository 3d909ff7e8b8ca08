//! The promises of the store, on every backend.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use procprof_profile::Nanos;
use procprof_store::{Encoded, Error, Format, ImportOptions, NewProfile, RetentionLimits, Store, StoreOptions};

use super::{everywhere, open};
use crate::support::{SECOND, START, all, id, meta, pprof, put, put_meta, summary};

#[test]
fn profiles_come_back_as_they_were_put() {
    everywhere(|place, data| {
        let store = open(place, data);
        for number in 0..30 {
            // More than one range long, some of them; three of a second.
            let padding = if number % 5 == 0 { 600_000 } else { 0 };
            let start = START + number as i64 / 3 * SECOND;
            put_meta(&store, meta(number, 10001 + number as u64 % 2, "cpu", start + SECOND), start, padding).unwrap();
        }
        let before = all(&store, 7);
        assert_eq!(before.len(), 30);
        let bytes = store.open_bytes(id(5)).unwrap();
        assert_eq!(bytes.len() as u64, store.get(id(5)).unwrap().bytes);
        assert!(bytes.len() > 300_000);
        assert!(matches!(put(&store, 5, 10001, "cpu", START), Err(Error::Exists { .. })));
        store.rebuild().unwrap();
        assert_eq!(all(&store, 7), before, "a rebuild finds the same");
        drop(store);
        assert_eq!(all(&open(place, data), 7), before, "an opening finds the same");
        std::fs::remove_file(data.join("catalog.sqlite")).unwrap();
        let store = open(place, data);
        assert_eq!((store.opened().reconciled.added, all(&store, 7)), (30, before), "also without its catalog");
    });
}

#[test]
fn deleted_pinned_replaced_and_retained() {
    everywhere(|place, data| {
        let store = open(place, data);
        for number in 0..10 {
            put(&store, number, 10001, "cpu", START + number as i64 * SECOND).unwrap();
        }
        store.pin(id(0)).unwrap();
        assert!(matches!(store.delete(id(0)), Err(Error::Pinned { .. })));
        store.delete(id(1)).unwrap();
        assert!(matches!(store.open_bytes(id(1)), Err(Error::NotFound { .. })));
        let meta = meta(2, 10001, "cpu", START + 12 * SECOND);
        let encoded = pprof(&meta, 500);
        let better = NewProfile {
            meta,
            encoded: Encoded::Received(&encoded),
            summary: summary("named"),
            functions: None,
            start: Nanos(START + 2 * SECOND),
            duration: Nanos(10 * SECOND),
        };
        let replaced = store.replace(better).unwrap();
        assert_eq!(store.open_bytes(id(2)).unwrap().len() as u64, replaced.bytes);
        let limits = RetentionLimits {
            retained_size_bytes: 3 * replaced.bytes,
            free_bytes_min: 0,
            ..RetentionLimits::default()
        };
        let deleted = store.retain(&limits, Nanos(START + 60 * SECOND)).unwrap().profiles;
        assert!(!deleted.is_empty() && !deleted.contains(&id(0)) && !deleted.contains(&id(9)), "{deleted:?}");
        let left = all(&store, 10);
        drop(store);
        let store = open(place, data);
        assert_eq!(all(&store, 10), left);
        assert_eq!(
            store.opened().reconciled,
            procprof_store::Reconciled { files: left.len() as u64, ..Default::default() }
        );
    });
}

#[test]
fn files_made_elsewhere_are_kept_byte_by_byte() {
    everywhere(|place, data| {
        let foreign = tempfile::tempdir().unwrap();
        let page = crate::support::gzip(b"<html>flames</html>");
        std::fs::write(foreign.path().join("cpu-profile-20251120-100000-flame.html.gz"), &page).unwrap();
        let store = open(place, data);
        let options = ImportOptions { node: 10001, zone: TimeZone::UTC, now: Nanos(START), skip: BTreeSet::new() };
        let report = store.import(foreign.path(), &options, &mut |_| Err("no profile here".to_owned())).unwrap();
        let id = report.added[0].1;
        assert_eq!(store.open_bytes(id).unwrap(), page);
        assert_eq!(store.open_page(id).unwrap(), b"<html>flames</html>");
        let entry = store.get(id).unwrap();
        store.rebuild().unwrap();
        assert_eq!((store.get(id).unwrap(), entry.format), (entry, Format::Flame));
    });
}

#[test]
fn recordings_are_kept_byte_by_byte_and_retained_as_profiles_are() {
    everywhere(|place, data| {
        let store = open(place, data);
        let entry = store.put_recording(10001, Nanos(START), b"FLR\0 and more").unwrap();
        assert_eq!(
            (entry.format, entry.profile_type.name(), entry.meta.trigger.as_str()),
            (Format::Recording, "recording", "kept")
        );
        assert!(entry.file_name.ends_with(".jfr"), "{}", entry.file_name);
        assert_eq!(store.open_bytes(entry.id).unwrap(), b"FLR\0 and more");
        assert!(matches!(store.put_recording(10001, Nanos(START), b"text"), Err(Error::Malformed { .. })));
        assert!(matches!(store.put_recording(10001, Nanos(START), b"FLR\0 and more"), Err(Error::Exists { .. })));
        assert!(matches!(store.open_page(entry.id), Err(Error::Malformed { .. })));
        store.rebuild().unwrap();
        assert_eq!(store.get(entry.id).unwrap(), entry);
        put(&store, 1, 10001, "cpu", START + SECOND).unwrap();
        store.put_recording(10001, Nanos(START + 2 * SECOND), b"FLR\0 and later").unwrap();
        let limits = RetentionLimits { retained_size_bytes: 1, free_bytes_min: 0, ..RetentionLimits::default() };
        assert_eq!(store.retain(&limits, Nanos(START + 60 * SECOND)).unwrap().profiles, [entry.id]);
    });
}

#[test]
fn a_blob_that_went_away_or_grew_too_large_is_an_error_with_its_name() {
    everywhere(|place, data| {
        let entry = put(&open(place, data), 1, 10001, "cpu", START).unwrap();
        let blobs = (place.open)(data);
        let name = procprof_store::BlobName::new("10001", &entry.file_name).unwrap();
        blobs.replace(name, &[&[0; 2000]]).unwrap();
        let options = StoreOptions { profile_bytes_max: 1999, ..StoreOptions::default() };
        let small = Store::open_on(data, (place.open)(data), options).unwrap();
        assert!(matches!(small.open_bytes(id(1)), Err(Error::TooLarge { bytes: 2000, limit: 1999, .. })));
        blobs.delete(name).unwrap();
        let gone = small.open_bytes(id(1)).unwrap_err();
        assert!(matches!(&gone, Error::Gone { .. }) && gone.to_string().contains(&entry.file_name), "{gone}");
    });
}
