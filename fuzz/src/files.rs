//! A folder with the files of one input.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

/// A folder that lives as long as the process; each input overwrites the files of the one before.
#[derive(Debug)]
pub struct Files {
    folder: TempDir,
}

impl Files {
    /// An empty one, in memory if the machine has such a folder.
    pub fn new() -> Files {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Files { folder: folder.expect("a temporary folder can be made") }
    }

    /// Writes a file and returns its path.
    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, bytes).expect("a temporary file can be written");
        path
    }
}

impl Default for Files {
    fn default() -> Files {
        Files::new()
    }
}
