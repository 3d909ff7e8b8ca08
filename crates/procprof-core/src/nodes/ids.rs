//! Node ids, kept in `DATA/nodes.json` and never used twice.
//!
//! ```text
//! {"version":1,"next":20002,"nodes":{"api":{"id":20001,"role":"service"},"be-1":{"id":10001,"role":"BE"}}}
//! ```

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use procprof_files::DiskFormat;
use serde::{Deserialize, Serialize};

use super::Role;
use crate::error::{Error, Result, chain};
use crate::versioned_json;

const FORMAT: DiskFormat = DiskFormat { name: "node ids", version: 1 };
const FIRST: u64 = 20_001;
/// Bytes of the file, at most: of some million nodes.
const BYTES_MAX: u64 = 256 << 20;
/// Mode of the file.
const MODE: u32 = 0o640;

/// Ids of nodes that several servers share.
pub trait NodeNumbers: Send + Sync {
    /// Takes an id that this server has given to a node before it shared ids.
    ///
    /// # Errors
    /// When another node has the id, or the node another id; the storage's.
    fn keep(&self, name: &str, id: u64) -> Result<()>;

    /// The id of a node: the one that it has, else one that is free, not below `first`.
    ///
    /// # Errors
    /// The storage's.
    fn number(&self, name: &str, first: u64) -> Result<u64>;
}

/// The ids given out so far.
pub struct NodeIds {
    path: PathBuf,
    given: Given,
    /// Where ids are shared with other servers.
    shared: Option<Arc<dyn NodeNumbers>>,
    /// Why they could not be asked for an id; they are not asked again until [`NodeIds::ask_again`].
    away: Option<String>,
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
    /// Whether other servers know it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
}

