//! Symbols that travel: indexes sent by `procprof symbols push`, and the stored profiles they name.
//!
//! ```text
//! client: file -> index -> POST /api/symbols -> checked -> SymbolStore (DATA/symbols)
//! ingest: profile -> child process, given the indexes that fit -> names
//! open:   profile that lacks names, and an index is there now -> child process -> the stored file gets the names
//! ```
//! The client reads the gigabytes of debug information; what it sends is the index by address that `procprof-symbolize`
//! writes and checks.

mod index;
mod intake;
mod key;
mod record;
mod room;
mod symbol_store;
mod uploads;
mod wanted;

pub use intake::{IntakeError, Intakes, Origin, receive};
pub use key::SymbolKey;
pub use record::{Detail, Owner, Record, is_better};
pub use symbol_store::{Outcome, SymbolStore, SymbolStoreError};
pub(crate) use uploads::Uploads;
pub use wanted::{WantedSymbols, is_fact as is_wanted_fact};

/// Bytes of the note beside an index, at most.
const NOTE_BYTES_MAX: u64 = 64 << 10;
/// Begins the key of the fact that says who sent an upload that a profile was named by: `symbols-by.KEY`.
pub const UPLOADED_BY: &str = "symbols-by.";
/// Key of the fact that names the uploads a profile was named by, with commas between.
pub const UPLOADS: &str = "symbols-uploaded";
