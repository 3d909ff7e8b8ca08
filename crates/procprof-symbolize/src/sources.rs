//! Where symbols may come from. What each source is, and the order they are asked in: [`SOURCES`].

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
use std::io;
use std::path::PathBuf;

use procprof_process::{BuildId, Identity};
use procprof_profile::Addr;

use crate::{ImageOptions, SymbolIndex};

pub use fit::binary_name;
pub(crate) use inquiry::{Answer, Inquiries};
pub use table::{SOURCES, Source, SourceRow};
pub use uploaded::WantedIndex;

/// Asks a remote symbol page for the names at addresses of the process, ascending. An address the
/// page does not know may be left out. See [`crate::remote`] for what is sent and answered.
pub type Fetch<'a> = dyn FnMut(&[Addr]) -> io::Result<Vec<(Addr, String)>> + 'a;

/// Finds the symbol indexes of a file among those the caller keeps. They are proven by build id, or
/// else layout key, before one is used. If neither is known, all that [`WantedIndex::may_be`] are to be
/// given: one is used if it is the only one, as [`crate::Proof::Unverified`].
pub type FindIndex<'a> = dyn Fn(&WantedIndex<'_>) -> Vec<SymbolIndex> + 'a;

/// Fetches the debug file of a build from a debuginfod server and gives its path on this machine;
/// `None` if no server has it. The file is proven by its build id before it is used.
pub type FetchDebugFile<'a> = dyn FnMut(&BuildId) -> io::Result<Option<PathBuf>> + 'a;

/// Where symbols may come from.
#[derive(Default)]
pub struct Sources<'a> {
    /// Binaries named by the operator. Used unless their build id differs from the mapping's; if
    /// either has none, what they give is [`crate::Proof::Unverified`].
    pub binaries: Vec<Binary>,
    /// The process that was profiled, if it runs on this machine. Used for as long as it is that
    /// very process.
    pub process: Option<Identity>,
    /// The mapping's own path on this machine, used only if its build id is the mapping's.
    pub paths: PathUse,
    /// Perf maps (`perf-PID.map`) of code made at run time, named by the operator: nothing proves
    /// them. A live process brings its own.
    pub perf_maps: Vec<PathBuf>,
    /// Kernel symbols as `/proc/kallsyms` has them, named by the operator: nothing proves that they
    /// are of the boot that was profiled. For a live process this machine's own are read.
    pub kallsyms: Option<PathBuf>,
    /// Asked for the symbols of files no file here has debug information for.
    pub uploaded: Option<Box<FindIndex<'a>>>,
    /// Asked for the debug files of builds no file here has debug information for.
    pub debuginfod: Option<Box<FetchDebugFile<'a>>>,
    /// Asked for what all else leaves unknown.
    pub fetch: Option<Box<Fetch<'a>>>,
    /// How files are opened, and where debug files are looked for.
    pub image: ImageOptions,
}

/// Whether the paths a profile names are opened on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathUse {
    /// They are, and used if the build id proves them.
    #[default]
    IfProven,
    /// They are not: the profile is from elsewhere, or from someone else.
    Never,
}

/// A binary named by the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// Where it is.
    pub path: PathBuf,
    /// What it is taken for.
    pub role: BinaryRole,
}

/// Which mappings a named binary is taken for. One with an equal build id is taken in any role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryRole {
    /// The main program: the first mapping with a file.
    Main,
    /// The mappings whose file has the same name, whatever its folder. `NAME.debug` and
    /// `NAME.debuginfo` are taken for `NAME`.
    SameName,
    /// The mappings with the same name, or else, if the profile has neither its name nor its build
    /// id, the main program.
    Any,
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("binaries", &self.binaries)
            .field("process", &self.process)
            .field("paths", &self.paths)
            .field("perf_maps", &self.perf_maps)
            .field("kallsyms", &self.kallsyms)
            .field("uploaded", &self.uploaded.is_some())
            .field("debuginfod", &self.debuginfod.is_some())
            .field("fetch", &self.fetch.is_some())
            .field("image", &self.image)
            .finish()
    }
}
