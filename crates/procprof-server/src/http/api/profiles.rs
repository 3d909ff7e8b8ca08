//! `/api/profiles`

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use procprof_profile::ProfileId;
use procprof_report::Report;
use procprof_store::{Cursor, Entry, Filter, Format, PageRequest};
use serde_json::{Value, json};

use crate::app::App;
use crate::http::answer::Document;
use crate::http::base::Base;
use crate::http::params::Params;
use crate::http::problem::{Answer, Problem};
use crate::http::starrocks::{download as send_file, on_store, rfc3339};
use crate::render;
use crate::symbols::{self, Wanted};

const KNOWN: &[&str] = &["node", "type", "from", "to", "label", "cluster", "trigger", "text", "limit", "cursor"];
const ROWS: u64 = 100;

pub(in crate::http) async fn list(State(app): State<Arc<App>>, base: Base, RawQuery(query): RawQuery) -> Answer<Json<Value>> {
    let params = Params::parse(&query.unwrap_or_default())?.only(KNOWN)?;
    let filter = filter(&app, &params)?;
    let limit = usize::try_from(params.number("limit", 1, 1000)?.unwrap_or(ROWS)).unwrap_or(100);
    let after = params.get("cursor").map(str::parse::<Cursor>).transpose()?;
    let store = Arc::clone(&app.store);
    let page = on_store(move || store.list(&filter, &PageRequest { limit, after })).await?;
    let rows: Vec<Value> = page.rows.iter().map(|entry| object(&app, entry, &base)).collect();
    Ok(Json(json!({ "profiles": rows, "next": page.next.map(|cursor| cursor.to_string()) })))
}

fn filter(app: &App, params: &Params) -> Answer<Filter> {
    let mut filter = Filter { from: params.time("from")?, to: params.time("to")?, ..Filter::default() };
    for name in params.all("node") {
        let node = app.registry.find(name).ok_or_else(|| Problem::bad_request(format!("no node {name:?} is registered")))?;
        filter.nodes.push(node.id);
    }
    for name in params.all("type") {
        filter.types.push(name.parse()?);
    }
    for label in params.all("label") {
        let (key, value) = label.split_once('=').ok_or_else(|| Problem::bad_request("label: expected key=value"))?;
        filter.labels.push((key.to_owned(), value.to_owned()));
    }
    filter.cluster = params.get("cluster").map(str::to_owned);
    filter.trigger = params.get("trigger").map(str::to_owned);
    filter.text = params.get("text").map(str::to_owned);
    Ok(filter)
}

/// The id in a path.
pub(in crate::http) fn parse_id(text: &str) -> Answer<ProfileId> {
    Ok(text.parse()?)
}

/// The profile with the id in a path.
pub(in crate::http) async fn find(app: &App, id: &str) -> Answer<Entry> {
    let id = parse_id(id)?;
    let store = Arc::clone(&app.store);
    on_store(move || store.get(id)).await
}

/// The profile with the id in a path, to be shown: with the names that uploaded symbols give it by now.
pub(in crate::http) async fn open(app: &Arc<App>, id: &str) -> Answer<Entry> {
    Ok(symbols::refreshed(app, find(app, id).await?).await)
}

pub(in crate::http) async fn one(State(app): State<Arc<App>>, base: Base, Path(id): Path<String>) -> Answer<Json<Value>> {
    Ok(Json(object(&app, &open(&app, &id).await?, &base)))
}

pub(in crate::http) async fn delete(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer<StatusCode> {
    let id = parse_id(&id)?;
    let store = Arc::clone(&app.store);
    on_store(move || store.delete(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(in crate::http) async fn pin(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer<StatusCode> {
    let id = parse_id(&id)?;
    let store = Arc::clone(&app.store);
    on_store(move || store.pin(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(in crate::http) async fn unpin(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer<StatusCode> {
    let id = find(&app, &id).await?.id;
    let store = Arc::clone(&app.store);
    on_store(move || store.unpin(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(in crate::http) async fn download(State(app): State<Arc<App>>, Path(id): Path<String>, headers: HeaderMap) -> Answer<Response> {
    send_file(&app, &open(&app, &id).await?, &headers).await
}

pub(in crate::http) async fn render(
    State(app): State<Arc<App>>,
    Path((id, report)): Path<(String, String)>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer<Response> {
    let report = Report::named(&report).map_err(|error| Problem::not_found(error.to_string()))?;
    let entry = open(&app, &id).await?;
    let params = Params::parse(&query.unwrap_or_default())?;
    let pairs: Vec<(&str, &str)> = params.except(&[]).collect();
    let bytes = render::render(&app, &entry, report, &pairs).await?;
    Document { bytes, media_type: report.media_type, file_name: None, unchanging: render::is_final(&entry, report) }.answer(&headers).await
}

/// A profile as the API shows it.
pub(in crate::http) fn object(app: &App, entry: &Entry, base: &Base) -> Value {
    let meta = &entry.meta;
    let wanted: Vec<Value> = Wanted::of(meta).iter().map(|wanted| wanted_object(app, wanted, base)).collect();
    let facts = meta.more.iter().filter(|(key, _)| !symbols::is_wanted_fact(key) || *key == "wanted-files-not-named");
    let facts: serde_json::Map<String, Value> = facts.map(|(key, value)| (key.clone(), value.clone().into())).collect();
    json!({
        "id": entry.id.to_string(),
        "node": entry.node,
        "node_name": meta.node_name,
        "cluster": meta.cluster,
        "labels": meta.labels,
        "type": entry.profile_type.name(),
        "label": entry.profile_type.label(),
        "format": match entry.format { Format::Pprof => "pprof", Format::Flame => "flame", Format::HtmlArchive => "html" },
        "file_name": entry.file_name,
        "bytes": entry.bytes,
        "start": rfc3339(entry.start.0),
        "end": rfc3339(entry.completed.0),
        "duration_ns": entry.duration.0,
        "trigger": meta.trigger,
        "engine": meta.engine,
        "pinned": entry.pinned,
        "samples": entry.summary.samples,
        "totals": entry.summary.totals,
        "top": entry.summary.top,
        "lost": meta.lost,
        "truncated": meta.truncated,
        "unsampled_ns": meta.unsampled,
        "means": meta.means,
        "wanted": wanted,
        "facts": facts,
        "view": format!("/p/{}", entry.id),
    })
}

/// A file that would name more of a profile, and how to send it; one that was sent already names it when it is opened.
fn wanted_object(app: &App, wanted: &Wanted, base: &Base) -> Value {
    json!({
        "file": wanted.file,
        "build_id": wanted.build_id,
        "percent": wanted.percent,
        "uploaded": !wanted.build_id.is_empty() && !app.symbols.find(wanted).is_empty(),
        "fitting": wanted.fitting,
        "command": wanted.command(&base.0),
    })
}
