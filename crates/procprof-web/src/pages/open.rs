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
use procprof_core::shares::Requester;
use procprof_profile::format::{self, Limits};
use procprof_report::{Error, Options, REPORTS, Report, Sources};

use super::commands::{Command, commands};
use super::frame::Frame;
use super::list::table::names;
use super::{moment, quantity, share, size, span, type_label};
use crate::Web;
use crate::answer::Document;
use crate::api::push::{arrive, refused};
use crate::caller::{Caller, ShareRequester};
use crate::multipart::only_file;
use crate::opened::{AGE_MAX, OWN_BYTES_MAX, OWN_FILES_MAX, OpenedFile};
use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::texts::t;
use crate::viewer::{PLAIN, VIEW_STATE, ViewerConfig, joined, options_of, viewer};

/// Random bytes of a token.
const TOKEN_BYTES: usize = 16;

/// `GET /open`
pub(crate) async fn open(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    ShareRequester(requester): ShareRequester,
) -> Markup {
    let limit = web.config().profile_bytes_max;
    let formats: Vec<&str> = format::FORMATS.iter().map(|format| format.name).collect();
    let body = html! {
        main class="one" {
            h1 { (t!("Open a file")) }
            p {
                (t!(
                    "A profile of your own is shown here without being stored: {0}, plain or compressed.",
                    formats.join(", "),
                ))
            }
            form class="card drop" method="post" action="/open" enctype="multipart/form-data" data-drop {
                input type="file" name="file" required aria-label=(t!("Profile"));
                button type="submit" class="primary" { (t!("Open")) }
                p class="muted" {
                    (t!(
                        "At most {0}. It is kept in memory for {1} at most, and only you can look at it.", size(limit),
                        lasting(AGE_MAX),
                    ))
                    " "
                    (t!(
                        "At most {0} files of yours, or {1} compressed, are kept at a time; the oldest makes room.",
                        OWN_FILES_MAX, size(OWN_BYTES_MAX as u64),
                    ))
                }
            }
            (own_files(&web, &requester, &principal.name))
            (commands(&[
                Command::shell("procprof report FILE".to_owned()),
                Command::shell("procprof report -http=:0 FILE".to_owned()),
            ]))
        }
    };
    Frame { place: "/open", title: t!("Open a file").get(), node: None, live: false, status: None }.page(body)
}

