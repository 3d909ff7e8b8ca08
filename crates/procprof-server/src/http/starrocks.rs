//! What StarRocks' own pages and scripts ask for: `/proc_profile/file` and `/api/proc_profile/list`, answered as its processes answer them.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use jiff::Timestamp;
use procprof_report::Report;
use procprof_store::{Entry, Filter, Format, PAGE_MAX, PageRequest};
use serde_json::{Value, json};

use super::answer::Document;
use super::params::Params;
use super::problem::{Answer, Problem, chain};
use crate::app::App;
use crate::nodes::Node;
use crate::render::{is_final, render};
use crate::symbols::{Wanted, refreshed};

/// Most rows of the list; it has no pages.
const ROWS_MAX: usize = 10_000;

/// `GET /proc_profile/file?filename=&node=&format=`
pub(super) async fn view_file(State(app): State<Arc<App>>, RawQuery(query): RawQuery, headers: HeaderMap) -> Answer<Response> {
    let params = Params::parse(&query.unwrap_or_default())?;
    let name = params.need("filename")?.to_owned();
    let node = node(&app, &params)?;
    if !plausible(&name) {
        return Err(Problem::forbidden("that is not the name of a profile's file"));
    }
    let (store, file) = (Arc::clone(&app.store), name.clone());
    let id = node.id;
    let entry = on_store(move || store.by_name(id, &file)).await?;
    let entry = entry.ok_or_else(|| Problem::not_found(format!("{} has no profile {name}", node.name())))?;
    let entry = refreshed(&app, entry).await;
    let pairs: Vec<(&str, &str)> = params.except(&["filename", "node", "format"]).collect();
    // StarRocks calls its flame graphs so; elsewhere `svg` is the call graph.
    let format = params.get("format").map(|format| if format == "svg" { "flamegraph" } else { format });
    view(&app, &entry, format, &pairs, &headers).await
}

/// An allow-list: what a name in the store can consist of.
fn plausible(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.len() <= 128 && name.bytes().all(legal) && !name.contains("..") && !name.starts_with(['.', '-']) && name.contains("-profile-")
}

/// A profile in a format: the flame graph by default; a page made elsewhere as it is.
pub(super) async fn view(
    app: &Arc<App>,
    entry: &Entry,
    format: Option<&str>,
    pairs: &[(&str, &str)],
    headers: &HeaderMap,
) -> Answer<Response> {
    if entry.format != Format::Pprof {
        return foreign(app, entry, headers).await;
    }
    let report = format.unwrap_or("flamegraph");
    if report == "pprof" {
        return download(app, entry, headers).await;
    }
    let report = Report::named(report).map_err(|error| Problem::bad_request(error.to_string()))?;
    let bytes = render(app, entry, report, pairs).await?;
    Document { bytes, media_type: report.media_type, file_name: None, unchanging: is_final(entry, report) }.answer(headers).await
}

/// The stored file itself.
pub(super) async fn download(app: &Arc<App>, entry: &Entry, headers: &HeaderMap) -> Answer<Response> {
    let (store, id) = (Arc::clone(&app.store), entry.id);
    let bytes = on_store(move || store.open_bytes(id)).await?;
    let document = Document {
        bytes: bytes.into(),
        media_type: "application/octet-stream",
        file_name: Some(entry.file_name.clone()),
        unchanging: Wanted::of(&entry.meta).is_empty(),
    };
    document.answer(headers).await
}

/// A page made elsewhere; what it holds decides what it is, not its name.
async fn foreign(app: &Arc<App>, entry: &Entry, headers: &HeaderMap) -> Answer<Response> {
    let (store, id) = (Arc::clone(&app.store), entry.id);
    let page = tokio::task::spawn_blocking(move || store.open_page(id)).await.map_err(|error| Problem::internal(error.to_string()))?;
    let page = page.map_err(|error| match &error {
        procprof_store::Error::Malformed { .. } => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "malformed", format!("{}: {}", entry.file_name, chain(&error)))
        }
        _ => Problem::from(error),
    })?;
    let media_type = if is_svg(&page) { "image/svg+xml" } else { "text/html; charset=utf-8" };
    Document { bytes: page.into(), media_type, file_name: None, unchanging: true }.answer(headers).await
}

/// Whether a page begins as an SVG picture does, behind declarations and comments.
fn is_svg(page: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&page[..page.len().min(4096)]).to_ascii_lowercase();
    match (head.find("<svg"), head.find("<html")) {
        (Some(svg), Some(html)) => svg < html,
        (svg, _) => svg.is_some(),
    }
}

/// `GET /api/proc_profile/list?node=`
pub(super) async fn list(State(app): State<Arc<App>>, Path(action): Path<String>, RawQuery(query): RawQuery) -> Answer<Json<Value>> {
    if action != "list" {
        let action: String = action.chars().take(64).collect();
        return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "unsupported_action", format!("Not support action: '{action}'")));
    }
    let params = Params::parse(&query.unwrap_or_default())?.only(&["node"])?;
    let node = node(&app, &params)?;
    let (store, id) = (Arc::clone(&app.store), node.id);
    let entries = on_store(move || {
        let filter = Filter { nodes: vec![id], ..Filter::default() };
        let mut entries = Vec::new();
        let mut request = PageRequest::first(PAGE_MAX);
        loop {
            let page = store.list(&filter, &request)?;
            entries.extend(page.rows);
            match page.next {
                Some(next) if entries.len() < ROWS_MAX => request = PageRequest::after(PAGE_MAX, next),
                _ => return Ok(entries),
            }
        }
    });
    let rows: Vec<Value> = entries.await?.iter().map(row).collect();
    Ok(Json(json!({ "profiles": rows })))
}

fn row(entry: &Entry) -> Value {
    let label = match entry.profile_type.name() {
        "cpu" => "CPU",
        "contention" => "Contention",
        _ => entry.profile_type.label(),
    };
    let format = match entry.format {
        Format::Pprof => "Pprof",
        Format::Flame | Format::HtmlArchive => "Flame",
    };
    json!({
        "filename": entry.file_name,
        "type": label,
        "format": format,
        "timestamp": timestamp(&entry.file_name),
        "size": entry.bytes,
        "start": rfc3339(entry.start.0),
        "end": rfc3339(entry.completed.0),
    })
}

/// The time as the file name has it: `yyyyMMdd-HHmmss`.
fn timestamp(file_name: &str) -> &str {
    file_name.split_once("-profile-").and_then(|(_, rest)| rest.get(..15)).unwrap_or("")
}

/// UTC nanoseconds as RFC 3339 to the millisecond.
pub(super) fn rfc3339(nanos: i64) -> String {
    Timestamp::from_nanosecond(i128::from(nanos)).map(|time| format!("{time:.3}")).unwrap_or_default()
}

/// The node of the parameter `node`; without one, the first FE or the server itself.
pub(super) fn node(app: &App, params: &Params) -> Answer<Arc<Node>> {
    let Some(name) = params.get("node") else { return Ok(app.registry.default_node()) };
    let shown: String = name.chars().take(200).collect();
    app.registry.find(name).ok_or_else(|| Problem::bad_request(format!("no node {shown:?} is registered")))
}

/// Work of the store, off the threads that answer.
pub(super) async fn on_store<T: Send + 'static>(work: impl FnOnce() -> procprof_store::Result<T> + Send + 'static) -> Answer<T> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| Problem::internal(error.to_string()))?;
    done.map_err(Problem::from)
}
