//! The forms of operators: collect now, pause, resume, pin, delete; and the captures that are under way.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Redirect;
use maud::{Markup, html};
use procprof_store::Entry;

use super::clock;
use crate::app::App;
use crate::auth::Principal;
use crate::captures::JobState;
use crate::http::api::{self, profiles::find};
use crate::http::params::Params;
use crate::http::problem::{Answer, Problem};
use crate::http::starrocks::{node as node_of, on_store};
use crate::nodes::Node;

/// Ended captures shown.
const ENDED: usize = 3;
/// How long they are, in seconds.
const ENDED_SHOWN: f64 = 120.0;

/// `POST /proc_profile/collect`
pub(in crate::http) async fn collect(State(app): State<Arc<App>>, principal: Principal, body: Bytes) -> Answer<Redirect> {
    let params = form(&body, &["node", "type", "seconds"])?;
    let node = node_of(&app, &params)?;
    let seconds = params.number("seconds", 1, app.config().capture_seconds_max)?;
    let id = node.id;
    api::captures::begin(&app, node, params.need("type")?, seconds, &principal)?;
    Ok(Redirect::to(&format!("/proc_profile?node={id}")))
}

/// `POST /proc_profile/pause`
pub(in crate::http) async fn pause(State(app): State<Arc<App>>, principal: Principal, body: Bytes) -> Answer<Redirect> {
    let params = form(&body, &["node", "paused"])?;
    let node = node_of(&app, &params)?;
    let paused = yes_or_no(&params, "paused")?;
    drop(api::state::set(&app, paused, &principal).await?);
    Ok(Redirect::to(&format!("/proc_profile?node={}", node.id)))
}

/// `POST /p/{id}/pin`
pub(in crate::http) async fn pin(State(app): State<Arc<App>>, Path(id): Path<String>, body: Bytes) -> Answer<Redirect> {
    let pinned = yes_or_no(&form(&body, &["pinned"])?, "pinned")?;
    let id = find(&app, &id).await?.id;
    let store = Arc::clone(&app.store);
    on_store(move || if pinned { store.pin(id) } else { store.unpin(id) }).await?;
    Ok(Redirect::to(&format!("/p/{id}")))
}

/// `POST /p/{id}/delete`
pub(in crate::http) async fn delete(State(app): State<Arc<App>>, Path(id): Path<String>, body: Bytes) -> Answer<Redirect> {
    form(&body, &[])?;
    let entry = find(&app, &id).await?;
    let store = Arc::clone(&app.store);
    on_store(move || store.delete(entry.id)).await?;
    Ok(Redirect::to(&format!("/proc_profile?node={}", entry.node)))
}

fn yes_or_no(params: &Params, name: &str) -> Answer<bool> {
    match params.need(name)? {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(Problem::bad_request(format!("{name}: expected yes or no"))),
    }
}

pub(super) fn form(body: &Bytes, known: &[&str]) -> Answer<Params> {
    let text = std::str::from_utf8(body).map_err(|_| Problem::bad_request("the form is not UTF-8"))?;
    Params::parse(text)?.only(known)
}

/// The form that starts a capture.
pub(super) fn collect_form(app: &App, node: &Node) -> Markup {
    let limit = app.config().capture_seconds_max;
    let health = app.registry.health(node.id);
    html! {
        form class="card collect" method="post" action="/proc_profile/collect" {
            h2 { "Collect now" }
            input type="hidden" name="node" value=(node.id);
            label { "Type"
                select name="type" {
                    @for planned in node.offered(&health) { option value=(planned.profile_type.name()) { (planned.profile_type.label()) } }
                }
            }
            label { "Seconds" input type="number" name="seconds" value="10" min="1" max=(limit) inputmode="numeric"; }
            button type="submit" class="primary" { "Collect" }
        }
    }
}

/// The button that pauses or resumes the schedule of all nodes.
pub(super) fn pause_form(node: &Node, paused: bool) -> Markup {
    let (value, label, title) = match paused {
        true => ("no", "Resume schedule", "Let scheduled captures of all nodes go on"),
        false => ("yes", "Pause schedule", "Stop scheduled captures of all nodes within a second"),
    };
    html! {
        form method="post" action="/proc_profile/pause" {
            input type="hidden" name="node" value=(node.id);
            button type="submit" name="paused" value=(value) title=(title) { (label) }
        }
    }
}

/// Pin or unpin a profile, and delete it; asking again works without a script.
pub(super) fn profile_forms(entry: &Entry) -> Markup {
    let (value, label) = if entry.pinned { ("no", "Unpin") } else { ("yes", "Pin") };
    html! {
        div class="actions" {
            form method="post" action=(format!("/p/{}/pin", entry.id)) {
                button type="submit" name="pinned" value=(value) title="Pinned profiles are kept from retention" { (label) }
            }
            @if entry.pinned { span class="muted" { "Unpin it to delete it." } }
            @else {
                details class="confirm" {
                    summary { "Delete…" }
                    form method="post" action=(format!("/p/{}/delete", entry.id)) {
                        p { "The profile is gone for ever." }
                        button type="submit" class="danger" { "Delete this profile" }
                    }
                }
            }
        }
    }
}

/// Captures of a node that are under way or ended just now.
pub(super) fn running(app: &App, node: &Node) -> Markup {
    let now = jiff::Timestamp::now();
    let recent = |ended: Option<jiff::Timestamp>| ended.is_none_or(|ended| now.duration_since(ended).as_secs_f64() < ENDED_SHOWN);
    let jobs: Vec<_> = app.jobs.list().into_iter().filter(|job| job.node == node.id && recent(job.ended())).collect();
    let (ended, open): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.ended().is_some());
    html! {
        @if !open.is_empty() || !ended.is_empty() {
            section class="card jobs" {
                h2 { "Captures" }
                @for job in open.iter().chain(ended.iter().take(ENDED)) {
                    div class="job" {
                        p { strong { (job.profile_type.label()) } " " span class="muted" {
                            @if job.seconds > 0 { (job.seconds) " s " } "by " (job.by) ", " (clock(job.started)) } }
                        @match job.state() {
                            JobState::Waiting(why) => p class="muted" { (why) },
                            JobState::Running => progress max="1" value=(format!("{:.2}", job.progress())) {},
                            JobState::Done(id) => p { a href=(format!("/p/{id}")) { "Done: view" } },
                            JobState::Failed(failure) => p class="bad" { (failure.reason) },
                            JobState::Cancelled(why) => p class="muted" { (why) },
                        }
                    }
                }
            }
        }
    }
}
