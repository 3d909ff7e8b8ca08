//! The schedule: one task per node and type, none waiting for another.
//!
//! Starts are spread over the interval by node; a type that fails backs off alone, one log line in and one out. Pausing
//! cancels what the schedule is capturing; a change of the nodes ends all tasks and starts those of the new ones. Of
//! servers that share an archive, one captures a node; when it is another one's turn, a capture that has begun ends first.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use procprof_collect::{Backoff, Request, Transition, Watch};
use procprof_profile::ProfileType;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::run::{CaptureRequest, Outcome, capture, failed};
use super::{CaptureFailure, Captures, continuous, load};
use crate::nodes::{Node, Planned};

/// How long to wait before a node is queried again for a profile that it has reported as unavailable.
const UNAVAILABLE: Duration = Duration::from_secs(3600);
/// Longest spread of first starts.
const SPREAD_MAX: Duration = Duration::from_secs(60);

/// Keeps the schedule until `stop`.
pub(super) async fn run(captures: Arc<Captures>, stop: CancellationToken) {
    let mut generation = captures.registry.changes();
    loop {
        generation.mark_unchanged();
        for warning in load::warnings(&captures.registry.all(), captures.config().max_concurrent_captures) {
            tracing::warn!("{warning}");
        }
        let current = stop.child_token();
        let tasks = TaskTracker::new();
        for node in captures.registry.all().iter().filter(|node| !node.kind().is_pushed()).cloned() {
            for (planned, also) in groups(&node) {
                let task = Task {
                    captures: Arc::clone(&captures),
                    first: if node.demo { at_once(planned) } else { offset(node.id, planned, &node.schedule) },
                    node: Arc::clone(&node),
                    planned: planned.clone(),
                    also,
                    stop: current.clone(),
                };
                tasks.spawn(task.run());
            }
        }
        tasks.close();
        let stopping = tokio::select! {
            () = stop.cancelled() => true,
            changed = generation.changed() => changed.is_err(),
        };
        current.cancel();
        tasks.wait().await;
        if stopping {
            return;
        }
    }
}

/// The types that are on, each with those that are recorded together with it.
fn groups(node: &Node) -> Vec<(&Planned, Vec<ProfileType>)> {
    let mut groups: Vec<(&Planned, Vec<ProfileType>)> = Vec::new();
    for planned in node.schedule.iter().filter(|planned| planned.on) {
        let continuous = |planned: &Planned| node.kind().is_continuous(&planned.profile_type);
        let is_alike = |first: &Planned| {
            (first.seconds, first.every, continuous(first)) == (planned.seconds, planned.every, continuous(planned))
        };
        match groups.iter_mut().find(|(first, _)| node.kind().records_together && is_alike(first)) {
            Some((_, also)) => also.push(planned.profile_type.clone()),
            None => groups.push((planned, Vec::new())),
        }
    }
    groups
}

/// A demo is looked at the moment it starts; its heap has something to show a little later.
fn at_once(planned: &Planned) -> Duration {
    Duration::from_secs(if planned.seconds == 0 { 4 } else { 1 })
}

