//! Recordings without gaps: cut at each interval, ended when they are stopped or captures are paused.

use std::sync::Arc;
use std::time::Duration;

use procprof_collect::Request;
use tokio_util::sync::CancellationToken;

use super::recorded::{RecordingContext, source_of_node, store_recordings};
use super::run::{failed, succeeded};
use super::{CaptureFailure, Captures};
use crate::nodes::{Node, Planned};

/// Records `planned`, with the types in `request`, until `stop`.
pub(super) async fn record(
    captures: &Arc<Captures>,
    node: &Arc<Node>,
    planned: &Planned,
    request: &Request,
    stop: &CancellationToken,
) -> Result<(), CaptureFailure> {
    let source = source_of_node(captures, node).await?;
    // So that what a killed server leaves in a process ends soon after the cut that it missed.
    let cut = request.clone().seconds(u32::try_from(planned.every).unwrap_or(u32::MAX));
    let mut session = source.begin(&cut, "schedule").await?;
    let every = Duration::from_secs(planned.every);
    let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut storing: Option<tokio::task::JoinHandle<()>> = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            _ = beat.tick() => {}
        }
        // While the one before is being stored there is no cut: this one becomes longer, and nothing is lost.
        if storing.as_ref().is_some_and(|task| !task.is_finished()) {
            continue;
        }
        let answer = session.cut().await?;
        let (own, owner, requested) = (Arc::clone(captures), Arc::clone(node), request.clone());
        storing = Some(captures.tasks.spawn(async move {
            let recorded = store_recordings(&own, &owner, "schedule", None, answer, RecordingContext::default()).await;
            for entry in &recorded.stored {
                succeeded(&own, &owner, &entry.profile_type);
            }
            for (profile_type, failure) in &recorded.failed {
                failed(&own, &owner, profile_type, failure, !requested.types().any(|one| one == profile_type));
            }
        }));
    }
}
