//! `DATA/hosts`: a file for each known host, named by its id.
//!
//! ```text
//! DATA/hosts/0123456789abcdef0123456789abcdef.json
//! ```

use std::io;
use std::path::{Path, PathBuf};

use super::HOSTS_MAX;
use super::admission::is_host_id;
use super::known::KnownHost;
use crate::error::{Error, Result};

/// Mode of the files.
const MODE: u32 = 0o640;
/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct HostFolder(PathBuf);

impl HostFolder {
    /// The folder, made if it is not there, and the hosts in it.
    pub(super) fn open(data: &Path) -> Result<(HostFolder, Vec<KnownHost>)> {
        let path = data.join("hosts");
        let failed = |cause| Error::File { what: "hosts", path: path.clone(), cause };
        procprof_files::Folder::make(&path).map_err(|error| failed(error.into()))?;
        let mut hosts = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            let is_host = file.file_stem().and_then(|stem| stem.to_str()).is_some_and(is_host_id);
            if !is_host || file.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match read(&file) {
                Ok(host) if hosts.len() < HOSTS_MAX => hosts.push(host),
                Ok(_) => tracing::error!("{}: more than {HOSTS_MAX} hosts; it is passed over", file.display()),
                Err(error) => tracing::error!("{}: {error}; the host is registered anew", file.display()),
            }
        }
        Ok((HostFolder(path), hosts))
    }

    /// Removes the file of a host.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn remove(&self, id: &str) -> Result<()> {
        let failed = |cause| Error::File { what: "host", path: self.0.join(format!("{id}.json")), cause };
        let folder = procprof_files::Folder::open(&self.0).map_err(|error| failed(error.into()))?;
        folder.remove(format!("{id}.json")).map(|_| ()).map_err(|error| failed(error.into()))
    }

    /// Writes the file of a host.
    ///
    /// # Errors
    /// It cannot be written; the former one stays.
    pub(super) fn write(&self, host: &KnownHost) -> Result<()> {
        let path = self.0.join(format!("{}.json", host.facts.id));
        let failed = |cause| Error::File { what: "host", path: path.clone(), cause };
        let bytes = serde_json::to_vec(host).map_err(|error| failed(io::Error::other(error)))?;
        procprof_files::replace(&path, &bytes, MODE).map_err(|error| failed(error.into()))
    }
}

fn read(file: &Path) -> io::Result<KnownHost> {
    let length = std::fs::metadata(file)?.len();
    if length > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("{length} bytes are too many")));
    }
    let host: KnownHost = serde_json::from_slice(&std::fs::read(file)?).map_err(io::Error::other)?;
    match file.file_stem().is_some_and(|stem| stem == host.facts.id.as_str()) {
        true => Ok(host),
        false => Err(io::Error::other("it is of another host than its name says")),
    }
}