/// When a type first starts: nodes are spread over the interval, and a backend's contention follows its CPU profile.
fn offset(node: u64, planned: &Planned, all: &[Planned]) -> Duration {
    let spread = Duration::from_secs(planned.every).min(SPREAD_MAX);
    // Fibonacci hashing: ids in a row land far apart.
    let share = (node.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as f64 / f64::from(u32::MAX);
    let own = spread.mul_f64(share);
    let cpu = all.iter().find(|other| other.profile_type == ProfileType::Cpu && other.on);
    match cpu {
        Some(cpu) if planned.profile_type == ProfileType::Contention => own + Duration::from_secs(cpu.seconds + 1),
        _ => own,
    }
}

struct Task {
    captures: Arc<Captures>,
    node: Arc<Node>,
    planned: Planned,
    /// Types that are recorded with it.
    also: Vec<ProfileType>,
    first: Duration,
    stop: CancellationToken,
}

impl Task {
    async fn run(self) {
        let mut backoff = Backoff::new();
        let continuous = self.node.kind().is_continuous(&self.planned.profile_type);
        let begin = Instant::now() + if continuous { Duration::ZERO } else { self.first };
        let mut next = begin;
        loop {
            if !self.sleep_until(next).await {
                return;
            }
            // What was held back is not late.
            let was_held = self.is_held();
            if !self.released().await {
                return;
            }
            let due = if was_held { Instant::now() } else { next };
            self.note_retry(None);
            let cancel = self.stop.child_token();
            let outcome = {
                let held = self.held(continuous);
                let work = async {
                    match continuous {
                        true => self.continuous(&cancel).await,
                        false => self.once(&cancel, due).await.map(drop),
                    }
                };
                tokio::pin!(work, held);
                tokio::select! {
                    outcome = &mut work => outcome,
                    // The capture is cancelled and given the moment it needs to leave nothing behind.
                    () = &mut held => { cancel.cancel(); work.await }
                }
            };
            let failure = outcome.err();
            let delay = self.judge(&mut backoff, failure.as_deref());
            let now = Instant::now();
            next = next_start(begin, &self.planned, now, delay);
            // An unavailable type is no failure, so there is no retry to show.
            let is_failure = failure.as_deref().is_some_and(|failure| failure.unavailable_reason().is_none());
            self.note_retry(delay.filter(|_| is_failure).map(|_| next.saturating_duration_since(now)));
        }
    }

    async fn once(&self, cancel: &CancellationToken, due: Instant) -> Outcome {
        let wanted = CaptureRequest {
            profile_type: self.planned.profile_type.clone(),
            also: self.also.clone(),
            seconds: None,
            by: "the schedule".to_owned(),
            trigger: "schedule",
            watch: Watch { cancel: cancel.clone(), ..Watch::default() },
            wait: None,
            due: Some(due),
            arrived: None,
        };
        capture(&self.captures, &self.node, wanted).await
    }

    async fn continuous(&self, cancel: &CancellationToken) -> Result<(), Arc<CaptureFailure>> {
        let request = self.also.iter().cloned().fold(Request::new(self.planned.profile_type.clone()), Request::and);
        let ended = continuous::record(&self.captures, &self.node, &self.planned, &request, cancel).await;
        ended.map_err(|failure| {
            for profile_type in request.types() {
                failed(&self.captures, &self.node, profile_type, &failure, false);
            }
            Arc::new(failure)
        })
    }

    /// Counts an outcome, logs a change, and returns how long to wait after a failure.
    fn judge(&self, backoff: &mut Backoff, failure: Option<&CaptureFailure>) -> Option<Duration> {
        let transition = match failure {
            None => backoff.succeeded(),
            // Not a failure, so nothing is logged.
            Some(failure) if failure.unavailable_reason().is_some() => {
                return (!self.node.kind().asks_freely).then_some(UNAVAILABLE);
            }
            // Cancelled, busy, or nothing to see yet.
            Some(failure) if failure.kind.is_none() => return None,
            Some(_) => backoff.failed(Duration::from_secs(self.planned.every)),
        };
        let (node, kind) = (self.node.name(), self.planned.profile_type.name());
        match transition {
            Transition::Entering(delay) => {
                let reason = failure.map_or("", |failure| failure.reason.as_str());
                tracing::warn!("{node}: {kind}: {reason}; next try in {} s", delay.as_secs());
            }
            Transition::Leaving(failures) => tracing::info!("{node}: {kind}: profiles again after {failures} failures"),
            Transition::Within(_) | Transition::None => {}
        }
        transition.delay()
    }

    /// Notes when the next attempt after a failure is, for people to see.
    fn note_retry(&self, after: Option<Duration>) {
        let retry_at = after.and_then(|after| Timestamp::now().checked_add(SignedDuration::try_from(after).ok()?).ok());
        self.captures.registry.note(self.node.id, |health| {
            for profile_type in std::iter::once(&self.planned.profile_type).chain(&self.also) {
                health.types.entry(profile_type.clone()).or_default().retry_at = retry_at;
            }
        });
    }

    /// Waits; false when the schedule ends.
    async fn sleep_until(&self, moment: Instant) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = tokio::time::sleep_until(moment) => true,
        }
    }

    /// Whether captures are paused, or another server captures the node.
    fn is_held(&self) -> bool {
        self.captures.pause.is_paused() || !self.is_own()
    }

    /// Whether this server captures the node.
    fn is_own(&self) -> bool {
        self.captures.servers.as_ref().is_none_or(|servers| servers.captures(&self.node))
    }

    /// Waits while captures are paused or another server captures the node; false when the schedule ends.
    async fn released(&self) -> bool {
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            if !self.is_held() {
                return !self.stop.is_cancelled();
            }
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = changes.next() => {}
            }
        }
    }

    /// Waits until captures are paused, or, if `also_by_others`, another server captures the node.
    async fn held(&self, also_by_others: bool) {
        let mut changes = self.changes();
        loop {
            changes.mark_unchanged();
            if self.captures.pause.is_paused() || also_by_others && !self.is_own() {
                return;
            }
            changes.next().await;
        }
    }

    fn changes(&self) -> Changes {
        let servers = self.captures.servers.as_ref().map(|servers| servers.changes());
        Changes { paused: self.captures.pause.changes(), servers }
    }
}

