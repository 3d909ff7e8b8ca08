//! The cache of an image: its folder and name.

use procprof_process::BuildId;

use crate::IndexFolder;

/// The place of an image's cache.
#[derive(Debug)]
pub(crate) struct ImageCache {
    pub(crate) folder: IndexFolder,
    pub(crate) name: String,
}

impl ImageCache {
    /// `sizes` are those of the binary and of the files that add to it.
    pub(crate) fn new(build_id: Option<&BuildId>, sizes: &[u64], folder: Option<&IndexFolder>) -> Option<Self> {
        let (build_id, folder) = (build_id?, folder?.clone());
        let mut name = format!("{build_id}");
        for size in sizes {
            name.push_str(&format!("-{size:x}"));
        }
        Some(Self { folder, name })
    }

    /// The place of the cache for the rules of binutils, which has guides and names only.
    ///
    /// The number changes when names are printed differently.
    pub(crate) fn of_binutils(&self) -> Self {
        Self { folder: self.folder.clone(), name: format!("{}-binutils-2", self.name) }
    }
}
