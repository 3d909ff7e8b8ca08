//! Indexes in a folder: read whole, or not at all.

use std::time::SystemTime;

use procprof_process::BuildId;

use super::SymbolIndex;
use crate::IndexFolder;

impl IndexFolder {
    /// The complete index of the file with that build id; `None` if there is none that can be read.
    pub fn find(&self, build_id: &BuildId) -> Option<SymbolIndex> {
        self.open(&build_id.to_string()).filter(|index| index.build_id() == Some(build_id))
    }

    /// The index under a name.
    pub(crate) fn open(&self, name: &str) -> Option<SymbolIndex> {
        let (file, path) = self.open_file(name)?;
        let index = SymbolIndex::from_file(&file, &path, self.bytes_max()).ok()?;
        // If it can't be marked as used, it is only removed earlier.
        let _ = file.set_modified(SystemTime::now());
        Some(index)
    }
}
