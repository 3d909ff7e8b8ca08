//! The registered nodes: who they are, under which ids and aliases, and how they fare.
//!
//! Nothing is ever dialled from a query: `FE:host:port` and the like are only other names of nodes registered here.

mod discovered;
mod health;
mod ids;
mod pushed;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use procprof_profile::{Meta, ProfileType};
use tokio::sync::watch;

pub use discovered::Discovered;
pub use health::{FailedAttempt, Health, TypeHealth};
pub use ids::{NodeIds, NodeNumbers};
pub use pushed::PushedBy;

pub use crate::config::THIS_SERVER_ID;
use crate::config::{Claim, Config, NodeConfig, PidLookup, THIS_SERVER_NAME, distinct, plan};
pub use crate::config::{Kind, Planned, Role};
use crate::error::Result;
use crate::settings::Settings;

/// A node the caller of the server adds: the children of the demo.
#[derive(Clone, Debug)]
pub struct ExtraNode {
    /// Its id; `None`: numbered like a configured one.
    pub id: Option<u64>,
    /// Its unique name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// How it is collected.
    pub kind: Kind,
    /// `host:port` of its HTTP endpoint.
    pub address: String,
    /// The process behind it, where the caller has it: read at each capture.
    pub pid: Option<PidSource>,
    /// Its schedule, instead of the kind's.
    pub schedule: Vec<Planned>,
    /// Whether it is shown as "demo".
    pub demo: bool,
}

/// Returns the current process behind a node.
#[derive(Clone)]
pub struct PidSource(pub Arc<dyn Fn() -> Option<u32> + Send + Sync>);

impl std::fmt::Debug for PidSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PidSource")
    }
}

/// A registered node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Persistent id.
    pub id: u64,
    /// The configuration; for the server itself and extra nodes, the same in those terms.
    pub config: NodeConfig,
    /// Cluster, with the default applied.
    pub cluster: String,
    /// `host:port` shown.
    pub address: String,
    /// The schedule; every type the node can give, on or off.
    pub schedule: Vec<Planned>,
    /// Whether it is part of a demo.
    pub demo: bool,
    /// Whether it is configured no more, its host reports it no more, or it was only imported: its profiles are still
    /// there.
    pub past: bool,
    /// The process behind it, where the caller has it.
    pub pid: Option<PidSource>,
    /// Its id in its cluster's frontend, if there is one that lists the node.
    pub fe_id: Option<u64>,
    /// The host agent that sends its profiles, if one does.
    pub pushed_by: Option<PushedBy>,
}

impl Node {
    /// The facts about any profile of this node.
    pub fn meta(&self) -> Meta {
        Meta {
            node: Some(self.id),
            node_name: self.name().to_owned(),
            role: self.role().name().to_owned(),
            kind: self.kind().name().to_owned(),
            cluster: self.cluster.clone(),
            labels: self.config.labels.clone(),
            ..Meta::default()
        }
    }

    /// Its unique name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Its role.
    pub fn role(&self) -> Role {
        self.config.role
    }

    /// How it is collected.
    pub fn kind(&self) -> Kind {
        self.config.kind
    }

    /// The label of its tab: role and name, without repeating the role.
    pub fn label(&self) -> String {
        let (role, name) = (self.role().name(), self.name());
        let is_role_in_name = self.role() == Role::ThisServer || name.starts_with(role);
        let label = if is_role_in_name { name.to_owned() } else { format!("{role} {name}") };
        if self.demo { format!("{label} (demo)") } else { label }
    }

    /// The types it is not known to lack, with their schedules.
    pub fn offered(&self, health: &Health) -> impl Iterator<Item = &Planned> {
        let lacks = |kind: &ProfileType| health.types.get(kind).is_some_and(|own| own.unavailable.is_some());
        let missing: Vec<bool> = self.schedule.iter().map(|planned| lacks(&planned.profile_type)).collect();
        self.schedule.iter().zip(missing).filter(|(_, missing)| !missing).map(|(planned, _)| planned)
    }

    /// The schedule of a type, if the node can give it.
    pub fn planned(&self, profile_type: &ProfileType) -> Option<&Planned> {
        self.schedule.iter().find(|planned| planned.profile_type == *profile_type)
    }

