//! The form of code for look-ups: pieces of functions with their inlined calls and lines.
//!
//! Everything that describes code (debug information, the symbol index) is turned into records, and
//! every address is looked up in them. A record is a span of addresses of one function; records of one
//! table do not overlap. Functions and files are numbers in tables of the module that made the records.

use std::ops::Range;

use crate::ranges::Span;

/// Most frames of one address; the outermost beyond it are left out. Real ones have some tens.
const FRAMES_MAX: usize = 256;

/// Records with their parts.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) all: Vec<Record>,
    pub(crate) nodes: Vec<Node>,
    /// The place of inlined code: begin and end.
    pub(crate) ranges: Vec<(u64, u64)>,
    pub(crate) rows: Vec<Span<Row>>,
}

/// A span of addresses of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) begin: u64,
    /// Behind the last address.
    pub(crate) end: u64,
    /// `None` if there are lines but no function.
    pub(crate) function: Option<u32>,
    /// The calls that were inlined into it, in [`Records::nodes`].
    pub(crate) nodes: Range<u32>,
    /// Its lines, ascending, in [`Records::rows`].
    pub(crate) rows: Range<u32>,
}

/// An inlined call. Those inlined into it follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) function: u32,
    /// The place of the call.
    pub(crate) call: Row,
    /// Its code, in [`Records::ranges`].
    pub(crate) ranges: Range<u32>,
    /// The node behind all those inlined into this one.
    pub(crate) behind: u32,
}

/// A place in the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) file: Option<u32>,
    /// From 1; 0 if unknown.
    pub(crate) line: u32,
    /// From 1; 0 if unknown.
    pub(crate) column: u32,
}

/// A function at an address, and where in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawFrame {
    /// `None` if there are lines but no function.
    pub(crate) function: Option<u32>,
    pub(crate) place: Row,
}

impl Records {
    /// Adds the frames at an address of a record, innermost first; whether the last of them is the
    /// outermost function.
    pub(crate) fn add_frames(&self, record: &Record, address: u64, frames: &mut Vec<RawFrame>) -> bool {
        let place = self.row(record, address).unwrap_or_default();
        let Some(function) = record.function else {
            frames.push(RawFrame { function: None, place });
            return true;
        };
        let first = frames.len();
        // Outermost first: each call has the place of the frame around it.
        let mut inner = RawFrame { function: Some(function), place: Row::default() };
        let (mut at, mut end) = (record.nodes.start, record.nodes.end);
        while at < end {
            let node = &self.nodes[at as usize];
            let holds = |(begin, end): &(u64, u64)| *begin <= address && address < *end;
            if self.ranges[node.ranges.start as usize..node.ranges.end as usize].iter().any(holds) {
                frames.push(RawFrame { place: node.call, ..inner });
                inner = RawFrame { function: Some(node.function), place: Row::default() };
                (at, end) = (at + 1, node.behind);
            } else {
                at = node.behind;
            }
        }
        frames.push(RawFrame { place, ..inner });
        frames[first..].reverse();
        let is_whole = frames.len() - first <= FRAMES_MAX;
        frames.truncate(first + FRAMES_MAX);
        is_whole
    }

    fn row(&self, record: &Record, address: u64) -> Option<Row> {
        let rows = &self.rows[record.rows.start as usize..record.rows.end as usize];
        let after = rows.partition_point(|row| row.begin <= address);
        let row = rows.get(after.checked_sub(1)?).filter(|row| address < row.end)?.value;
        Some(if row.line == 0 { Row { column: 0, ..row } } else { row })
    }
}
