//! A folder of profiles: put, list, open, retain; a journal; a rebuildable catalog.
//!
//! ```text
//! DATA/procprof-version           the version of all below that has none of its own
//! DATA/lock                       held by the one process that has the folder open
//! DATA/profiles/<node id>/*       the profiles, one plain file each: the truth; or another backend of blobs
//! DATA/journal/journal            errors and pins, which no profile file can contain: the truth, too
//! DATA/catalog.sqlite             an index over both; rebuilt when it is missing, broken or of another version
//! DATA/cache/*                    renderings; may be deleted at any time
//! ```
//! It is built on two interfaces: [`Blobs`], the storage of profiles, and the catalog, their metadata by rows and
//! columns.
//!
//! The API has ids and bytes, no paths. Everything blocks; a [`Store`] is shared between threads by reference.
//!
//! The caller gives every profile its id, its metadata and its summary, and encodes it with the metadata in its
//! comments; the store does not decode profiles. The caller passes the time, and calls [`Store::retain`] to enforce
//! limits: nothing here runs by itself.
//!
//! Not for: decoding or rendering profiles, many processes on one folder, network file systems without working locks.
//!
//! ```
//! use procprof_profile::{Meta, Nanos};
//! use procprof_store::{ErrorFilter, ErrorKind, ErrorRow, Filter, PageRequest, RetentionLimits, Store, StoreOptions};
//!
//! # fn main() -> procprof_store::Result<()> {
//! let folder = tempfile::tempdir().expect("a temporary folder");
//! let store = Store::open(folder.path(), StoreOptions::default())?;
//! let now = Nanos(1_763_677_534_000_000_000);
//! store.record_error(ErrorRow {
//!     node: Some(10001),
//!     profile_type: Some("cpu".parse().expect("a known type")),
//!     time: now,
//!     kind: ErrorKind::Capture,
//!     reason: "connection refused".to_owned(),
//!     first_bytes: Vec::new(),
//! });
//! let errors = store.list_errors(&ErrorFilter::default(), &PageRequest::first(50));
//! assert_eq!(errors.rows[0].row.reason, "connection refused");
//! assert!(store.list(&Filter { nodes: vec![10001], ..Filter::default() }, &PageRequest::first(50))?.rows.is_empty());
//! store.retain(&RetentionLimits::default(), now)?;
//! # Ok(())
//! # }
//! ```

mod blobs;
mod cache;
mod catalog;
mod error;
mod journal;
#[cfg(test)]
#[allow(dead_code, reason = "the clock has the version of its folder")]
#[path = "../../procprof-files/tests/versions/law.rs"]
mod law;
mod mutex;
mod options;
mod query;
mod retention;
mod store;
mod stored;

pub use blobs::{BlobFolder, BlobName, Blobs, Listing, Piece, Stamp, Unfinished};
pub use cache::CacheKey;
pub use catalog::{FunctionRows, Rows};
pub use error::{Error, Result};
pub use journal::{ErrorEntry, ErrorFilter, ErrorKind, ErrorRow, JournalDamage};
pub use options::StoreOptions;
pub use query::{
    Column, Cursor, Filter, FunctionColumn, FunctionNames, FunctionQuery, NamePredicate, NodeUsage, Order, PAGE_MAX,
    Page, PageRequest, RowBatch, RowQuery, Texts, Uncovered, Usage, Values,
};
pub use retention::{Clock, Disk, Hold, Item, ItemKey, RetentionLimits, Timeline, Victim, Why, retention};
pub use store::{
    DATA_FORMAT, IMPORTED_FROM, ImportItem, ImportOptions, ImportReport, NOT_A_NAME, Opened, Rebuilt, Reconciled,
    RetainReport, Store,
};
pub use stored::{
    Encoded, Entry, Format, FunctionTable, FunctionValues, NewProfile, Summary, TopFunction, Total, content_id, page,
};
