//! Files that are cut, changed, of another schema or version, or made to harm: errors that name file and column.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use procprof_archive::{
    Archive, CompactLimits, Grain, ObjectFolder, Part, PartLimits, PartWriter, ProfileSum, ReadLimits, Selection, Table,
};
use procprof_profile::Nanos;
use tempfile::TempDir;

use crate::support::{HOUR, archive, identity, part, some_profiles};

fn path(folder: &tempfile::TempDir, table: Table) -> PathBuf {
    folder.path().join("archive").join(part(0).path(table))
}

/// Reads all of a part, which must not panic; the error's text.
fn read(archive: &Archive, part: Part) -> Result<(), String> {
    let check = archive.check(part).map_err(|error| error.to_string())?;
    archive.merge(&Selection::default()).map_err(|error| error.to_string())?;
    if archive.parts().unwrap().rolled.contains(&part) {
        let mut sum = ProfileSum::new(archive.limits(), &|| false);
        let headers = |part, grain| archive.headers_of(part, grain, &Selection::default());
        sum.add_parts(archive, &[(part, Grain::Hour)], &headers).map_err(|error| error.to_string())?;
        archive.list(part, Grain::Hour).map_err(|error| error.to_string())?;
    }
    check.wrong.first().map_or(Ok(()), |wrong| Err(wrong.clone()))
}

/// An archive with a part that compaction has made, which has files of all tables.
fn compacted() -> (TempDir, Archive, Part) {
    let (folder, archive) = archive(&some_profiles());
    let mut late = PartWriter::new(PartLimits::default());
    late.add(identity(100), some_profiles().remove(0)).unwrap();
    late.write(archive.objects(), part(1)).unwrap();
    let limits = CompactLimits { grace: Nanos(0), ..CompactLimits::default() };
    archive.compact(&limits, &|| HOUR.next_day().next_day().start(), 7, &mut ()).unwrap();
    let part = *archive.parts().unwrap().whole.keys().next().unwrap();
    (folder, archive, part)
}

#[test]
fn cut_files_are_errors() {
    let (folder, archive, part) = compacted();
    assert_eq!(read(&archive, part), Ok(()));
    for table in Table::ALL {
        let path = folder.path().join("archive").join(part.path(table));
        let whole = std::fs::read(&path).unwrap();
        let lengths = [0, 1, 4, 7, 8, 12, whole.len() / 2, whole.len() - 9, whole.len() - 1];
        for length in lengths {
            std::fs::write(&path, &whole[..length]).unwrap();
            let error = read(&archive, part).unwrap_err();
            assert!(error.contains(&part.path(table)), "{table:?} of {length} bytes: {error}");
        }
        std::fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn changed_bytes_never_panic() {
    let (folder, archive, part) = compacted();
    let mut noticed = 0;
    for table in Table::ALL {
        let path = folder.path().join("archive").join(part.path(table));
        let whole = std::fs::read(&path).unwrap();
        // Each place is changed in one way, which differs by place.
        let step = (whole.len() / 80).max(1);
        for (turn, at) in (0..whole.len()).step_by(step).enumerate() {
            let mut changed = whole.clone();
            changed[at] ^= 1 << (turn % 8);
            std::fs::write(&path, &changed).unwrap();
            noticed += usize::from(read(&archive, part).is_err());
        }
        std::fs::write(&path, &whole).unwrap();
    }
    assert!(noticed > 100, "{noticed}");
}

/// Writes a table of one's own in the place of a part's.
fn plant(folder: &tempfile::TempDir, table: Table, columns: Vec<(&str, ArrayRef)>, version: &str) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let version = KeyValue::new("procprof.archive".to_owned(), version.to_owned());
    let properties = WriterProperties::builder()
        .set_compression(parquet::basic::Compression::ZSTD(Default::default()))
        .set_key_value_metadata(Some(vec![version]))
        .build();
    let file = std::fs::File::create(path(folder, table)).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[test]
fn other_schemas_and_versions_are_named() {
    let (folder, archive) = archive(&some_profiles());
    let file = part(0).path(Table::Samples);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["cpu", "cpu"]));
    plant(&folder, Table::Samples, vec![("type", texts.clone())], "2");
    assert_eq!(
        read(&archive, part(0)).unwrap_err(),
        format!("{file}: archive of version 2; this procprof reads up to 1")
    );
    plant(&folder, Table::Samples, vec![("type", texts.clone())], "1");
    assert_eq!(read(&archive, part(0)).unwrap_err(), format!("{file}: column kind: is missing"));
    plant(&folder, Table::Samples, vec![("type", numbers)], "1");
    assert_eq!(read(&archive, part(0)).unwrap_err(), format!("{file}: column type: has the type Int64, not VARCHAR"));
}

