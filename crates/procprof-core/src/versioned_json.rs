//! JSON objects on disk with their version beside their other members, which programs that do not know it skip.
//!
//! ```text
//! {"version":1,"next":20002,"nodes":{}}
//! ```

use std::io;
use std::path::Path;

use procprof_files::DiskFormat;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

#[derive(Serialize)]
struct Versioned<'a, T> {
    version: u32,
    #[serde(flatten)]
    content: &'a T,
}

#[derive(Deserialize)]
struct Version {
    version: Option<u32>,
}

/// Encodes an object with its version.
///
/// # Errors
/// It cannot be JSON.
pub(crate) fn encode(format: DiskFormat, content: &impl Serialize) -> io::Result<Vec<u8>> {
    serde_json::to_vec(&Versioned { version: format.version, content }).map_err(io::Error::other)
}

/// Decodes an object that [`encode`] or an earlier version has written; `path` is for errors only.
///
/// # Errors
/// [`procprof_files::Error::Version`] before anything else is looked at; [`Error::File`] when it is no such object.
pub(crate) fn decode<T: DeserializeOwned>(format: DiskFormat, path: &Path, bytes: &[u8]) -> Result<T> {
    if let Ok(Version { version }) = serde_json::from_slice(bytes) {
        format.check(path, version)?;
    }
    serde_json::from_slice(bytes).map_err(|error| Error::File {
        what: format.name,
        path: path.to_owned(),
        cause: io::Error::other(error),
    })
}
