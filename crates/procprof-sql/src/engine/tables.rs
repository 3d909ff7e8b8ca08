//! The tables there are: their columns, what they take, and what they are for. `SHOW`, `DESCRIBE`, `information_schema`
//! and statements read it here.
//!
//! A table with parameters is called like a function: `FROM samples('01930c5e-…')`. Those in brackets may be left out.

use Declared::{Code, Integer, LongCode, LongText, Moment, Real, Text};

use super::computed::StatementContext;
use super::information_schema::INFORMATION;
use super::types::{Coercibility, Collation, SqlType};
use super::{nodes, reports, timeline};
use crate::DATABASE;
use crate::mysql::{ColumnType, SqlError, SqlErrorKind, Value};

/// Rows of a computed table.
pub(super) type TableRows = Vec<Vec<Value>>;

/// The source of a table's rows.
pub(crate) enum Source {
    /// The rows of the store's catalog: [`super::profiles`].
    Stored,
    /// The functions of its profiles: [`super::profile_functions`].
    Functions,
    /// Computed when it is read, from the values of its parameters (NULL where one was left out).
    Computed(fn(&StatementContext, &[Value]) -> Result<TableRows, SqlError>),
}

/// The type of a column as `CREATE TABLE` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declared {
    Integer,
    Real,
    /// A name or word, which compares in any case.
    Text,
    /// A text of any length that compares in any case.
    LongText,
    /// An id or file name, which compares byte by byte.
    Code,
    /// A text of any length that compares byte by byte, such as a function.
    LongCode,
    /// Date and time with so many digits behind the second.
    Moment(u8),
}

impl Declared {
    /// As `CREATE TABLE` has it, without its collation.
    pub(crate) fn mysql_type(self) -> &'static str {
        match self {
            Integer => "bigint",
            Real => "double",
            Text | Code => "varchar(255)",
            LongText | LongCode => "longtext",
            Moment(0) => "datetime",
            Moment(_) => "datetime(3)",
        }
    }

    /// The collation of a text.
    pub(crate) fn collation(self) -> Option<&'static str> {
        match self.kind() {
            SqlType::Text { collation, .. } => Some(collation.name()),
            _ => None,
        }
    }

    /// The type of its values in statements.
    pub(super) fn kind(self) -> SqlType {
        let text = |collation| SqlType::Text { collation, coercibility: Coercibility::Column };
        match self {
            Integer => SqlType::Integer,
            Real => SqlType::FLOAT,
            Text | LongText => text(Collation::General),
            Code | LongCode => text(Collation::Binary),
            Moment(digits) => SqlType::DateTime { digits },
        }
    }

    /// The type of its values in a result.
    pub(crate) fn column_type(self) -> ColumnType {
        match self {
            Integer => ColumnType::Integer,
            Real => ColumnType::Real,
            Moment(digits) => ColumnType::DateTime(digits),
            _ => ColumnType::Text,
        }
    }
}

/// A column.
#[derive(Clone, Copy)]
pub(crate) struct TableColumn {
    pub(crate) name: &'static str,
    pub(crate) declared: Declared,
    /// A line of description; empty where the name suffices.
    pub(crate) comment: &'static str,
}

/// A parameter.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    /// Whether it may be left out.
    pub(crate) optional: bool,
}

/// A table.
pub(crate) struct Table {
    /// Its name; with `information_schema.` before it for those of that database.
    pub(crate) name: &'static str,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) columns: &'static [TableColumn],
    pub(crate) comment: &'static str,
    pub(crate) source: Source,
}

impl TableColumn {
    /// The type of its values in statements.
    pub(super) fn kind(&self) -> SqlType {
        self.declared.kind()
    }
}

const fn column(name: &'static str, declared: Declared, comment: &'static str) -> TableColumn {
    TableColumn { name, declared, comment }
}

const fn needed(name: &'static str) -> Parameter {
    Parameter { name, optional: false }
}

const fn optional(name: &'static str) -> Parameter {
    Parameter { name, optional: true }
}

