//! The forms of operators: collect now, pause, resume, pin, delete; and the captures that are under way.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Redirect;
use maud::{Markup, html};
use procprof_core::auth::Principal;
use procprof_core::captures::{Job, JobState};
use procprof_core::nodes::Node;
use procprof_profile::ProfileType;
use procprof_store::Entry;

use super::{clock, type_label};
use crate::Web;
use crate::api::{
    self,
    profiles::{Change, change},
};
use crate::caller::Caller;
use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::subjects::find;
use crate::texts::t;

/// Ended captures shown.
const ENDED: usize = 3;
/// The same on the page of all nodes.
const ENDED_OF_ALL: usize = 12;
/// How long they are, in seconds.
const ENDED_SHOWN: f64 = 120.0;

/// `POST /proc_profile/collect`
pub(crate) async fn collect(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    body: Bytes,
) -> ApiResult<Redirect> {
    let params = form(&body, &["node", "type", "seconds", "back"])?;
    let node = params.node(&web)?;
    let seconds = params.number("seconds", 1, web.config().capture_seconds_max)?;
    let id = node.id;
    api::captures::begin(&web, node, params.need("type")?, seconds, &principal)?;
    Ok(back(&params, &format!("/proc_profile?node={id}")))
}

/// `POST /proc_profile/pause`
pub(crate) async fn pause(State(web): State<Arc<Web>>, Caller(principal): Caller, body: Bytes) -> ApiResult<Redirect> {
    let params = form(&body, &["node", "paused", "back"])?;
    let node = params.node(&web)?;
    let paused = yes_or_no(&params, "paused")?;
    drop(api::state::set(&web, paused, &principal).await?);
    Ok(back(&params, &format!("/proc_profile?node={}", node.id)))
}

/// `POST /p/{id}/pin`
pub(crate) async fn pin(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    body: Bytes,
) -> ApiResult<Redirect> {
    let params = form(&body, &["pinned", "back"])?;
    let pinned = yes_or_no(&params, "pinned")?;
    let id = find(&web, &id).await?.id;
    change(&web, &principal, id, if pinned { Change::Pin } else { Change::Unpin }).await?;
    Ok(back(&params, &format!("/p/{id}")))
}

/// `POST /p/{id}/delete`
pub(crate) async fn delete(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    body: Bytes,
) -> ApiResult<Redirect> {
    let params = form(&body, &["back"])?;
    let entry = find(&web, &id).await?;
    change(&web, &principal, entry.id, Change::Delete).await?;
    Ok(back(&params, &format!("/proc_profile?node={}", entry.node)))
}

/// `POST /captures/{id}/cancel`
pub(crate) async fn cancel(State(web): State<Arc<Web>>, Path(id): Path<String>, body: Bytes) -> ApiResult<Redirect> {
    let params = form(&body, &["back"])?;
    api::captures::find(&web, &id)?.cancel();
    Ok(back(&params, "/"))
}

/// To the page that a form was on, which it names in `back`; only to pages of ours.
pub(super) fn back(params: &Params, otherwise: &str) -> Redirect {
    Redirect::to(params.own_place("back").unwrap_or(otherwise))
}

pub(super) fn yes_or_no(params: &Params, name: &str) -> ApiResult<bool> {
    match params.need(name)? {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(Problem::bad_request(format!("{name}: expected yes or no"))),
    }
}

pub(super) fn form(body: &Bytes, known: &[&str]) -> ApiResult<Params> {
    let text = std::str::from_utf8(body).map_err(|_| Problem::bad_request("the form is not UTF-8"))?;
    Params::parse(text)?.only(known)
}

/// The form that starts a capture; its page comes again.
pub(super) fn collect_form(web: &Web, node: &Node, back: &str) -> Markup {
    let limit = web.config().capture_seconds_max;
    let health = web.registry.health(node.id);
    html! {
        details class="popover capture" {
            summary class="primary" { (t!("Capture now")) }
            form class="collect" method="post" action="/proc_profile/collect" {
                input type="hidden" name="node" value=(node.id);
                input type="hidden" name="back" value=(back);
                label { (t!("Type"))
                    select name="type" {
                        @for planned in node.offered(&health) {
                            option value=(planned.profile_type.name()) { (type_label(&planned.profile_type)) }
                        }
                    }
                }
                label {
                    (t!("Seconds"))
                    input type="number" name="seconds" value="10" min="1" max=(limit) inputmode="numeric";
                }
                button type="submit" class="primary" { (t!("Capture")) }
                p class="muted" {
                    (t!("What is a snapshot, such as the heap, has no length."))
                    " "
                    a href="/" { (t!("Several nodes at once")) }
                }
            }
        }
    }
}

/// The button that pauses or resumes the schedule of all nodes, and leads back to a page.
fn pause_form(paused: bool, back: &str) -> Markup {
    let (value, label, title) = match paused {
        true => ("no", t!("Resume schedule"), t!("Let scheduled captures of all nodes go on")),
        false => ("yes", t!("Pause schedule"), t!("Stop scheduled captures of all nodes within a second")),
    };
    html! {
        form method="post" action="/proc_profile/pause" {
            input type="hidden" name="back" value=(back);
            button type="submit" name="paused" value=(value) title=(title) { (label) " " small { (t!("(all nodes)")) } }
        }
    }
}

