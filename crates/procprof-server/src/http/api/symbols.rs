//! `/api/symbols`: the symbols that were uploaded.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use procprof_store::{Filter, PAGE_MAX, PageRequest, Store};
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Principal;
use crate::http::params::Params;
use crate::http::problem::{Answer, Problem, chain};
use crate::http::starrocks::{on_store, rfc3339};
use crate::symbols::{Detail, IntakeError, Origin, Record, Shelf, ShelfError, SymbolKey, UPLOADS, Wanted, receive};

/// Newest profiles that are counted as wanting or using symbols.
const COUNTED_MAX: usize = 20_000;

/// `GET /api/symbols`
pub(in crate::http) async fn list(State(app): State<Arc<App>>) -> Answer<Json<Value>> {
    let demand = Demand::of(&app).await?;
    let config = app.config();
    let records = app.symbols.list();
    let bytes: u64 = records.iter().map(|record| record.bytes).sum();
    let rows: Vec<Value> = records.iter().map(|record| object(record, &demand)).collect();
    Ok(Json(json!({
        "symbols": rows,
        "bytes": bytes,
        "bytes_max": config.symbols_bytes_max,
        "file_bytes_max": config.symbols_file_bytes_max,
        "profiles_counted": demand.profiles,
        "all_profiles_counted": demand.is_whole,
        "wanted": demand.missing(&app.symbols).into_iter().map(Missing::object).collect::<Vec<_>>(),
    })))
}

/// `POST /api/symbols`, the index as body.
pub(in crate::http) async fn push(
    State(app): State<Arc<App>>,
    principal: Principal,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Json<Value>)> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let origin = Origin { by: principal.name.clone(), declared };
    let put = receive(&app.symbols, &app.intakes, &app.config(), origin, body).await.map_err(refused)?;
    for gone in &put.evicted {
        tracing::info!("symbols of {} ({}) made room for those of {}", gone.name, gone.key, put.record.name);
    }
    tracing::info!("symbols of {} ({}) {} by {}", put.record.name, put.record.key, put.outcome.name(), principal.name);
    let status = if put.outcome == crate::symbols::Outcome::Kept { StatusCode::OK } else { StatusCode::CREATED };
    let evicted: Vec<Value> =
        put.evicted.iter().map(|record| json!({ "key": record.key, "name": record.name, "bytes": record.bytes })).collect();
    let demand = Demand::of(&app).await?;
    Ok((status, Json(json!({ "outcome": put.outcome.name(), "symbols": object(&put.record, &demand), "evicted": evicted }))))
}

/// `POST /api/symbols/offer?key=&detail=&bytes=`: whether an index would be taken, before it is sent.
pub(in crate::http) async fn offer(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Answer<Json<Value>> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["key", "detail", "bytes"])?;
    let key: SymbolKey = params.need("key")?.parse().map_err(|error| Problem::bad_request(format!("key: {error}")))?;
    let detail = match params.need("detail")? {
        "functions" => Detail::Functions,
        "lines" => Detail::Lines,
        _ => return Err(Problem::bad_request("detail: expected functions or lines")),
    };
    let config = app.config();
    let limit = config.symbols_file_bytes_max.min(config.symbols_bytes_max);
    if let Some(bytes) = params.number("bytes", 0, u64::MAX)?.filter(|bytes| *bytes > limit) {
        return Err(refused(IntakeError::TooLarge { declared: Some(bytes), limit }));
    }
    let stored = app.symbols.get(&key);
    let take = stored.as_ref().is_none_or(|stored| stored.detail <= detail);
    Ok(Json(json!({ "take": take, "stored": stored.map(|record| object(&record, &Demand::default())) })))
}

