//! Rows of many profiles by columns: queries and results.

use procprof_profile::ProfileId;

use crate::Filter;

/// A column of the metadata of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Column {
    /// Its id.
    Id,
    /// The node, as the signed number of the same bits.
    Node,
    /// The name of its type.
    Type,
    /// Name of its file.
    File,
    /// The time of its completion, UTC nanoseconds.
    Completed,
    /// The time of its start, UTC nanoseconds.
    Started,
    /// Its duration in nanoseconds.
    Duration,
    /// Size of its file.
    Bytes,
    /// The trigger of its capture.
    Trigger,
    /// The cluster of its node.
    Cluster,
    /// The labels of its node, as `\nkey=value\n…\n`.
    Labels,
    /// Number of samples.
    Samples,
    /// Sums of its sample types, as JSON.
    Totals,
    /// The function with the largest own value; may be missing.
    TopFunction,
    /// The sum of the sample type that is shown; 0 if unknown.
    Total,
    /// The start of the process, UTC nanoseconds; 0 if unknown.
    Instance,
    /// Number of threads that samples name; 0 if unknown.
    Threads,
    /// Number of functions that the catalog has of it; negative if it has none, though there are some.
    Functions,
    /// What took its samples; empty if unknown.
    Engine,
    /// Samples that the source lost; -1 if unknown.
    Lost,
    /// 1 if it is pinned, otherwise 0.
    Pinned,
    /// Its facts, as a JSON object of texts.
    Facts,
}

impl Column {
    /// All columns.
    pub const ALL: [Column; 22] = [
        Column::Id,
        Column::Node,
        Column::Type,
        Column::File,
        Column::Completed,
        Column::Started,
        Column::Duration,
        Column::Bytes,
        Column::Trigger,
        Column::Cluster,
        Column::Labels,
        Column::Samples,
        Column::Totals,
        Column::TopFunction,
        Column::Total,
        Column::Instance,
        Column::Threads,
        Column::Functions,
        Column::Engine,
        Column::Lost,
        Column::Pinned,
        Column::Facts,
    ];
}

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The fastest one.
    #[default]
    Any,
    /// By completion, then by id, descending.
    NewestFirst,
    /// By completion, then by id, ascending.
    OldestFirst,
}

/// The requested rows and columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowQuery {
    /// The filter of profiles. [`Filter::text`] is searched in all of them, however many there are.
    pub filter: Filter,
    /// The columns, in the order of [`RowBatch::columns`]; none to count rows.
    pub columns: Vec<Column>,
    /// The order.
    pub order: Order,
}

/// Some rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowBatch {
    /// Their number.
    pub rows: usize,
    /// The requested columns, each with a value for each row.
    pub columns: Vec<Values>,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Values {
    /// Ids.
    Ids(Vec<ProfileId>),
    /// Numbers.
    Integers(Vec<i64>),
    /// Texts.
    Texts(Texts),
}

impl Values {
    /// No values of a column.
    pub(crate) fn empty(column: Column) -> Values {
        use Column::{
            Bytes, Completed, Duration, Functions, Id, Instance, Lost, Node, Pinned, Samples, Started, Threads, Total,
        };
        match column {
            Id => Values::Ids(Vec::new()),
            Node | Completed | Started | Duration | Bytes | Samples | Total | Instance | Threads | Functions | Lost
            | Pinned => Values::Integers(Vec::new()),
            Column::Type
            | Column::File
            | Column::Trigger
            | Column::Cluster
            | Column::Labels
            | Column::Totals
            | Column::TopFunction
            | Column::Engine
            | Column::Facts => Values::Texts(Texts::default()),
        }
    }
}

/// Texts of a column, one behind the other in one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    text: String,
    /// The end of each, and whether it exists.
    ends: Vec<(usize, bool)>,
}

impl Texts {
    /// The text of a row; `None` if it is missing.
    pub fn get(&self, row: usize) -> Option<&str> {
        let (end, is_there) = *self.ends.get(row)?;
        let start = row.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |(end, _)| *end);
        if is_there { self.text.get(start..end) } else { None }
    }

    pub(crate) fn push(&mut self, text: Option<&str>) {
        self.text.push_str(text.unwrap_or_default());
        self.ends.push((self.text.len(), text.is_some()));
    }
}
