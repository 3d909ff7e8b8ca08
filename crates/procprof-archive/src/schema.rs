//! The tables of an archive: one row for each column, of which the files, their checks and `docs/archive.md` are made.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use procprof_files::DiskFormat;

/// The version of the schema. A reader of an earlier version refuses the files; a new column does not make a new
/// version.
pub const VERSION: u32 = 1;
/// The files of the tables.
pub(crate) const FORMAT: DiskFormat = DiskFormat { name: "archive", version: VERSION };
/// The key of the version in a file's metadata.
pub(crate) const VERSION_KEY: &str = "procprof.archive";
/// Rows of a row group: what a filter can leave out as a whole.
const ROW_GROUP: usize = 1 << 17;

/// Columns with the range of their values for each row group, by which readers leave out row groups. Of the others it
/// would be a part of a small file that counts.
const FILTERED: &[&str] = &["type", "kind", "cluster", "node_name", "node", "time", "stack", "frame", "function"];

/// A table of the archive, and the folder with its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The functions, lines and addresses of frames.
    Frames,
    /// The tree of stacks.
    Stacks,
    /// Labels of samples.
    Labels,
    /// Values of samples.
    Samples,
    /// Values of the samples of each hour of a node, added up; of parts that compaction has made.
    Rollups,
    /// The hours of nodes that these are of.
    Hours,
    /// The profiles; a part whose file of profiles is there is whole.
    Profiles,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// A text, `VARCHAR`.
    Text,
    /// A signed number of 64 bits, `BIGINT`.
    Integer,
    /// `BOOLEAN`.
    Flag,
    /// A moment of UTC in microseconds, `TIMESTAMP`.
    Moment,
    /// `MAP(VARCHAR, VARCHAR)`.
    Texts,
    /// `MAP(VARCHAR, BIGINT)`.
    Integers,
}

/// How the values of a column are encoded before they are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    /// The distinct values, and which of them each row has.
    Dictionary,
    /// The difference to the row before.
    Delta,
    /// As they are: rows that repeat one another are found by the compression.
    Plain,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub column_type: ColumnType,
    /// Whether values may be missing.
    pub nullable: bool,
    pub(crate) packing: Packing,
    /// Its meaning, for the reference page.
    pub help: &'static str,
}

const fn column(name: &'static str, column_type: ColumnType, packing: Packing, help: &'static str) -> Column {
    Column { name, column_type, nullable: false, packing, help }
}

const fn nullable(column: Column) -> Column {
    Column { nullable: true, ..column }
}

use ColumnType::{Flag, Integer, Integers, Moment, Text, Texts};
use Packing::{Delta, Dictionary, Plain};

const FRAMES: &[Column] = &[
    column("frame", Integer, Delta, "the frame's id; unique in the archive"),
    column("function", Text, Dictionary, "the function's name; empty if it is unknown"),
    nullable(column("system_name", Text, Dictionary, "its name in the symbol table; missing if that is the same")),
    column("file", Text, Dictionary, "the source file; may be empty"),
    column("start_line", Integer, Plain, "the function's first line; 0 if unknown"),
    column("line", Integer, Delta, "the line; 0 if unknown"),
    column("col", Integer, Delta, "the column in the line; 0 if unknown"),
    column("inlined", Flag, Dictionary, "whether the call was inlined into the frame that the parent has"),
    column("mapping", Text, Dictionary, "the binary, or a name in brackets such as `[vdso]`; may be empty"),
    column("build_id", Text, Dictionary, "the binary's build id; may be empty"),
    column(
        "address",
        Integer,
        Plain,
        "the offset in the binary; without a mapping the address; the bits of an unsigned number",
    ),
    column("folded", Flag, Dictionary, "whether several symbols share this place"),
];

const STACKS: &[Column] = &[
    column("stack", Integer, Delta, "the stack's id; unique in the archive"),
    column("up", Integer, Plain, "the caller's stack is `stack - up`; 0 for the root, which has no frame"),
    column(
        "last",
        Integer,
        Plain,
        "the last of the stacks that begin with this one; their ids are from `stack` to here",
    ),
    nullable(column("frame", Integer, Plain, "the leaf; missing for the root")),
    column("recursive", Flag, Dictionary, "whether the leaf's function is among its callers, too"),
];

const LABELS: &[Column] = &[
    column("labels", Integer, Delta, "the id of the set of labels; unique in the archive"),
    column("key", Text, Dictionary, "the label's name"),
    nullable(column("text", Text, Dictionary, "its value, if that is a text")),
    nullable(column("number", Integer, Dictionary, "its value, if that is a number")),
    column("unit", Text, Dictionary, "the unit of the number; may be empty"),
];

