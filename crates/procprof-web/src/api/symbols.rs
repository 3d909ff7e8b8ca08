//! `/api/symbols`: the symbols that were uploaded.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use procprof_core::auth::Principal;
use procprof_core::chain;
use procprof_core::symbols::{
    Detail, IntakeError, Origin, Owner, Record, SymbolKey, SymbolStore, SymbolStoreError, UPLOADS, WantedSymbols,
    is_better, receive,
};
use procprof_store::{Filter, PAGE_MAX, PageRequest, Store};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Web;
use crate::blocking::on_store;
use crate::caller::{Caller, ShareRequester};
use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::time::Time;

/// Newest profiles that are counted as wanting or using symbols.
const COUNTED_MAX: usize = 20_000;
/// The same for the answer to an upload: a host agent uploads many files in a row.
const COUNTED_FOR_UPLOAD: usize = 1_000;
/// Symbols of a page unless a number is given, and at most.
const ROWS: usize = 100;
const ROWS_MAX: u64 = 1000;
/// Files with missing symbols in an answer, at most.
const WANTED_MAX: usize = 1000;

/// The uploaded symbols, and the files whose symbols stored profiles lack.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SymbolList {
    symbols: Vec<SymbolsRow>,
    /// Symbols of all pages.
    found: usize,
    /// The cursor of the next page; null after the last one.
    next: Option<String>,
    /// Bytes of all that is stored, found or not.
    bytes: u64,
    bytes_max: u64,
    file_bytes_max: u64,
    /// Profiles whose needs were counted, newest first.
    profiles_counted: usize,
    all_profiles_counted: bool,
    /// The files that hide most, at most 1,000.
    wanted: Vec<MissingSymbols>,
    /// The number of all such files.
    wanted_found: usize,
}

/// An uploaded symbol index.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Symbols")]
pub(crate) struct SymbolsRow {
    /// Build id, or layout-HASH-NAME.
    key: String,
    /// The file it was made from.
    name: String,
    bytes: u64,
    functions: u64,
    detail: DetailOfSymbols,
    stored: Time,
    /// Who sent it.
    by: String,
    owner: OwnerOfSymbols,
    last_used: Option<Time>,
    profiles_using: usize,
    profiles_wanting: usize,
}

/// The level of detail of an index; the more, the greater.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum DetailOfSymbols {
    /// Functions only: made from a symbol table.
    Functions,
    /// Functions, files, lines and inlined frames: made from debug information.
    Lines,
}

impl From<Detail> for DetailOfSymbols {
    fn from(detail: Detail) -> Self {
        match detail {
            Detail::Functions => Self::Functions,
            Detail::Lines => Self::Lines,
        }
    }
}

/// The standing of whoever sent an index: an operator's replaces that of the host that runs the file, and that one of
/// others.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum OwnerOfSymbols {
    /// An operator.
    Operator,
    /// The token of a host that runs the file.
    Host,
    /// A token that speaks for no host.
    Other,
}

impl From<Owner> for OwnerOfSymbols {
    fn from(owner: Owner) -> Self {
        match owner {
            Owner::Operator => Self::Operator,
            Owner::Host => Self::Host,
            Owner::Other => Self::Other,
        }
    }
}

/// A file whose symbols stored profiles lack.
#[derive(Serialize, JsonSchema)]
struct MissingSymbols {
    file: String,
    build_id: String,
    /// How much its frames hide of one profile, at most.
    percent: Option<f64>,
    profiles: usize,
    /// Whether symbols of a file of its name are there that do not fit.
    same_name: bool,
}

/// Whether a symbol index would be taken in.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SymbolOffer {
    take: bool,
    /// What is there under its key.
    stored: Option<SymbolsRow>,
}

/// What became of a symbol index that was sent.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SymbolPush {
    outcome: &'static str,
    /// What is stored under its key now.
    symbols: SymbolsRow,
    /// What was removed to make room.
    evicted: Vec<EvictedSymbols>,
}

