//! Retention, errors, pausing, metrics, health.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use procprof_core::auth::Principal;
use procprof_core::ownership::WatchedFolder;
use procprof_store::{ErrorEntry, ErrorFilter, Filter, PageRequest};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Web;
use crate::blocking::on_store;
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::time::Time;

/// Limits of what is stored, what there is, and what retention did last.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Retention")]
pub(crate) struct RetentionState {
    days: u64,
    node_bytes_max: u64,
    data_bytes_max: u64,
    free_bytes_min: u64,
    pinned_bytes_max: u64,
    profiles: u64,
    bytes: u64,
    pinned_bytes: u64,
    cache_bytes: u64,
    /// Free on the file system of the data.
    free_bytes: u64,
    /// A page of the nodes that have profiles, by id.
    nodes: Vec<UsageOfNode>,
    /// The `cursor` of the next page of `nodes`.
    next: Option<String>,
    last_run: Option<Time>,
    /// Profiles that the last run deleted.
    last_deleted: u64,
    last_deleted_bytes: u64,
    last_error: Option<String>,
}

/// The stored profiles of a node.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NodeUsage")]
struct UsageOfNode {
    node: u64,
    profiles: u64,
    bytes: u64,
    oldest: Time,
    newest: Time,
}

/// A page of what went wrong, newest first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorPage {
    errors: Vec<ErrorRow>,
    /// The `cursor` of the next page.
    next: Option<String>,
}

/// Something that went wrong.
#[derive(Serialize, JsonSchema)]
struct ErrorRow {
    number: u64,
    at: Time,
    node: Option<u64>,
    node_name: Option<String>,
    #[serde(rename = "type")]
    profile_type: Option<String>,
    /// For programs; it does not change between versions.
    code: &'static str,
    message: String,
    /// How what arrived begins, bytes that are no text escaped.
    first_bytes: String,
}

/// Whether scheduled captures are paused.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Pause")]
pub(crate) struct PauseState {
    paused: bool,
}

/// `GET /api/retention?limit=&cursor=`
pub(crate) async fn retention(
    State(web): State<Arc<Web>>,
    RawQuery(query): RawQuery,
) -> ApiResult<Json<RetentionState>> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["limit", "cursor"])?;
    let limit = usize::try_from(params.number("limit", 1, 1000)?.unwrap_or(100)).unwrap_or(100);
    let after = params.number("cursor", 0, u64::MAX)?;
    let store = Arc::clone(&web.store);
    let usage = on_store(move || store.usage()).await?;
    let (config, run) = (web.config(), web.retention.last());
    let first = after.map_or(0, |after| usage.nodes.partition_point(|node| node.node <= after));
    let rest = &usage.nodes[first..];
    let page = &rest[..limit.min(rest.len())];
    let next = page.last().filter(|_| page.len() < rest.len()).map(|last| last.node.to_string());
    let nodes = page.iter().map(|node| UsageOfNode {
        node: node.node,
        profiles: node.profiles,
        bytes: node.bytes,
        oldest: Time::from_nanos(node.oldest.0),
        newest: Time::from_nanos(node.newest.0),
    });
    Ok(Json(RetentionState {
        days: config.proc_profile_file_retained_days,
        node_bytes_max: config.proc_profile_file_retained_size_bytes,
        data_bytes_max: config.data_bytes_max,
        free_bytes_min: config.data_free_bytes_min,
        pinned_bytes_max: config.pinned_bytes_max,
        profiles: usage.profiles,
        bytes: usage.bytes,
        pinned_bytes: usage.pinned_bytes,
        cache_bytes: usage.cache_bytes,
        free_bytes: usage.free_bytes,
        nodes: nodes.collect(),
        next,
        last_run: run.at.map(Time::from),
        last_deleted: run.deleted,
        last_deleted_bytes: run.deleted_bytes,
        last_error: run.error,
    }))
}