const SAMPLES: &[Column] = &[
    column("type", Text, Dictionary, "the profile's type: `cpu`, `heap`, …"),
    column("kind", Text, Dictionary, "what the value counts: `samples`, `cpu`, `inuse_space`, …"),
    column("unit", Text, Dictionary, "its unit: `count`, `nanoseconds`, `bytes`, …"),
    column("cluster", Text, Dictionary, "the node's cluster"),
    column("node_name", Text, Dictionary, "the node's name"),
    column("node", Integer, Dictionary, "the node's id, unique among the nodes of one server"),
    column("stack", Integer, Delta, "the stack"),
    column("time", Moment, Delta, "when the hour began in which the profile was complete"),
    column("profile", Integer, Delta, "the profile, which has the exact time"),
    nullable(column("labels", Integer, Plain, "the labels; missing if there are none")),
    column("value", Integer, Plain, "the value, an estimate where the profiler takes samples; never 0"),
];

const PROFILES: &[Column] = &[
    column("profile", Integer, Delta, "the profile's id in the archive, in the order of node, type and `time`"),
    column("id", Text, Dictionary, "its id as in addresses of pages: a UUID"),
    column("type", Text, Dictionary, "its type: `cpu`, `heap`, …"),
    column("cluster", Text, Dictionary, "the node's cluster"),
    column("node_name", Text, Dictionary, "the node's name"),
    column("node", Integer, Dictionary, "the node's id, unique among the nodes of one server"),
    column("role", Text, Dictionary, "the node's role: `FE`, `BE`, `service`, …"),
    column("node_kind", Text, Dictionary, "how the node is collected"),
    column("time", Moment, Dictionary, "when the profile was complete"),
    column("start", Moment, Dictionary, "when it began; 1970 if unknown"),
    column("duration_nanos", Integer, Dictionary, "how long it took; 0 for a moment or if unknown"),
    column("trigger", Text, Dictionary, "why it was captured: `schedule`, `manual`, …"),
    column("engine", Text, Dictionary, "what took the samples"),
    column("labels", Texts, Dictionary, "the labels of the node"),
    column("totals", Integers, Dictionary, "the sum of each kind of value, in the profile's order"),
    column("units", Texts, Dictionary, "the unit of each kind of value"),
    column("shown_kind", Text, Dictionary, "the kind that is shown first"),
    column("period_kind", Text, Dictionary, "the quantity that the period counts; may be empty"),
    column("period_unit", Text, Dictionary, "the period's unit"),
    column("period", Integer, Dictionary, "the sampling period; 0 if unknown"),
    column("samples", Integer, Delta, "number of samples in the profile's file"),
    nullable(column("lost", Integer, Dictionary, "samples that the profiler lost")),
    nullable(column("truncated", Integer, Dictionary, "samples whose stacks were cut")),
    nullable(column("unsampled_nanos", Integer, Dictionary, "CPU time that no sample stands for")),
    column("facts", Texts, Dictionary, "what else is known of the profile"),
];

const ROLLUPS: &[Column] = &[
    column("type", Text, Dictionary, "the profiles' type: `cpu`, `heap`, …"),
    column("kind", Text, Dictionary, "what the value counts: `samples`, `cpu`, `inuse_space`, …"),
    column("unit", Text, Dictionary, "its unit: `count`, `nanoseconds`, `bytes`, …"),
    column("cluster", Text, Dictionary, "the node's cluster"),
    column("node_name", Text, Dictionary, "the node's name"),
    column("node", Integer, Dictionary, "the node's id, unique among the nodes of one server"),
    column("stack", Integer, Delta, "the stack"),
    column("time", Moment, Delta, "when the hour began"),
    column("summary", Integer, Delta, "the row of `hours`"),
    nullable(column("labels", Integer, Plain, "the labels; missing if there are none")),
    column("value", Integer, Plain, "the sum of the values of the samples with this stack and these labels; never 0"),
];