impl NodeIds {
    /// Reads the ids given out under a data folder; none if there is no file yet. New ones are shared with other servers
    /// if there are such.
    ///
    /// # Errors
    /// The file cannot be read, is no id file or of a newer version: then nothing is numbered anew.
    pub fn open(data: &Path, shared: Option<Arc<dyn NodeNumbers>>) -> Result<NodeIds> {
        let path = data.join("nodes.json");
        let given = match procprof_files::read(&path, BYTES_MAX) {
            Ok(bytes) => versioned_json::decode(FORMAT, &path, &bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Given { next: FIRST, nodes: BTreeMap::new() },
            Err(cause) => return Err(Error::File { what: FORMAT.name, path, cause }),
        };
        Ok(NodeIds { path, given, shared, away: None })
    }

    /// The id of the node with this name: `wanted`, its former one, or a new one. A given id belongs to the cluster's
    /// node, so a new name for the same id is the same node renamed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn id(&mut self, name: &str, role: Role, wanted: Option<u64>) -> Result<u64> {
        let before = self.given.nodes.get(name);
        let mut shared = before.is_some_and(|known| known.shared);
        let id = match wanted.or(before.map(|known| known.id)) {
            Some(id) => {
                // An id of the cluster or of the configuration is the same everywhere.
                shared |= wanted.is_none() && self.keep(name, id)?;
                id
            }
            None => {
                shared = self.shared.is_some();
                self.new_id(name)?
            }
        };
        let known = Known { id, role: role.name().to_owned(), shared };
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

    /// The same; `None` for a node that needs a new id while those who give it cannot be reached.
    ///
    /// # Errors
    /// The file cannot be written; an id that others know as another node's.
    pub(super) fn id_unless_away(&mut self, name: &str, role: Role, wanted: Option<u64>) -> Result<Option<u64>> {
        if self.away.is_some() && wanted.is_none() && !self.given.nodes.contains_key(name) {
            return Ok(None);
        }
        match self.id(name, role, wanted) {
            Err(Error::Archive(error)) => {
                self.away = Some(chain(&error));
                Ok(None)
            }
            id => id.map(Some),
        }
    }

    /// Why those who give ids could not be reached.
    pub(super) fn why_away(&self) -> Option<&str> {
        self.away.as_deref()
    }

    /// Has them asked again.
    pub(super) fn ask_again(&mut self) {
        self.away = None;
    }

    /// Where ids are shared: by whom new ones are given, the names that have none yet, and the least new id.
    pub(super) fn unknown(&self, nodes: &[(String, Role)]) -> Option<(Arc<dyn NodeNumbers>, Vec<String>, u64)> {
        let shared = self.shared.as_ref()?;
        let unknown = nodes.iter().map(|(name, _)| name).filter(|name| !self.given.nodes.contains_key(*name));
        Some((Arc::clone(shared), unknown.cloned().collect(), self.given.next.max(FIRST)))
    }

    /// The ids of several nodes, former ones or new ones, of which those in `numbers` were given already; kept by one
    /// write.
    ///
    /// # Errors
    /// The file cannot be written; then no id is given out.
    pub(super) fn several(&mut self, nodes: &[(String, Role)], numbers: &HashMap<String, u64>) -> Result<Vec<u64>> {
        let (next, mut new) = (self.given.next, Vec::new());
        let mut given = self.known_or_new(nodes, numbers, &mut new);
        if !new.is_empty() && given.is_ok() {
            given = self.write().and(given);
        }
        if given.is_err() {
            new.iter().for_each(|name| drop(self.given.nodes.remove(name)));
            self.given.next = next;
        }
        given
    }

    /// Notes the names that are new in `new`.
    fn known_or_new(
        &mut self,
        nodes: &[(String, Role)],
        numbers: &HashMap<String, u64>,
        new: &mut Vec<String>,
    ) -> Result<Vec<u64>> {
        let mut ids = Vec::with_capacity(nodes.len());
        for (name, role) in nodes {
            let id = match self.given.nodes.get(name) {
                Some(known) => known.id,
                None => {
                    let id = numbers.get(name).map_or_else(|| self.new_id(name), |id| Ok(*id))?;
                    let known = Known { id, role: role.name().to_owned(), shared: self.shared.is_some() };
                    self.given.nodes.insert(name.clone(), known);
                    new.push(name.clone());
                    // One that another server has given may be lower.
                    self.given.next = self.given.next.max(id + 1);
                    id
                }
            };
            ids.push(id);
        }
        Ok(ids)
    }

    /// Forgets nodes and returns their ids, which are not given out again.
    ///
    /// # Errors
    /// The file cannot be written; then all are still known.
    pub(super) fn forget(&mut self, names: &[String]) -> Result<Vec<u64>> {
        let forgotten: Vec<(String, Known)> =
            names.iter().filter_map(|name| self.given.nodes.remove_entry(name)).collect();
        let ids = forgotten.iter().map(|(_, known)| known.id).collect();
        self.write().inspect_err(|_| self.given.nodes.extend(forgotten))?;
        Ok(ids)
    }

    /// Every name with its id and role, also of nodes that are configured no more.
    pub fn all(&self) -> impl Iterator<Item = (&str, u64, Role)> {
        self.given
            .nodes
            .iter()
            .map(|(name, known)| (name.as_str(), known.id, Role::named(&known.role).unwrap_or_default()))
    }

    /// An id for a node that has none.
    fn new_id(&self, name: &str) -> Result<u64> {
        let next = self.given.next.max(FIRST);
        self.shared.as_ref().map_or(Ok(next), |shared| shared.number(name, next))
    }

    /// Makes an id known to other servers; whether they know it then. It may become known later.
    ///
    /// # Errors
    /// When they know it as another node's.
    fn keep(&mut self, name: &str, id: u64) -> Result<bool> {
        let is_known = self.given.nodes.get(name).is_some_and(|known| known.shared);
        let Some(shared) = self.shared.as_ref().filter(|_| !is_known && self.away.is_none()) else {
            return Ok(is_known);
        };
        match shared.keep(name, id) {
            Ok(()) => Ok(true),
            Err(Error::Archive(error)) => {
                let why = chain(&error);
                tracing::warn!("node ids: {name} keeps {id}, which other servers do not know yet: {why}");
                self.away = Some(why);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn write(&self) -> Result<()> {
        let failed = |cause| Error::File { what: FORMAT.name, path: self.path.clone(), cause };
        let bytes = versioned_json::encode(FORMAT, &self.given).map_err(failed)?;
        procprof_files::replace(&self.path, &bytes, MODE).map_err(|error| failed(error.into()))
    }
}