/// `DELETE /api/symbols/{key}`
pub(in crate::http) async fn remove(State(app): State<Arc<App>>, principal: Principal, Path(key): Path<String>) -> Answer<StatusCode> {
    let key: SymbolKey = key.parse().map_err(|error| Problem::bad_request(format!("key: {error}")))?;
    discard(&app, &principal, key).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Removes symbols, for the API and the page alike.
pub(in crate::http) async fn discard(app: &Arc<App>, principal: &Principal, key: SymbolKey) -> Answer<()> {
    let shelf = Arc::clone(&app.symbols);
    let removed = tokio::task::spawn_blocking(move || shelf.remove(&key)).await.map_err(|error| Problem::internal(error.to_string()))?;
    let record = removed.map_err(|error| refused(error.into()))?;
    tracing::info!("symbols of {} ({}) removed by {}", record.name, record.key, principal.name);
    Ok(())
}

fn refused(error: IntakeError) -> Problem {
    let with = |status, code| Problem::new(status, code, error.to_string());
    match &error {
        IntakeError::Busy => Problem::busy(error.to_string()),
        IntakeError::TooLarge { .. } | IntakeError::Shelf(ShelfError::TooLarge { .. }) => with(StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
        IntakeError::CutShort { .. } => with(StatusCode::BAD_REQUEST, "cut_short"),
        IntakeError::Slow => with(StatusCode::REQUEST_TIMEOUT, "too_slow"),
        IntakeError::Invalid(_) => with(StatusCode::UNPROCESSABLE_ENTITY, "no_index"),
        IntakeError::Shelf(ShelfError::NotFound(_)) => Problem::not_found(error.to_string()),
        IntakeError::Shelf(ShelfError::DiskFull { .. }) => with(StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
        _ => Problem::internal(chain(&error)),
    }
}

fn object(record: &Record, demand: &Demand) -> Value {
    json!({
        "key": record.key,
        "name": record.name,
        "bytes": record.bytes,
        "functions": record.functions,
        "detail": record.detail,
        "stored": rfc3339(record.stored),
        "by": record.by,
        "last_used": record.last_used.map(rfc3339),
        "profiles_using": demand.using(&record.key),
        "profiles_wanting": demand.wanting(record),
    })
}

/// What the newest stored profiles want and use.
#[derive(Default)]
pub(in crate::http) struct Demand {
    using: HashMap<String, usize>,
    wanting: HashMap<(String, String), (usize, f64)>,
    /// Profiles counted.
    profiles: usize,
    /// Whether those are all.
    is_whole: bool,
}

/// A file that stored profiles want and that nobody is known to have sent.
pub(in crate::http) struct Missing {
    pub(in crate::http) wanted: Wanted,
    pub(in crate::http) profiles: usize,
    /// Whether symbols of a file of its name are there, which fit other profiles, or none, or more than they.
    pub(in crate::http) same_name: bool,
}

impl Missing {
    fn object(self) -> Value {
        let Wanted { file, build_id, percent, .. } = self.wanted;
        json!({ "file": file, "build_id": build_id, "percent": percent, "profiles": self.profiles, "same_name": self.same_name })
    }
}

impl Demand {
    pub(in crate::http) async fn of(app: &Arc<App>) -> Answer<Demand> {
        let store = Arc::clone(&app.store);
        on_store(move || Demand::count(&store)).await
    }

    fn count(store: &Store) -> procprof_store::Result<Demand> {
        let mut demand = Demand { is_whole: true, ..Demand::default() };
        let mut request = PageRequest::first(PAGE_MAX);
        loop {
            let page = store.list(&Filter::default(), &request)?;
            for entry in &page.rows {
                demand.profiles += 1;
                for key in entry.meta.more.get(UPLOADS).into_iter().flat_map(|keys| keys.split(',')) {
                    *demand.using.entry(key.to_owned()).or_default() += 1;
                }
                for wanted in Wanted::of(&entry.meta) {
                    let percent = wanted.percent.unwrap_or(0.0);
                    let (count, most) = demand.wanting.entry((wanted.file, wanted.build_id)).or_default();
                    (*count, *most) = (*count + 1, most.max(percent));
                }
            }
            match page.next {
                Some(next) if demand.profiles < COUNTED_MAX => request = PageRequest::after(PAGE_MAX, next),
                next => {
                    demand.is_whole = next.is_none();
                    return Ok(demand);
                }
            }
        }
    }

    pub(in crate::http) fn using(&self, key: &SymbolKey) -> usize {
        self.using.get(key.as_str()).copied().unwrap_or(0)
    }

    /// How many want what is stored already: they get its names when they are opened.
    pub(in crate::http) fn wanting(&self, record: &Record) -> usize {
        let matches = |(_, build_id): &&(String, String)| !build_id.is_empty() && build_id == record.key.as_str();
        self.wanting.iter().filter(|(file, _)| matches(file)).map(|(_, (count, _))| count).sum()
    }

    /// What is wanted and not stored, most wanted first.
    pub(in crate::http) fn missing(&self, shelf: &Shelf) -> Vec<Missing> {
        let rows = self.wanting.iter().map(|((file, build_id), (profiles, percent))| Missing {
            wanted: Wanted { file: file.clone(), build_id: build_id.clone(), percent: Some(*percent), fitting: Vec::new() },
            profiles: *profiles,
            same_name: false,
        });
        let in_view_of_shelf = |row: Missing| {
            let is_there = !shelf.find(&row.wanted).is_empty();
            (row.wanted.build_id.is_empty() || !is_there).then_some(Missing { same_name: is_there, ..row })
        };
        let mut rows: Vec<Missing> = rows.filter(|row| row.wanted.is_worth()).filter_map(in_view_of_shelf).collect();
        rows.sort_by(|a, b| {
            let percent = |row: &Missing| row.wanted.percent.unwrap_or(0.0);
            percent(b).total_cmp(&percent(a)).then_with(|| a.wanted.file.cmp(&b.wanted.file))
        });
        rows
    }
}
