//! [`TableFile`]: one file of an archive, checked and read by batches of columns.
//!
//! A file may be anything: cut, changed, or made to harm. Its version and columns are compared with the schema, the
//! sizes in it with [`ReadLimits`] before memory is reserved, and a panic of the Parquet reader is an error of the
//! file.

use std::io::{Cursor, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, MapArray, RecordBatch, StringViewArray, StructArray,
    TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::statistics::Statistics;

use crate::objects::Objects;
use crate::pages::PageLimits;
use crate::schema::{FORMAT, VERSION_KEY};
use crate::{Error, Part, Result, Table};

/// Rows that are decoded at a time.
const BATCH: usize = 4096;
/// Entries of maps in a row group at most: a batch may have all of them.
const ENTRIES_MAX: u64 = 1 << 22;
/// Bytes at the end of a file that are read at first: most files' metadata is within them, and all of small files.
const TAIL: u64 = 64 << 10;

/// Limits of reading, which bound the memory that it takes. A sum holds up to four parts within them at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Bytes of a file's metadata.
    pub metadata_bytes: u64,
    /// Rows of a file.
    pub rows: u64,
    /// Rows of a file of profiles or of their hours.
    pub profiles: u64,
    /// Bytes of what is known of the profiles, or hours, of a part.
    pub header_bytes: usize,
    /// Bytes of the columns of a row group that are read, as they are stored.
    pub group_bytes: u64,
    /// Bytes of a page, unpacked.
    pub page_bytes: u64,
    /// Stacks of a sum of profiles.
    pub stacks: usize,
    /// Bytes of texts of a sum of profiles.
    pub text_bytes: usize,
}

impl Default for ReadLimits {
    fn default() -> ReadLimits {
        ReadLimits {
            metadata_bytes: 16 << 20,
            rows: 1 << 28,
            profiles: 1 << 22,
            header_bytes: 512 << 20,
            group_bytes: 128 << 20,
            page_bytes: 16 << 20,
            stacks: 4 << 20,
            text_bytes: 256 << 20,
        }
    }
}

pub(crate) fn check_size(what: &str, size: usize, limit: usize) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { what: what.to_owned(), size: size as u64, limit: limit as u64 })
}

/// A file of an archive.
pub(crate) struct TableFile {
    path: String,
    table: Table,
    object: Object,
    metadata: Arc<ParquetMetaData>,
    limits: ReadLimits,
}

/// A row group, with the ranges of its values.
pub(crate) struct Group<'a> {
    metadata: &'a RowGroupMetaData,
}

impl Group<'_> {
    /// Whether the column may have the number.
    pub(crate) fn may_have(&self, column: &str, number: i64) -> bool {
        match self.statistics(column) {
            Some(Statistics::Int64(range)) => {
                range.min_opt().is_none_or(|min| *min <= number) && range.max_opt().is_none_or(|max| *max >= number)
            }
            _ => true,
        }
    }

    /// Whether the column may have the text.
    pub(crate) fn may_have_text(&self, column: &str, text: &str) -> bool {
        match self.statistics(column) {
            // A bound that was shortened is below or above all values all the same.
            Some(Statistics::ByteArray(range)) => {
                range.min_bytes_opt().is_none_or(|min| min <= text.as_bytes())
                    && range.max_bytes_opt().is_none_or(|max| max >= text.as_bytes())
            }
            _ => true,
        }
    }

    fn statistics(&self, column: &str) -> Option<&Statistics> {
        self.metadata.columns().iter().find(|chunk| chunk.column_path().string() == column)?.statistics()
    }
}

impl TableFile {
    /// Opens a part's file of a table and checks its version and columns.
    pub(crate) fn open(objects: &Arc<dyn Objects>, part: Part, table: Table, limits: ReadLimits) -> Result<TableFile> {
        let path = part.path(table);
        let size = objects.size(&path)?;
        let end = (size, Bytes::new());
        let object =
            Object { objects: Arc::clone(objects), path: path.clone().into(), size, end, kept: Arc::default() };
        let (metadata, end) = metadata(&object, limits)?;
        let object = Object { end, ..object };
        let file = TableFile { path, table, object, metadata: Arc::new(metadata), limits };
        file.check()?;
        Ok(file)
    }

    pub(crate) fn rows(&self) -> u64 {
        self.metadata.file_metadata().num_rows().max(0) as u64
    }

