//! `/open`: a profile of the user's own, in any known format, shown without being stored.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;
use maud::{Markup, html};
use procprof_core::auth::random_hex;
use procprof_core::ingest::{Inspected, inspect};
use procprof_core::render::budget;
use procprof_profile::format::{self, Limits};
use procprof_report::{Error, Options, REPORTS, Report, Sources};

use super::commands::{Command, commands};
use super::frame::Frame;
use super::list::table::short;
use super::{moment, quantity, share, size, span, type_label};
use crate::Web;
use crate::answer::Document;
use crate::api::push::{arrive, refused};
use crate::caller::Caller;
use crate::multipart::only_file;
use crate::opened::{AGE_MAX, BYTES_MAX, OpenedFile};
use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::texts::t;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 16;

/// `GET /open`
pub(crate) async fn open(State(web): State<Arc<Web>>) -> Markup {
    let limit = web.config().profile_bytes_max;
    let formats: Vec<&str> = format::FORMATS.iter().map(|format| format.name).collect();
    let body = html! {
        main class="one" {
            h1 { (t!("Open a file")) }
            p { (t!("A profile of your own is shown here without being stored: {0}, plain or compressed.", formats.join(", "))) }
            form class="card drop" method="post" action="/open" enctype="multipart/form-data" data-drop {
                input type="file" name="file" required aria-label=(t!("Profile"));
                button type="submit" class="primary" { (t!("Open")) }
                p class="muted" {
                    @let kept = span(i64::try_from(AGE_MAX.as_nanos()).unwrap_or(0));
                    (t!("At most {0}. It is kept in memory for {1} at most, and only you can look at it.", size(limit), kept))
                }
            }
            (commands(&[
                Command::shell("procprof report FILE".to_owned()),
                Command::shell("procprof report -http=:0 FILE".to_owned()),
            ]))
        }
    };
    Frame { place: "/open", title: t!("Open a file").get(), live: false, status: None }.page(body)
}

/// `POST /open`: the file of the form, or a body that is the file.
pub(crate) async fn upload(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Redirect> {
    let (bytes, reserved) = arrive(&web, body).await?;
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (name, bytes) = match only_file(content_type, &bytes) {
        Some(file) => file,
        None if content_type.starts_with("multipart/") => {
            return Err(Problem::bad_request("the form has no file; choose one"));
        }
        None => ("file".to_owned(), bytes),
    };
    if bytes.is_empty() {
        return Err(Problem::bad_request("the file is empty; choose another"));
    }
    let profiles = inspect(&web.ingest, bytes, reserved).await.map_err(refused)?;
    let token = random_hex(TOKEN_BYTES).map_err(Problem::internal)?;
    let file = OpenedFile::new(token.clone(), name, principal.name, profiles);
    if file.bytes() > BYTES_MAX {
        let why = format!(
            "the profile has {} even compressed; at most {} are kept in memory",
            size(file.bytes() as u64),
            size(BYTES_MAX as u64)
        );
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", why));
    }
    web.opened.keep(file);
    Ok(Redirect::to(&format!("/open/{token}")))
}

/// `POST /open/{token}/close`
pub(crate) async fn close(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(token): Path<String>,
) -> Redirect {
    web.opened.close(&token, &principal.name);
    Redirect::to("/open")
}

/// `GET /open/{token}?event=&format=`
pub(crate) async fn opened(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(token): Path<String>,
    RawQuery(query): RawQuery,
) -> ApiResult<Response> {
    let gone = || {
        Problem::new(
            StatusCode::GONE,
            "gone",
            "this file is open no longer; files are kept for an hour. Open it again.",
        )
    };
    let file = web.opened.get(&token, &principal.name).ok_or_else(gone)?;
    let params = Params::parse(&query.unwrap_or_default())?;
    let last = file.profiles.len().saturating_sub(1) as u64;
    let event = usize::try_from(params.number("event", 0, last)?.unwrap_or(0)).unwrap_or(0);
    let Some(report) = params.get("format") else {
        let profile = file.profiles.get(event).ok_or_else(gone)?;
        return Ok(Frame { place: "/open", title: &file.name, live: false, status: None }
            .page(body(&file, event, profile))
            .into_response());
    };
    let report = Report::named(report).map_err(|error| Problem::bad_request(error.to_string()))?;
    let options =
        Options::parse(params.except(&["event", "format"])).map_err(|error| Problem::bad_request(error.to_string()))?;
    let slot = web.opened.render_slot().await?;
    let config = web.config();
    let end = Instant::now() + Duration::from_secs(config.render_seconds_max);
    let stop = web.stop.clone();
    let options =
        Options { budget: budget(&config).until(move || stop.is_cancelled() || Instant::now() >= end), ..options };
    let made = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        file.profiles.get(event).map(|profile| render(profile, report, &options))
    });
    let made = made.await.map_err(|error| Problem::internal(error.to_string()))?.ok_or_else(gone)?;
    let bytes = made.map_err(|error| match error {
        Error::Stopped => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "render_stopped",
            "the report takes too long; choose fewer functions",
        ),
        error @ (Error::OutputLimit { .. } | Error::MemoryLimit { .. }) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "report_too_large", error.to_string())
        }
        error => Problem::bad_request(error.to_string()),
    })?;
    Document { bytes: Bytes::from(bytes), media_type: report.media_type, file_name: None, unchanging: false }.answer()
}

