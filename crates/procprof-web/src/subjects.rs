//! The subjects that addresses name: a stored profile, with `base=` its difference to another one; the profiles of
//! nodes and a type that were completed in a range, or the ones that are named, with `base_from=` and `base_to=` or
//! `base_id=` their difference to others.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use procprof_core::render::{ProfileRange, SUMMED_BYTES_MAX, SUMMED_MAX, Subject, stored_in_range};
use procprof_profile::ProfileId;
use procprof_store::Entry;

use crate::Web;
use crate::blocking::on_store;
use crate::params::Params;
use crate::problem::{ApiResult, Problem};

/// The keys that name the profiles of a sum.
pub(crate) const SUM_KEYS: &[&str] = &["node", "label", "type", "from", "to", "id", "base_from", "base_to", "base_id"];

/// Says how many profiles of a range are from the archive and from the store.
const COVERAGE: &str = "procprof-coverage";
/// The same of the range that it is compared with.
const BASE_COVERAGE: &str = "procprof-base-coverage";
/// All nodes, as in the functions of SQL.
pub(crate) const ALL_NODES: &str = "*";
/// Most nodes of a range.
const NODES_MAX: usize = 500;

/// The id in a path.
pub(crate) fn parse_id(text: &str) -> ApiResult<ProfileId> {
    Ok(text.parse()?)
}

/// The profile with the id in a path.
pub(crate) async fn find(web: &Web, id: &str) -> ApiResult<Entry> {
    let id = parse_id(id)?;
    let store = Arc::clone(&web.store);
    on_store(move || store.get(id)).await
}

/// The profile with the id in a path, to be shown: with the names that uploaded symbols give it by now.
pub(crate) async fn open(web: &Arc<Web>, id: &str) -> ApiResult<Entry> {
    Ok(web.resymbolizer.refreshed(find(web, id).await?).await)
}

/// A stored profile, and its base if `base=` names one.
pub(crate) async fn compared(web: &Arc<Web>, entry: &Entry, params: &Params) -> ApiResult<Subject> {
    let subject = Subject::from(entry);
    let Some(base) = params.get("base") else { return Ok(subject) };
    let base = open(web, base)
        .await
        .map_err(|problem| Problem { message: format!("base: {}", problem.message), ..problem })?;
    Ok(subject.compared_with(Subject::from(&base)))
}

/// The sum of the profiles that `id=` names, or of those of a node and type in a range; and its base.
pub(crate) async fn summed(web: &Arc<Web>, params: &Params) -> ApiResult<Subject> {
    let is_base = ["base_from", "base_to", "base_id"].iter().any(|key| params.get(key).is_some());
    let subject = side(web, params, ["id", "from", "to"]).await?;
    if !is_base {
        return Ok(subject);
    }
    let base = side(web, params, ["base_id", "base_from", "base_to"]).await;
    let base = base.map_err(|problem| Problem { message: format!("base: {}", problem.message), ..problem })?;
    Ok(subject.compared_with(base))
}

/// One side: the profiles by id, or in the range.
async fn side(web: &Arc<Web>, params: &Params, [id, from, to]: [&str; 3]) -> ApiResult<Subject> {
    let ids: Vec<&str> = params.all(id).collect();
    if ids.is_empty() {
        return in_range(web, params, [from, to]).await;
    }
    if params.get(from).is_some() || params.get(to).is_some() {
        return Err(Problem::bad_request(format!("{id} names the profiles, and {from} and {to} are for a range")));
    }
    let mut entries = Vec::with_capacity(ids.len());
    for id in ids {
        entries.push(open(web, id).await?);
    }
    Ok(Subject::sum(&web.store, entries)?)
}

/// The range, the nodes and the type that parameters name.
pub(crate) async fn range(web: &Arc<Web>, params: &Params, [from, to]: [&str; 2]) -> ApiResult<ProfileRange> {
    let needed = |key: &str| {
        params.time(key)?.ok_or_else(|| Problem::bad_request(format!("{key} is missing; so is the range to merge")))
    };
    let (first, last) = (needed(from)?, needed(to)?);
    if first >= last {
        return Err(Problem::bad_request(format!("{from} is not before {to}")));
    }
    params.need("node")?;
    let names: Vec<&str> = params.all("node").collect();
    if names.len() > NODES_MAX {
        return Err(Problem::bad_request(format!("more than {NODES_MAX} nodes")));
    }
    let profile_type = params.profile_type("type")?.ok_or_else(|| Problem::bad_request("type is missing"))?;
    let labels = params.labels()?;
    let mut range = ProfileRange { nodes: Vec::new(), labels, profile_type, from: first, to: last };
    if names != [ALL_NODES] {
        let mut nodes = Vec::with_capacity(names.len());
        for name in names {
            nodes.extend(nodes_named(web, name, &range).await?);
        }
        range.nodes = nodes;
    }
    Ok(range)
}

