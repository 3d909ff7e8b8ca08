//! `DATA/hosts`: a file for each known host, named by its id.
//!
//! ```text
//! DATA/hosts/0123456789abcdef0123456789abcdef.json      {"version":1,"facts":{…},"node":20001,…}
//! ```

use std::io;
use std::path::{Path, PathBuf};

use procprof_files::DiskFormat;

use super::HOSTS_MAX;
use super::admission::is_host_id;
use super::known::KnownHost;
use crate::error::{Error, Result};
use crate::versioned_json;

/// The file of a host.
const FORMAT: DiskFormat = DiskFormat { name: "host", version: 1 };
/// Mode of the files.
const MODE: u32 = 0o640;
/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct HostFolder(PathBuf);

impl HostFolder {
    /// The folder, made if it is not there, and the hosts in it.
    ///
    /// # Errors
    /// Also when a newer server has written the file of a host, which would be written over. One that is broken is an
    /// error in the log.
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
                Err(error @ Error::Files(_)) => return Err(error),
                Err(error) => tracing::error!("{error}; the host is registered anew"),
            }
        }
        Ok((HostFolder(path), hosts))
    }

    /// Removes the file of a host.
    ///
    /// # Errors
    /// It cannot be removed.
    pub(super) fn remove(&self, id: &str) -> Result<()> {
        let failed = |cause| Error::File { what: FORMAT.name, path: self.0.join(format!("{id}.json")), cause };
        let folder = procprof_files::Folder::open(&self.0).map_err(|error| failed(error.into()))?;
        folder.remove(format!("{id}.json")).map(|_| ()).map_err(|error| failed(error.into()))
    }

    /// Writes the file of a host.
    ///
    /// # Errors
    /// It cannot be written; the former one stays.
    pub(super) fn write(&self, host: &KnownHost) -> Result<()> {
        let path = self.0.join(format!("{}.json", host.facts.id));
        let failed = |cause| Error::File { what: FORMAT.name, path: path.clone(), cause };
        let bytes = versioned_json::encode(FORMAT, host).map_err(failed)?;
        procprof_files::replace(&path, &bytes, MODE).map_err(|error| failed(error.into()))
    }
}

fn read(file: &Path) -> Result<KnownHost> {
    let failed = |cause| Error::File { what: FORMAT.name, path: file.to_owned(), cause };
    let wrong = |why: &str| failed(io::Error::other(why));
    let bytes = procprof_files::read(file, FILE_BYTES_MAX).map_err(failed)?;
    let host: KnownHost = versioned_json::decode(FORMAT, file, &bytes)?;
    match file.file_stem().is_some_and(|stem| stem == host.facts.id.as_str()) {
        true => Ok(host),
        false => Err(wrong("it is of another host than its name says")),
    }
}