/// Symbols that were removed to make room.
#[derive(Serialize, JsonSchema)]
struct EvictedSymbols {
    key: String,
    name: String,
    bytes: u64,
}

/// `GET /api/symbols?q=&limit=&cursor=`
pub(crate) async fn list(State(web): State<Arc<Web>>, RawQuery(query): RawQuery) -> ApiResult<Json<SymbolList>> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["q", "limit", "cursor"])?;
    let limit = params.number("limit", 1, ROWS_MAX)?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(ROWS);
    let after: Option<SymbolKey> = match params.get("cursor") {
        None => None,
        Some(key) => Some(key.parse().map_err(|error| Problem::bad_request(format!("cursor: {error}")))?),
    };
    let demand = Demand::collect(&web).await?;
    let config = web.config();
    let mut records = web.symbols.list();
    let bytes: u64 = records.iter().map(|record| record.bytes).sum();
    records.retain(|record| record.has(params.get("q").unwrap_or_default()));
    let mut following = records.iter().filter(|record| after.as_ref().is_none_or(|after| record.key > *after));
    let page: Vec<&Record> = following.by_ref().take(limit).collect();
    let next = page.last().filter(|_| following.next().is_some()).map(|last| last.key.to_string());
    let wanted = demand.missing(&web.symbols);
    Ok(Json(SymbolList {
        symbols: page.into_iter().map(|record| SymbolsRow::new(record, &demand)).collect(),
        found: records.len(),
        next,
        bytes,
        bytes_max: config.symbols_bytes_max,
        file_bytes_max: config.symbols_file_bytes_max,
        profiles_counted: demand.profiles,
        all_profiles_counted: demand.is_whole,
        wanted_found: wanted.len(),
        wanted: wanted.into_iter().take(WANTED_MAX).map(MissingSymbols::new).collect(),
    }))
}

/// `POST /api/symbols`, the index as body.
pub(crate) async fn push(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    ShareRequester(requester): ShareRequester,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<SymbolPush>)> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let (hosts, sender) = (Arc::clone(&web.hosts), principal.clone());
    let owner = move |key: &SymbolKey| hosts.symbol_owner(&sender, key);
    let origin = Origin { by: principal.name.clone(), requester, declared, owner };
    let put =
        receive(&web.symbols, &web.intakes, &web.config(), origin, body.into_data_stream()).await.map_err(refused)?;
    for gone in &put.evicted {
        tracing::info!("symbols of {} ({}) made room for those of {}", gone.name, gone.key, put.record.name);
    }
    tracing::info!("symbols of {} ({}) {} by {}", put.record.name, put.record.key, put.outcome.name(), principal.name);
    let status =
        if put.outcome == procprof_core::symbols::Outcome::Kept { StatusCode::OK } else { StatusCode::CREATED };
    let evicted = put.evicted.iter().map(EvictedSymbols::new).collect();
    let demand = Demand::of_newest(&web, COUNTED_FOR_UPLOAD).await?;
    Ok((
        status,
        Json(SymbolPush { outcome: put.outcome.name(), symbols: SymbolsRow::new(&put.record, &demand), evicted }),
    ))
}

/// `POST /api/symbols/offer?key=&detail=&bytes=`: whether an index would be taken, before it is sent.
pub(crate) async fn offer(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    RawQuery(query): RawQuery,
) -> ApiResult<Json<SymbolOffer>> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["key", "detail", "bytes"])?;
    let key: SymbolKey = params.need("key")?.parse().map_err(|error| Problem::bad_request(format!("key: {error}")))?;
    let detail = match params.need("detail")? {
        "functions" => Detail::Functions,
        "lines" => Detail::Lines,
        _ => return Err(Problem::bad_request("detail: expected functions or lines")),
    };
    let config = web.config();
    let limit = config.symbols_file_bytes_max.min(config.symbols_bytes_max);
    if let Some(bytes) = params.number("bytes", 0, u64::MAX)?.filter(|bytes| *bytes > limit) {
        return Err(refused(IntakeError::TooLarge { declared: Some(bytes), limit }));
    }
    let stored = web.symbols.get(&key);
    let (hosts, by, own_key) = (Arc::clone(&web.hosts), principal.name.clone(), key.clone());
    let owner = tokio::task::spawn_blocking(move || hosts.symbol_owner(&principal, &own_key)).await;
    let owner = owner.map_err(|error| Problem::internal(error.to_string()))?;
    let owner = owner.ok_or_else(|| refused(IntakeError::NotRunning { by, key }))?;
    let take = stored.as_ref().is_none_or(|stored| is_better((owner, detail), stored));
    Ok(Json(SymbolOffer { take, stored: stored.map(|record| SymbolsRow::new(&record, &Demand::default())) }))
}

