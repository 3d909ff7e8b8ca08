//! [`SharedNumbers`]: ids of nodes that all servers of an archive agree on, since its rows name nodes by their ids.
//!
//! ```text
//! nodes/0000020001.json                             {"version":1,"name":"api","by":"0123456789abcdef"}: a node, and the server
//! nodes/names/6f0c1b9a2d3e4f506f0c1b9a2d3e4f50      20001: the id of a name, by its hash
//! ```
//! Both are created once, by whoever is first. An id is taken before it becomes that of a name; of several servers that
//! do so for one name, the first to create the second object wins, and the ids that the others have taken are nobody's.
//! The second object is only a number, as servers of all releases read it; another content would be under another name.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use procprof_archive::Objects;
use procprof_files::DiskFormat;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::archiving::OpenArchive;
use crate::nodes::NodeNumbers;
use crate::{Error, Result, versioned_json};

/// The object of an id.
const FORMAT: DiskFormat = DiskFormat { name: "shared node id", version: 1 };
/// Bytes of an object that is read, at most.
const BYTES_MAX: u64 = 4096;
/// Ids in a row that others have, at most.
const TAKEN_MAX: u64 = 100_000;

/// The ids of nodes in an archive.
#[derive(Debug)]
pub struct SharedNumbers {
    archive: Arc<OpenArchive>,
    /// The highest that was taken when they were listed.
    highest: OnceLock<u64>,
}

#[derive(Serialize, Deserialize)]
struct Holder {
    name: String,
    by: String,
}

impl NodeNumbers for SharedNumbers {
    fn keep(&self, name: &str, id: u64) -> Result<()> {
        let known = match self.known(name)? {
            Some(known) => known,
            None => {
                if let Some(holder) = self.take(name, id)? {
                    return Err(wrong(format!("id {id} is of node {name} here and of node {holder} in the archive")));
                }
                self.decide(name, id)?
            }
        };
        if known != id {
            return Err(wrong(format!("node {name} has the id {id} here and {known} in the archive")));
        }
        Ok(())
    }

    fn number(&self, name: &str, first: u64) -> Result<u64> {
        if let Some(id) = self.known(name)? {
            return Ok(id);
        }
        let mut id = self.next_free(first)?;
        let most = id.saturating_add(TAKEN_MAX);
        while self.take(name, id)?.is_some() {
            id += 1;
            if id == most {
                return Err(wrong(format!("no id is free up to {id}")));
            }
        }
        self.decide(name, id)
    }
}

impl SharedNumbers {
    /// Those of an archive.
    pub fn new(archive: Arc<OpenArchive>) -> SharedNumbers {
        SharedNumbers { archive, highest: OnceLock::new() }
    }

    /// The id of a name, if it has one.
    fn known(&self, name: &str) -> Result<Option<u64>> {
        let path = name_path(name);
        let Some(text) = self.read(&path)? else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| wrong(format!("{path}: not the id of a node")))
    }

    /// Makes an id that was taken that of a name, unless another server was faster; the name's id.
    fn decide(&self, name: &str, id: u64) -> Result<u64> {
        let path = name_path(name);
        if self.objects().create(&path, id.to_string().as_bytes())? {
            return Ok(id);
        }
        self.known(name)?.ok_or_else(|| wrong(format!("{path}: gone")))
    }

    fn objects(&self) -> &dyn Objects {
        self.archive.known.archive.objects()
    }

    /// Takes an id for a node; the name of the other node that has it, if one has.
    fn take(&self, name: &str, id: u64) -> Result<Option<String>> {
        let holder = Holder { name: name.to_owned(), by: self.archive.writer.to_string() };
        let text = versioned_json::encode(FORMAT, &holder).map_err(|error| wrong(error.to_string()))?;
        if self.objects().create(&id_path(id), &text)? {
            return Ok(None);
        }
        let holder = self.holder(id)?.unwrap_or_else(|| "that is gone".to_owned());
        Ok(Some(holder).filter(|holder| holder != name))
    }

    fn holder(&self, id: u64) -> Result<Option<String>> {
        let path = id_path(id);
        let Some(text) = self.read(&path)? else { return Ok(None) };
        let holder: Holder = versioned_json::decode(FORMAT, Path::new(&path), text.as_bytes())?;
        Ok(Some(holder.name))
    }

    /// The id after the highest that was taken, or `first`.
    fn next_free(&self, first: u64) -> Result<u64> {
        let highest = match self.highest.get() {
            Some(highest) => *highest,
            None => {
                let objects = self.objects().list("nodes")?;
                let ids = objects
                    .iter()
                    .filter_map(|object| object.path.strip_prefix("nodes/")?.strip_suffix(".json")?.parse().ok());
                *self.highest.get_or_init(|| ids.max().unwrap_or(0))
            }
        };
        Ok(first.max(highest.saturating_add(1)))
    }

    /// The text of an object; `None` when there is none.
    fn read(&self, path: &str) -> Result<Option<String>> {
        let objects = self.objects();
        let size = match objects.size(path) {
            Err(error) if error.is_not_found() => return Ok(None),
            size => size?,
        };
        let length = usize::try_from(size).ok().filter(|_| size <= BYTES_MAX);
        let length = length.ok_or_else(|| wrong(format!("{path}: {size} bytes, and at most {BYTES_MAX} are read")))?;
        match objects.read(path, 0, length) {
            Err(error) if error.is_not_found() => Ok(None),
            bytes => Ok(Some(String::from_utf8_lossy(&bytes?).into_owned())),
        }
    }
}

fn wrong(why: String) -> Error {
    Error::Setup { what: "node ids", why }
}

fn id_path(id: u64) -> String {
    format!("nodes/{id:010}.json")
}

fn name_path(name: &str) -> String {
    let digest = Sha256::digest(name);
    let hash: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("nodes/names/{hash}")
}
