//! Retention, errors, pausing, metrics, health.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use procprof_store::{ErrorEntry, ErrorFilter, Filter, PageRequest};
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Principal;
use crate::http::params::Params;
use crate::http::problem::{Answer, Problem};
use crate::http::starrocks::{on_store, rfc3339};

pub(in crate::http) async fn retention(State(app): State<Arc<App>>) -> Answer<Json<Value>> {
    let store = Arc::clone(&app.store);
    let usage = on_store(move || store.usage()).await?;
    let (config, last) = (app.config(), app.retention.last());
    let nodes: Vec<Value> = usage
        .nodes
        .iter()
        .map(|node| {
            let (oldest, newest) = (rfc3339(node.oldest.0), rfc3339(node.newest.0));
            json!({ "node": node.node, "profiles": node.profiles, "bytes": node.bytes, "oldest": oldest, "newest": newest })
        })
        .collect();
    Ok(Json(json!({
        "days": config.proc_profile_file_retained_days,
        "node_bytes_max": config.proc_profile_file_retained_size_bytes,
        "data_bytes_max": config.data_bytes_max,
        "free_bytes_min": config.data_free_bytes_min,
        "pinned_bytes_max": config.pinned_bytes_max,
        "profiles": usage.profiles,
        "bytes": usage.bytes,
        "pinned_bytes": usage.pinned_bytes,
        "cache_bytes": usage.cache_bytes,
        "free_bytes": usage.free_bytes,
        "nodes": nodes,
        "last_run": last.at.map(|time| format!("{time:.3}")),
        "last_deleted": last.deleted,
        "last_deleted_bytes": last.deleted_bytes,
        "last_error": last.error,
    })))
}

pub(in crate::http) async fn errors(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Answer<Json<Value>> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["node", "type", "from", "to", "limit", "cursor"])?;
    let mut filter = ErrorFilter { from: params.time("from")?, to: params.time("to")?, ..ErrorFilter::default() };
    if let Some(name) = params.get("node") {
        let node = app.registry.find(name).ok_or_else(|| Problem::bad_request("no such node is registered"))?;
        filter.nodes.push(node.id);
    }
    filter.types.extend(params.profile_type("type")?);
    let limit = usize::try_from(params.number("limit", 1, 1000)?.unwrap_or(100)).unwrap_or(100);
    let page = app.store.list_errors(&filter, &PageRequest { limit, after: params.number("cursor", 0, u64::MAX)? });
    let rows: Vec<Value> = page.rows.iter().map(|entry| row(&app, entry)).collect();
    Ok(Json(json!({ "errors": rows, "next": page.next.map(|cursor| cursor.to_string()) })))
}

fn row(app: &App, entry: &ErrorEntry) -> Value {
    let row = &entry.row;
    let name = row.node.and_then(|id| app.registry.by_id(id)).map(|node| node.name().to_owned());
    json!({
        "number": entry.number,
        "at": rfc3339(row.time.0),
        "node": row.node,
        "node_name": name,
        "type": row.profile_type.as_ref().map(|kind| kind.name()),
        "code": row.kind.name(),
        "message": row.reason,
        "first_bytes": row.first_bytes.escape_ascii().to_string(),
    })
}

pub(in crate::http) async fn pause_state(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!({ "paused": app.is_paused() }))
}

pub(in crate::http) async fn pause(State(app): State<Arc<App>>, principal: Principal) -> Answer<Json<Value>> {
    set(&app, true, &principal).await
}

pub(in crate::http) async fn resume(State(app): State<Arc<App>>, principal: Principal) -> Answer<Json<Value>> {
    set(&app, false, &principal).await
}

/// Pauses or resumes, for the API and the page alike.
pub(in crate::http) async fn set(app: &Arc<App>, paused: bool, principal: &Principal) -> Answer<Json<Value>> {
    let own = Arc::clone(app);
    let kept = tokio::task::spawn_blocking(move || own.set_paused(paused)).await;
    tracing::info!("scheduled captures {} by {}", if paused { "paused" } else { "resumed" }, principal.name);
    match kept {
        Ok(Ok(())) => Ok(Json(json!({ "paused": paused }))),
        Ok(Err(error)) => Err(Problem::internal(format!("done, but a restart will not know it: {error}"))),
        Err(error) => Err(Problem::internal(error.to_string())),
    }
}

pub(in crate::http) async fn openapi() -> Json<Value> {
    Json(crate::http::openapi_document())
}

pub(in crate::http) async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    if let Ok(usage) = app.usage.get(&app.store).await {
        app.metrics.stored(usage.bytes, usage.profiles);
    }
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, media_type)], app.metrics.text())
}

pub(in crate::http) async fn healthz() -> &'static str {
    "ok\n"
}

pub(in crate::http) async fn readyz(State(app): State<Arc<App>>) -> Answer<&'static str> {
    let store = Arc::clone(&app.store);
    let listed = on_store(move || store.list(&Filter::default(), &PageRequest::first(1))).await;
    match (listed, app.stop.is_cancelled()) {
        (Ok(_), false) => Ok("ready\n"),
        (Ok(_), true) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the server is stopping")),
        (Err(problem), _) => Err(Problem { status: StatusCode::SERVICE_UNAVAILABLE, ..problem }),
    }
}