    fn check(&self) -> Result<()> {
        let file = self.metadata.file_metadata();
        let version = file.key_value_metadata().and_then(|all| all.iter().find(|one| one.key == VERSION_KEY));
        let found = version.and_then(|one| one.value.clone()).unwrap_or_default();
        match found.parse() {
            Ok(found) => FORMAT.check(&self.path, Some(found))?,
            Err(_) => return Err(Error::malformed(&self.path, format!("version {found:?} of the schema"))),
        };
        let groups: i128 = self.metadata.row_groups().iter().map(|group| i128::from(group.num_rows())).sum();
        if groups != i128::from(file.num_rows()) || file.num_rows() < 0 {
            return Err(Error::malformed(&self.path, "the rows of its row groups are not those of the file"));
        }
        let limit =
            if self.table.has_headers() { self.limits.profiles.min(self.limits.rows) } else { self.limits.rows };
        if self.rows() > limit {
            return Err(Error::TooLarge { what: format!("{}: rows", self.path), size: self.rows(), limit });
        }
        Ok(())
    }

    /// Reads columns by batches, of the row groups that pass the filter.
    pub(crate) fn read(
        &self,
        columns: &[&'static str],
        filter: &dyn Fn(&Group<'_>) -> bool,
        each: &mut dyn FnMut(&Rows<'_>) -> Result<()>,
    ) -> Result<()> {
        self.read_for(columns, filter, each)
    }

    /// The same for a callback with errors of its own.
    pub(crate) fn read_for<E: From<Error>>(
        &self,
        columns: &[&'static str],
        filter: &dyn Fn(&Group<'_>) -> bool,
        each: &mut dyn FnMut(&Rows<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let options = ArrowReaderOptions::new().with_schema(self.arrow_schema()?);
        let arrow = self.guarded(|| ArrowReaderMetadata::try_new(Arc::clone(&self.metadata), options))?;
        let roots: Vec<usize> = columns.iter().filter_map(|name| arrow.schema().index_of(name).ok()).collect();
        let mask = ProjectionMask::roots(self.metadata.file_metadata().schema_descr(), roots);
        for (number, group) in self.metadata.row_groups().iter().enumerate() {
            if !filter(&Group { metadata: group }) {
                continue;
            }
            let object = self.object.with_columns(group, &mask, &self.limits)?;
            let mut batches = self.guarded(|| {
                ParquetRecordBatchReaderBuilder::new_with_metadata(object, arrow.clone())
                    .with_projection(mask.clone())
                    .with_row_groups(vec![number])
                    .with_batch_size(BATCH)
                    .build()
            })?;
            let mut rows = 0;
            while let Some(batch) =
                self.guarded(|| batches.next().transpose().map_err(|error| ParquetError::General(error.to_string())))?
            {
                rows += batch.num_rows() as u64;
                each(&Rows { file: self, batch: &batch })?;
            }
            if i64::try_from(rows) != Ok(group.num_rows()) {
                let why = format!("{rows} rows in a row group of {}", group.num_rows());
                return Err(Error::malformed(&self.path, why).into());
            }
        }
        Ok(())
    }

    /// The file's columns with the types in which they are read, after a check that the table's are among them.
    fn arrow_schema(&self) -> Result<Arc<Schema>> {
        let found = self.guarded(|| {
            let file = self.metadata.file_metadata();
            parquet::arrow::parquet_to_arrow_schema(file.schema_descr(), None)
        })?;
        for column in self.table.columns() {
            let wrong = |why: String| Error::column(&self.path, column.name, why);
            let field = found.field_with_name(column.name).map_err(|_| wrong("is missing".to_owned()))?;
            if !is_same(field.data_type(), &column.column_type.data_type()) {
                return Err(wrong(format!("has the type {}, not {}", field.data_type(), column.column_type.sql())));
            }
            if field.is_nullable() && !column.nullable {
                return Err(wrong("may have missing values".to_owned()));
            }
        }
        let fields: Vec<FieldRef> = found.fields().iter().map(viewed).collect();
        Ok(Arc::new(Schema::new(fields)))
    }

    /// Runs a step of the Parquet reader; its errors and panics are those of the file.
    fn guarded<T>(&self, step: impl FnOnce() -> std::result::Result<T, ParquetError>) -> Result<T> {
        guarded(&self.path, step)
    }
}

fn guarded<T>(path: &str, step: impl FnOnce() -> std::result::Result<T, ParquetError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(done) => done.map_err(|error| Error::malformed(path, error)),
        Err(_) => Err(Error::malformed(path, "malformed in a way that the Parquet reader doesn't expect")),
    }
}

/// Whether a column has the type, whatever the names of the entries of maps are.
fn is_same(found: &DataType, expected: &DataType) -> bool {
    match (found, expected) {
        (DataType::Map(found, _), DataType::Map(expected, _)) => match (found.data_type(), expected.data_type()) {
            (DataType::Struct(found), DataType::Struct(expected)) => {
                let mut pairs = found.iter().zip(expected);
                let is_strict = found.iter().all(|field| !field.is_nullable());
                is_strict
                    && found.len() == expected.len()
                    && pairs.all(|(one, other)| one.data_type() == other.data_type())
            }
            _ => false,
        },
        _ => found == expected,
    }
}

/// The field with its texts as views, which do not copy a dictionary's text for each row.
fn viewed(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Map(entry, sorted) => match entry.data_type() {
            DataType::Struct(pair) => {
                let pair: Vec<FieldRef> = pair.iter().map(viewed).collect();
                let entry = Field::new(entry.name(), DataType::Struct(pair.into()), entry.is_nullable());
                DataType::Map(Arc::new(entry), *sorted)
            }
            _ => return Arc::clone(field),
        },
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// The bytes of the entries of a map, about.
fn map_bytes(entries: &StructArray) -> usize {
    let of_column = |column: &ArrayRef| match column.as_any().downcast_ref::<StringViewArray>() {
        Some(texts) => texts.views().iter().map(|view| 32 + (*view as u32) as usize).sum(),
        None => 32 * column.len(),
    };
    entries.columns().iter().map(of_column).sum()
}

/// Reads the metadata at the end of a file; where that begins, and what was read.
fn metadata(object: &Object, limits: ReadLimits) -> Result<(ParquetMetaData, (u64, Bytes))> {
    let path = &*object.path;
    let mut tail = TAIL.min(object.size);
    loop {
        let start = object.size - tail;
        let bytes = Bytes::from(object.objects.read(path, start, tail as usize)?);
        let mut reader = ParquetMetaDataReader::new();
        let parsed = catch_unwind(AssertUnwindSafe(|| reader.try_parse_sized(&bytes, object.size)));
        match parsed {
            Ok(Ok(())) => return Ok((guarded(path, || reader.finish())?, (start, bytes))),
            Ok(Err(ParquetError::NeedMoreData(needed))) if needed as u64 > tail && needed as u64 <= object.size => {
                tail = needed as u64;
                if tail > limits.metadata_bytes {
                    let what = format!("{path}: bytes of metadata");
                    return Err(Error::TooLarge { what, size: tail, limit: limits.metadata_bytes });
                }
            }
            Ok(Err(error)) => return Err(Error::malformed(path, error)),
            Err(_) => return Err(Error::malformed(path, "malformed metadata")),
        }
    }
}

/// An object as the Parquet reader sees it, with the columns of a row group in memory.
#[derive(Clone)]
struct Object {
    objects: Arc<dyn Objects>,
    path: Arc<str>,
    size: u64,
    /// Where its last bytes begin, and these.
    end: (u64, Bytes),
    kept: Arc<Mutex<Vec<(u64, Bytes)>>>,
}

impl Object {
    /// The object with the columns of a row group read, none of whose pages exceeds the limits.
    fn with_columns(&self, group: &RowGroupMetaData, mask: &ProjectionMask, limits: &ReadLimits) -> Result<Object> {
        let mut columns = Vec::new();
        let mut left = limits.group_bytes;
        for (leaf, column) in group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf)) {
            let name = column.column_path().string();
            let wrong = |why: String| Error::column(&*self.path, &name, why);
            let range = catch_unwind(AssertUnwindSafe(|| column.byte_range()));
            let (start, length) = range.map_err(|_| wrong(format!("column {leaf} has no place")))?;
            if start.checked_add(length).is_none_or(|end| end > self.size) {
                return Err(wrong("lies behind the end of the file".to_owned()));
            }
            left = left.checked_sub(length).ok_or_else(|| Error::TooLarge {
                what: format!("{}: bytes of columns in a row group", self.path),
                size: group.compressed_size().max(0) as u64,
                limit: limits.group_bytes,
            })?;
            // A column of one value a row has no more; those of maps have theirs in a list.
            let is_repeated = column.column_descr().max_rep_level() > 0;
            let values = if is_repeated { ENTRIES_MAX } else { u64::try_from(group.num_rows()).unwrap_or(0) };
            columns.push((name, (start, length as usize), values));
        }
        let is_at_end = |(_, (start, _), _): &&(String, (u64, usize), u64)| *start >= self.end.0;
        let elsewhere = columns.iter().filter(|column| !is_at_end(column));
        let ranges: Vec<(u64, usize)> = elsewhere.map(|(_, range, _)| *range).collect();
        let mut read = self.objects.read_ranges(&self.path, &ranges)?.into_iter();
        let mut kept = Vec::new();
        for column in &columns {
            let (name, (start, length), values) = column;
            let bytes = if is_at_end(&column) { self.at_end(*start, *length) } else { read.next() };
            let bytes = bytes.ok_or_else(|| Error::column(&*self.path, name, "is cut"))?;
            let most = PageLimits { bytes: limits.page_bytes, values: *values };
            let checked = crate::pages::check(&bytes, most);
            checked.map_err(|why| Error::column(&*self.path, name, why))?;
            kept.push((*start, bytes));
        }
        Ok(Object { kept: Arc::new(Mutex::new(kept)), ..self.clone() })
    }

    /// Bytes of the end of the file that was read.
    fn at_end(&self, start: u64, length: usize) -> Option<Bytes> {
        let at = usize::try_from(start.checked_sub(self.end.0)?).ok()?;
        (at.checked_add(length)? <= self.end.1.len()).then(|| self.end.1.slice(at..at + length))
    }

    fn kept(&self, start: u64) -> Option<Bytes> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find_map(|(first, bytes)| {
            let at = usize::try_from(start.checked_sub(*first)?).ok()?;
            (at < bytes.len()).then(|| bytes.slice(at..))
        })
    }
}

impl Length for Object {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Object {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> std::result::Result<Self::T, ParquetError> {
        let bytes = self.kept(start).ok_or_else(|| ParquetError::General(format!("no column at {start}")))?;
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> std::result::Result<Bytes, ParquetError> {
        let bytes = self.kept(start).filter(|bytes| bytes.len() >= length);
        let bytes = bytes.ok_or_else(|| ParquetError::EOF(format!("no {length} bytes of a column at {start}")))?;
        Ok(bytes.slice(..length))
    }
}

/// Some rows of a file.
pub(crate) struct Rows<'a> {
    file: &'a TableFile,
    batch: &'a RecordBatch,
}

impl Rows<'_> {
    pub(crate) fn len(&self) -> usize {
        self.batch.num_rows()
    }

    pub(crate) fn integers(&self, column: &str) -> Result<&Int64Array> {
        self.column(column)
    }

    pub(crate) fn texts(&self, column: &str) -> Result<&StringViewArray> {
        self.column(column)
    }

    pub(crate) fn flags(&self, column: &str) -> Result<&BooleanArray> {
        self.column(column)
    }

    pub(crate) fn moments(&self, column: &str) -> Result<&TimestampMicrosecondArray> {
        self.column(column)
    }

    /// The entries of a map of texts in a row.
    pub(crate) fn text_map(&self, column: &str, row: usize) -> Result<Vec<(String, String)>> {
        self.map(column, row, |values: &StringViewArray, at| values.value(at).to_owned())
    }

    /// The entries of a map of numbers in a row.
    pub(crate) fn integer_map(&self, column: &str, row: usize) -> Result<Vec<(String, i64)>> {
        self.map(column, row, |values: &Int64Array, at| values.value(at))
    }

    /// Whether a row has no value in a column.
    pub(crate) fn is_missing(&self, column: &str, row: usize) -> Result<bool> {
        let found = self.batch.column_by_name(column).ok_or_else(|| self.wrong(column, "is missing"))?;
        Ok(found.is_null(row))
    }

    /// The bytes that a row takes in memory, about.
    pub(crate) fn bytes(&self, row: usize) -> usize {
        let bytes = |array: &dyn Array| match array.as_any().downcast_ref::<StringViewArray>() {
            Some(texts) if !texts.is_null(row) => 32 + texts.value(row).len(),
            _ => 32,
        };
        let of_column = |array: &ArrayRef| match array.as_any().downcast_ref::<MapArray>() {
            Some(map) => map_bytes(&map.value(row)),
            None => bytes(array.as_ref()),
        };
        self.batch.columns().iter().map(of_column).sum()
    }

    /// An error of a column.
    pub(crate) fn wrong(&self, column: &str, why: impl ToString) -> Error {
        Error::column(&self.file.path, column, why)
    }

    fn map<A: 'static, T>(&self, column: &str, row: usize, value: fn(&A, usize) -> T) -> Result<Vec<(String, T)>> {
        let map: &MapArray = self.column(column)?;
        let entries = map.value(row);
        let keys = entries.column(0).as_any().downcast_ref::<StringViewArray>();
        let values = entries.column(1).as_any().downcast_ref::<A>();
        let (Some(keys), Some(values)) = (keys, values) else { return Err(self.wrong(column, "has another type")) };
        Ok((0..entries.len()).map(|at| (keys.value(at).to_owned(), value(values, at))).collect())
    }

    fn column<A: 'static>(&self, name: &str) -> Result<&A> {
        let found = self.batch.column_by_name(name).ok_or_else(|| self.wrong(name, "is missing"))?;
        found.as_any().downcast_ref().ok_or_else(|| self.wrong(name, "has another type"))
    }
}
