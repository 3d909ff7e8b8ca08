//! The data of the flame graph viewer: slices of call trees, search, table, and callers and callees of a function.
//!
//! All answers are about one subject and the options of reports in the query; the tree is kept by the renderer. Zooming
//! and searching are requests of their own, so that only what a screen shows is sent.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use bytes::Bytes;
use procprof_core::render::{Requester, Subject};
use procprof_report::viewer::{FunctionRow, SLICE_NODES_MAX, TableOrder, TableQuery, Tree, WIDE};
use procprof_report::{Budget, Error};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Web;
use crate::answer::{Document, SLICE};
use crate::caller::ReportRequester;
use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::subjects::{SUM_KEYS, compared, open, summed};

/// Rows of a table unless asked otherwise, and at most.
const ROWS: u64 = 500;
pub(crate) const ROWS_MAX: u64 = 10_000;
/// Parts of the width that may be asked for.
pub(crate) const WIDE_MAX: u64 = 1 << 20;

/// The part of a tree's functions that a search found.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TreeMatches {
    /// Numbers of the frames whose names match, ascending.
    frames: Vec<u32>,
    /// The number of nodes with these frames.
    nodes: u32,
    /// Their value, each stack counted once.
    total: i64,
    /// That of the base, in a difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    base_total: Option<i64>,
}

/// Functions of a tree.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TreeTable {
    rows: Vec<TreeRow>,
    /// The number of all rows.
    all: usize,
}

/// A function of a tree.
#[derive(Serialize, JsonSchema)]
struct TreeRow {
    /// The number of its frame.
    frame: u32,
    name: String,
    /// The letter of its kind of code.
    kind: char,
    /// By itself.
    #[serde(rename = "self")]
    own: i64,
    /// With all it calls; of calls of itself, the outermost counts.
    total: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_self: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_total: Option<i64>,
    nodes: u32,
}

/// A question about a tree.
pub(crate) enum Question {
    Slice { at: u32, wide: u32 },
    Search { pattern: String },
    Table(TableQuery),
    Sandwich { function: Function, wide: u32 },
}

/// A function, by its frame's number or by name.
pub(crate) enum Function {
    Frame(u32),
    Named(String),
}

/// The answer: bytes, and what they are.
pub(crate) struct Answered {
    pub(crate) bytes: Bytes,
    pub(crate) media_type: &'static str,
}

impl Question {
    /// The question of that kind, and the keys of the query that belong to it; the others are options of reports.
    pub(crate) fn parse(kind: &str, params: &Params) -> ApiResult<(Question, &'static [&'static str])> {
        let number = |key: &str, most: u64| Ok::<_, Problem>(params.number(key, 0, most)?.map(|number| number as u32));
        let wide = || Ok::<_, Problem>(params.number("wide", 1, WIDE_MAX)?.map_or(WIDE, |wide| wide as u32));
        Ok(match kind {
            "tree" => {
                (Question::Slice { at: number("at", u32::MAX.into())?.unwrap_or(0), wide: wide()? }, &["at", "wide"])
            }
            "search" => (Question::Search { pattern: params.need("re")?.to_owned() }, &["re"]),
            "table" => (Question::Table(table_query(params)?), &["sort", "re", "limit", "offset"]),
            "sandwich" => {
                let function = match (number("frame", u32::MAX.into())?, params.get("name")) {
                    (Some(frame), None) => Function::Frame(frame),
                    (None, Some(name)) => Function::Named(name.to_owned()),
                    _ => return Err(Problem::bad_request("frame or name is needed, and not both")),
                };
                (Question::Sandwich { function, wide: wide()? }, &["frame", "name", "wide"])
            }
            _ => return Err(Problem::not_found("there is nothing here")),
        })
    }

    /// Answers it.
    pub(crate) fn answer(self, tree: &Tree, budget: &Budget) -> procprof_report::Result<Answered> {
        match self {
            Question::Slice { at, wide } => slice(tree.slice(at, wide, SLICE_NODES_MAX, budget)?),
            Question::Search { pattern } => {
                let found = tree.search(&pattern, budget)?;
                let procprof_report::viewer::Matches { frames, nodes, total, base_total } = found;
                json(&TreeMatches { frames, nodes, total, base_total })
            }
            Question::Table(query) => {
                let table = tree.table(&query, budget)?;
                json(&TreeTable { rows: table.rows.iter().map(TreeRow::new).collect(), all: table.all })
            }
            Question::Sandwich { function, wide } => {
                let frames = match function {
                    Function::Frame(frame) => vec![frame],
                    Function::Named(name) => tree.frames_named(&name),
                };
                slice(tree.sandwich(&frames, wide, SLICE_NODES_MAX, budget)?)
            }
        }
    }
}