/// `DELETE /api/symbols/{key}`
pub(crate) async fn remove(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(key): Path<String>,
) -> ApiResult<StatusCode> {
    let key: SymbolKey = key.parse().map_err(|error| Problem::bad_request(format!("key: {error}")))?;
    discard(&web, &principal, key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes symbols, for the API and the page alike.
pub(crate) async fn discard(web: &Arc<Web>, principal: &Principal, key: SymbolKey) -> ApiResult<()> {
    let symbol_store = Arc::clone(&web.symbols);
    let removed = tokio::task::spawn_blocking(move || symbol_store.remove(&key))
        .await
        .map_err(|error| Problem::internal(error.to_string()))?;
    let record = removed.map_err(|error| refused(error.into()))?;
    tracing::info!("symbols of {} ({}) removed by {}", record.name, record.key, principal.name);
    Ok(())
}

fn refused(error: IntakeError) -> Problem {
    let with = |status, code| Problem::new(status, code, error.to_string());
    match &error {
        IntakeError::Busy { .. } | IntakeError::OwnBusy { .. } => Problem::busy(error.to_string()),
        IntakeError::TooLarge { .. } | IntakeError::SymbolStore(SymbolStoreError::TooLarge { .. }) => {
            with(StatusCode::PAYLOAD_TOO_LARGE, "too_large")
        }
        IntakeError::CutShort { .. } => with(StatusCode::BAD_REQUEST, "cut_short"),
        IntakeError::Slow => with(StatusCode::REQUEST_TIMEOUT, "too_slow"),
        IntakeError::NotRunning { .. } => with(StatusCode::FORBIDDEN, "not_running"),
        IntakeError::Invalid(_) => with(StatusCode::UNPROCESSABLE_ENTITY, "no_index"),
        IntakeError::SymbolStore(SymbolStoreError::NotFound(_)) => Problem::not_found(error.to_string()),
        IntakeError::SymbolStore(SymbolStoreError::NoRoom { .. }) => with(StatusCode::INSUFFICIENT_STORAGE, "no_room"),
        IntakeError::SymbolStore(SymbolStoreError::DiskFull { .. }) => {
            with(StatusCode::INSUFFICIENT_STORAGE, "disk_full")
        }
        _ => Problem::internal(chain(&error)),
    }
}

impl SymbolsRow {
    fn new(record: &Record, demand: &Demand) -> Self {
        Self {
            key: record.key.to_string(),
            name: record.name.clone(),
            bytes: record.bytes,
            functions: record.functions,
            detail: record.detail.into(),
            stored: Time::from_nanos(record.stored),
            by: record.by.clone(),
            owner: record.owner.into(),
            last_used: record.last_used.map(Time::from_nanos),
            profiles_using: demand.using(&record.key),
            profiles_wanting: demand.wanting(record),
        }
    }
}

impl EvictedSymbols {
    fn new(record: &Record) -> Self {
        Self { key: record.key.to_string(), name: record.name.clone(), bytes: record.bytes }
    }
}

impl MissingSymbols {
    fn new(missing: Missing) -> Self {
        let Missing { wanted: WantedSymbols { file, build_id, percent, .. }, profiles, same_name } = missing;
        Self { file, build_id, percent, profiles, same_name }
    }
}

/// The symbols that the newest stored profiles lack and use.
#[derive(Default)]
pub(crate) struct Demand {
    using: HashMap<String, usize>,
    /// How many profiles lack a file, its largest share in one of them, and whether all found it stripped.
    wanting: HashMap<(String, String), (usize, f64, bool)>,
    /// Profiles counted.
    profiles: usize,
    /// Whether those are all.
    is_whole: bool,
}

/// A file whose symbols stored profiles lack and that is not known to have been uploaded.
pub(crate) struct Missing {
    pub(crate) wanted: WantedSymbols,
    pub(crate) profiles: usize,
    /// Whether symbols of a file of its name are there, which fit other profiles, or none, or more than they.
    pub(crate) same_name: bool,
}

impl Demand {
    pub(crate) async fn collect(web: &Arc<Web>) -> ApiResult<Demand> {
        Demand::of_newest(web, COUNTED_MAX).await
    }

    /// What the newest profiles lack and use, at least so many of them.
    async fn of_newest(web: &Arc<Web>, profiles: usize) -> ApiResult<Demand> {
        let store = Arc::clone(&web.store);
        on_store(move || Demand::count(&store, profiles)).await
    }

    fn count(store: &Store, most: usize) -> procprof_store::Result<Demand> {
        let mut demand = Demand { is_whole: true, ..Demand::default() };
        let mut request = PageRequest::first(PAGE_MAX);
        loop {
            let page = store.list(&Filter::default(), &request)?;
            for entry in &page.rows {
                demand.profiles += 1;
                for key in entry.meta.more.get(UPLOADS).into_iter().flat_map(|keys| keys.split(',')) {
                    *demand.using.entry(key.to_owned()).or_default() += 1;
                }
                for wanted in WantedSymbols::from_facts(&entry.meta) {
                    let percent = wanted.percent.unwrap_or(0.0);
                    let (count, most, stripped) =
                        demand.wanting.entry((wanted.file, wanted.build_id)).or_insert((0, 0.0, true));
                    (*count, *most, *stripped) = (*count + 1, most.max(percent), *stripped && wanted.is_stripped);
                }
            }
            match page.next {
                Some(next) if demand.profiles < most => request = PageRequest::after(PAGE_MAX, next),
                next => {
                    demand.is_whole = next.is_none();
                    return Ok(demand);
                }
            }
        }
    }

    pub(crate) fn using(&self, key: &SymbolKey) -> usize {
        self.using.get(key.as_str()).copied().unwrap_or(0)
    }

    /// The number of profiles that lack symbols stored already: they get its names when they are opened.
    pub(crate) fn wanting(&self, record: &Record) -> usize {
        let matches = |(_, build_id): &&(String, String)| !build_id.is_empty() && build_id == record.key.as_str();
        self.wanting.iter().filter(|(file, _)| matches(file)).map(|(_, (count, ..))| count).sum()
    }

    /// Symbols that are needed and not stored, the most needed first.
    pub(crate) fn missing(&self, symbol_store: &SymbolStore) -> Vec<Missing> {
        let rows = self.wanting.iter().map(|((file, build_id), (profiles, percent, is_stripped))| Missing {
            wanted: WantedSymbols {
                file: file.clone(),
                build_id: build_id.clone(),
                percent: Some(*percent),
                fitting: Vec::new(),
                is_stripped: *is_stripped,
            },
            profiles: *profiles,
            same_name: false,
        });
        let in_view_of_store = |row: Missing| {
            let is_there = !symbol_store.find(&row.wanted).is_empty();
            (row.wanted.build_id.is_empty() || !is_there).then_some(Missing { same_name: is_there, ..row })
        };
        let mut rows: Vec<Missing> = rows.filter(|row| row.wanted.is_worth()).filter_map(in_view_of_store).collect();
        rows.sort_by(|a, b| {
            let percent = |row: &Missing| row.wanted.percent.unwrap_or(0.0);
            percent(b).total_cmp(&percent(a)).then_with(|| a.wanted.file.cmp(&b.wanted.file))
        });
        rows
    }
}