/// `POST /open`: the file of the form, or a body that is the file.
pub(crate) async fn upload(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    ShareRequester(owner): ShareRequester,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Redirect> {
    let (bytes, reserved) = arrive(&web, &owner, body).await?;
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
    let file = OpenedFile { token: token.clone(), name, by: principal.name, owner, profiles, at: Instant::now() };
    if file.bytes() > OWN_BYTES_MAX {
        let why = format!(
            "the profile has {} even compressed; at most {} are kept in memory",
            size(file.bytes() as u64),
            size(OWN_BYTES_MAX as u64)
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
    web.renderer.forget_opened(&format!("{token} "));
    Redirect::to("/open")
}

/// `GET /open/{token}?event=&format=`
pub(crate) async fn opened(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(token): Path<String>,
    RawQuery(query): RawQuery,
) -> ApiResult<Response> {
    let params = Params::parse(&query.unwrap_or_default())?;
    let (file, event) = web.opened.profile(&token, &principal.name, &params)?;
    let Some(report) = params.get("format") else {
        let known: Vec<&str> = VIEW_STATE.iter().copied().chain(["event", PLAIN]).chain(options_of()).collect();
        let page = OpenedPage { file: &file, event, params: &params.only(&known)? };
        let frame = Frame { place: "/open", title: &file.name, node: None, live: false, status: None };
        return Ok(frame.page(page.body()).into_response());
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
        render(&file.profiles[event], report, &options)
    });
    let made = made.await.map_err(|error| Problem::internal(error.to_string()))?;
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

/// The files that a user has open.
fn own_files(web: &Web, owner: &Requester, by: &str) -> Markup {
    let files = web.opened.own(owner, by);
    html! {
        @if !files.is_empty() {
            h2 { (t!("Open now")) }
            div class="table" { table {
                thead {
                    tr {
                        th scope="col" { (t!("File")) }
                        th scope="col" class="number" { (t!("Size")) }
                        th scope="col" { (t!("Time left")) }
                        th scope="col" {}
                    }
                }
                tbody { @for file in &files { tr {
                    td { a href=(format!("/open/{}", file.token)) { bdi { (file.name) } } }
                    td class="number" { (size(file.bytes() as u64)) }
                    td { (lasting(file.time_left())) }
                    td {
                        form method="post" action=(format!("/open/{}/close", file.token)) {
                            button type="submit" { (t!("Close")) }
                        }
                    }
                } } }
            } }
        }
    }
}

fn lasting(time: Duration) -> String {
    // Whole seconds are read at a glance.
    span(i64::try_from(Duration::from_secs(time.as_secs()).as_nanos()).unwrap_or(i64::MAX))
}

/// The page of an opened file.
struct OpenedPage<'a> {
    file: &'a OpenedFile,
    /// The number of the profile.
    event: usize,
    params: &'a Params,
}

impl OpenedPage<'_> {
    fn body(&self) -> Markup {
        let OpenedPage { file, event, .. } = self;
        let profile = &file.profiles[*event];
        html! {
            main class="one" {
                p class="crumbs" { a href="/open" { (t!("Open a file")) } " / " bdi { (file.name) } }
                h1 { bdi { (file.name) } }
                form class="actions" method="post" action=(format!("/open/{}/close", file.token)) {
                    button type="submit" { (t!("Close")) }
                    span class="muted" { (t!("Kept for {0}", lasting(file.time_left()))) }
                }
                @if file.profiles.len() > 1 {
                    p class="filters" role="group" aria-label=(t!("Kind of event")) {
                        @for (number, other) in file.profiles.iter().enumerate() {
                            a href=(format!("/open/{}?event={number}", file.token))
                                aria-current=[(number == *event).then_some("true")]
                            {
                                (kind(other))
                            }
                        }
                    }
                }
                @if self.params.get(PLAIN).is_some() { (top(profile)) } @else { (self.graph()) }
                (facts(profile))
                p class="filters" {
                    @for report in REPORTS.iter().filter(|report| !report.takes_code()) {
                        a href=(self.address("", &[("format", report.name)])) target="_blank" title=(report.help) {
                            (report.name)
                        }
                    }
                }
            }
        }
    }

    /// An address of the profile.
    fn address(&self, below: &str, more: &[(&str, &str)]) -> String {
        let event = self.event.to_string();
        let subject: &[(&str, &str)] = if self.event == 0 { &[] } else { &[("event", &event)] };
        joined(&format!("/open/{}{below}", self.file.token), &[subject, more].concat())
    }

    fn graph(&self) -> Markup {
        let others = [&VIEW_STATE[..], &["event", PLAIN]].concat();
        let options: Vec<(&str, &str)> = self.params.except(&others).collect();
        let report = |name: &str| self.address("", &[("format", name)]);
        let data = |kind: &str| self.address(&format!("/{kind}"), &[]);
        let config = ViewerConfig::new(data, &options, |name| (name == "svg").then(|| report(name)), report);
        viewer(&config, &self.address("", &[(PLAIN, "true")]))
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
            @for total in &profile.summary.totals {
                dt { (t!("Total {0}", total.kind)) } dd { (quantity(total.value, &total.unit)) }
            }
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
                thead {
                    tr {
                        th scope="col" { (t!("Function")) }
                        th scope="col" class="number" { (t!("Self")) }
                        th scope="col" { (t!("Share")) }
                    }
                }
                tbody { @for top in &profile.summary.top { tr {
                    td { span class="names" { (names(top)) } }
                    td class="number" { (quantity(top.value, unit)) }
                    td { (share(top.value, whole)) }
                } } }
            } }
        }
    }
}