    fn answers_at(&self, address: &str) -> bool {
        [self.address.as_str(), &self.config.http, &self.config.brpc].contains(&address)
    }
}

/// Nodes of the configuration that are not registered yet: the archive gives the ids of new ones, and is away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Their names and roles.
    pub nodes: Vec<(String, Role)>,
    /// Why the archive is away.
    pub why: String,
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.nodes.iter().take(WAITING_SHOWN).map(|(name, _)| name.as_str()).collect();
        let more = self.nodes.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (names, why) = (names.join(", "), &self.why);
        write!(f, "new nodes wait for their ids, which the archive gives: {names}{more}; {why}")
    }
}

/// Names of nodes that wait that are shown.
const WAITING_SHOWN: usize = 10;

/// All registered nodes and their health.
pub struct Registry {
    nodes: RwLock<Table>,
    /// Of hosts with a host agent and their services.
    pushed: Mutex<Vec<Arc<Node>>>,
    health: Mutex<BTreeMap<u64, Health>>,
    ids: Mutex<NodeIds>,
    waiting: Mutex<Option<Waiting>>,
    extra: Vec<ExtraNode>,
    /// Counts changes of the nodes.
    generation: watch::Sender<u64>,
    /// By cluster, what its frontend named last.
    discovered: Mutex<BTreeMap<String, Vec<Discovered>>>,
}

impl Registry {
    /// Registers the server itself (its HTTP `address`), the configured and the extra nodes; ids are kept in `data`,
    /// and shared with other servers if there are such.
    ///
    /// # Errors
    /// The id file cannot be read or written, or other servers know an id as another node's.
    pub fn open(
        data: &Path,
        config: &Config,
        extra: Vec<ExtraNode>,
        address: &str,
        shared: Option<Arc<dyn NodeNumbers>>,
    ) -> Result<Registry> {
        let registry = Registry {
            nodes: RwLock::default(),
            pushed: Mutex::default(),
            health: Mutex::default(),
            ids: Mutex::new(NodeIds::open(data, shared)?),
            waiting: Mutex::default(),
            extra,
            generation: watch::Sender::new(0),
            discovered: Mutex::default(),
        };
        registry.configure(config, address)?;
        Ok(registry)
    }

    /// Registers the nodes of a (new) configuration; ids and health of those that stay are kept. New ones that cannot
    /// get an id now are [`Registry::waiting`].
    ///
    /// # Errors
    /// The id file cannot be written.
    pub fn configure(&self, config: &Config, address: &str) -> Result<()> {
        let extra = self.extra.iter().map(|node| Claim { name: &node.name, id: node.id, place: "" });
        distinct(extra.chain(config.nodes.iter().map(Claim::from_node)))?;
        let mut ids = lock(&self.ids);
        ids.ask_again();
        let (mut nodes, mut waiting) = (Vec::new(), Vec::new());
        for extra in &self.extra {
            match ids.id_unless_away(&extra.name, extra.role, extra.id)? {
                Some(id) => nodes.push(Arc::new(extra_node(extra, id, config))),
                None => waiting.push((extra.name.clone(), extra.role)),
            }
        }
        for node in &config.nodes {
            match ids.id_unless_away(&node.name, node.role, node.id)? {
                Some(id) => nodes.push(Arc::new(configured(node, id, config))),
                None => waiting.push((node.name.clone(), node.role)),
            }
        }
        self.add_discovered(&mut nodes, &mut ids, config, &mut waiting)?;
        let why = ids.why_away().unwrap_or_default().to_owned();
        self.set_waiting((!waiting.is_empty()).then_some(Waiting { nodes: waiting, why }));
        let this_server = Arc::new(this_server(config, address));
        self.list(&ids, nodes, config.cluster.clone(), this_server);
        Ok(())
    }

    /// Registers the nodes of the configuration that is in effect at the end, whoever replaces it meanwhile.
    ///
    /// # Errors
    /// [`Registry::configure`]'s.
    pub fn follow(&self, settings: &Settings) -> Result<()> {
        loop {
            let config = settings.config();
            self.configure(&config, &settings.bound.to_string())?;
            if Arc::ptr_eq(&config, &settings.config()) {
                return Ok(());
            }
        }
    }

