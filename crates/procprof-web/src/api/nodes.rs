//! `/api/nodes`

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use procprof_core::captures::SourceState;
use procprof_core::hosts::{HostState, HostWarning};
use procprof_core::nodes::{FailedAttempt, Node, TypeHealth};
use procprof_core::nodes::{Kind, Planned};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::Web;
use crate::node_search::NodeSearch;
use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::time::Time;

/// Nodes of a page unless a number is given, and at most.
const ROWS: usize = 100;
const ROWS_MAX: u64 = 1000;

/// A registered node.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Node")]
pub(crate) struct NodeState {
    /// Its id in this server, which stays.
    id: u64,
    name: String,
    /// How pages name it.
    label: String,
    /// FE, BE, CN, service, host, self
    role: &'static str,
    /// How it is collected.
    #[serde(serialize_with = "name_of_kind")]
    #[schemars(schema_with = "kinds")]
    kind: Kind,
    cluster: String,
    labels: BTreeMap<String, String>,
    address: String,
    /// Whether it is one of the demo's.
    demo: bool,
    /// Whether it is no longer in the configuration, or gone from its host, and has profiles.
    past: bool,
    /// URL of the other server of the archive that captures it on schedule, if one does.
    captured_by: Option<String>,
    /// In one word.
    health: &'static str,
    /// When the newest profile came.
    last_success: Option<Time>,
    last_error: Option<FailureAt>,
    /// When a type that fails now is tried again.
    retry_at: Option<Time>,
    /// What is known of the process, for kinds that find it by themselves (`jvm`).
    process: Option<ProcessState>,
    /// What the host agent reports, for nodes that have one.
    host: Option<NodeHost>,
    types: Vec<TypeState>,
}

/// What the host agent of a node reports.
#[derive(Serialize, JsonSchema)]
struct NodeHost {
    /// The host's id.
    id: String,
    /// The id of its node.
    node: u64,
    name: String,
    /// The service, for nodes that are one.
    service: Option<String>,
    /// When the last heartbeat came.
    heartbeat: Option<Time>,
    kernel: String,
    cpus: u32,
    memory_bytes: u64,
    /// The agent's.
    version: String,
    /// Samples for each second of CPU time, now and as wanted.
    hz: u32,
    hz_wanted: u32,
    /// CPU time that the agent has used.
    agent_cpu_nanos: u64,
    agent_resident_bytes: u64,
    /// Profiles that wait in the agent's spool.
    spooled_profiles: u64,
    spooled_bytes: u64,
    /// Profiles that were removed from a full spool and never sent.
    spool_lost: u64,
    samples_lost: u64,
    /// How far the host's clock is ahead of the server's.
    skew_nanos: i64,
    /// Services that are profiled, those that are gone, and those without a node.
    services: usize,
    services_gone: usize,
    services_left_out: u64,
    /// What users should know: a sentence each.
    warnings: Vec<String>,
    /// What hides names of functions in the service's profiles, and what would show them.
    hints: Vec<String>,
}

impl NodeHost {
    fn new(node: &Node, state: HostState) -> Self {
        let warnings = state.warnings().iter().map(HostWarning::to_string).collect();
        let HostState { facts, service, .. } = state;
        Self {
            id: facts.id,
            node: state.node,
            name: facts.name,
            service: node.pushed_by.as_ref().and_then(|pushed_by| pushed_by.service.clone()),
            heartbeat: state.heartbeat.map(Time::from),
            kernel: facts.kernel,
            cpus: facts.cpus,
            memory_bytes: facts.memory_bytes,
            version: facts.version,
            hz: facts.hz,
            hz_wanted: facts.hz_wanted,
            agent_cpu_nanos: facts.cpu_nanos,
            agent_resident_bytes: facts.resident_bytes,
            spooled_profiles: facts.spooled.0,
            spooled_bytes: facts.spooled.1,
            spool_lost: facts.spool_lost,
            samples_lost: facts.samples_lost,
            skew_nanos: state.skew_nanos,
            services: state.services,
            services_gone: state.services_gone,
            services_left_out: facts.services_left_out.saturating_add(state.services_refused),
            warnings,
            hints: service.map(|service| service.facts.hints).unwrap_or_default(),
        }
    }
}

/// What is known of a node's process.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NodeProcess")]
struct ProcessState {
    /// As found last.
    pid: Option<u32>,
    /// What records it: `JDK Flight Recorder`, `async-profiler 4.5`.
    engine: String,
    /// What it runs on: `JDK 17.0.15`; empty where that is not known.
    runtime: String,
    /// What is not recorded of it, and why: a sentence each.
    limits: Vec<String>,
}

