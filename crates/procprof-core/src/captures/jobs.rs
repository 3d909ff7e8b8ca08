//! Captures on request that a client follows: owner, progress, result. Kept in memory, the latest [`KEPT`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use procprof_collect::{Progress, Watch};
use procprof_profile::{ProfileId, ProfileType};
use tokio_util::sync::CancellationToken;

use super::queue::Wait;
use super::{CaptureFailure, CaptureRequest, Captures};
use crate::nodes::Node;

/// Jobs remembered.
const KEPT: usize = 500;
/// Jobs running at a time.
const RUNNING_MAX: usize = 64;

/// A capture that a client follows.
pub struct Job {
    /// Its name, an UUID.
    pub id: String,
    /// The node's id.
    pub node: u64,
    /// The type that is captured.
    pub profile_type: ProfileType,
    /// Length of the capture.
    pub seconds: u32,
    /// The user who requested it.
    pub by: String,
    /// When it was requested.
    pub started: Timestamp,
    cancel: CancellationToken,
    checking: AtomicBool,
    wait: Arc<Wait>,
    end: Mutex<Option<(Timestamp, Result<ProfileId, CaptureFailure>)>>,
}

/// How far a job is.
#[derive(Clone, Debug)]
pub enum JobState {
    /// For a capture of another length to end; who is at it until when.
    Waiting(String),
    /// Under way.
    Running,
    /// The profile is stored.
    Done(ProfileId),
    /// Nothing is stored.
    Failed(CaptureFailure),
    /// Given up, and why.
    Cancelled(String),
}

impl JobState {
    /// Its name in the API and in SQL.
    pub fn name(&self) -> &'static str {
        match self {
            JobState::Waiting(_) => "waiting",
            JobState::Running => "running",
            JobState::Done(_) => "done",
            JobState::Failed(_) => "failed",
            JobState::Cancelled(_) => "cancelled",
        }
    }

    /// What it waits for, or why nothing is stored; empty otherwise.
    pub fn message(&self) -> &str {
        match self {
            JobState::Waiting(why) | JobState::Cancelled(why) => why,
            JobState::Failed(failure) => &failure.reason,
            JobState::Running | JobState::Done(_) => "",
        }
    }

    /// The kind of the failure, as the list of errors has it.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            JobState::Failed(failure) => Some(failure.code),
            _ => None,
        }
    }

    /// The stored profile.
    pub fn profile(&self) -> Option<ProfileId> {
        match self {
            JobState::Done(id) => Some(*id),
            _ => None,
        }
    }
}

/// A job at one moment.
#[derive(Clone, Debug)]
pub struct JobStatus {
    /// How far it is.
    pub state: JobState,
    /// From 0 to 1; waiting for one's turn does not count.
    pub progress: f64,
    /// When it ended, if it has.
    pub ended: Option<Timestamp>,
}

impl Job {
    /// How it is now.
    pub fn status(&self) -> JobStatus {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let (state, progress) = match &*end {
            None => match self.wait.reason() {
                Some(why) => (JobState::Waiting(why), 0.0),
                None => (JobState::Running, self.running_progress()),
            },
            Some((_, Ok(id))) => (JobState::Done(*id), 1.0),
            Some((_, Err(failure))) if failure.is_cancelled() => (JobState::Cancelled(failure.reason.clone()), 1.0),
            Some((_, Err(failure))) => (JobState::Failed(failure.clone()), 1.0),
        };
        JobStatus { state, progress, ended: end.as_ref().map(|(at, _)| *at) }
    }

    /// How far it is now.
    pub fn state(&self) -> JobState {
        self.status().state
    }

    /// When it ended, if it has.
    pub fn ended(&self) -> Option<Timestamp> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|(at, _)| *at)
    }

    /// From 0 to 1; waiting for one's turn does not count.
    pub fn progress(&self) -> f64 {
        self.status().progress
    }

    fn running_progress(&self) -> f64 {
        if self.checking.load(Ordering::Relaxed) {
            return 0.95;
        }
        let passed = Timestamp::now().duration_since(self.wait.over().unwrap_or(self.started)).as_secs_f64();
        (passed / f64::from(self.seconds.max(1))).clamp(0.0, 0.9)
    }

    /// Gives it up.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }
}

/// All jobs.
#[derive(Default)]
pub struct Jobs(Mutex<VecDeque<Arc<Job>>>);

impl Jobs {
    /// Starts a capture; `None` when too many are running.
    pub(super) fn start(
        captures: &Arc<Captures>,
        node: Arc<Node>,
        profile_type: ProfileType,
        seconds: u32,
        by: &str,
    ) -> Option<Arc<Job>> {
        let job = Arc::new(Job {
            id: uuid::Uuid::now_v7().to_string(),
            node: node.id,
            profile_type: profile_type.clone(),
            seconds,
            by: by.to_owned(),
            started: Timestamp::now(),
            cancel: captures.stop.child_token(),
            checking: AtomicBool::new(false),
            wait: Arc::default(),
            end: Mutex::default(),
        });
        captures.jobs.keep(Arc::clone(&job))?;
        let (own, running) = (Arc::clone(captures), Arc::clone(&job));
        captures.tasks.spawn(async move {
            let observed = Arc::clone(&running);
            let progress = move |progress| {
                if matches!(progress, Progress::Checking) {
                    observed.checking.store(true, Ordering::Relaxed);
                }
            };
            let watch =
                Watch { cancel: running.cancel.clone(), progress: Some(Arc::new(progress)), ..Watch::default() };
            let wait = Some(Arc::clone(&running.wait));
            let wanted =
                CaptureRequest { wait, ..CaptureRequest::manual(profile_type, Some(seconds), &running.by, watch) };
            let outcome = own.capture(&node, wanted).await;
            let end = outcome.map(|entry| entry.id).map_err(|failure| (*failure).clone());
            *running.end.lock().unwrap_or_else(PoisonError::into_inner) = Some((Timestamp::now(), end));
        });
        Some(job)
    }

    fn keep(&self, job: Arc<Job>) -> Option<()> {
        let mut jobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.iter().filter(|job| job.ended().is_none()).count() >= RUNNING_MAX {
            return None;
        }
        if jobs.len() >= KEPT {
            // The oldest that has ended; there is one, since fewer run than are kept.
            let oldest = jobs.iter().position(|job| job.ended().is_some()).unwrap_or(0);
            jobs.remove(oldest);
        }
        jobs.push_back(job);
        Some(())
    }

    /// The job of that id, if it is remembered.
    pub fn get(&self, id: &str) -> Option<Arc<Job>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().find(|job| job.id == id).cloned()
    }

    /// The newest first.
    pub fn list(&self) -> Vec<Arc<Job>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().rev().cloned().collect()
    }
}
