//! What a profile is, and every way to read and write one.
//!
//! A [`Profile`] is an immutable value in the terms of pprof's `profile.proto`: sample types, samples (a stack of
//! locations, one value per type, labels), locations, mappings, functions. It is valid by construction: every id was
//! checked once, so no look-up can fail afterwards.
//!
//! It keeps what was measured. Sampled heap profiles hold raw counts and the sampling rate, stacks hold the addresses
//! as captured; each tool's corrections (scaling to estimates, the caller's minus one) are applied by
//! [`Profile::adjusted`] for the [`Grammar`] that reads.
//!
//! The crate is pure: no files, no clock, no threads. Reading bytes and finding symbols is the business of its callers.
//!
//! ```
//! use procprof_profile::ProfileBuilder;
//!
//! let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
//! let leaf = builder.frame("hot_70");
//! let root = builder.frame("main");
//! builder.sample(&[leaf, root], &[7, 70_000_000], &[]);
//! let profile = builder.finish().expect("the builder only hands out ids that exist");
//! assert_eq!(profile.total(1), 70_000_000);
//! ```

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod adjust;
mod builder;
mod compact;
pub mod diff;
mod error;
#[cfg(feature = "filter")]
pub mod filter;
pub mod format;
mod ids;
pub mod maps;
pub mod merge;
mod meta;
mod model;
mod parts;
pub mod perf_event;
mod profile;
mod profile_id;
mod profile_type;
mod string_table;
mod text;
pub mod waits;

pub use adjust::Grammar;
pub use builder::ProfileBuilder;
pub use error::{Error, Place, Result};
pub use ids::{Addr, FileOffset, FunctionId, LocationId, MappingId, Nanos, StringId, SymbolAddr};
pub use meta::Meta;
pub use model::{Addresses, Function, Label, LabelValue, Line, Location, Mapping, Sampling, ValueType};
pub use parts::Parts;
pub use profile::{Profile, Sample};
pub use profile_id::{ParseProfileIdError, ProfileId};
pub use profile_type::{ParseProfileTypeError, ProfileType};
pub use string_table::{StringIndex, StringTable};
