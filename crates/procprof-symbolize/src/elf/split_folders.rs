//! The folders of units that a compiler has split off (`.dwo`).

use std::path::{Path, PathBuf};

use crate::{ImageOptions, SplitUnits};

/// The folders of an image's split off units.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SplitFolders {
    /// Folders to search besides the folder of compilation; none if no file may be opened.
    pub(crate) folders: Vec<PathBuf>,
    pub(crate) file_bytes_max: u64,
}

impl SplitFolders {
    /// For the image named `path`.
    pub(crate) fn new(path: &Path, options: &ImageOptions) -> Self {
        if options.split_units == SplitUnits::Packaged {
            return Self::default();
        }
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let beside = path.parent().map(Path::to_owned);
        Self {
            folders: beside.into_iter().chain(options.debug_dirs.iter().cloned()).collect(),
            file_bytes_max: options.file_bytes_max,
        }
    }
}
