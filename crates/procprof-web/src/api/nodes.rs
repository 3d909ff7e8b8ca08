//! `/api/nodes`

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use procprof_core::captures::SourceState;
use procprof_core::nodes::{FailedAttempt, Node, TypeHealth};
use procprof_core::nodes::{Kind, Planned};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::Web;
use crate::problem::{ApiResult, Problem};
use crate::time::Time;

/// A registered node.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Node")]
pub(crate) struct NodeState {
    /// Its id in this server, which stays.
    id: u64,
    name: String,
    /// How pages name it.
    label: String,
    /// FE, BE, …
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
    /// Whether it is no longer in the configuration and has profiles.
    past: bool,
    /// In one word.
    health: &'static str,
    /// When the newest profile came.
    last_success: Option<Time>,
    last_error: Option<FailureAt>,
    /// When a type that fails now is tried again.
    retry_at: Option<Time>,
    /// What is known of the process, for kinds that find it by themselves (`jvm`).
    process: Option<ProcessState>,
    types: Vec<TypeState>,
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

pub(crate) async fn list(State(web): State<Arc<Web>>) -> Json<Vec<NodeState>> {
    Json(web.registry.all().iter().map(|node| NodeState::new(&web, node)).collect())
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
            health: health.summary(),
            last_success: health.last_success().map(Time::from),
            last_error: health.last_failure().map(|(_, failure)| FailureAt::new(failure)),
            retry_at: health.retry_at().map(Time::from),
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
