//! Node ids, kept in `DATA/nodes.json` and never used twice.
//!
//! ```text
//! {"next":20002,"nodes":{"api":{"id":20001,"role":"service"},"be-1":{"id":10001,"role":"BE"}}}
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Role;
use crate::error::{Error, Result};

const FIRST: u64 = 20_001;
/// Mode of the file.
const MODE: u32 = 0o640;

/// The ids given out so far.
pub struct NodeIds {
    path: PathBuf,
    given: Given,
}

#[derive(Clone, Serialize, Deserialize)]
struct Given {
    next: u64,
    nodes: BTreeMap<String, Known>,
}

#[derive(Clone, Serialize, Deserialize, PartialEq)]
struct Known {
    id: u64,
    role: String,
}

impl NodeIds {
    /// Reads the ids given out under a data folder; none if there is no file yet.
    ///
    /// # Errors
    /// The file cannot be read or is no id file: then nothing is numbered anew.
    pub fn open(data: &Path) -> Result<NodeIds> {
        let path = data.join("nodes.json");
        let given = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| Error::File {
                what: "node ids",
                path: path.clone(),
                cause: io::Error::other(error),
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Given { next: FIRST, nodes: BTreeMap::new() },
            Err(cause) => return Err(Error::File { what: "node ids", path, cause }),
        };
        Ok(NodeIds { path, given })
    }

    /// The id of the node with this name: `wanted`, its former one, or a new one. A given id belongs to the cluster's
    /// node, so a new name for the same id is the same node renamed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn id(&mut self, name: &str, role: Role, wanted: Option<u64>) -> Result<u64> {
        let before = self.given.nodes.get(name).map(|known| known.id);
        let id = wanted.or(before).unwrap_or_else(|| self.fresh());
        let known = Known { id, role: role.name().to_owned() };
        if self.given.nodes.get(name) == Some(&known) {
            return Ok(id);
        }
        self.given.nodes.retain(|_, other| other.id != id);
        self.given.nodes.insert(name.to_owned(), known);
        if id >= self.given.next {
            self.given.next = id + 1;
        }
        self.write()?;
        Ok(id)
    }

    /// The ids of several nodes, former ones or new ones, kept by one write.
    ///
    /// # Errors
    /// The file cannot be written; then no id is given out.
    pub(super) fn several(&mut self, nodes: &[(String, Role)]) -> Result<Vec<u64>> {
        let before = self.given.clone();
        let given = nodes.iter().map(|(name, role)| {
            if let Some(known) = self.given.nodes.get(name) {
                return known.id;
            }
            let id = self.given.next.max(FIRST);
            self.given.nodes.insert(name.clone(), Known { id, role: role.name().to_owned() });
            self.given.next = id + 1;
            id
        });
        let given = given.collect();
        if self.given.next != before.next {
            self.write().inspect_err(|_| self.given = before)?;
        }
        Ok(given)
    }

    /// Forgets nodes; their ids are not given out again.
    ///
    /// # Errors
    /// The file cannot be written; then all are still known.
    pub(super) fn forget(&mut self, names: &[String]) -> Result<()> {
        let before = self.given.clone();
        self.given.nodes.retain(|name, _| !names.contains(name));
        self.write().inspect_err(|_| self.given = before)
    }

    /// Every name with its id and role, also of nodes that are configured no more.
    pub fn all(&self) -> impl Iterator<Item = (&str, u64, Role)> {
        self.given
            .nodes
            .iter()
            .map(|(name, known)| (name.as_str(), known.id, Role::named(&known.role).unwrap_or_default()))
    }

    fn fresh(&self) -> u64 {
        self.given.next.max(FIRST)
    }

    fn write(&self) -> Result<()> {
        let failed = |cause| Error::File { what: "node ids", path: self.path.clone(), cause };
        let bytes = serde_json::to_vec(&self.given).map_err(|error| failed(io::Error::other(error)))?;
        procprof_files::replace(&self.path, &bytes, MODE).map_err(|error| failed(error.into()))
    }
}
