//! A folder of profiles: put, list, open, retain; a journal; a rebuildable catalog.
//!
//! ```text
//! DATA/lock                       held by the one process that has the folder open
//! DATA/profiles/<node id>/*       the profiles, one plain file each: the truth
//! DATA/journal/journal            errors and pins, which no profile file can hold: the truth, too
//! DATA/catalog.sqlite             an index over both; made anew when it is missing, broken or of another version
//! DATA/cache/*                    renderings; may be deleted at any time
//! ```
//! The API speaks in ids and bytes, never in paths. Everything blocks; a [`Store`] is shared between threads by reference.
//!
//! The caller gives every profile its id, its metadata and its summary, and encodes it with the metadata in its comments; the store does not
//! decode profiles. The caller says what time it is. It calls [`Store::retain`] when it wants limits enforced: nothing here runs by itself.
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

mod archive;
mod cache;
mod catalog;
mod comments;
mod cursor;
mod database;
mod entry;
mod error;
mod errors;
mod facts;
mod file_name;
mod filter;
mod folder;
mod gzip_extra;
mod import;
mod in_flight;
mod journal;
mod ledger;
mod lock_file;
mod options;
mod reader;
mod reconcile;
mod replace;
mod retain;
mod retention;
mod schema;
mod store;
mod usage;

pub use archive::page;
pub use cache::CacheKey;
pub use cursor::{Cursor, PAGE_MAX, Page, PageRequest};
pub use entry::{Entry, NewProfile, Summary, TopFunction, Total};
pub use error::{Error, Result};
pub use errors::{ErrorEntry, ErrorFilter, ErrorKind, ErrorRow};
pub use facts::content_id;
pub use file_name::Format;
pub use filter::Filter;
pub use import::{ImportItem, ImportOptions, ImportReport};
pub use journal::JournalDamage;
pub use options::StoreOptions;
pub use reader::Reader;
pub use reconcile::Reconciled;
pub use retain::RetainReport;
pub use retention::{Disk, Hold, Item, ItemKey, RetentionLimits, Victim, Why, retention};
pub use store::{Opened, Rebuilt, Store};
pub use usage::{NodeUsage, Usage};