/// A type of profiles that a node gives.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NodeType")]
struct TypeState {
    #[serde(rename = "type")]
    profile_type: String,
    /// How pages name it.
    label: String,
    /// Whether it is captured on schedule.
    on: bool,
    /// Why the node does not give it.
    unavailable: Option<String>,
    /// Length of a scheduled capture; 0 of what is taken at a moment.
    seconds: u64,
    /// Seconds from one scheduled capture to the next.
    every: u64,
    capturing: bool,
    last_success: Option<Time>,
    last_error: Option<FailureAt>,
    /// When it is tried again after a failure.
    retry_at: Option<Time>,
}

/// What went wrong last.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Failure")]
struct FailureAt {
    at: Time,
    reason: String,
}

fn name_of_kind<S: serde::Serializer>(kind: &Kind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

fn kinds(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": Kind::all().map(Kind::name).collect::<Vec<_>>() })
}

/// A page of the nodes, in the order of the configuration, hosts with their services by name.
#[derive(Serialize, JsonSchema)]
pub(crate) struct NodePage {
    nodes: Vec<NodeState>,
    /// Nodes that the search finds, on all pages.
    found: usize,
    /// The `cursor` of the next page.
    next: Option<String>,
}

/// `GET /api/nodes?q=&limit=&cursor=`
pub(crate) async fn list(State(web): State<Arc<Web>>, RawQuery(query): RawQuery) -> ApiResult<Json<NodePage>> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["q", "limit", "cursor"])?;
    let search = NodeSearch::new(params.get("q").unwrap_or_default());
    let limit = params.number("limit", 1, ROWS_MAX)?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(ROWS);
    let all = web.registry.all();
    let rest = match params.number("cursor", 0, u64::MAX)? {
        None => &all[..],
        Some(last) => {
            let place = all.iter().position(|node| node.id == last);
            let gone = || Problem::bad_request("cursor: its node is not registered any more; begin at the first page");
            &all[place.ok_or_else(gone)? + 1..]
        }
    };
    let mut following = rest.iter().filter(|node| search.finds(node));
    let nodes: Vec<NodeState> = following.by_ref().take(limit).map(|node| NodeState::new(&web, node)).collect();
    let next = nodes.last().filter(|_| following.next().is_some()).map(|last| last.id.to_string());
    let found = all.iter().filter(|node| search.finds(node)).count();
    Ok(Json(NodePage { nodes, found, next }))
}

pub(crate) async fn one(State(web): State<Arc<Web>>, Path(node): Path<String>) -> ApiResult<Json<NodeState>> {
    let found = web.registry.find(&node).ok_or_else(|| Problem::not_found("no such node is registered"))?;
    Ok(Json(NodeState::new(&web, &found)))
}

impl NodeState {
    fn new(web: &Web, node: &Node) -> Self {
        let health = web.registry.health(node.id);
        let state = |planned: &Planned| {
            let own = health.types.get(&planned.profile_type).cloned().unwrap_or_default();
            TypeState::new(planned, own)
        };
        Self {
            id: node.id,
            name: node.name().to_owned(),
            label: node.label(),
            role: node.role().name(),
            kind: node.kind(),
            cluster: node.cluster.clone(),
            labels: node.config.labels.clone(),
            address: node.address.clone(),
            demo: node.demo,
            past: node.past,
            captured_by: web.servers.as_ref().and_then(|servers| servers.url_of_other(node)),
            health: health.summary(),
            last_success: health.last_success().map(Time::from),
            last_error: health.last_failure().map(|(_, failure)| FailureAt::new(failure)),
            retry_at: health.retry_at().map(Time::from),
            host: web.hosts.state(node).map(|state| NodeHost::new(node, state)),
            process: web.captures.source_state(node).map(ProcessState::from),
            types: node.schedule.iter().map(state).collect(),
        }
    }
}

impl From<SourceState> for ProcessState {
    fn from(state: SourceState) -> Self {
        let SourceState { pid, engine, runtime, limits } = state;
        Self { pid: pid.map(|pid| pid.0), engine, runtime, limits }
    }
}

impl TypeState {
    fn new(planned: &Planned, health: TypeHealth) -> Self {
        Self {
            profile_type: planned.profile_type.name().to_owned(),
            label: planned.profile_type.label().to_owned(),
            on: planned.on && health.unavailable.is_none(),
            unavailable: health.unavailable,
            seconds: planned.seconds,
            every: planned.every,
            capturing: health.capturing,
            last_success: health.last_success.map(Time::from),
            last_error: health.last_failure.as_ref().map(FailureAt::new),
            retry_at: health.retry_at.map(Time::from),
        }
    }
}

impl FailureAt {
    fn new(failure: &FailedAttempt) -> Self {
        Self { at: failure.at.into(), reason: failure.reason.clone() }
    }
}
