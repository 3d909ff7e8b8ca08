//! The paths that StarRocks' own pages and scripts request: `/proc_profile/file` and `/api/proc_profile/list`, answered
//! as its processes do.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use procprof_store::{Entry, Filter, Format, PAGE_MAX, PageRequest, Store};
use schemars::JsonSchema;
use serde::Serialize;

use super::blocking::on_store;
use super::params::Params;
use super::problem::{ApiResult, Problem};
use super::profile_document;
use super::time::Time;
use crate::Web;
use crate::caller::ShareRequester;
use crate::subjects::compared;

/// Most rows of the list; it has no pages.
const ROWS_MAX: usize = 10_000;

/// `GET /proc_profile/file?filename=&node=&format=`
pub(super) async fn view_file(
    State(web): State<Arc<Web>>,
    ShareRequester(requester): ShareRequester,
    RawQuery(query): RawQuery,
) -> ApiResult<Response> {
    let params = Params::parse(&query.unwrap_or_default())?;
    let name = params.need("filename")?.to_owned();
    let node = params.node(&web)?;
    if !plausible(&name) {
        return Err(Problem::forbidden("that is not the name of a profile's file"));
    }
    let (store, file) = (Arc::clone(&web.store), name.clone());
    let id = node.id;
    let found = on_store(move || named(&store, id, &file)).await?;
    let (entry, default) = found.ok_or_else(|| Problem::not_found(format!("{} has no profile {name}", node.name())))?;
    let entry = web.resymbolizer.refreshed(entry).await;
    let subject = compared(&web, &entry, &params).await?;
    let pairs: Vec<(&str, &str)> = params.except(&["filename", "node", "format", "base"]).collect();
    // StarRocks calls its flame graphs so; elsewhere `svg` is the call graph.
    let format = params.get("format").map(|format| if format == "svg" { "flamegraph" } else { format }).or(default);
    profile_document::render(&web, &subject, format, &pairs, &requester).await
}

/// The profile with a file name, and the format in this name. A StarRocks frontend packs its flame graphs into
/// archives: for `cpu-profile-20261120-222534.html.tar.gz` it returns the page.
fn named(store: &Store, node: u64, file: &str) -> procprof_store::Result<Option<(Entry, Option<&'static str>)>> {
    if let Some(entry) = store.by_name(node, file)? {
        return Ok(Some((entry, None)));
    }
    let Some(stem) = file.strip_suffix(Format::HtmlArchive.suffix()) else { return Ok(None) };
    let entry = store.by_name(node, &format!("{stem}{}", Format::Pprof.suffix()))?;
    Ok(entry.map(|entry| (entry, Some("html"))))
}

/// An allow-list: what a name in the store can consist of.
fn plausible(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.len() <= 128
        && name.bytes().all(legal)
        && !name.contains("..")
        && !name.starts_with(['.', '-'])
        && name.contains("-profile-")
}

/// `GET /api/proc_profile/list?node=`
pub(super) async fn list(
    State(web): State<Arc<Web>>,
    Path(action): Path<String>,
    RawQuery(query): RawQuery,
) -> ApiResult<Json<BackendList>> {
    if action != "list" {
        let action: String = action.chars().take(64).collect();
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "unsupported_action",
            format!("there is no action {action:?}; there is \"list\""),
        ));
    }
    let params = Params::parse(&query.unwrap_or_default())?.only(&["node"])?;
    let node = params.node(&web)?;
    let (store, id) = (Arc::clone(&web.store), node.id);
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
    Ok(Json(BackendList { profiles: entries.await?.iter().map(BackendProfile::new).collect() }))
}

/// A node's profiles as a StarRocks backend lists them.
#[derive(Serialize, JsonSchema)]
pub(super) struct BackendList {
    profiles: Vec<BackendProfile>,
}

/// A profile as a StarRocks backend lists it.
#[derive(Serialize, JsonSchema)]
struct BackendProfile {
    filename: String,
    #[serde(rename = "type")]
    profile_type: String,
    format: &'static str,
    /// Its start, as in the file's name.
    timestamp: String,
    size: u64,
    start: Time,
    end: Time,
}

impl BackendProfile {
    fn new(entry: &Entry) -> Self {
        let label = match entry.profile_type.name() {
            "cpu" => "CPU",
            "contention" => "Contention",
            _ => entry.profile_type.label(),
        };
        let format = match entry.format {
            Format::Pprof => "Pprof",
            Format::Flame | Format::HtmlArchive => "Flame",
            Format::Recording => "Jfr",
        };
        Self {
            filename: entry.file_name.clone(),
            profile_type: label.to_owned(),
            format,
            timestamp: timestamp(&entry.file_name).to_owned(),
            size: entry.bytes,
            start: Time::from_nanos(entry.start.0),
            end: Time::from_nanos(entry.completed.0),
        }
    }
}

/// The time as the file name has it: `yyyyMMdd-HHmmss`.
fn timestamp(file_name: &str) -> &str {
    file_name.split_once("-profile-").and_then(|(_, rest)| rest.get(..15)).unwrap_or("")
}
