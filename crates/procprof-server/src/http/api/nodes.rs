//! `/api/nodes`

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::app::App;
use crate::http::problem::{Answer, Problem};
use crate::nodes::{Failure, Node, TypeHealth};

pub(in crate::http) async fn list(State(app): State<Arc<App>>) -> Json<Vec<Value>> {
    Json(app.registry.all().iter().map(|node| object(&app, node)).collect())
}

pub(in crate::http) async fn one(State(app): State<Arc<App>>, Path(node): Path<String>) -> Answer<Json<Value>> {
    let found = app.registry.find(&node).ok_or_else(|| Problem::not_found("no such node is registered"))?;
    Ok(Json(object(&app, &found)))
}

fn object(app: &App, node: &Node) -> Value {
    let health = app.registry.health(node.id);
    let types: Vec<Value> = node
        .schedule
        .iter()
        .map(|planned| {
            let own = health.types.get(&planned.profile_type).cloned().unwrap_or_default();
            let TypeHealth { last_success, last_failure, retry_at, capturing, unavailable } = own;
            json!({
                "type": planned.profile_type.name(),
                "label": planned.profile_type.label(),
                "on": planned.on && unavailable.is_none(),
                "unavailable": unavailable,
                "seconds": planned.seconds,
                "every": planned.every,
                "capturing": capturing,
                "last_success": last_success.map(|time| format!("{time:.3}")),
                "last_error": last_failure.as_ref().map(failure),
                "retry_at": retry_at.map(|time| format!("{time:.3}")),
            })
        })
        .collect();
    json!({
        "id": node.id,
        "name": node.name(),
        "label": node.label(),
        "role": node.role().name(),
        "kind": node.kind().name(),
        "cluster": node.cluster,
        "labels": node.config.labels,
        "address": node.address,
        "demo": node.demo,
        "past": node.past,
        "health": health.summary(),
        "last_success": health.last_success().map(|time| format!("{time:.3}")),
        "last_error": health.last_failure().map(|(_, told)| failure(told)),
        "types": types,
    })
}

fn failure(failure: &Failure) -> Value {
    json!({ "at": format!("{:.3}", failure.at), "reason": failure.reason })
}
