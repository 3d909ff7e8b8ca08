//! The archive as JSON: what it has, what it costs, and how far it is.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use procprof_core::archiving::{ArchiveOverview, ArchiveUse, Hour};
use procprof_core::clock;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Web;
use crate::problem::{ApiResult, Problem};
use crate::time::Time;

/// The archive; without one, `enabled` is false and the rest empty.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Archive")]
pub(crate) struct ArchiveAnswer {
    /// Whether profiles are archived.
    enabled: bool,
    profiles: u64,
    bytes: u64,
    bytes_per_profile: Option<u64>,
    /// Average size of a file in the data folder.
    file_bytes_per_profile: Option<u64>,
    parts: u64,
    /// Parts that their writers have not finished, or are writing.
    unfinished_parts: u64,
    oldest: Option<Time>,
    newest: Option<Time>,
    /// The moment before which every profile is archived that can be.
    archived_until: Option<Time>,
    lag_seconds: Option<f64>,
    last_run: Option<Time>,
    /// Profiles and hours that the last run could not archive.
    last_failed: u64,
    last_error: Option<String>,
    /// Profiles that retention deleted since the start and that may not be in the archive.
    missed: u64,
    /// Files that cannot be read, with the reasons.
    unreadable: Vec<String>,
    clusters: Vec<ArchivedCluster>,
    hours: Vec<ArchivedHour>,
}

/// The archived profiles of a cluster.
#[derive(Serialize, JsonSchema)]
struct ArchivedCluster {
    cluster: String,
    profiles: u64,
    /// Bytes of files are shared out by the number of samples.
    bytes: u64,
}

/// The archived profiles of an hour.
#[derive(Serialize, JsonSchema)]
struct ArchivedHour {
    start: Time,
    profiles: u64,
    bytes: u64,
}

/// `GET /api/archive`
pub(crate) async fn archive(State(web): State<Arc<Web>>) -> ApiResult<Json<ArchiveAnswer>> {
    let found = overview(&web).await?;
    let usage = web.usage.get(&web.store).await?;
    let state = web.archiver.as_ref().map(|archiver| archiver.state()).unwrap_or_default();
    let lag = state.until.map(|until| clock::now().0.saturating_sub(until.0).max(0) as f64 / 1e9);
    let cluster = |(cluster, own): (&Arc<str>, &ArchiveUse)| ArchivedCluster {
        cluster: cluster.to_string(),
        profiles: own.profiles,
        bytes: own.bytes,
    };
    let hour = |(hour, own): (&Hour, &ArchiveUse)| ArchivedHour {
        start: Time::from_nanos(hour.start().0),
        profiles: own.profiles,
        bytes: own.bytes,
    };
    Ok(Json(ArchiveAnswer {
        enabled: web.archiver.is_some(),
        profiles: found.all.profiles,
        bytes: found.all.bytes,
        bytes_per_profile: found.all.bytes_each(),
        file_bytes_per_profile: usage.bytes.checked_div(usage.profiles),
        parts: found.parts,
        unfinished_parts: found.unfinished,
        oldest: found.range.map(|(oldest, _)| Time::from_nanos(oldest.0)),
        newest: found.range.map(|(_, newest)| Time::from_nanos(newest.0)),
        archived_until: state.until.map(|until| Time::from_nanos(until.0)),
        lag_seconds: lag,
        last_run: state.ran.map(Time::from),
        last_failed: state.failed,
        last_error: state.error,
        missed: state.missed,
        clusters: found.clusters.iter().map(cluster).collect(),
        hours: found.hours.iter().map(hour).collect(),
        unreadable: found.unreadable,
    }))
}

/// What the archive has; nothing without one.
pub(crate) async fn overview(web: &Web) -> ApiResult<ArchiveOverview> {
    let Some(archiver) = &web.archiver else { return Ok(ArchiveOverview::default()) };
    let known = Arc::clone(&archiver.archive().known);
    let found = tokio::task::spawn_blocking(move || known.overview()).await;
    found.map_err(|error| Problem::internal(error.to_string()))
}
