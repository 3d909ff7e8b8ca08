//! Addresses to functions, files, lines and inlined frames.
//!
//! [`Image`] is one ELF file with what is known of its symbols: DWARF (its own, or that of a
//! separate debug file found by build id or debug link), `.symtab`, `.dynsym`, `.gnu_debugdata`,
//! `.gopclntab`. [`Image::resolve`]
//! answers a whole batch of addresses. [`symbolize_profile`] does that for every mapping of a
//! profile and says in an [`Outcome`] what it used, what stayed unknown and why.
//!
//! An unknown symbol is data with a [`Reason`], never an error, and no symbol is guessed: a file
//! that is not the one profiled is refused, one that can't be proven to be is used only if it was
//! named by the caller, and then marked [`Proof::Unverified`].
//!
//! The caller must hand over call sites, not return addresses (`Profile::adjusted`), and do all
//! network input itself (the `fetch` of [`Sources`]). Files may be hostile: parsing never panics,
//! and what this crate allocates is bounded by [`ImageOptions`]; but debug information can describe
//! far more than it holds, so foreign files belong into a child process with a memory limit. Who reads
//! a process's own files in that very process sets a [`MemoryBudget`].
//!
//! [`SymbolIndex`] has what is needed to name the addresses of a file without the file. [`IndexFolder`]
//! keeps indexes; given as [`ImageOptions::cache`], what was read of a file is kept there for the next
//! batch, for [`binutils`], too. The crate reads no environment: the caller says where the folder is.
//!
//! Which sources there are, and the order they are asked in, is one table: [`SOURCES`].
//!
//! ```
//! use procprof_profile::FileOffset;
//! use procprof_symbolize::{Image, ImageOptions, Resolved};
//!
//! let path = std::env::current_exe()?;
//! let image = Image::open(&path, &ImageOptions::default())?;
//! let start = image.symbol_addr(FileOffset(0)).into_iter().collect::<Vec<_>>();
//! for resolved in image.resolve(&start) {
//!     match resolved {
//!         Resolved::Frames(frames) => println!("{} {:?}", frames[0].name, frames[0].line),
//!         Resolved::Unknown(reason) => println!("unknown: {reason}"),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
pub mod binutils;
mod budget;
mod code;
mod debug_file;
mod demangle;
mod dwarf;
mod error;
mod file_bytes;
mod go_table;
mod image;
pub mod index;
mod inflate;
mod ladder;
mod leb;
mod lines;
mod mini_debug;
mod names;
mod options;
mod outcome;
mod reason;
mod records;
mod release;
pub mod remote;
mod sections;
mod sources;
mod spans;
mod symbol_table;
mod symbolize;
mod symbols;
mod unit_batch;
mod wanted;
mod workers;
mod zone;

pub use budget::MemoryBudget;
pub use code::{CodeSymbol, Machine};
pub use demangle::demangle;
pub use error::{Error, Result};
pub use image::{DebugFile, FoundBy, Image};
pub use index::{Contents, IndexFolder, LayoutKey, SymbolIndex};
pub use options::{ImageOptions, SplitUnits};
pub use outcome::{Failure, MappingOutcome, Outcome, Proof, Refusal, UsedFile, WantedFile};
pub use reason::{Frame, Reason, Resolved};
pub use sources::{
    Binary, BinaryRole, Fetch, FetchDebugFile, FindIndex, PathUse, SOURCES, Source, SourceRow, Sources, WantedIndex, binary_name,
};
pub use symbolize::symbolize_profile;
pub use wanted::WantedShare;
