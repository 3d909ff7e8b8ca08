//! The data of the flame graph viewer: slices of call trees, search, table, and callers and callees of a function.
//!
//! All answers are about one subject and the options of reports in the query; the tree is kept by the renderer. Zooming
//! and searching are requests of their own, so that only what a screen shows is sent.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use procprof_core::render::{AskedTree, Side, Subject, TreeSource};
use procprof_core::shares::Requester;
use procprof_report::viewer::{Extent, FunctionRow, TableOrder, TableQuery, WIDE};
use procprof_report::{Budget, Error};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Web;
use crate::answer::{Document, SLICE, mark_packed, pack, takes_packed};
use crate::caller::{Caller, ShareRequester};
use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::subjects::{SUM_KEYS, compared, covered, open, summed};

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
    Slice {
        at: u32,
        extent: Extent,
    },
    /// The same of the root, compressed once and kept with the tree: with these, every client opens it.
    PackedSlice {
        extent: Extent,
    },
    Search {
        pattern: String,
    },
    Table(TableQuery),
    Sandwich {
        function: Function,
        side: Option<Side>,
        at: u32,
        extent: Extent,
    },
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
    /// Whether the bytes are compressed already, by [`pack`].
    pub(crate) is_packed: bool,
}

impl Question {
    /// The question of a client that takes packed answers.
    fn packed(self) -> Question {
        match self {
            Question::Slice { at: 0, extent } => Question::PackedSlice { extent },
            other => other,
        }
    }

    /// The question of that kind, and the keys of the query that belong to it; the others are options of reports.
    pub(crate) fn parse(kind: &str, params: &Params) -> ApiResult<(Question, &'static [&'static str])> {
        let number = |key: &str, most: u64| Ok::<_, Problem>(params.number(key, 0, most)?.map(|number| number as u32));
        let at = || Ok::<_, Problem>(number("at", u32::MAX.into())?.unwrap_or(0));
        let extent = || {
            let wide = params.number("wide", 1, WIDE_MAX)?.map_or(WIDE, |wide| wide as u32);
            Ok::<_, Problem>(Extent {
                wide,
                rows: number("rows", u32::MAX.into())?.unwrap_or(u32::MAX),
                ..Extent::default()
            })
        };
        Ok(match kind {
            "tree" => (Question::Slice { at: at()?, extent: extent()? }, &["at", "wide", "rows"]),
            "search" => (Question::Search { pattern: params.need("re")?.to_owned() }, &["re"]),
            "table" => (Question::Table(table_query(params)?), &["sort", "re", "limit", "offset"]),
            "sandwich" => {
                let function = match (number("frame", u32::MAX.into())?, params.get("name")) {
                    (Some(frame), None) => Function::Frame(frame),
                    (None, Some(name)) => Function::Named(name.to_owned()),
                    _ => return Err(Problem::bad_request("frame or name is needed, and not both")),
                };
                let side = match params.get("side") {
                    None => None,
                    Some("callers") => Some(Side::Callers),
                    Some("callees") => Some(Side::Callees),
                    Some(_) => return Err(Problem::bad_request("side: expected callers or callees")),
                };
                if side.is_none() && params.get("at").is_some() {
                    return Err(Problem::bad_request("at is a node of one side; side is missing"));
                }
                let keys = &["frame", "name", "side", "at", "wide", "rows"];
                (Question::Sandwich { function, side, at: at()?, extent: extent()? }, keys)
            }
            _ => return Err(Problem::not_found("there is nothing here")),
        })
    }

    /// Answers it.
    pub(crate) fn answer(self, tree: &AskedTree<'_>, budget: &Budget) -> procprof_report::Result<Answered> {
        match self {
            Question::Slice { at, extent } => slice(tree.slice(at, &extent, budget)?),
            Question::PackedSlice { extent } => {
                let question = format!("{} {} {}", extent.wide, extent.rows, extent.nodes);
                let bytes = tree.packed(&question, || pack(&tree.slice(0, &extent, budget)?).map_err(unwritten))?;
                Ok(Answered { bytes, media_type: SLICE, is_packed: true })
            }
            Question::Search { pattern } => {
                let found = tree.search(&pattern, budget)?;
                let procprof_report::viewer::Matches { frames, nodes, total, base_total } = found;
                json(&TreeMatches { frames, nodes, total, base_total })
            }
            Question::Table(query) => {
                let table = tree.table(&query, budget)?;
                json(&TreeTable { rows: table.rows.iter().map(TreeRow::new).collect(), all: table.all })
            }
            Question::Sandwich { function, side, at, extent } => {
                let frames = match function {
                    Function::Frame(frame) => vec![frame],
                    Function::Named(name) => tree.frames_named(&name),
                };
                let part = |side| tree.around(side, &frames, budget)?.slice(at, &extent, budget);
                match side {
                    Some(side) => slice(part(side)?),
                    None => slice(behind_lengths([part(Side::Callers)?, part(Side::Callees)?], budget)?),
                }
            }
        }
    }
}

fn slice(bytes: Vec<u8>) -> procprof_report::Result<Answered> {
    Ok(Answered { bytes: bytes.into(), media_type: SLICE, is_packed: false })
}

