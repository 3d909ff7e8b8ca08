//! Looks up addresses in debug information: an opened image, batches of its units, records and names.

mod names;
mod opened;
mod records;
mod unit_batch;

pub(crate) use self::names::{NameId, NameTable, Names};
pub(crate) use self::opened::{Opened, with_opened};
pub(crate) use self::records::{Node, RawFrame, Record, Records, Row};
pub(crate) use self::unit_batch::{Extent, UNITS_MAX, UnitAnswers, UnitBatch};