fn slice(bytes: Vec<u8>) -> procprof_report::Result<Answered> {
    Ok(Answered { bytes: bytes.into(), media_type: SLICE })
}

fn json(value: &impl Serialize) -> procprof_report::Result<Answered> {
    let write = |error: serde_json::Error| Error::Write { kind: std::io::ErrorKind::Other, why: error.to_string() };
    Ok(Answered { bytes: serde_json::to_vec(value).map_err(write)?.into(), media_type: "application/json" })
}

fn table_query(params: &Params) -> ApiResult<TableQuery> {
    let order = match params.get("sort") {
        None | Some("self") => TableOrder::Own,
        Some("total") => TableOrder::Total,
        Some("name") => TableOrder::Name,
        Some("change") => TableOrder::Change,
        Some(_) => return Err(Problem::bad_request("sort: expected self, total, name or change")),
    };
    let limit = params.number("limit", 1, ROWS_MAX)?.unwrap_or(ROWS) as usize;
    let offset = params.number("offset", 0, u32::MAX.into())?.unwrap_or(0) as usize;
    Ok(TableQuery { order, pattern: params.get("re").map(str::to_owned), offset, limit })
}

impl TreeRow {
    fn new(row: &FunctionRow<'_>) -> TreeRow {
        TreeRow {
            frame: row.frame,
            name: row.name.to_owned(),
            kind: row.kind,
            own: row.own,
            total: row.total,
            base_self: row.base.map(|(own, _)| own),
            base_total: row.base.map(|(_, total)| total),
            nodes: row.nodes,
        }
    }
}

/// `GET /p/{id}/tree`, `search`, `table`, `sandwich`
pub(crate) async fn of_profile(
    kind: &'static str,
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    ReportRequester(requester): ReportRequester,
    RawQuery(query): RawQuery,
) -> ApiResult<Response> {
    let params = Params::parse(&query.unwrap_or_default())?;
    let entry = open(&web, &id).await?;
    let subject = compared(&web, &entry, &params).await?;
    answered(&web, kind, &subject, &params, &["base"], &requester).await
}

/// `GET /merge/tree`, `search`, `table`, `sandwich`
pub(crate) async fn of_sum(
    kind: &'static str,
    State(web): State<Arc<Web>>,
    ReportRequester(requester): ReportRequester,
    RawQuery(query): RawQuery,
) -> ApiResult<Response> {
    let params = Params::parse(&query.unwrap_or_default())?;
    let subject = summed(&web, &params).await?;
    answered(&web, kind, &subject, &params, SUM_KEYS, &requester).await
}

async fn answered(
    web: &Arc<Web>,
    kind: &str,
    subject: &Subject,
    params: &Params,
    subject_keys: &[&str],
    requester: &Requester,
) -> ApiResult<Response> {
    let (question, keys) = Question::parse(kind, params)?;
    let keys: Vec<&str> = keys.iter().chain(subject_keys).copied().collect();
    let pairs: Vec<(&str, &str)> = params.except(&keys).collect();
    let answer =
        web.renderer.ask_tree(subject, &pairs, requester, move |tree, budget| question.answer(tree, budget)).await?;
    Document { bytes: answer.bytes, media_type: answer.media_type, file_name: None, unchanging: subject.is_final() }
        .answer()
}