pub(crate) async fn errors(State(web): State<Arc<Web>>, RawQuery(query): RawQuery) -> ApiResult<Json<ErrorPage>> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["node", "type", "from", "to", "limit", "cursor"])?;
    let mut filter = ErrorFilter { from: params.time("from")?, to: params.time("to")?, ..ErrorFilter::default() };
    if let Some(name) = params.get("node") {
        let node = web.registry.find(name).ok_or_else(|| Problem::bad_request("no such node is registered"))?;
        filter.nodes.push(node.id);
    }
    filter.types.extend(params.profile_type("type")?);
    let limit = usize::try_from(params.number("limit", 1, 1000)?.unwrap_or(100)).unwrap_or(100);
    let page = web.store.list_errors(&filter, &PageRequest { limit, after: params.number("cursor", 0, u64::MAX)? });
    let errors = page.rows.iter().map(|entry| ErrorRow::new(&web, entry)).collect();
    Ok(Json(ErrorPage { errors, next: page.next.map(|cursor| cursor.to_string()) }))
}

impl ErrorRow {
    fn new(web: &Web, entry: &ErrorEntry) -> Self {
        let row = &entry.row;
        Self {
            number: entry.number,
            at: Time::from_nanos(row.time.0),
            node: row.node,
            node_name: row.node.and_then(|id| web.registry.by_id(id)).map(|node| node.name().to_owned()),
            profile_type: row.profile_type.as_ref().map(|kind| kind.name().to_owned()),
            code: row.kind.name(),
            message: row.reason.clone(),
            first_bytes: row.first_bytes.escape_ascii().to_string(),
        }
    }
}

pub(crate) async fn pause_state(State(web): State<Arc<Web>>) -> Json<PauseState> {
    Json(PauseState { paused: web.captures.is_paused() })
}

pub(crate) async fn pause(State(web): State<Arc<Web>>, Caller(principal): Caller) -> ApiResult<Json<PauseState>> {
    set(&web, true, &principal).await
}

pub(crate) async fn resume(State(web): State<Arc<Web>>, Caller(principal): Caller) -> ApiResult<Json<PauseState>> {
    set(&web, false, &principal).await
}

/// Pauses or resumes, for the API and the page alike.
pub(crate) async fn set(web: &Arc<Web>, paused: bool, principal: &Principal) -> ApiResult<Json<PauseState>> {
    let own = Arc::clone(web);
    let kept = tokio::task::spawn_blocking(move || own.captures.set_paused(paused)).await;
    tracing::info!("scheduled captures {} by {}", if paused { "paused" } else { "resumed" }, principal.name);
    match kept {
        Ok(Ok(())) => Ok(Json(PauseState { paused })),
        Ok(Err(error)) => Err(Problem::internal(format!("done, but a restart will not know it: {error}"))),
        Err(error) => Err(Problem::internal(error.to_string())),
    }
}

pub(crate) async fn openapi() -> Json<serde_json::Value> {
    Json(crate::openapi_document())
}

pub(crate) async fn metrics(State(web): State<Arc<Web>>, headers: HeaderMap) -> impl IntoResponse {
    if let Ok(usage) = web.usage.get(&web.store).await {
        web.metrics.stored(usage.bytes, usage.profiles);
    }
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    let (media_type, text) = match accepted.contains("application/openmetrics-text") {
        true => ("application/openmetrics-text; version=1.0.0; charset=utf-8", web.metrics.open_metrics(&web.registry)),
        false => ("text/plain; version=0.0.4; charset=utf-8", web.metrics.text(&web.registry)),
    };
    ([(header::CONTENT_TYPE, media_type)], text)
}

pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

pub(crate) async fn readyz(State(web): State<Arc<Web>>) -> ApiResult<&'static str> {
    let (store, own) = (Arc::clone(&web.store), Arc::clone(&web));
    // The catalog is read from memory and from open files, so it answers without its folder, too.
    let places =
        tokio::task::spawn_blocking(move || own.settings.folders.iter().try_for_each(WatchedFolder::check)).await;
    if let Err(why) = places.map_err(|error| error.to_string()).flatten() {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "data_gone",
            format!("the data cannot be written: {why}"),
        ));
    }
    let listed = on_store(move || store.list(&Filter::default(), &PageRequest::first(1))).await;
    match (listed, web.stop.is_cancelled()) {
        (Ok(_), false) => Ok("ready\n"),
        (Ok(_), true) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", "the server is stopping")),
        (Err(problem), _) => Err(Problem { status: StatusCode::SERVICE_UNAVAILABLE, ..problem }),
    }
}