    /// The nodes that wait for their ids, if some do.
    pub fn waiting(&self) -> Option<Waiting> {
        lock(&self.waiting).clone()
    }

    fn set_waiting(&self, waiting: Option<Waiting>) {
        let mut known = lock(&self.waiting);
        if let Some(waiting) = waiting.as_ref().filter(|waiting| known.as_ref() != Some(waiting)) {
            tracing::warn!("{waiting}");
        }
        *known = waiting;
    }

    /// Registers the nodes that wait for their ids, if these can be had now; whether there are such.
    ///
    /// # Errors
    /// They cannot be had, or the id file cannot be written.
    pub fn number_waiting(&self, settings: &Settings) -> Result<bool> {
        let Some(waiting) = self.waiting() else { return Ok(false) };
        self.ids_of(&waiting.nodes)?;
        self.follow(settings)?;
        Ok(true)
    }

    /// The ids of several nodes, former ones or new ones.
    fn ids_of(&self, nodes: &[(String, Role)]) -> Result<Vec<u64>> {
        // Nobody waits for ids while a storage of others is asked for new ones.
        let unknown = lock(&self.ids).unknown(nodes);
        let mut numbers = HashMap::new();
        if let Some((shared, names, first)) = unknown {
            for name in names {
                numbers.insert(name.clone(), shared.number(&name, first)?);
            }
        }
        lock(&self.ids).several(nodes, &numbers)
    }

    /// Has what depends on the nodes begin anew.
    pub fn changed(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }

    /// Sees each [`Registry::changed`].
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// The id of a node that is not collected: imported profiles belong to it.
    ///
    /// # Errors
    /// The id file cannot be written.
    pub(crate) fn past(&self, name: &str, role: Role) -> Result<u64> {
        let mut ids = lock(&self.ids);
        let id = ids.id(name, role, None)?;
        self.list_anew(&ids);
        Ok(id)
    }

    /// All nodes: those of the caller, the configured ones in their order, the server last.
    pub fn all(&self) -> Arc<Vec<Arc<Node>>> {
        Arc::clone(&self.table().all)
    }

    /// The node with this id.
    pub fn by_id(&self, id: u64) -> Option<Arc<Node>> {
        self.table().by_id(id).cloned()
    }

    /// The node a query names: an id, a name, `FE`, or `ROLE:host:port` of a registered node.
    pub fn find(&self, query: &str) -> Option<Arc<Node>> {
        let table = self.table();
        let nodes = &table.all;
        if query == "FE" {
            return Some(first_frontend(nodes));
        }
        if let Some(node) = query.parse().ok().and_then(|id: u64| table.by_id(id)) {
            return Some(Arc::clone(node));
        }
        if let Some(node) = table.names.get(query).and_then(|place| nodes.get(*place)) {
            return Some(Arc::clone(node));
        }
        let (role, address) = query.split_once(':')?;
        nodes.iter().find(|node| node.role().name() == role && node.answers_at(address)).cloned()
    }

    /// The first FE node, or the server itself when there is none.
    pub fn default_node(&self) -> Arc<Node> {
        first_frontend(&self.table().all)
    }

    /// How a node fares in what is collected on schedule; unknown nodes fare as if nothing had happened yet.
    pub fn health(&self, id: u64) -> Health {
        let health = lock(&self.health).get(&id).cloned().unwrap_or_default();
        self.by_id(id).map_or_else(Health::default, |node| health.scheduled(&node.schedule))
    }

    /// [`Health::summary`] of each of these nodes, in their order.
    pub fn summaries<'a>(&self, nodes: impl IntoIterator<Item = &'a Arc<Node>>) -> Vec<&'static str> {
        let (health, untried) = (lock(&self.health), Health::default());
        let summary = |node: &Arc<Node>| health.get(&node.id).unwrap_or(&untried).summary_on(&node.schedule);
        nodes.into_iter().map(summary).collect()
    }

    /// Changes what is known about a node's health.
    pub(crate) fn note(&self, id: u64, change: impl FnOnce(&mut Health)) {
        change(lock(&self.health).entry(id).or_default());
    }
}

