//! `/api/captures`: capture now, follow, give up.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use procprof_profile::ProfileType;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::auth::Principal;
use crate::captures::{Job, JobState, Jobs};
use crate::http::problem::{Answer, Problem};
use crate::nodes::Node;

/// What is posted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    node: NodeName,
    #[serde(rename = "type")]
    profile_type: String,
    seconds: Option<u64>,
}

/// An id may be written as a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum NodeName {
    Number(u64),
    Text(String),
}

pub(in crate::http) async fn start(State(app): State<Arc<App>>, principal: Principal, body: Bytes) -> Answer<(StatusCode, Json<Value>)> {
    let wanted: Wanted = serde_json::from_slice(&body).map_err(|error| Problem::bad_request(format!("body: {error}")))?;
    let name = match &wanted.node {
        NodeName::Number(id) => id.to_string(),
        NodeName::Text(name) => name.clone(),
    };
    let node = app.registry.find(&name).ok_or_else(|| Problem::bad_request("no such node is registered"))?;
    let job = begin(&app, node, &wanted.profile_type, wanted.seconds, &principal)?;
    Ok((StatusCode::ACCEPTED, Json(object(&job))))
}

/// Starts a capture after checking what is asked.
pub(in crate::http) fn begin(
    app: &Arc<App>,
    node: Arc<Node>,
    profile_type: &str,
    seconds: Option<u64>,
    principal: &Principal,
) -> Answer<Arc<Job>> {
    let profile_type: ProfileType = profile_type.parse()?;
    let Some(planned) = node.planned(&profile_type) else {
        let known: Vec<&str> = node.schedule.iter().map(|planned| planned.profile_type.name()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Problem::bad_request(format!("{} gives no {profile_type} profiles; it gives {known}", node.name())));
    };
    let limit = app.config().capture_seconds_max;
    let seconds = match (planned.seconds, seconds) {
        // What is taken at a moment has no length.
        (0, _) => 0,
        (default, asked) => asked.unwrap_or(default.min(limit)),
    };
    if seconds > limit || (planned.seconds > 0 && seconds == 0) {
        return Err(Problem::bad_request(format!("seconds: expected a whole number from 1 to {limit}")));
    }
    let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
    let job = Jobs::start(app, node, profile_type, seconds, &principal.name);
    job.ok_or_else(|| Problem::busy("too many captures are running; wait for some to end"))
}

pub(in crate::http) async fn list(State(app): State<Arc<App>>) -> Json<Vec<Value>> {
    Json(app.jobs.list().iter().map(|job| object(job)).collect())
}

pub(in crate::http) async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer<Json<Value>> {
    let job = find(&app, &id)?;
    Ok(Json(object(&job)))
}

pub(in crate::http) async fn cancel(State(app): State<Arc<App>>, Path(id): Path<String>) -> Answer<(StatusCode, Json<Value>)> {
    let job = find(&app, &id)?;
    job.cancel();
    Ok((StatusCode::ACCEPTED, Json(object(&job))))
}

fn find(app: &App, id: &str) -> Answer<Arc<Job>> {
    app.jobs.get(id).ok_or_else(|| Problem::not_found("no such capture; only the latest are remembered"))
}

fn object(job: &Job) -> Value {
    let (state, message, profile, code) = match job.state() {
        JobState::Waiting(why) => ("waiting", why, None, None),
        JobState::Running => ("running", String::new(), None, None),
        JobState::Done(id) => ("done", String::new(), Some(id), None),
        JobState::Failed(failure) => ("failed", failure.reason, None, Some(failure.code)),
        JobState::Cancelled(why) => ("cancelled", why, None, None),
    };
    json!({
        "id": job.id,
        "node": job.node,
        "type": job.profile_type.name(),
        "seconds": job.seconds,
        "by": job.by,
        "state": state,
        "progress": job.progress(),
        "message": message,
        "code": code,
        "started": format!("{:.3}", job.started),
        "ended": job.ended().map(|time| format!("{time:.3}")),
        "profile": profile.map(|id| id.to_string()),
        "view": profile.map(|id| format!("/p/{id}")),
    })
}
