//! [`DiskFormat`]: a format on disk and the version in which it is written.
//!
//! Whatever is kept says its version, in a place that older programs skip: a member of a JSON object, a record of a
//! journal, a comment, a word, or for a folder the file `procprof-version`, which covers all files in it that have
//! none of their own:
//!
//! ```text
//! procprof.store 1
//! ```
//! A file without a version is of version 1: the first releases wrote none. A file of a newer version is refused before
//! anything is changed. `testdata/versions` has the formats, and each version of each as a program wrote it.

use std::path::Path;

use crate::{Error, Folder, NewFile, Result};

/// The file with the version of a folder.
const FOLDER_FILE: &str = "procprof-version";
/// The size of that file, at most.
const FOLDER_FILE_BYTES_MAX: u64 = 1024;

/// A format on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFormat {
    /// Its name, as marks and messages have it: `store`.
    pub name: &'static str,
    /// The version that is written, and the newest one that is read.
    pub version: u32,
}

impl DiskFormat {
    /// Checks the version that was found in a file, `None` if it has none. Returns the version of the file.
    ///
    /// # Errors
    /// [`Error::Version`] when it is newer than this program reads.
    pub fn check(self, path: impl AsRef<Path>, found: Option<u32>) -> Result<u32> {
        match found.unwrap_or(1) {
            version if version <= self.version => Ok(version),
            found => {
                let path = path.as_ref().to_owned();
                Err(Error::Version { path, format: self.name, found, supported: self.version })
            }
        }
    }

    /// The version as a text: `procprof.store 1`.
    pub fn mark(self) -> String {
        format!("procprof.{} {}", self.name, self.version)
    }

    /// The version in a line that is a mark of this format; `None` for other lines.
    pub fn version_of_mark(self, line: &str) -> Option<u32> {
        line.strip_prefix("procprof.")?.strip_prefix(self.name)?.strip_prefix(' ')?.trim_end().parse().ok()
    }

    /// Checks the version of a folder and returns it; 1 if the folder has none or is missing. Changes nothing.
    ///
    /// # Errors
    /// [`Error::Version`]; the file with the version cannot be read, or is of something else.
    pub fn check_folder(self, path: &Path) -> Result<u32> {
        let read = Folder::open_through_links(path).and_then(|folder| folder.read(FOLDER_FILE, FOLDER_FILE_BYTES_MAX));
        let text = match read {
            Err(error) if error.is_not_found() => return Ok(1),
            text => text?,
        };
        let file = path.join(FOLDER_FILE);
        match self.version_of_mark(&String::from_utf8_lossy(&text)) {
            Some(found) => self.check(file, Some(found)),
            None => Err(Error::Mark { path: file, expected: self.mark() }),
        }
    }

    /// Writes the version of a folder, unless it is there. Its content must be of this version, and the folder belong
    /// to this process alone.
    ///
    /// # Errors
    /// The system's. A folder of version 1 may go without.
    pub fn mark_folder(self, path: &Path, mode: u32) -> Result<()> {
        let folder = Folder::open_through_links(path)?;
        let mark = format!("{}\n", self.mark());
        if folder.read(FOLDER_FILE, FOLDER_FILE_BYTES_MAX).is_ok_and(|text| text == mark.as_bytes()) {
            return Ok(());
        }
        let temporary = format!(".{FOLDER_FILE}.tmp");
        // Left by a process that was killed.
        folder.remove(&temporary)?;
        let mut file = NewFile::begin(&folder, temporary, mode)?;
        file.write(mark.as_bytes())?;
        file.replace(FOLDER_FILE)
    }
}
