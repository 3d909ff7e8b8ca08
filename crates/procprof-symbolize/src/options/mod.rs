//! The places where debug files are searched, and the limits on files.

mod behind;
mod budget;
mod folder;

use std::path::PathBuf;

pub use self::budget::MemoryBudget;
pub(crate) use self::budget::Room;
pub use self::folder::IndexFolder;

/// The places where debug files are searched, and limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageOptions {
    /// Folders with separate debug files, in any of the layouts that `elf/debug_file.rs` lists.
    pub debug_dirs: Vec<PathBuf>,
    /// Folders with binaries and debug files by build id or name, as pprof's `PPROF_BINARY_PATH`.
    pub binary_paths: Vec<PathBuf>,
    /// Debug files named by the operator, used for the images they are proven to belong to.
    pub debug_files: Vec<PathBuf>,
    /// The split off units that are read.
    pub split_units: SplitUnits,
    /// The cache of what was read; none if `None`. See [`crate::index`].
    pub cache: Option<IndexFolder>,
    /// Largest file that is opened, in bytes. Files are mapped, not read, so only their used parts take memory.
    pub file_bytes_max: u64,
    /// Most memory for the decompressed sections of one file, in bytes. In addition, no section may have more than 64
    /// times its compressed bytes.
    pub decompressed_bytes_max: u64,
    /// Most memory for looking up addresses; unlimited if `None`. Results of a budget that was too small are not
    /// cached.
    pub memory: Option<MemoryBudget>,
}

/// The units split off by a compiler (`-gsplit-dwarf`) that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SplitUnits {
    /// Those in the package (`.dwp`) beside the binary.
    #[default]
    Packaged,
    /// Also those in `.dwo` files, at the paths in the debug information. A hostile file can name any path; the file
    /// there is opened, and used only if it is an ELF file with the unit's id.
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