/// The nodes, and what a change of a part of them is made from.
#[derive(Default)]
struct Table {
    all: Arc<Vec<Arc<Node>>>,
    /// Places in `all`.
    ids: HashMap<u64, usize>,
    names: HashMap<String, usize>,
    /// Of the caller, configured, and discovered.
    own: Vec<Arc<Node>>,
    cluster: String,
    this_server: Option<Arc<Node>>,
}

impl Table {
    fn by_id(&self, id: u64) -> Option<&Arc<Node>> {
        self.ids.get(&id).and_then(|place| self.all.get(*place))
    }
}

impl Registry {
    fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists the nodes of a configuration, those that are pushed, those of the past, and the server.
    fn list(&self, ids: &NodeIds, own: Vec<Arc<Node>>, cluster: String, this_server: Arc<Node>) {
        let mut all = own.clone();
        all.extend(lock(&self.pushed).iter().map(|node| pushed::in_cluster(node, &cluster)));
        let known: HashSet<u64> = all.iter().map(|node| node.id).collect();
        let past = ids.all().filter(|(_, id, _)| !known.contains(id));
        all.extend(past.map(|(name, id, role)| Arc::new(past_node(name, id, role, &cluster))));
        all.push(Arc::clone(&this_server));
        // Of several nodes with one id or name, the first counts.
        let places = || all.iter().enumerate().rev();
        let ids = places().map(|(place, node)| (node.id, place)).collect();
        let names = places().map(|(place, node)| (node.name().to_owned(), place)).collect();
        let table = Table { all: Arc::new(all), ids, names, own, cluster, this_server: Some(this_server) };
        *self.nodes.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    /// The same for the configuration as it is.
    fn list_anew(&self, ids: &NodeIds) {
        let table = self.table();
        let Some(this_server) = table.this_server.clone() else { return };
        let (own, cluster) = (table.own.clone(), table.cluster.clone());
        drop(table);
        self.list(ids, own, cluster, this_server);
    }
}

fn first_frontend(nodes: &[Arc<Node>]) -> Arc<Node> {
    let first = nodes.iter().find(|node| node.role() == Role::Fe && !node.past).or(nodes.last());
    first.map_or_else(|| Arc::new(this_server(&Config::defaults(), "")), Arc::clone)
}

fn configured(node: &NodeConfig, id: u64, config: &Config) -> Node {
    let cluster = if node.cluster.is_empty() { config.cluster.clone() } else { node.cluster.clone() };
    Node {
        id,
        cluster,
        address: node.address(),
        schedule: plan(node, config),
        demo: false,
        past: false,
        pid: None,
        fe_id: None,
        pushed_by: None,
        config: node.clone(),
    }
}

fn extra_node(extra: &ExtraNode, id: u64, config: &Config) -> Node {
    // A kind that is not reached over HTTP is found by its process.
    let pid = extra.pid.as_ref().filter(|_| !extra.kind.is_over_http()).and_then(|source| (source.0)());
    let node = NodeConfig {
        id: Some(id),
        name: extra.name.clone(),
        kind: extra.kind,
        role: extra.role,
        http: extra.address.clone(),
        pid_lookup: pid.map_or_else(PidLookup::default, PidLookup::Pid),
        ..NodeConfig::default()
    };
    Node { schedule: extra.schedule.clone(), demo: extra.demo, pid: extra.pid.clone(), ..configured(&node, id, config) }
}

fn past_node(name: &str, id: u64, role: Role, cluster: &str) -> Node {
    let config = NodeConfig { name: name.to_owned(), role, kind: Kind::PPROF, ..NodeConfig::default() };
    Node {
        id,
        cluster: cluster.to_owned(),
        address: String::new(),
        schedule: Vec::new(),
        demo: false,
        past: true,
        pid: None,
        fe_id: None,
        pushed_by: None,
        config,
    }
}

fn this_server(config: &Config, address: &str) -> Node {
    // All servers of an archive have this node, which tells them apart.
    let url = Some(config.server_url.clone()).filter(|url| !url.is_empty());
    let node = NodeConfig {
        labels: url.into_iter().map(|url| ("server".to_owned(), url)).collect(),
        name: THIS_SERVER_NAME.to_owned(),
        kind: Kind::THIS_SERVER,
        role: Role::ThisServer,
        http: address.to_owned(),
        ..NodeConfig::default()
    };
    configured(&node, THIS_SERVER_ID, config)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
