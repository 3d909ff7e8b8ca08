//! Rows of many profiles by columns: queries and results.

use std::sync::Arc;

use foldhash::HashMap;
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
    /// The function of the program with the largest own value; may be missing.
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
    /// The runtime's function at the leaf that takes most of [`Column::TopFunction`]; may be missing.
    TopLeaf,
}

impl Column {
    /// All columns.
    pub const ALL: [Column; 23] = [
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
        Column::TopLeaf,
    ];

    /// Whether it is read from the details of a profile, one by one, and not kept in memory.
    pub(crate) fn is_detail(self) -> bool {
        matches!(self, Column::Facts | Column::TopLeaf)
    }
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
            | Column::Facts
            | Column::TopLeaf => Values::Texts(Texts::default()),
        }
    }

    /// Their number.
    pub(crate) fn rows(&self) -> usize {
        match self {
            Values::Ids(ids) => ids.len(),
            Values::Integers(numbers) => numbers.len(),
            Values::Texts(texts) => texts.rows(),
        }
    }

    /// The memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Values::Ids(ids) => ids.capacity() * size_of::<ProfileId>(),
            Values::Integers(numbers) => numbers.capacity() * size_of::<i64>(),
            Values::Texts(texts) => texts.bytes(),
        }
    }

    /// Those of some rows, which there must be.
    pub(crate) fn select(&self, rows: &[u32]) -> Values {
        match self {
            Values::Ids(ids) => Values::Ids(rows.iter().map(|row| ids[*row as usize]).collect()),
            Values::Integers(numbers) => Values::Integers(rows.iter().map(|row| numbers[*row as usize]).collect()),
            Values::Texts(texts) => Values::Texts(texts.select(rows)),
        }
    }
}

/// Texts of a column: a list of texts, and the place of each row's text in it.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    list: Arc<TextList>,
    /// The place of each row's text in the list; `None` if they are in the order of the rows.
    places: Option<Vec<u32>>,
}

/// Texts, one behind the other in one allocation.
#[derive(Clone, Debug, Default)]
struct TextList {
    text: String,
    /// The end of each, and whether it exists.
    ends: Vec<(usize, bool)>,
}

impl TextList {
    fn get(&self, place: usize) -> Option<&str> {
        let (end, is_there) = *self.ends.get(place)?;
        let start = place.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |(end, _)| *end);
        if is_there { self.text.get(start..end) } else { None }
    }
}

impl Texts {
    /// The text of a row; `None` if it is missing.
    pub fn get(&self, row: usize) -> Option<&str> {
        self.list.get(self.place(row)?)
    }

    /// The place of a row's text among those that [`Texts::list`] has; `None` behind the last row.
    pub fn place(&self, row: usize) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(row).map(|place| *place as usize),
            None => (row < self.list.ends.len()).then_some(row),
        }
    }

    /// The texts, of which rows may have some more than once and others not at all; `None` for missing ones.
    pub fn list(&self) -> impl ExactSizeIterator<Item = Option<&str>> {
        (0..self.list.ends.len()).map(|place| self.list.get(place))
    }

    pub(crate) fn push(&mut self, text: Option<&str>) {
        debug_assert!(self.places.is_none(), "rows that have places are not added to");
        let list = Arc::make_mut(&mut self.list);
        list.text.push_str(text.unwrap_or_default());
        list.ends.push((list.text.len(), text.is_some()));
    }

    /// The same texts, each once in the list.
    pub(crate) fn without_repetitions(&self) -> Texts {
        let mut known: HashMap<Option<&str>, u32> = HashMap::default();
        let mut once = Texts::default();
        let mut places = Vec::with_capacity(self.rows());
        for row in 0..self.rows() {
            let text = self.get(row);
            let next = known.len() as u32;
            places.push(*known.entry(text).or_insert_with(|| {
                once.push(text);
                next
            }));
        }
        Texts { places: Some(places), ..once }
    }

    /// Those of some rows.
    fn select(&self, rows: &[u32]) -> Texts {
        let places = match &self.places {
            Some(places) => rows.iter().map(|row| places[*row as usize]).collect(),
            None => rows.to_vec(),
        };
        Texts { list: Arc::clone(&self.list), places: Some(places) }
    }

    fn rows(&self) -> usize {
        self.places.as_ref().map_or(self.list.ends.len(), Vec::len)
    }

    fn bytes(&self) -> usize {
        let places = self.places.as_ref().map_or(0, |places| places.capacity() * size_of::<u32>());
        self.list.text.capacity() + self.list.ends.capacity() * size_of::<(usize, bool)>() + places
    }
}

impl PartialEq for Texts {
    fn eq(&self, other: &Texts) -> bool {
        self.rows() == other.rows() && (0..self.rows()).all(|row| self.get(row) == other.get(row))
    }
}

impl Eq for Texts {}