const HOURS: &[Column] = &[
    column("summary", Integer, Delta, "the row's id in the archive"),
    column("profiles", Integer, Dictionary, "the number of profiles that were complete in the hour"),
    column("untimed", Integer, Dictionary, "those of them whose duration is not known"),
    column("first", Moment, Dictionary, "when the first of them was complete"),
    column("last", Moment, Dictionary, "when the last of them was complete"),
    column("type", Text, Dictionary, "their type: `cpu`, `heap`, …"),
    column("cluster", Text, Dictionary, "the node's cluster"),
    column("node_name", Text, Dictionary, "the node's name"),
    column("node", Integer, Dictionary, "the node's id, unique among the nodes of one server"),
    column("role", Text, Dictionary, "the node's role: `FE`, `BE`, `service`, …"),
    column("node_kind", Text, Dictionary, "how the node is collected"),
    column("time", Moment, Dictionary, "when the hour began"),
    column("start", Moment, Dictionary, "when the earliest of them began; 1970 if unknown"),
    column("duration_nanos", Integer, Dictionary, "how long all of them took"),
    column("trigger", Text, Dictionary, "why they were captured; empty if for several reasons"),
    column("engine", Text, Dictionary, "what took the samples; empty if several did"),
    column("labels", Texts, Dictionary, "the labels of the node"),
    column("totals", Integers, Dictionary, "the sum of each kind of value, in the profiles' order"),
    column("units", Texts, Dictionary, "the unit of each kind of value"),
    column("shown_kind", Text, Dictionary, "the kind that is shown first"),
    column("period_kind", Text, Dictionary, "the quantity that the period counts; may be empty"),
    column("period_unit", Text, Dictionary, "the period's unit"),
    column("period", Integer, Dictionary, "the longest sampling period; 0 if unknown"),
    column("samples", Integer, Delta, "number of samples in the profiles' files"),
    nullable(column("lost", Integer, Dictionary, "samples that the profiler lost")),
    nullable(column("truncated", Integer, Dictionary, "samples whose stacks were cut")),
    nullable(column("unsampled_nanos", Integer, Dictionary, "CPU time that no sample stands for")),
    column("facts", Texts, Dictionary, "what else all of them agree on"),
];

impl Table {
    /// All tables, in the order in which the files of a part are written.
    pub const ALL: [Table; 7] =
        [Table::Frames, Table::Stacks, Table::Labels, Table::Samples, Table::Rollups, Table::Hours, Table::Profiles];

    /// The tables that each part has; the others have nothing that is not in these.
    pub const BASE: [Table; 5] = [Table::Frames, Table::Stacks, Table::Labels, Table::Samples, Table::Profiles];

    /// Whether its rows are profiles, or hours of nodes.
    pub(crate) fn has_headers(self) -> bool {
        matches!(self, Table::Profiles | Table::Hours)
    }

    /// Its name, which is that of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Table::Frames => "frames",
            Table::Stacks => "stacks",
            Table::Labels => "labels",
            Table::Samples => "samples",
            Table::Rollups => "rollups",
            Table::Hours => "hours",
            Table::Profiles => "profiles",
        }
    }

    /// Its columns, in their order.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Table::Frames => FRAMES,
            Table::Stacks => STACKS,
            Table::Labels => LABELS,
            Table::Samples => SAMPLES,
            Table::Rollups => ROLLUPS,
            Table::Hours => HOURS,
            Table::Profiles => PROFILES,
        }
    }

    pub(crate) fn schema(self) -> Arc<Schema> {
        Arc::new(Schema::new(self.columns().iter().map(Column::field).collect::<Vec<_>>()))
    }

    /// How the files of the table are written, at a level of zstd.
    pub(crate) fn properties(self, level: i32) -> WriterProperties {
        let level = ZstdLevel::try_new(level).unwrap_or_default();
        let mut properties = WriterProperties::builder()
            .set_created_by("procprof".to_owned())
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(ROW_GROUP))
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_key_value_metadata(Some(vec![KeyValue::new(VERSION_KEY.to_owned(), VERSION.to_string())]));
        for column in self.columns() {
            let path = ColumnPath::from(column.name);
            if FILTERED.contains(&column.name) {
                properties = properties.set_column_statistics_enabled(path.clone(), EnabledStatistics::Chunk);
            }
            properties = match column.packing {
                Dictionary => properties,
                Plain => properties.set_column_dictionary_enabled(path, false),
                Delta => properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            };
        }
        properties.build()
    }
}

impl Column {
    pub(crate) fn field(&self) -> Field {
        Field::new(self.name, self.column_type.data_type(), self.nullable)
    }
}

impl ColumnType {
    /// The type in a `CREATE TABLE` of standard SQL.
    pub fn sql(self) -> &'static str {
        match self {
            ColumnType::Text => "VARCHAR",
            ColumnType::Integer => "BIGINT",
            ColumnType::Flag => "BOOLEAN",
            ColumnType::Moment => "TIMESTAMP",
            ColumnType::Texts => "MAP(VARCHAR, VARCHAR)",
            ColumnType::Integers => "MAP(VARCHAR, BIGINT)",
        }
    }

    pub(crate) fn data_type(self) -> DataType {
        match self {
            ColumnType::Text => DataType::Utf8,
            ColumnType::Integer => DataType::Int64,
            ColumnType::Flag => DataType::Boolean,
            ColumnType::Moment => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            ColumnType::Texts => map(DataType::Utf8),
            ColumnType::Integers => map(DataType::Int64),
        }
    }
}

/// The fields of an entry of a map.
pub(crate) fn entry_fields(value: DataType) -> Fields {
    Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", value, false)])
}

fn map(value: DataType) -> DataType {
    DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entry_fields(value)), false)), false)
}
