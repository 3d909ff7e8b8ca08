//! `DATA/taken-over.json`: the files of the log folder that an earlier start has seen, so that each is taken over, or
//! refused, once.
//!
//! ```text
//! {"folder":"/opt/starrocks/log/proc_profile","files":{"cpu-profile-20251120-120000-pprof.gz":{"bytes":70123,"modified":1763640000}}}
//! ```
//! A file whose size or time has changed is another one. Losing this file costs nothing but a second look: equal
//! content is never added twice.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

const NAME: &str = "taken-over.json";
/// Bytes of the list, at most.
const BYTES_MAX: u64 = 256 << 20;

/// Distinguishes a file from another one of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// Its size.
    bytes: u64,
    /// When it was last written, in seconds since the epoch.
    modified: u64,
}

/// Stamps by file name.
pub(super) type Files = BTreeMap<String, Stamp>;

#[derive(Serialize, Deserialize)]
struct Seen {
    folder: PathBuf,
    files: Files,
}

/// The files in a folder now; links and folders are not followed.
pub(super) fn files(folder: &Path) -> Result<Files> {
    let failed = |cause| Error::File { what: "log folder", path: folder.to_owned(), cause };
    let mut files = Files::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (Ok(name), Ok(meta)) = (entry.file_name().into_string(), entry.metadata()) else { continue };
        let modified = meta.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        files.insert(name, Stamp { bytes: meta.len(), modified: modified.unwrap_or_default().as_secs() });
    }
    Ok(files)
}

/// The files that an earlier start saw in that folder; empty when there was none, or when its list cannot be read.
pub(super) fn read(data: &Path, folder: &Path) -> Files {
    let path = data.join(NAME);
    let bytes = procprof_files::read(&path, BYTES_MAX);
    let read = bytes.and_then(|bytes| serde_json::from_slice::<Seen>(&bytes).map_err(io::Error::other));
    match read {
        Ok(seen) if seen.folder == folder => seen.files,
        Ok(_) => Files::new(),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!("{}: {error}; all files of {} are looked at again", path.display(), folder.display());
            }
            Files::new()
        }
    }
}

/// Keeps what was seen.
pub(super) fn write(data: &Path, folder: &Path, files: Files) -> Result<()> {
    let path = data.join(NAME);
    let failed = |cause| Error::File { what: "list of files taken over", path: path.clone(), cause };
    let bytes = serde_json::to_vec(&Seen { folder: folder.to_owned(), files })
        .map_err(|error| failed(io::Error::other(error)))?;
    procprof_files::replace(&path, &bytes, 0o640).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Files, Stamp};
    use crate::law::{Contents, Row, check, line};

    const FOLDER: &str = "/opt/starrocks/log/proc_profile";

    #[test]
    fn every_version_of_the_file_is_read() {
        check(&Row { name: "taken-over", version: procprof_store::DATA_FORMAT.version, make, read, mark: None });
    }

    fn make(data: &Path) {
        let file =
            |time: &str, bytes| (format!("cpu-profile-{time}-pprof.gz"), Stamp { bytes, modified: 1_763_640_000 });
        let files = Files::from([file("20251120-120000", 70_123), file("20251120-120500", 0)]);
        super::write(data, Path::new(FOLDER), files).unwrap();
    }

    fn read(data: &Path) -> Contents {
        let mut text = String::new();
        line(&mut text, super::read(data, Path::new(FOLDER)));
        Ok(text)
    }
}