/// Several slices, each after its length in four bytes, little-endian.
fn behind_lengths(slices: [Vec<u8>; 2], budget: &Budget) -> procprof_report::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(slices.iter().map(|slice| slice.len() + 4).sum());
    for slice in &slices {
        let length = u32::try_from(slice.len()).map_err(|_| Error::OutputLimit { most: budget.output_bytes })?;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(slice);
    }
    Ok(bytes)
}

fn json(value: &impl Serialize) -> procprof_report::Result<Answered> {
    let bytes = serde_json::to_vec(value).map_err(|error| unwritten(error.into()))?.into();
    Ok(Answered { bytes, media_type: "application/json", is_packed: false })
}

fn unwritten(error: std::io::Error) -> Error {
    Error::Write { kind: error.kind(), why: error.to_string() }
}

fn table_query(params: &Params) -> ApiResult<TableQuery> {
    let order = match params.get("sort") {
        None | Some("self") => TableOrder::Own,
        Some("total") => TableOrder::Total,
        Some("name") => TableOrder::Name,
        Some("self_change") => TableOrder::OwnChange,
        Some("change") => TableOrder::TotalChange,
        Some(_) => return Err(Problem::bad_request("sort: expected self, total, name, self_change or change")),
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

/// The query of a question, and whether its client takes packed answers.
pub(crate) struct AskedQuery {
    query: String,
    takes_packed: bool,
}

impl<S: Sync> FromRequestParts<S> for AskedQuery {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let query = parts.uri.query().unwrap_or_default().to_owned();
        Ok(AskedQuery { query, takes_packed: takes_packed(&parts.headers) })
    }
}

/// `GET /p/{id}/tree`, `search`, `table`, `sandwich`
pub(crate) async fn of_profile(
    kind: &'static str,
    State(web): State<Arc<Web>>,
    Path(id): Path<String>,
    ShareRequester(requester): ShareRequester,
    asked: AskedQuery,
) -> ApiResult<Response> {
    let params = Params::parse(&asked.query)?;
    let entry = open(&web, &id).await?;
    let subject = compared(&web, &entry, &params).await?;
    answered(&web, kind, &subject, &params, &["base"], &requester, asked.takes_packed).await
}

/// `GET /merge/tree`, `search`, `table`, `sandwich`
pub(crate) async fn of_sum(
    kind: &'static str,
    State(web): State<Arc<Web>>,
    ShareRequester(requester): ShareRequester,
    asked: AskedQuery,
) -> ApiResult<Response> {
    let params = Params::parse(&asked.query)?;
    let subject = summed(&web, &params).await?;
    answered(&web, kind, &subject, &params, SUM_KEYS, &requester, asked.takes_packed).await
}

/// `GET /open/{token}/tree`, `search`, `table`, `sandwich`
pub(crate) async fn of_opened(
    kind: &'static str,
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(token): Path<String>,
    ShareRequester(requester): ShareRequester,
    asked: AskedQuery,
) -> ApiResult<Response> {
    let params = Params::parse(&asked.query)?;
    let (file, event) = web.opened.profile(&token, &principal.name, &params)?;
    let encoded = file.profiles[event].encoded.clone();
    let source = TreeSource::Opened { key: format!("{token} {event}"), encoded };
    let question =
        Asked { kind, params: &params, subject_keys: &["event"], takes_packed: asked.takes_packed, unchanging: false };
    question.answered(&web, source, &requester).await
}

async fn answered(
    web: &Arc<Web>,
    kind: &str,
    subject: &Subject,
    params: &Params,
    subject_keys: &[&str],
    requester: &Requester,
    takes_packed: bool,
) -> ApiResult<Response> {
    let asked = Asked { kind, params, subject_keys, takes_packed, unchanging: subject.is_final() };
    Ok(covered(asked.answered(web, subject.into(), requester).await?, subject))
}

/// A request for an answer.
struct Asked<'a> {
    kind: &'a str,
    params: &'a Params,
    /// Parameters that name the subject.
    subject_keys: &'a [&'a str],
    takes_packed: bool,
    /// Whether the answer stays what it is for ever.
    unchanging: bool,
}

impl Asked<'_> {
    async fn answered(self, web: &Arc<Web>, source: TreeSource, requester: &Requester) -> ApiResult<Response> {
        let (question, keys) = Question::parse(self.kind, self.params)?;
        let question = if self.takes_packed { question.packed() } else { question };
        let keys: Vec<&str> = keys.iter().chain(self.subject_keys).copied().collect();
        let pairs: Vec<(&str, &str)> = self.params.except(&keys).collect();
        let answer =
            web.renderer.ask_tree(source, &pairs, requester, move |tree, budget| question.answer(tree, budget)).await?;
        let Answered { bytes, media_type, is_packed } = answer;
        let whole = Document { bytes: bytes.clone(), media_type, file_name: None, unchanging: self.unchanging };
        let mut response = whole.answer()?;
        if is_packed {
            mark_packed(&mut response, &bytes);
        }
        Ok(response)
    }
}
