//! `/api/nodes/{node}/heap`: whether the heap profiler of a node samples, and its switch.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use procprof_core::auth::Principal;
use procprof_core::captures::HeapProfiler;
use procprof_core::nodes::Node;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Web;
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};

/// The heap profiler of a node.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "HeapProfiler")]
pub(crate) struct HeapState {
    /// Whether it samples.
    active: bool,
}

pub(crate) async fn state(State(web): State<Arc<Web>>, Path(node): Path<String>) -> ApiResult<Json<HeapState>> {
    let node = registered(&web, &node)?;
    let active = HeapProfiler::new(&web.captures, &node).is_active().await?;
    Ok(Json(HeapState { active }))
}

pub(crate) async fn activate(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(node): Path<String>,
) -> ApiResult<Json<HeapState>> {
    switch(&web, &registered(&web, &node)?, Switch::On(None), &principal).await
}

pub(crate) async fn deactivate(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(node): Path<String>,
) -> ApiResult<Json<HeapState>> {
    switch(&web, &registered(&web, &node)?, Switch::Off, &principal).await
}

/// A heap profiler's new state.
#[derive(Clone, Copy)]
pub(crate) enum Switch {
    /// On, for so long if that is given.
    On(Option<Duration>),
    Off,
}

/// Switches the heap profiler of a node, for the API and the page alike.
pub(crate) async fn switch(
    web: &Arc<Web>,
    node: &Arc<Node>,
    to: Switch,
    principal: &Principal,
) -> ApiResult<Json<HeapState>> {
    let profiler = HeapProfiler::new(&web.captures, node);
    let done = match to {
        Switch::On(length) => {
            profiler.activate(length).await?;
            length.map_or("on".to_owned(), |length| format!("on for {} s", length.as_secs()))
        }
        Switch::Off => {
            profiler.set_active(false).await?;
            "off".to_owned()
        }
    };
    web.audit.act(principal, format_args!("heap profiler of {} switched {done}", node.name()));
    Ok(Json(HeapState { active: matches!(to, Switch::On(_)) }))
}

fn registered(web: &Web, node: &str) -> ApiResult<Arc<Node>> {
    web.registry.find(node).ok_or_else(|| Problem::not_found("no such node is registered"))
}
