//! Where symbols may come from.

use std::fmt;
use std::io;
use std::path::PathBuf;

use procprof_process::Identity;
use procprof_profile::Addr;

use crate::ImageOptions;

/// Asks a remote symbol page for the names at addresses of the process, ascending. An address the
/// page does not know may be left out. See [`crate::remote`] for what is sent and answered.
pub type Fetch<'a> = dyn FnMut(&[Addr]) -> io::Result<Vec<(Addr, String)>> + 'a;

/// Where symbols may come from, in the order they are asked.
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
    /// Asked for what the files leave unknown.
    pub fetch: Option<Box<Fetch<'a>>>,
    /// How files are opened.
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

/// Which mappings a named binary is taken for. One with an equal build id is taken in either role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryRole {
    /// The main program: the first mapping with a file.
    Main,
    /// The mappings whose file has the same name, whatever its folder.
    SameName,
}

impl fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("binaries", &self.binaries)
            .field("process", &self.process)
            .field("paths", &self.paths)
            .field("fetch", &self.fetch.is_some())
            .field("image", &self.image)
            .finish()
    }
}
