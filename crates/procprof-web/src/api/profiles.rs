//! `/api/profiles`

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use procprof_core::auth::Principal;
use procprof_core::render;
use procprof_core::symbols::{self, WantedSymbols};
use procprof_profile::ProfileId;
use procprof_report::Report;
use procprof_store::{Cursor, Entry, Filter, Format, PageRequest};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Web;
use crate::answer::Document;
use crate::blocking::on_store;
use crate::caller::{Caller, ShareRequester};
use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::profile_document::download as send_file;
use crate::server_url::{ServerUrl, profile_path};
use crate::subjects::{compared, find, open, parse_id};
use crate::time::Time;

const KNOWN: &[&str] = &["node", "type", "from", "to", "label", "cluster", "trigger", "text", "limit", "cursor"];
const ROWS: u64 = 100;

/// A page of the list, newest first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ProfilePage {
    profiles: Vec<ProfileRow>,
    /// The `cursor` of the next page.
    next: Option<String>,
}

/// A stored profile.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Profile")]
pub(crate) struct ProfileRow {
    id: String,
    /// The node's id.
    node: u64,
    node_name: String,
    cluster: String,
    labels: BTreeMap<String, String>,
    #[serde(rename = "type")]
    profile_type: String,
    /// How pages name the type.
    label: String,
    format: StoredFormat,
    file_name: String,
    /// Size of the stored file.
    bytes: u64,
    start: Time,
    end: Time,
    #[schemars(range(min = 0))]
    duration_ns: i64,
    /// schedule, manual, import or push; kept of a recording kept beside its profiles.
    trigger: String,
    /// What took it, and how.
    engine: String,
    pinned: bool,
    samples: u64,
    /// Number of threads that samples name; 0 if unknown.
    threads: u64,
    /// The sums by sample type.
    totals: Vec<Total>,
    /// The functions of the program with the largest values of their own.
    top: Vec<TopFunction>,
    /// Samples that were lost; null where that is not known.
    lost: Option<u64>,
    /// Samples whose stacks are cut.
    truncated: Option<u64>,
    /// CPU time that no sample stands for.
    unsampled_ns: Option<u64>,
    /// What its numbers mean.
    means: String,
    /// Files whose symbols would name more of it.
    wanted: Vec<WantedFile>,
    /// What else is known of it.
    facts: BTreeMap<String, String>,
    /// The path of its page.
    view: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum StoredFormat {
    Pprof,
    Flame,
    Html,
    Jfr,
}

/// The sum of a sample type.
#[derive(Serialize, JsonSchema)]
struct Total {
    /// What is summed: `cpu`, `inuse_space`, …
    kind: String,
    unit: String,
    value: i64,
}

/// A function of the program with its own value of the default sample type, and that of the runtime's functions that it
/// calls.
#[derive(Serialize, JsonSchema)]
struct TopFunction {
    name: String,
    value: i64,
    /// The runtime's function that takes most of it; `name` again where no function of the program is in the stacks.
    #[serde(skip_serializing_if = "String::is_empty")]
    leaf: String,
    /// The function of the program that most of it comes from, if it has several callers.
    #[serde(skip_serializing_if = "String::is_empty")]
    caller: String,
}

/// A file that would name more of a profile, and how to send it; one that was sent already names it when it is opened.
#[derive(Serialize, JsonSchema)]
struct WantedFile {
    /// Its path as in the profile.
    file: String,
    /// Empty where the profile does not have it.
    build_id: String,
    /// How much of the profile its frames hide.
    percent: Option<f64>,
    /// Whether its symbols were uploaded.
    uploaded: bool,
    /// The uploaded symbols that fit it, where nothing proves which are its own.
    fitting: Vec<String>,
    /// A command that sends them.
    command: String,
}

pub(crate) async fn list(
    State(web): State<Arc<Web>>,
    base: ServerUrl,
    RawQuery(query): RawQuery,
) -> ApiResult<Json<ProfilePage>> {
    let params = Params::parse(&query.unwrap_or_default())?.only(KNOWN)?;
    let filter = filter(&web, &params)?;
    let limit = usize::try_from(params.number("limit", 1, 1000)?.unwrap_or(ROWS)).unwrap_or(100);
    let after = params.get("cursor").map(str::parse::<Cursor>).transpose()?;
    let store = Arc::clone(&web.store);
    let page = on_store(move || store.list(&filter, &PageRequest { limit, after })).await?;
    let profiles = page.rows.iter().map(|entry| ProfileRow::new(&web, entry, &base)).collect();
    Ok(Json(ProfilePage { profiles, next: page.next.map(|cursor| cursor.to_string()) }))
}

fn filter(web: &Web, params: &Params) -> ApiResult<Filter> {
    let mut filter = Filter { from: params.time("from")?, to: params.time("to")?, ..Filter::default() };
    for name in params.all("node") {
        let node =
            web.registry.find(name).ok_or_else(|| Problem::bad_request(format!("no node {name:?} is registered")))?;
        filter.nodes.push(node.id);
    }
    for name in params.all("type") {
        filter.types.push(name.parse()?);
    }
    filter.labels = params.labels()?;
    filter.cluster = params.get("cluster").map(str::to_owned);
    filter.trigger = params.get("trigger").map(str::to_owned);
    filter.text = params.get("text").map(str::to_owned);
    Ok(filter)
}

pub(crate) async fn one(
    State(web): State<Arc<Web>>,
    base: ServerUrl,
    Path(id): Path<String>,
) -> ApiResult<Json<ProfileRow>> {
    Ok(Json(ProfileRow::new(&web, &open(&web, &id).await?, &base)))
}

pub(crate) async fn delete(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> ApiResult<StatusCode> {
    change(&web, &principal, parse_id(&id)?, Change::Delete).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn pin(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> ApiResult<StatusCode> {
    change(&web, &principal, parse_id(&id)?, Change::Pin).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn unpin(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(id): Path<String>,
) -> ApiResult<StatusCode> {
    let id = find(&web, &id).await?.id;
    change(&web, &principal, id, Change::Unpin).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A change of a stored profile.
#[derive(Clone, Copy)]
pub(crate) enum Change {
    Pin,
    Unpin,
    Delete,
}

/// Changes a profile and logs it, for the API and the page alike.
pub(crate) async fn change(web: &Arc<Web>, principal: &Principal, id: ProfileId, change: Change) -> ApiResult<()> {
    let store = Arc::clone(&web.store);
    let done = match change {
        Change::Pin => "pinned",
        Change::Unpin => "unpinned",
        Change::Delete => "deleted",
    };
    on_store(move || match change {
        Change::Pin => store.pin(id),
        Change::Unpin => store.unpin(id),
        Change::Delete => store.delete(id).map(drop),
    })
    .await?;
    web.audit.act(principal, format_args!("profile {id} {done}"));
    Ok(())
}

pub(crate) async fn download(State(web): State<Arc<Web>>, Path(id): Path<String>) -> ApiResult<Response> {
    send_file(&web, &open(&web, &id).await?).await
}

pub(crate) async fn render(
    State(web): State<Arc<Web>>,
    Path((id, report)): Path<(String, String)>,
    ShareRequester(requester): ShareRequester,
    RawQuery(query): RawQuery,
) -> ApiResult<Response> {
    let report = Report::named(&report).map_err(|error| Problem::not_found(error.to_string()))?;
    let entry = open(&web, &id).await?;
    let params = Params::parse(&query.unwrap_or_default())?;
    let subject = compared(&web, &entry, &params).await?;
    let pairs: Vec<(&str, &str)> = params.except(&["base"]).collect();
    let bytes = web.renderer.render(&subject, report, &pairs, &requester).await?;
    Document { bytes, media_type: report.media_type, file_name: None, unchanging: render::is_final(&subject, report) }
        .answer()
}

impl ProfileRow {
    pub(crate) fn new(web: &Web, entry: &Entry, base: &ServerUrl) -> Self {
        let meta = &entry.meta;
        let facts =
            meta.more.iter().filter(|(key, _)| !symbols::is_wanted_fact(key) || *key == "wanted-files-not-named");
        Self {
            id: entry.id.to_string(),
            node: entry.node,
            node_name: meta.node_name.clone(),
            cluster: meta.cluster.clone(),
            labels: meta.labels.clone(),
            profile_type: entry.profile_type.name().to_owned(),
            label: entry.profile_type.label().to_owned(),
            format: match entry.format {
                Format::Pprof => StoredFormat::Pprof,
                Format::Flame => StoredFormat::Flame,
                Format::HtmlArchive => StoredFormat::Html,
                Format::Recording => StoredFormat::Jfr,
            },
            file_name: entry.file_name.clone(),
            bytes: entry.bytes,
            start: Time::from_nanos(entry.start.0),
            end: Time::from_nanos(entry.completed.0),
            duration_ns: entry.duration.0,
            trigger: meta.trigger.clone(),
            engine: meta.engine.clone(),
            pinned: entry.pinned,
            samples: entry.summary.samples,
            threads: entry.summary.threads,
            totals: entry.summary.totals.iter().map(Total::new).collect(),
            top: entry.summary.top.iter().map(TopFunction::new).collect(),
            lost: meta.lost,
            truncated: meta.truncated,
            unsampled_ns: meta.unsampled,
            means: meta.means.clone(),
            wanted: WantedSymbols::from_facts(meta).iter().map(|wanted| WantedFile::new(web, wanted, base)).collect(),
            facts: facts.map(|(key, value)| (key.clone(), value.clone())).collect(),
            view: profile_path(web, entry.id),
        }
    }
}

impl Total {
    fn new(total: &procprof_store::Total) -> Self {
        Self { kind: total.kind.clone(), unit: total.unit.clone(), value: total.value }
    }
}

impl TopFunction {
    fn new(function: &procprof_store::TopFunction) -> Self {
        let procprof_store::TopFunction { name, value, leaf, caller } = function.clone();
        Self { name, value, leaf, caller }
    }
}

impl WantedFile {
    fn new(web: &Web, wanted: &WantedSymbols, base: &ServerUrl) -> Self {
        Self {
            file: wanted.file.clone(),
            build_id: wanted.build_id.clone(),
            percent: wanted.percent,
            uploaded: !wanted.build_id.is_empty() && !web.symbols.find(wanted).is_empty(),
            fitting: wanted.fitting.iter().map(ToString::to_string).collect(),
            command: wanted.command(&base.0),
        }
    }
}