/// The ids of a node. One that is gone or of another server is known by its profiles.
async fn nodes_named(web: &Arc<Web>, name: &str, range: &ProfileRange) -> ApiResult<BTreeSet<u64>> {
    let gone = || name.parse().ok().filter(|_| web.archiver.is_some());
    if let Some(id) = web.registry.find(name).map(|node| node.id).or_else(gone) {
        return Ok([id].into());
    }
    let (renderer, wanted, range) = (Arc::clone(&web.renderer), name.to_owned(), range.clone());
    let found = tokio::task::spawn_blocking(move || renderer.nodes_named(&wanted, &range)).await;
    let found = found.map_err(|error| Problem::internal(error.to_string()))??;
    if found.ids.is_empty() {
        let shown: String = name.chars().take(200).collect();
        return Err(Problem::bad_request(found.not_found(format!("no node {shown:?} is registered"))));
    }
    Ok(found.ids)
}

/// The profiles of nodes and a type that were completed in a range: those of the store, if it has all and they are few,
/// since their files have everything; else those of the archive, and what only the store has.
async fn in_range(web: &Arc<Web>, params: &Params, keys: [&str; 2]) -> ApiResult<Subject> {
    let range = range(web, params, keys).await?;
    let (store, wanted) = (Arc::clone(&web.store), range.clone());
    let entries = on_store(move || stored_in_range(&store, &wanted, SUMMED_MAX)).await?;
    let bytes = entries.iter().map(|entry| entry.bytes).sum::<u64>();
    let fits = entries.len() <= SUMMED_MAX && bytes <= SUMMED_BYTES_MAX;
    if let Some(found) = web.renderer.find_range(range.clone()).await? {
        let coverage = found.coverage();
        let is_here = coverage.in_both == coverage.archived && coverage.elsewhere == 0;
        let has_all = is_here && coverage.unreadable.is_empty() && coverage.silent.is_empty();
        // The archive may have what the data folder has no more.
        let is_damaged = entries.iter().any(|entry| web.store.why_damaged(entry.id).is_some());
        if coverage.profiles() > 0 && !(has_all && fits && !is_damaged) {
            return Ok(found.into());
        }
    }
    if entries.is_empty() {
        let nodes: Vec<&str> = params.all("node").collect();
        let [from, to] = keys;
        let why = match nodes.as_slice() {
            [ALL_NODES] => format!("no node has such a profile that was completed from {from} to {to}"),
            nodes => format!("{} has no such profile that was completed from {from} to {to}", nodes.join(", ")),
        };
        return Err(Problem::not_found(why));
    }
    if !fits {
        return Err(too_many(entries.len(), bytes));
    }
    Ok(Subject::sum(&web.store, entries)?)
}

/// An answer that says how much of the range of its subject there is, and from where.
pub(crate) fn covered(mut response: Response, subject: &Subject) -> Response {
    let names = [HeaderName::from_static(COVERAGE), HeaderName::from_static(BASE_COVERAGE)];
    for (name, coverage) in names.into_iter().zip(subject.coverage()) {
        let Some(coverage) = coverage else { continue };
        let text = format!(
            "archived={}, stored={}, elsewhere={}, hours={}, empty-hours={}, unreadable={}, silent={}",
            coverage.archived,
            coverage.stored,
            coverage.elsewhere,
            coverage.hours,
            coverage.empty_hours,
            coverage.unreadable.len(),
            coverage.silent.len()
        );
        // Digits and names.
        if let Ok(value) = HeaderValue::try_from(text) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// The range has more than is summed.
fn too_many(count: usize, bytes: u64) -> Problem {
    let count = if count > SUMMED_MAX { format!("more than {SUMMED_MAX}") } else { count.to_string() };
    let most = format!(
        "at most {SUMMED_MAX} profiles of {} MiB together are summed; choose a shorter range",
        SUMMED_BYTES_MAX >> 20
    );
    let why = format!("the range has {count} profiles of {:.1} MiB, and {most}", bytes as f64 / f64::from(1 << 20));
    Problem::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "too_many_profiles", why)
}
