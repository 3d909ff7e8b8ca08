//! Errors and pins, which no profile file can contain: the lines in `DATA/journal`, and their state in memory.

mod errors;
mod ledger;
mod lines;

pub use errors::{ErrorEntry, ErrorFilter, ErrorKind, ErrorRow};
pub(crate) use ledger::Ledger;
pub use lines::JournalDamage;