/// Sees changes of what may be captured.
struct Changes {
    paused: watch::Receiver<bool>,
    servers: Option<watch::Receiver<u64>>,
}

impl Changes {
    fn mark_unchanged(&mut self) {
        self.paused.mark_unchanged();
        self.servers.iter_mut().for_each(watch::Receiver::mark_unchanged);
    }

    /// Waits for the next one.
    async fn next(&mut self) {
        tokio::select! {
            () = changed(Some(&mut self.paused)) => {}
            () = changed(self.servers.as_mut()) => {}
        }
    }
}

/// Waits for a change; for ever if nobody is left to make one.
async fn changed<T>(receiver: Option<&mut watch::Receiver<T>>) {
    let is_changed = match receiver {
        Some(receiver) => receiver.changed().await.is_ok(),
        None => false,
    };
    if !is_changed {
        std::future::pending().await
    }
}

/// The next start: after a failure, when its delay is over; else at once for what is to have no gaps, and the next beat
/// of the interval.
fn next_start(begin: Instant, planned: &Planned, now: Instant, delay: Option<Duration>) -> Instant {
    if let Some(delay) = delay {
        return now + delay;
    }
    if planned.every <= planned.seconds {
        return now;
    }
    let every = Duration::from_secs(planned.every);
    let beats = now.saturating_duration_since(begin).as_nanos() / every.as_nanos().max(1);
    begin + every.saturating_mul(u32::try_from(beats).unwrap_or(u32::MAX).saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(profile_type: ProfileType, seconds: u64, every: u64) -> Planned {
        Planned { profile_type, on: true, seconds, every }
    }

    #[test]
    fn starts_keep_the_beat_and_skip_what_was_missed() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let beat = planned(ProfileType::Cpu, 10, 60);
        assert_eq!(next_start(begin, &beat, at(10), None), at(60));
        assert_eq!(next_start(begin, &beat, at(70), None), at(120));
        assert_eq!(next_start(begin, &beat, at(190), None), at(240));
        assert_eq!(
            next_start(begin, &beat, at(10), Some(Duration::from_secs(5))),
            at(15),
            "a failure is not waited out"
        );
        assert_eq!(next_start(begin, &beat, at(25), None), at(60), "and then the beat goes on");
        let gapless = planned(ProfileType::Cpu, 60, 60);
        assert_eq!(next_start(begin, &gapless, at(61), None), at(61));
    }

    #[test]
    fn contention_follows_cpu_and_nodes_are_spread() {
        let all = [planned(ProfileType::Cpu, 10, 60), planned(ProfileType::Contention, 10, 60)];
        let (cpu, contention) = (offset(7, &all[0], &all), offset(7, &all[1], &all));
        assert_eq!(contention - cpu, Duration::from_secs(11));
        let mut starts: Vec<u64> = (20_001..20_101).map(|node| offset(node, &all[0], &all).as_secs() / 6).collect();
        starts.sort_unstable();
        starts.dedup();
        assert_eq!(starts.len(), 10, "a hundred nodes leave no tenth of the minute empty");
    }
}