fn render(profile: &Inspected, report: &'static Report, options: &Options) -> procprof_report::Result<Vec<u8>> {
    let profile = format::decode(&profile.encoded, &Limits::default())?.profile;
    let mut made = Vec::new();
    report.write(Cow::Owned(profile), options, &Sources::default(), &mut made)?;
    Ok(made)
}

fn body(file: &OpenedFile, event: usize, profile: &Inspected) -> Markup {
    let href = format!("/open/{}?event={event}", file.token);
    html! {
        main class="one" {
            p class="crumbs" { a href="/open" { (t!("Open a file")) } " / " bdi { (file.name) } }
            h1 { bdi { (file.name) } }
            form class="actions" method="post" action=(format!("/open/{}/close", file.token)) { button type="submit" { (t!("Close")) } }
            @if file.profiles.len() > 1 {
                p class="filters" role="group" aria-label=(t!("Kind of event")) {
                    @for (number, other) in file.profiles.iter().enumerate() {
                        a href=(format!("/open/{}?event={number}", file.token)) aria-current=[(number == event).then_some("true")] { (kind(other)) }
                    }
                }
            }
            (facts(profile))
            p class="filters" {
                @for report in REPORTS.iter().filter(|report| !report.takes_code()) {
                    a href=(format!("{href}&format={}", report.name)) target="_blank" title=(report.help) { (report.name) }
                }
            }
            iframe class="graph" src=(format!("{href}&format=html")) title="Flame graph" sandbox="allow-scripts" {}
            (top(profile))
        }
    }
}

fn kind(profile: &Inspected) -> String {
    profile.meta.profile_type.as_ref().map_or_else(|| t!("Profile").to_string(), |kind| type_label(kind).to_owned())
}

fn facts(profile: &Inspected) -> Markup {
    html! {
        dl class="facts" {
            dt { (t!("Type")) } dd { (kind(profile)) }
            dt { (t!("Start")) } dd { (moment(profile.start.0)) }
            @if profile.duration.0 > 0 { dt { (t!("Duration")) } dd { (quantity(profile.duration.0, "nanoseconds")) } }
            @for total in &profile.summary.totals { dt { (t!("Total {0}", total.kind)) } dd { (quantity(total.value, &total.unit)) } }
        }
    }
}

/// The functions with the largest self values: all of the file without a script.
fn top(profile: &Inspected) -> Markup {
    let total = profile.summary.shown(&profile.meta);
    let (whole, unit) = total.map_or((0, ""), |total| (total.value, total.unit.as_str()));
    html! {
        @if !profile.summary.top.is_empty() {
            h2 { (t!("Largest self values")) }
            div class="table" { table {
                thead { tr { th scope="col" { (t!("Function")) } th scope="col" class="number" { (t!("Self")) } th scope="col" { (t!("Share")) } } }
                tbody { @for top in &profile.summary.top { tr {
                    td { code title=(top.name) { bdi { (short(&top.name)) } } }
                    td class="number" { (quantity(top.value, unit)) }
                    td { (share(top.value, whole)) }
                } } }
            } }
        }
    }
}
