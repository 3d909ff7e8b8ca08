//! The profiles of a side of `/merge`, and what the page says of them.

use std::sync::Arc;

use axum::http::StatusCode;
use maud::{Markup, html};
use procprof_core::render::Coverage;
use procprof_store::{Entry, PAGE_MAX, PageRequest};

use super::super::scaling::Extent;
use super::super::{grouped, moment, profile_count, quantity};
use crate::Web;
use crate::blocking::on_store;
use crate::params::Params;
use crate::problem::ApiResult;
use crate::subjects::{find, range, summed};
use crate::texts::t;

/// Unreadable files of the archive that are named.
const UNREADABLE_MAX: usize = 5;

/// The profiles of one side.
pub(super) struct Side {
    pub(super) entries: Vec<Entry>,
    /// Whether there are more than were read.
    pub(super) has_more: bool,
    pub(super) range: Option<(i64, i64)>,
    /// Where the profiles of a range are taken from, if not all from the store.
    pub(super) coverage: Option<Coverage>,
}

impl Side {
    /// The number of profiles; of those that were read if there are more.
    pub(super) fn count(&self) -> u64 {
        self.coverage.as_ref().map_or(self.entries.len() as u64, Coverage::profiles)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How much the side has measured.
    pub(super) fn extent(&self) -> Extent {
        let duration = self.duration();
        let has_time = !self.is_empty() && duration > 0 && self.entries.iter().all(|entry| entry.duration.0 > 0);
        Extent { profiles: self.count(), duration, has_time }
    }

    /// Nanoseconds that all profiles took.
    fn duration(&self) -> i64 {
        let of_entries = || self.entries.iter().fold(0_i64, |sum, entry| sum.saturating_add(entry.duration.0));
        self.coverage.as_ref().map_or_else(of_entries, |coverage| coverage.duration.0)
    }
}

/// The profiles, and those that they are compared with.
pub(super) async fn sides(web: &Arc<Web>, params: &Params) -> ApiResult<(Side, Option<Side>)> {
    let mut side = side(web, params, ["id", "from", "to"]).await?;
    let is_compared = ["base_id", "base_from", "base_to"].iter().any(|key| params.get(key).is_some());
    let mut other = match is_compared {
        true => Some(self::side(web, params, ["base_id", "base_from", "base_to"]).await?),
        false => None,
    };
    match summed(web, params).await {
        Ok(subject) => {
            for (side, coverage) in std::iter::once(&mut side).chain(&mut other).zip(subject.coverage()) {
                side.has_more &= coverage.is_none();
                side.coverage = coverage;
            }
        }
        // The page says so.
        Err(problem) if problem.status == StatusCode::NOT_FOUND => {}
        Err(problem) => return Err(problem),
    }
    Ok((side, other))
}

/// The profiles by id, or those of the node and type in the range, newest first.
async fn side(web: &Arc<Web>, params: &Params, [id, from, to]: [&str; 3]) -> ApiResult<Side> {
    let ids: Vec<&str> = params.all(id).collect();
    if !ids.is_empty() {
        let mut entries = Vec::with_capacity(ids.len());
        for id in ids {
            entries.push(find(web, id).await?);
        }
        return Ok(Side { entries, has_more: false, range: None, coverage: None });
    }
    let range = range(web, params, [from, to]).await?;
    let (store, filter) = (Arc::clone(&web.store), range.filter());
    let page = on_store(move || store.list(&filter, &PageRequest::first(PAGE_MAX))).await?;
    let range = Some((range.from.0, range.to.0));
    Ok(Side { entries: page.rows, has_more: page.next.is_some(), range, coverage: None })
}

/// The range and the sum of a side.
pub(super) fn summary(side: &Side) -> Markup {
    let shown = |entry: &Entry| entry.summary.shown(&entry.meta).cloned();
    let entries = if side.coverage.is_none() { &side.entries[..] } else { &[] };
    let total: i64 = entries.iter().filter_map(shown).fold(0, |sum, total| sum.saturating_add(total.value));
    let unit = side.entries.first().and_then(shown).map(|total| total.unit).unwrap_or_default();
    let (oldest, newest) =
        (side.entries.last().map(|entry| entry.completed.0), side.entries.first().map(|entry| entry.completed.0));
    let (from, to) = side.range.unwrap_or((oldest.unwrap_or(0), newest.unwrap_or(0)));
    html! {
        span {
            (t!("{0} to {1}").fill(&[moment(from), moment(to)])) ": "
            strong {
                @if side.has_more { (t!("{0} profiles and more", side.entries.len())) }
                @else { (profile_count(side.count())) }
            }
            @if total > 0 { ", " (t!("{0} in all", quantity(total, &unit))) }
        }
    }
}

/// Where the profiles of a side are from, and what is missing.
pub(super) fn covered(side: &Side) -> Markup {
    let Some(coverage) = &side.coverage else { return html! {} };
    html! {
        p class="muted" {
            (t!("{0} profiles from the archive, {1} from the data folder.", grouped(coverage.archived), grouped(coverage.stored)))
            @if coverage.elsewhere > 0 {
                " " (t!("{0} from other servers of the archive.", grouped(coverage.elsewhere)))
            }
            @if coverage.empty_hours > 0 {
                " " (t!("{0} of {1} hours have no profiles.", coverage.empty_hours, coverage.hours))
            }
        }
        @for why in &coverage.silent {
            p class="notice bad" { (t!("Another server cannot be asked; profiles that it has not archived are missing:")) " " (why) }
        }
        @for why in coverage.unreadable.iter().take(UNREADABLE_MAX) {
            p class="notice bad" { (t!("A file cannot be read, and its profiles are missing:")) " " (why) }
        }
    }
}
