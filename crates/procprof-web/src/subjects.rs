//! The subjects that addresses name: a stored profile, with `base=` its difference to another one; the profiles of a
//! node and a type that were completed in a range, or the ones that are named, with `base_from=` and `base_to=` or
//! `base_id=` their difference to others.

use std::sync::Arc;

use procprof_core::render::{SUMMED_BYTES_MAX, SUMMED_MAX, Subject};
use procprof_profile::{Nanos, ProfileId};
use procprof_store::{Entry, Filter, Format, PAGE_MAX, PageRequest};

use crate::Web;
use crate::blocking::on_store;
use crate::params::Params;
use crate::problem::{ApiResult, Problem};

/// The keys that name the profiles of a sum.
pub(crate) const SUM_KEYS: &[&str] = &["node", "type", "from", "to", "id", "base_from", "base_to", "base_id"];

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
    let entries = if ids.is_empty() {
        in_range(web, params, from, to).await?
    } else {
        if params.get(from).is_some() || params.get(to).is_some() {
            return Err(Problem::bad_request(format!("{id} names the profiles, and {from} and {to} are for a range")));
        }
        let mut entries = Vec::with_capacity(ids.len());
        for id in ids {
            entries.push(open(web, id).await?);
        }
        entries
    };
    Ok(Subject::sum(entries)?)
}

/// The profiles of a node and a type that were completed in a range, oldest first.
async fn in_range(web: &Arc<Web>, params: &Params, from: &str, to: &str) -> ApiResult<Vec<Entry>> {
    let needed = |key: &str, time: Option<Nanos>| time.ok_or_else(|| Problem::bad_request(format!("{key} is missing")));
    let (first, last) = (needed(from, params.time(from)?)?, needed(to, params.time(to)?)?);
    let node = params.need("node")?;
    let node =
        web.registry.find(node).ok_or_else(|| Problem::bad_request(format!("no node {node:?} is registered")))?;
    let kind = params.profile_type("type")?.ok_or_else(|| Problem::bad_request("type is missing"))?;
    let filter =
        Filter { nodes: vec![node.id], types: vec![kind], from: Some(first), to: Some(last), ..Filter::default() };
    let store = Arc::clone(&web.store);
    let mut entries = on_store(move || {
        let (mut entries, mut request) = (Vec::new(), PageRequest::first(PAGE_MAX));
        loop {
            let page = store.list(&filter, &request)?;
            entries.extend(page.rows.into_iter().filter(|entry| entry.format == Format::Pprof));
            match page.next {
                Some(next) if entries.len() <= SUMMED_MAX => request = PageRequest::after(PAGE_MAX, next),
                _ => return Ok(entries),
            }
        }
    })
    .await?;
    if entries.is_empty() {
        return Err(Problem::not_found(format!(
            "{} has no such profile that was completed from {from} to {to}",
            node.name()
        )));
    }
    let bytes = entries.iter().map(|entry| entry.bytes).sum::<u64>();
    if entries.len() > SUMMED_MAX || bytes > SUMMED_BYTES_MAX {
        return Err(too_many(entries.len(), bytes));
    }
    entries.reverse();
    Ok(entries)
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