/// The mark of pages while the schedule is paused; it leads to the switch.
pub(super) fn paused_chip() -> Markup {
    html! { a class="chip warn" href="/settings#schedule" { (t!("Schedule paused")) } }
}

/// The switch of the schedule among the settings.
pub(super) fn schedule_card(paused: bool) -> Markup {
    html! {
        section class="card" id="schedule" {
            h2 { (t!("Schedule")) }
            p {
                @if paused { (t!("Scheduled captures of all nodes are paused.")) }
                @else { (t!("Nodes are captured on schedule.")) }
            }
            (pause_form(paused, "/settings"))
        }
    }
}

/// Everything that can be done with a node, behind one button with a label; it leads back to a page.
pub(super) fn node_menu(web: &Web, principal: &Principal, node: &Node, label: &str, back: &str) -> Markup {
    let id = node.id;
    let has_heap = node.planned(&ProfileType::Heap).is_some();
    html! {
        details class="menu" {
            summary aria-label=(label) { "⋮" }
            ul {
                li { a href=(format!("/merge?node={id}")) { (t!("Merge and compare")) } }
                li { a href=(format!("/search?node={id}")) { (t!("Search its functions")) } }
                @if has_heap { li { a href=(format!("/heap?node={id}")) { (t!("Heap")) } } }
                li { a href=(format!("/proc_profile/errors?node={id}")) { (t!("All errors")) } }
                @if principal.operates() { li { (pause_form(web.captures.is_paused(), back)) } }
            }
        }
    }
}

/// Pin or unpin a profile, and delete it; the confirmation works without a script.
pub(super) fn profile_forms(entry: &Entry) -> Markup {
    let (value, label) = if entry.pinned { ("no", t!("Unpin")) } else { ("yes", t!("Pin")) };
    html! {
        div class="actions" {
            form method="post" action=(format!("/p/{}/pin", entry.id)) {
                button type="submit" name="pinned" value=(value) title=(t!("Pinned profiles are kept from retention")) {
                    (label)
                }
            }
            @if entry.pinned { span class="muted" { (t!("Unpin it to delete it.")) } }
            @else {
                details class="confirm" {
                    summary { (t!("Delete…")) }
                    form method="post" action=(format!("/p/{}/delete", entry.id)) {
                        p { (t!("The profile is gone for ever.")) }
                        button type="submit" class="danger" { (t!("Delete this profile")) }
                    }
                }
            }
        }
    }
}

/// Captures on request that are under way or ended just now: of a node, or of all.
pub(super) fn running(web: &Web, principal: &Principal, node: Option<&Node>, back: &str) -> Markup {
    let now = jiff::Timestamp::now();
    let recent = |ended: Option<jiff::Timestamp>| {
        ended.is_none_or(|ended| now.duration_since(ended).as_secs_f64() < ENDED_SHOWN)
    };
    let is_shown = |job: &Arc<Job>| node.is_none_or(|node| job.node == node.id) && recent(job.ended());
    let jobs: Vec<Arc<Job>> = web.captures.jobs.list().into_iter().filter(is_shown).collect();
    let (ended, open): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.ended().is_some());
    let ended_shown = if node.is_some() { ENDED } else { ENDED_OF_ALL };
    html! {
        @if !open.is_empty() || !ended.is_empty() {
            section class="card jobs" {
                h2 { (t!("Captures on request")) }
                @for job in open.iter().chain(ended.iter().take(ended_shown)) {
                    div class="job" {
                        p {
                            @if node.is_none() {
                                strong { (web.registry.by_id(job.node).map(|node| node.label()).unwrap_or_default()) }
                                " "
                            }
                            strong { (type_label(&job.profile_type)) }
                            " "
                            span class="muted" {
                                @if job.seconds > 0 { (job.seconds) " s, " }
                                (t!("by {0}", job.by)) ", " (clock(job.started))
                            }
                        }
                        (progress(job, principal, back))
                    }
                }
            }
        }
    }
}

fn progress(job: &Job, principal: &Principal, back: &str) -> Markup {
    let cancel = html! {
        @if principal.operates() {
            form method="post" action=(format!("/captures/{}/cancel", job.id)) {
                input type="hidden" name="back" value=(back);
                button type="submit" { (t!("Cancel")) }
            }
        }
    };
    match job.state() {
        JobState::Waiting(why) => html! { p class="muted" { (why) } (cancel) },
        JobState::Running => {
            let percent = job.progress() * 100.0;
            html! {
                progress max="100" value=(format!("{percent:.0}")) aria-label=(t!("Progress")) {
                    (format!("{percent:.0} %"))
                }
                (cancel)
            }
        }
        JobState::Done(id) => html! { p { a class="view" href=(format!("/p/{id}")) { (t!("View the profile")) } } },
        JobState::Failed(failure) => html! { p class="bad" { (failure.reason) } },
        JobState::Cancelled(why) => html! { p class="muted" { (t!("Cancelled: {0}", why)) } },
    }
}
