//! Profiles as Parquet files that many engines read: written by the hour, read back by filters.
//!
//! ```text
//! frames/date=2026-11-24/hour=15/0123456789abcdef-0000.parquet    functions, lines, addresses
//! stacks/date=2026-11-24/hour=15/0123456789abcdef-0000.parquet    the tree of stacks
//! labels/…  samples/…  profiles/…
//! ```
//! A [`PartWriter`] makes the files of one [`Part`]: the profiles of an hour, or some of them, that a [`Writer`] has.
//! They share one tree of stacks and one table of frames, which is what makes them small: profiles that are taken each
//! minute share nearly all of both. No file is ever changed. The file of the profiles is written last, so that a part
//! without one is not there; [`Archive::parts`] names such.
//!
//! Values are estimates by pprof's rules ([`procprof_profile::Grammar::Pprof`]), and addresses offsets in files. What a
//! profile's file also has (counts as measured, free comments) stays there. An [`Archive`] reads the parts back: the
//! profiles, their sums, and merged profiles, within [`ReadLimits`] whatever the files contain.
//!
//! The caller decodes profiles, keeps the number of each writer's parts apart, and decides when an hour is over.
//!
//! Not for: the only copy of a profile.
//!
//! ```
//! use std::sync::Arc;
//!
//! use procprof_archive::{
//!     Archive, Hour, Identity, ObjectFolder, Part, PartLimits, PartWriter, ReadLimits, Selection, Writer,
//! };
//! use procprof_profile::{Nanos, ProfileBuilder, ProfileId, ProfileType};
//!
//! # fn main() -> procprof_archive::Result<()> {
//! let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
//! let stack = [builder.frame("hot_70"), builder.frame("main")];
//! builder.sample(&stack, &[7, 70_000_000], &[]);
//! let profile = builder.finish().expect("the builder only hands out ids that exist");
//!
//! let completed = Nanos(1_763_677_534_000_000_000);
//! let identity = Identity {
//!     id: ProfileId(1),
//!     node: 10001,
//!     profile_type: ProfileType::Cpu,
//!     start: Nanos(completed.0 - 10_000_000_000),
//!     duration: Nanos(10_000_000_000),
//!     completed,
//! };
//! let mut writer = PartWriter::new(PartLimits::default());
//! writer.add(identity, profile)?;
//!
//! let folder = tempfile::tempdir().expect("a temporary folder");
//! let objects = ObjectFolder::create(folder.path().join("archive"))?;
//! writer.write(&objects, Part::of_hour(Hour::containing(completed), Writer(1), 0))?;
//!
//! let archive = Archive::new(Arc::new(objects), ReadLimits::default());
//! let sum = archive.merge(&Selection::default())?.expect("a profile was written");
//! assert_eq!(sum.profile.total(1), 70_000_000);
//! # Ok(())
//! # }
//! ```

mod archive;
mod cells;
mod changes;
mod check;
mod compact;
mod error;
mod frames;
mod header;
mod hour;
mod label_sets;
mod merge;
mod objects;
mod pages;
mod part;
mod read;
mod read_ahead;
mod rollup;
mod schema;
mod selection;
mod sum;
mod tables;
mod tree;
mod write;

pub use archive::{Archive, KindSums, Listed, Numbered, Parts};
pub use cells::Cell;
pub use check::PartCheck;
pub use compact::{CompactLimits, Compacted, FrameNames, NamedFrame};
pub use error::{Error, Result};
pub use header::{FrameFacts, Header, Identity, Total};
pub use hour::Hour;
pub use objects::{Bucket, BucketLimits, BucketPlace, Environment, Object, ObjectFolder, Objects, Place, Provider};
pub use part::{Part, Span, Writer};
pub use read::ReadLimits;
pub use rollup::Grain;
pub use schema::{Column, ColumnType, Table, VERSION};
pub use selection::Selection;
pub use sum::{Merged, ProfileSum};
pub use write::{PartLimits, PartWriter, Written};
