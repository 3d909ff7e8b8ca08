//! Where debug files are looked for, and the limits on files.

use std::path::PathBuf;

use crate::{IndexFolder, MemoryBudget};

/// Where debug files are looked for, and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageOptions {
    /// Folders with separate debug files, in any of the layouts that `debug_file.rs` lists.
    pub debug_dirs: Vec<PathBuf>,
    /// Folders with binaries and debug files by build id or name, as pprof's `PPROF_BINARY_PATH`.
    pub binary_paths: Vec<PathBuf>,
    /// Debug files named by the operator, used for the images they are proven to belong to.
    pub debug_files: Vec<PathBuf>,
    /// Which units that were split off are read.
    pub split_units: SplitUnits,
    /// Where what was read is kept for the next time; nowhere if `None`. See [`crate::index`].
    pub cache: Option<IndexFolder>,
    /// Largest file that is opened, in bytes. Files are mapped, not read, so only what is used of
    /// them takes memory.
    pub file_bytes_max: u64,
    /// Most memory for the decompressed sections of one file, in bytes. Besides, no section may
    /// claim to be more than 64 times its compressed bytes.
    pub decompressed_bytes_max: u64,
    /// Most memory for looking up addresses; as much as it takes if `None`. What was read with a budget too small for all of it is not kept in
    /// the cache.
    pub memory: Option<MemoryBudget>,
}

/// Which of the units that a compiler has split off (`-gsplit-dwarf`) are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SplitUnits {
    /// Those in the package (`.dwp`) beside the binary.
    #[default]
    Packaged,
    /// Those in `.dwo` files, too, wherever the debug information says they are. A hostile file can
    /// name any path; what is there is opened, and used only if it is an ELF file with the unit's id.
    Anywhere,
}

impl Default for ImageOptions {
    /// `/usr/lib/debug`, packaged units only, no cache, files up to 64 GiB, 4 GiB decompressed, no budget.
    fn default() -> Self {
        Self {
            debug_dirs: vec![PathBuf::from("/usr/lib/debug")],
            binary_paths: Vec::new(),
            debug_files: Vec::new(),
            split_units: SplitUnits::default(),
            cache: None,
            file_bytes_max: 64 << 30,
            decompressed_bytes_max: 4 << 30,
            memory: None,
        }
    }
}