#[test]
fn a_page_that_unpacks_to_much_is_refused() {
    let (folder, archive) = archive(&some_profiles());
    let rows = 4 << 20;
    let zeros = || -> ArrayRef { Arc::new(Int64Array::from(vec![0_i64; rows])) };
    let flags: ArrayRef = Arc::new(arrow_array::BooleanArray::from(vec![false; rows]));
    // Without a dictionary, a page of zeros is packed to a thousandth.
    let columns =
        vec![("stack", zeros()), ("up", zeros()), ("last", zeros()), ("frame", zeros()), ("recursive", flags)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let version = KeyValue::new("procprof.archive".to_owned(), "1".to_owned());
    let properties = WriterProperties::builder()
        .set_compression(parquet::basic::Compression::ZSTD(Default::default()))
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(1 << 30)
        .set_data_page_row_count_limit(usize::MAX)
        .set_write_batch_size(rows)
        .set_max_row_group_row_count(None)
        .set_key_value_metadata(Some(vec![version]))
        .build();
    let file = std::fs::File::create(path(&folder, Table::Stacks)).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let error = read(&archive, part(0)).unwrap_err();
    let start = format!("{}: column stack: page at 0 has ", part(0).path(Table::Stacks));
    assert!(error.starts_with(&start) && error.ends_with("more than the limit of 16777216"), "{error}");
}

/// Numbers that no sum could hold.
#[test]
fn hours_have_no_more_profiles_than_a_part() {
    let (folder, archive, part) = compacted();
    let path = folder.path().join("archive").join(part.path(Table::Hours));
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(&path).unwrap()).unwrap();
    let hours = reader.build().unwrap().next().unwrap().unwrap();
    for (column, value) in [("profiles", i64::MAX), ("profiles", -1), ("profiles", 1 << 24), ("untimed", i64::MAX)] {
        let mut columns = hours.columns().to_vec();
        columns[hours.schema().index_of(column).unwrap()] = Arc::new(Int64Array::from(vec![value; hours.num_rows()]));
        let changed = RecordBatch::try_new(hours.schema(), columns).unwrap();
        let version = KeyValue::new("procprof.archive".to_owned(), "1".to_owned());
        let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![version])).build();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = ArrowWriter::try_new(file, changed.schema(), Some(properties)).unwrap();
        writer.write(&changed).unwrap();
        writer.close().unwrap();
        let error = archive.list(part, Grain::Hour).unwrap_err().to_string();
        let start = format!("{}: column {column}: ", part.path(Table::Hours));
        assert!(error.starts_with(&start) && error.ends_with("is no number of profiles of a part"), "{error}");
    }
}

#[test]
fn limits_are_stated() {
    let (folder, _) = archive(&some_profiles());
    let objects = Arc::new(ObjectFolder::open(folder.path().join("archive")).unwrap());
    let read_with = |limits: ReadLimits| read(&Archive::new(objects.clone(), limits), part(0)).unwrap_err();
    let limits = ReadLimits::default();
    let profiles = part(0).path(Table::Profiles);
    assert_eq!(read_with(ReadLimits { rows: 3, ..limits }), format!("{profiles}: rows: 7 exceeds the limit of 3"));
    assert_eq!(read_with(ReadLimits { profiles: 3, ..limits }), format!("{profiles}: rows: 7 exceeds the limit of 3"));
    let error = read_with(ReadLimits { header_bytes: 3000, ..limits });
    assert!(error.starts_with("bytes of the profiles of a part: ") && error.ends_with(" exceeds the limit of 3000"));
    assert!(read_with(ReadLimits { group_bytes: 10, ..limits }).ends_with("exceeds the limit of 10"));
    assert_eq!(read_with(ReadLimits { stacks: 3, ..limits }), "stacks of a part: 4 exceeds the limit of 3");
    let error = read_with(ReadLimits { text_bytes: 3, ..limits });
    assert!(error.starts_with("bytes of texts of a sum: ") && error.ends_with(" exceeds the limit of 3"), "{error}");
}
