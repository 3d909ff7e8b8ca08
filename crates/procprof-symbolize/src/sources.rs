//! The sources of symbols; [`SOURCES`] has them in the order in which they are queried.

mod candidate;
mod debug_info;
mod debuginfod;
mod fit;
mod inquiry;
mod kallsyms;
mod live;
mod named;
mod own_symbols;
mod perf_map;
mod symbol_page;
mod table;
mod text_symbols;
mod uploaded;
mod vdso;

use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use procprof_process::{BuildId, Identity};
use procprof_profile::Addr;

use crate::{ImageOptions, SymbolIndex};

pub use fit::binary_name;
pub(crate) use inquiry::{Answer, Inquiries};
pub(crate) use kallsyms::begin as begin_kernel_symbols;
pub use perf_map::{LIVE_PERF_MAP_BYTES_MAX, PerfMapLimits};
pub use table::{SOURCES, SourceRow};
pub use uploaded::WantedIndex;

/// Queries a remote symbol page for the names at addresses of the process, ascending. Addresses unknown to the page may
/// be left out. See [`crate::remote`] for the protocol.
pub type Fetch<'a> = dyn FnMut(&[Addr]) -> io::Result<Vec<(Addr, String)>> + 'a;

/// Finds the symbol indexes of a file among those that the caller stores. They are verified by build id, or else layout
/// key, before one is used. If neither is known, it must return all that [`WantedIndex::may_be`]: one is used if it is
/// the only one, as [`crate::Proof::Unverified`].
pub type FindIndex<'a> = dyn Fn(&WantedIndex<'_>) -> Vec<SymbolIndex> + 'a;

/// Fetches the debug file of a build from a debuginfod server and returns its path on this machine; `None` if no server
/// has it. The file is verified by its build id before it is used.
pub type FetchDebugFile<'a> = dyn FnMut(&BuildId) -> io::Result<Option<PathBuf>> + 'a;

/// The inputs of the symbol sources.
#[derive(Default)]
pub struct Sources<'a> {
    /// Binaries named by the operator. Used unless their build id differs from the mapping's; if either has none, their
    /// symbols are [`crate::Proof::Unverified`].
    pub binaries: Vec<Binary>,
    /// Files that the caller has opened and proven to be the mapped ones; of those with the path of a mapping the one
    /// with its build id is used, or with none if it has none.
    pub proven_files: &'a [ProvenFile],
    /// The process that was profiled, if it runs on this machine. Used as long as it is the same process.
    pub process: Option<Identity>,
    /// Whether the profile was taken on this machine since it was started: the kernel's symbols and the vdso are then
    /// those of this machine. A live process proves that, too.
    pub this_boot: bool,
    /// The mapping's own path on this machine, used only if its build id is the mapping's.
    pub paths: PathUse,
    /// Perf maps (`perf-PID.map`) of code generated at run time, named by the operator; they are not verified. A live
    /// process has its own.
    pub perf_maps: Vec<PathBuf>,
    /// The limits on perf maps.
    pub perf_map_limits: PerfMapLimits,
    /// Kernel symbols in the format of `/proc/kallsyms`, named by the operator: nothing proves that they are of the
    /// boot that was profiled. For a live process, and a profile of this boot, those of this machine are read.
    pub kallsyms: Option<PathBuf>,
    /// Queried for the symbols of files without debug information on this machine.
    pub uploaded: Option<Box<FindIndex<'a>>>,
    /// Queried for the debug files of builds without debug information on this machine.
    pub debuginfod: Option<Box<FetchDebugFile<'a>>>,
    /// Queried for all addresses that the other sources leave unknown.
    pub fetch: Option<Box<Fetch<'a>>>,
    /// Options of opening files and searching debug files.
    pub image: ImageOptions,
}

/// Whether the paths in a profile are opened on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathUse {
    /// They are, and used if the build id matches.
    #[default]
    IfProven,
    /// They are; if the profile has no build id, the file is assumed to be the profiled one, and marked.
    Trusted,
    /// They are not: the profile is from another machine, or from an untrusted source.
    Never,
}

/// A binary named by the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// Its path.
    pub path: PathBuf,
    /// The mappings that it is used for.
    pub role: BinaryRole,
}

/// An open file, and the path by which it was mapped.
#[derive(Debug)]
pub struct ProvenFile {
    /// The path as the profile has it.
    pub path: PathBuf,
    /// The file.
    pub file: File,
}

/// The mappings that a named binary is used for. One with an equal build id is used in any role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryRole {
    /// The main program: the first mapping with a file.
    Main,
    /// The mappings whose file has the same name, whatever its folder. `NAME.debug` and `NAME.debuginfo` count as
    /// `NAME`.
    SameName,
    /// The mappings with the same name, or else, if the profile has neither its name nor its build
    /// id, the main program.
    Any,
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("binaries", &self.binaries)
            .field("proven_files", &self.proven_files)
            .field("process", &self.process)
            .field("this_boot", &self.this_boot)
            .field("paths", &self.paths)
            .field("perf_maps", &self.perf_maps)
            .field("perf_map_limits", &self.perf_map_limits)
            .field("kallsyms", &self.kallsyms)
            .field("uploaded", &self.uploaded.is_some())
            .field("debuginfod", &self.debuginfod.is_some())
            .field("fetch", &self.fetch.is_some())
            .field("image", &self.image)
            .finish()
    }
}