/// Our own, in the order `SHOW TABLES` has them.
const TABLES: &[Table] = &[
    Table {
        name: "profiles",
        parameters: &[],
        columns: &[
            column("id", Code, "UUID, as in URLs"),
            column("node", Integer, "id of the node"),
            column("type", Text, "cpu, wall, alloc, heap, contention, mutex, goroutine, …"),
            column("trigger", Text, "schedule, manual, import, push, …"),
            column("started", Moment(3), "UTC"),
            column("completed", Moment(3), "UTC"),
            column("seconds", Real, "length of the capture; 0 for a moment"),
            column("bytes", Integer, "size of the stored file"),
            column("samples", Integer, "number of samples"),
            column("totals", LongCode, "JSON: kind, unit and value of each sample type"),
            column(
                "top_function",
                LongCode,
                "the function of the program with the largest own value, with that of the runtime's functions that it calls",
            ),
            column("file", Code, "name of the file"),
            column("cluster", Text, ""),
            column("labels", LongText, "JSON: those of the node"),
            column("started_ns", Integer, "nanoseconds since 1970, UTC"),
            column("completed_ns", Integer, "nanoseconds since 1970, UTC; what indexes are by"),
            column("threads", Integer, "number of threads that samples name; 0 if unknown"),
            column("functions", Integer, "number of its rows in the table functions; NULL if not (yet) known"),
            column("engine", Text, "what took the samples; empty if unknown"),
            column("lost", Integer, "samples that the source lost; NULL if unknown"),
            column("pinned", Integer, "1: kept by retention"),
            column("facts", LongCode, "JSON: what else is known of it"),
            column(
                "top_leaf",
                LongCode,
                "the function of the runtime at the leaf that takes most of top_function; NULL if it takes more itself",
            ),
        ],
        comment: "stored profiles",
        source: Source::Stored,
    },
    Table {
        name: "functions",
        parameters: &[],
        columns: &[
            column("profile_id", Code, "UUID of the profile"),
            column("node", Integer, "id of the node"),
            column("type", Text, "of the profile"),
            column("cluster", Text, ""),
            column("completed", Moment(3), "UTC"),
            column("function", LongCode, "[unknown] for addresses without a name"),
            column("sample_type", Text, "the profile's default sample type"),
            column("unit", Text, ""),
            column("self", Integer, "of the function itself"),
            column("total", Integer, "with all it calls; in a recursion once"),
            column("self_percent", Real, "of the profile's sum; NULL if that is 0"),
            column("total_percent", Real, "of the profile's sum; NULL if that is 0"),
            column("completed_ns", Integer, "nanoseconds since 1970, UTC"),
        ],
        comment: "what each function of each stored profile takes",
        source: Source::Functions,
    },
    Table {
        name: "nodes",
        parameters: &[],
        columns: &[
            column("id", Integer, ""),
            column("name", Text, ""),
            column("role", Text, "FE, BE, CN, service, host, self"),
            column("kind", Text, "how it is collected"),
            column("cluster", Text, ""),
            column("address", Text, "host:port"),
            column("health", Text, "ok, degraded, failing, unknown"),
            column("last_success", Moment(0), "when a profile last arrived, UTC"),
            column("last_failure", Moment(0), "when a type last failed that fails now, UTC"),
            column("failure", LongText, "why"),
            column("past", Integer, "1: not configured any more, or gone from its host; its profiles are still there"),
            column("demo", Integer, ""),
            column("retry_at", Moment(0), "when a type that fails now is tried again, UTC"),
            column("pid", Integer, "kinds jvm, process: the process, as found last"),
            column("engine", Text, "kind jvm: what records it"),
            column("runtime", LongText, "kind jvm: its JDK; host: its kernel"),
            column("limits", LongText, "kinds jvm, host, process: what is not recorded, and why"),
            column("host", Text, "kinds host, process: the host's name"),
            column("heartbeat", Moment(0), "kinds host, process: when the last one came, UTC"),
            column("hz", Integer, "kinds host, process: samples for each second of CPU time"),
        ],
        comment: "the processes profiles come from",
        source: Source::Computed(nodes::nodes),
    },
    Table {
        name: "errors",
        parameters: &[],
        columns: &[
            column("number", Integer, "ascending, never used again"),
            column("time", Moment(3), "UTC"),
            column("node", Integer, "id of the node, where there is one"),
            column("type", Text, "type of profile, where there is one"),
            column("kind", Text, "capture, refused, restarted, symbolize, storage, retention, import"),
            column("reason", LongText, ""),
        ],
        comment: "what went wrong",
        source: Source::Computed(nodes::errors),
    },
    Table {
        name: "captures",
        parameters: &[],
        columns: &[
            column("id", Code, "UUID, as in the API"),
            column("node", Integer, "id of the node"),
            column("type", Text, "of profile"),
            column("state", Text, "waiting, running, done, failed, cancelled"),
            column("progress", Real, "from 0 to 1; the wait for its turn does not count"),
            column("seconds", Integer, "length; 0 for a moment"),
            column("requested_by", Text, "the user"),
            column("started", Moment(3), "when it was requested, UTC"),
            column("ended", Moment(3), "UTC"),
            column("profile_id", Code, "UUID of the profile"),
            column("message", LongText, "what it waits for, or why there is no profile"),
            column("code", Text, "the kind of the failure"),
        ],
        comment: "the latest captures on request, newest first",
        source: Source::Computed(nodes::captures),
    },
    Table {
        name: "samples",
        parameters: &[needed("profile_id"), optional("only")],
        columns: &[
            column("sample_type", Text, "default: the profile's default sample type"),
            column("unit", Text, ""),
            column("function", LongCode, ""),
            column("file", LongCode, ""),
            column("line", Integer, ""),
            column("flat", Integer, "of the line itself"),
            column("cum", Integer, "with all it calls"),
        ],
        comment: "samples(profile_id [, sample_type | '*']): the lines of a profile and what they use",
        source: Source::Computed(reports::samples),
    },
    Table {
        name: "stacks",
        parameters: &[needed("profile_id"), optional("only")],
        columns: &[
            column("sample_type", Text, "default: the profile's default sample type"),
            column("unit", Text, ""),
            column("stack", LongCode, "functions, root first, joined by ;"),
            column("value", Integer, ""),
        ],
        comment: "stacks(profile_id [, sample_type | '*']): the stacks of a profile, collapsed",
        source: Source::Computed(reports::stacks),
    },
    Table {
        name: "top",
        parameters: &[needed("of_nodes"), optional("of_type"), optional("from"), optional("to"), optional("only")],
        columns: &[
            column("sample_type", Text, "default: the profiles' default sample type"),
            column("unit", Text, ""),
            column("function", LongCode, ""),
            column("file", LongCode, ""),
            column("flat", Integer, "of the function itself"),
            column("cum", Integer, "with all it calls"),
            column("profiles", Integer, "how many were merged"),
            column("archived", Integer, "how many of them came from the archive"),
            column("first", Moment(3), "when the first of them was complete, UTC"),
            column("last", Moment(3), "when the last of them was complete, UTC"),
        ],
        comment: "top(nodes [, type [, from [, to [, sample_type | '*']]]]): functions over all profiles completed in \
                  a period; nodes: ids or names, of which a profile has one, and labels key=value, all with commas \
                  between, or '*'; default: cpu",
        source: Source::Computed(reports::top),
    },
    Table {
        name: "diff",
        parameters: &[
            needed("profile_a_or_nodes"),
            needed("profile_b_or_type"),
            optional("only_or_from_a"),
            optional("to_a"),
            optional("from_b"),
            optional("to_b"),
            optional("only"),
        ],
        columns: &[
            column("sample_type", Text, "default: the profiles' default sample type"),
            column("unit", Text, ""),
            column("function", LongCode, ""),
            column("file", LongCode, ""),
            column("flat", Integer, "of b less that of a"),
            column("cum", Integer, "of b less that of a"),
            column("flat_a", Integer, "of the function itself, scaled"),
            column("flat_b", Integer, ""),
            column("cum_a", Integer, "with all it calls, scaled"),
            column("cum_b", Integer, ""),
            column("flat_a_percent", Real, "of the sum of a; NULL if that is 0"),
            column("flat_b_percent", Real, ""),
            column("cum_a_percent", Real, ""),
            column("cum_b_percent", Real, ""),
            column("scale", Real, "by which the values of a were multiplied"),
            column("profiles_a", Integer, "how many were merged"),
            column("profiles_b", Integer, ""),
            column("archived_a", Integer, "how many of them came from the archive"),
            column("archived_b", Integer, ""),
            column("seconds_a", Real, "how long they took"),
            column("seconds_b", Real, ""),
        ],
        comment: "diff(profile_a, profile_b [, sample_type | '*']) or diff(nodes, type, from_a, to_a, from_b, to_b \
                  [, sample_type | '*']): what functions use in b more than in a; periods are scaled to the same time",
        source: Source::Computed(reports::diff),
    },
    Table {
        name: "timeline",
        parameters: &[
            needed("of_nodes"),
            needed("of_type"),
            needed("from"),
            optional("to"),
            needed("bucket_length"),
            optional("split"),
            optional("only"),
            optional("most_series"),
        ],
        columns: &[
            column("bucket", Moment(3), "its start, UTC"),
            column("series", LongCode, "NULL without a split, and for profiles without the label"),
            column("sample_type", Text, "default: the profiles' default sample type"),
            column("unit", Text, "of value and total"),
            column("value", Integer, "the sum; of a function, its own"),
            column("total", Integer, "of a function with all it calls; otherwise NULL"),
            column("per_second", Real, "of measured time; NULL for types of a moment"),
            column("per_profile", Real, ""),
            column("profiles", Integer, "how many were completed"),
            column("seconds", Real, "how long they took"),
            column("archived", Integer, "how many of them only the archive has"),
        ],
        comment: "timeline(nodes, type, from, to, bucket [, split [, sample_type [, series]]]): values by time; \
                  bucket: seconds, or 5m, 1h, 1d; split: node, cluster, label.KEY, function, function.NAME; series: \
                  how many are not added up (50)",
        source: Source::Computed(timeline::timeline),
    },
];

