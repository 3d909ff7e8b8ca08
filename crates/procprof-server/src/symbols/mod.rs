//! Symbols that travel: indexes sent by `procprof symbols push`, and the stored profiles they name.
//!
//! ```text
//! client: file -> index -> POST /api/symbols -> checked -> Shelf (DATA/symbols)
//! ingest: profile -> child process, given the indexes that fit -> names
//! open:   profile that lacks names, and an index is there now -> child process -> the stored file gets the names
//! ```
//! The client reads the gigabytes of debug information; what it sends is the index by address that `procprof-symbolize` writes and checks.

mod index;
mod intake;
mod key;
mod record;
mod refresh;
mod shelf;
mod uploads;
mod wanted;

pub(crate) use intake::{IntakeError, Intakes, Origin, receive};
pub(crate) use key::SymbolKey;
pub(crate) use record::{Detail, Record};
pub(crate) use refresh::{Refreshes, refreshed};
pub(crate) use shelf::{Outcome, Shelf, ShelfError};
pub(crate) use uploads::Uploads;
pub(crate) use wanted::{Wanted, is_fact as is_wanted_fact};

/// Key of the fact that names the uploads a profile was named by, with commas between.
pub(crate) const UPLOADS: &str = "symbols-uploaded";
