//! `/api/captures`: capture now, follow, give up.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{self, Path};
use axum::http::{HeaderName, StatusCode, header};
use procprof_core::auth::Principal;
use procprof_core::captures::{Job, JobState, JobStatus};
use procprof_core::nodes::Node;
use procprof_profile::ProfileType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Web;
use crate::caller::Caller;
use crate::problem::{ApiResult, Problem};
use crate::server_url::profile_path;
use crate::time::Time;

/// What is posted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CaptureRequest")]
pub(crate) struct CaptureBody {
    /// Id or name.
    #[schemars(with = "String", length(min = 1))]
    node: NodeName,
    #[serde(rename = "type")]
    #[schemars(length(min = 1))]
    profile_type: String,
    /// As the schedule has it unless given.
    seconds: Option<u64>,
}

/// A capture that was asked for.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Capture")]
pub(crate) struct CaptureState {
    id: String,
    node: u64,
    #[serde(rename = "type")]
    profile_type: String,
    seconds: u32,
    /// Who asked for it.
    by: String,
    state: State,
    /// The share of its time that is over.
    #[schemars(range(min = 0.0, max = 1.0))]
    progress: f64,
    /// What it waits for, or why it ended without a profile.
    message: String,
    /// Why it failed, as the list of errors has it.
    code: Option<&'static str>,
    started: Time,
    ended: Option<Time>,
    /// The profile's id.
    profile: Option<String>,
    /// The path of the profile's page.
    view: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum State {
    Waiting,
    Running,
    Done,
    Failed,
    Cancelled,
}

impl From<&JobState> for State {
    fn from(state: &JobState) -> State {
        match state {
            JobState::Waiting(_) => State::Waiting,
            JobState::Running => State::Running,
            JobState::Done(_) => State::Done,
            JobState::Failed(_) => State::Failed,
            JobState::Cancelled(_) => State::Cancelled,
        }
    }
}

/// An id may be written as a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum NodeName {
    Number(u64),
    Text(String),
}

/// Accepted, where it can be followed, and how far it is.
type Accepted = (StatusCode, [(HeaderName, String); 1], Json<CaptureState>);

pub(crate) async fn start(
    extract::State(web): extract::State<Arc<Web>>,
    Caller(principal): Caller,
    body: Bytes,
) -> ApiResult<Accepted> {
    let wanted: CaptureBody =
        serde_json::from_slice(&body).map_err(|error| Problem::bad_request(format!("body: {error}")))?;
    let name = match &wanted.node {
        NodeName::Number(id) => id.to_string(),
        NodeName::Text(name) => name.clone(),
    };
    let node = web.registry.find(&name).ok_or_else(|| Problem::bad_request("no such node is registered"))?;
    let job = begin(&web, node, &wanted.profile_type, wanted.seconds, &principal)?;
    Ok(accepted(&web, &job))
}

fn accepted(web: &Web, job: &Job) -> Accepted {
    let location = format!("/api/captures/{}", job.id);
    (StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(CaptureState::new(web, job)))
}

/// Starts a capture after checking what is asked.
pub(crate) fn begin(
    web: &Arc<Web>,
    node: Arc<Node>,
    profile_type: &str,
    seconds: Option<u64>,
    principal: &Principal,
) -> ApiResult<Arc<Job>> {
    let profile_type: ProfileType = profile_type.parse()?;
    let Some(planned) = node.planned(&profile_type) else {
        let known: Vec<&str> = node.schedule.iter().map(|planned| planned.profile_type.name()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Problem::bad_request(format!(
            "{} gives no {profile_type} profiles; it gives {known}",
            node.name()
        )));
    };
    let limit = web.config().capture_seconds_max;
    let seconds = match (planned.seconds, seconds) {
        // What is taken at a moment has no length.
        (0, _) => 0,
        (default, asked) => asked.unwrap_or(default.min(limit)),
    };
    if seconds > limit || (planned.seconds > 0 && seconds == 0) {
        return Err(Problem::bad_request(format!("seconds: expected a whole number from 1 to {limit}")));
    }
    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    let what = format!("capture of {profile_type} of {} begun", node.name());
    let job = web.captures.start(node, profile_type, seconds, &principal.name);
    let job = job.ok_or_else(|| Problem::busy("too many captures are running; wait for some to end"))?;
    web.audit.act(principal, what);
    Ok(job)
}

pub(crate) async fn list(extract::State(web): extract::State<Arc<Web>>) -> Json<Vec<CaptureState>> {
    Json(web.captures.jobs.list().iter().map(|job| CaptureState::new(&web, job)).collect())
}

pub(crate) async fn one(
    extract::State(web): extract::State<Arc<Web>>,
    Path(id): Path<String>,
) -> ApiResult<Json<CaptureState>> {
    let job = find(&web, &id)?;
    Ok(Json(CaptureState::new(&web, &job)))
}

pub(crate) async fn cancel(
    extract::State(web): extract::State<Arc<Web>>,
    Path(id): Path<String>,
) -> ApiResult<Accepted> {
    let job = find(&web, &id)?;
    job.cancel();
    Ok(accepted(&web, &job))
}

/// A capture by its id.
pub(crate) fn find(web: &Web, id: &str) -> ApiResult<Arc<Job>> {
    web.captures.jobs.get(id).ok_or_else(|| Problem::not_found("no such capture; only the latest are remembered"))
}

impl CaptureState {
    fn new(web: &Web, job: &Job) -> Self {
        let JobStatus { state, progress, ended } = job.status();
        let profile = state.profile();
        Self {
            id: job.id.clone(),
            node: job.node,
            profile_type: job.profile_type.name().to_owned(),
            seconds: job.seconds,
            by: job.by.clone(),
            state: State::from(&state),
            progress,
            message: state.message().to_owned(),
            code: state.code(),
            started: job.started.into(),
            ended: ended.map(Time::from),
            profile: profile.map(|id| id.to_string()),
            view: profile.map(|id| profile_path(web, id)),
        }
    }
}