/// Every table, ours first.
pub(crate) fn all() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().chain(INFORMATION)
}

/// Databases of tables that are not ours; their names precede those of their tables.
const OTHERS: &[&str] = &["information_schema", "performance_schema"];

impl Table {
    /// The table of that name, in any case, with or without our database before it.
    ///
    /// # Errors
    /// [`SqlErrorKind::UnknownTable`], with those there are.
    pub(crate) fn named(name: &str) -> Result<&'static Table, SqlError> {
        let lower = name.to_ascii_lowercase();
        let bare = lower.strip_prefix(DATABASE).and_then(|rest| rest.strip_prefix('.')).unwrap_or(&lower);
        let of_ours = all().find(|table| table.name == bare);
        of_ours.or_else(|| all().find(|table| table.bare_name() == bare)).ok_or_else(|| unknown_table(name))
    }

    /// Its database.
    pub(crate) fn database(&self) -> &'static str {
        self.name.split_once('.').map_or(DATABASE, |(database, _)| database)
    }

    /// Its name without the database.
    pub(crate) fn bare_name(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, bare)| bare)
    }
}

/// The error for an unknown table.
pub(super) fn unknown_table(name: &str) -> SqlError {
    let name: String = name.chars().take(80).collect();
    let known: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
    SqlError::new(SqlErrorKind::UnknownTable, format!("there is no table '{name}'; there are {}", known.join(", ")))
}

/// Whether a name is that of a database; clients may spell it in any case.
pub(crate) fn is_database(name: &str) -> bool {
    databases().any(|own| name.eq_ignore_ascii_case(own))
}

/// The databases there are.
pub(crate) fn databases() -> impl Iterator<Item = &'static str> {
    std::iter::once(DATABASE).chain(OTHERS.iter().copied())
}
