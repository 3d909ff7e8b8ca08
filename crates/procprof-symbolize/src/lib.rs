//! Addresses to functions, files, lines and inlined frames.
//!
//! [`Image`] is one ELF file with its symbols: DWARF (its own, or that of a separate debug file found by build id or
//! debug link), `.symtab`, `.dynsym`, `.gnu_debugdata`, `.gopclntab`. [`Image::resolve`] looks up a whole batch of
//! addresses. [`symbolize_profile`] does that for every mapping of a profile and returns an [`Outcome`] with what it
//! used, what stayed unknown and why.
//!
//! An unknown symbol is data with a [`Reason`], never an error, and no symbol is guessed: a file
//! that is not the one profiled is refused, one that can't be proven to be is used only if it was
//! named by the caller, and then marked [`Proof::Unverified`].
//!
//! The caller must pass call sites, not return addresses (`Profile::adjusted`), and do all network input itself (the
//! `fetch` of [`Sources`]). Files may be hostile: parsing never panics, and what this crate allocates is bounded by
//! [`ImageOptions`]; but debug information can describe far more than it contains, so untrusted files belong into a
//! child process with a memory limit. A caller that reads a process's own files in that process sets a
//! [`MemoryBudget`].
//!
//! [`SymbolIndex`] has all that is needed to name the addresses of a file without the file. [`IndexFolder`] stores
//! indexes; as [`ImageOptions::cache`] it caches what was read of a file for the next batch, also for [`binutils`]. The
//! crate reads no environment variables: the caller names the folder.
//!
//! The table [`SOURCES`] has the sources of symbols in the order in which they are queried.
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

// From below, each using only those before it: `error`, `reason`, `demangle` and the small tools `leb`, `ranges`,
// `workers`; `options`; `elf`, which parses an image's files; `dwarf`, which reads its debug information; `lookup`;
// `index`; then `resolve`, `binutils` and `code`, which answer for one image; `outcome`, `remote` and `sources`;
// `symbolize`, which queries the sources for a whole profile.
pub mod binutils;
mod code;
mod demangle;
mod dwarf;
mod elf;
mod error;
pub mod index;
mod leb;
mod lookup;
mod options;
mod outcome;
mod ranges;
mod reason;
pub mod remote;
mod resolve;
mod sources;
mod symbolize;
mod workers;

pub use code::{CodeSymbol, Machine};
pub use demangle::demangle;
pub use elf::{DebugFile, FoundBy, GoFunction, GoTable, Image, LayoutKey};
pub use error::{Error, Result};
pub use index::{Contents, SymbolIndex};
pub use options::{ImageOptions, IndexFolder, MemoryBudget, SplitUnits};
pub use outcome::{Failure, MappingOutcome, Outcome, Proof, Source, UsedFile, WantedFile};
pub use reason::{Frame, Reason, Refusal, Resolved};
pub use sources::{
    Binary, BinaryRole, Fetch, FetchDebugFile, FindIndex, LIVE_PERF_MAP_BYTES_MAX, PathUse, PerfMapLimits, ProvenFile,
    SOURCES, SourceRow, Sources, WantedIndex, binary_name,
};
pub use symbolize::{NameStyle, WantedShare, style_names, symbolize_profile};
pub use workers::in_one_thread;
