//! A web view of one profile that was read from files, for the one who reads it: every report as a page, its options as a form.
//!
//! It keeps nothing and changes nothing. It answers only requests addressed to this machine by a name that no other site can point at it.

mod draw;
mod form;
mod page;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state, map_request};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use procprof_profile::Profile;
use procprof_report::{Options, REPORTS, Report, Sources};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::answer::Document;
use super::guard::{harden, host_name, known_host};
use super::params::{Params, encode};
use super::problem::{Answer, Problem};
use super::{assets, bounded_address, listen};
use crate::error::Result;
use draw::Drawings;

/// The report that is shown first.
const FIRST: &str = "flamegraph";
/// What the accept loop may hold.
const LIMITS: listen::Limits = listen::Limits { connections: 64, header: Duration::from_secs(10), drain: Duration::from_secs(1) };

/// Reads the texts of this machine that a report shows beside the profile.
pub type ReadSources = dyn Fn(&Report, &Profile, &Options) -> procprof_report::Result<Sources> + Send + Sync;

/// A profile to look at.
pub struct Viewer {
    /// What the profile is called at the top of every page.
    pub name: String,
    /// The profile, with names where there are any.
    pub profile: Profile,
    /// Options that hold until the reader chooses others, as typed.
    pub options: Vec<(String, String)>,
    /// Reads sources and machine code.
    pub sources: Box<ReadSources>,
}

/// A viewer that runs.
pub struct ViewerHandle {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Viewer {
    /// Serves the profile at `wanted`, whose port may be 0, until the handle stops it. Whoever reaches an address that is not loopback may read.
    ///
    /// # Errors
    /// The address can't be bound; one that is taken is told together with its holder.
    pub async fn start(self, wanted: SocketAddr) -> Result<ViewerHandle> {
        let listener = listen::bind(wanted, true, "-http").await?;
        let address = listener.local_addr().map_err(|error| listen::bind_error(wanted, error, "-http"))?;
        let stop = CancellationToken::new();
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let view = Arc::new(View { viewer: self, drawings: Drawings::default(), address, machine });
        let task = tokio::spawn(listen::serve(listener, router(&view), None, LIMITS, stop.clone()));
        Ok(ViewerHandle { address, stop, task })
    }
}

impl ViewerHandle {
    /// The address that is bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops it, with a second for what is being answered.
    pub async fn stop(self) {
        self.stop.cancel();
        // A task that panicked has said so and holds nothing any more.
        let _ = self.task.await;
    }
}

/// The running viewer, as its pages see it.
struct View {
    viewer: Viewer,
    drawings: Drawings,
    address: SocketAddr,
    machine: String,
}

fn router(view: &Arc<View>) -> Router {
    Router::new()
        .route("/", get(async || Redirect::to("/ui/")))
        .route("/ui/", get(first))
        .route("/ui/{report}", get(report_page))
        .route("/view/{report}", get(report_bytes))
        .route("/assets/{file}", get(assets::serve))
        .fallback(async || Problem::not_found("there is nothing here").into_response())
        .layer(map_request(bounded_address))
        .layer(from_fn_with_state(Arc::clone(view), outer))
        .with_state(Arc::clone(view))
}

/// Refuses names that another site could have brought here; problems become pages; every answer has the safe headers.
async fn outer(State(view): State<Arc<View>>, request: Request, next: Next) -> Response {
    let name = host_name(request.headers(), request.uri()).unwrap_or_default();
    let is_page = !request.uri().path().starts_with("/view/");
    let mut response = match known_host(&name, view.address, &[], &view.machine) {
        true => next.run(request).await,
        false => Problem::forbidden(format!("host {:?} is not a name of this viewer", name.chars().take(100).collect::<String>()))
            .into_response(),
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        let page = if is_page { page::problem(&view, &problem) } else { page::plain_problem(&problem) };
        response = (response.status(), page).into_response();
    }
    harden(response.headers_mut());
    response
}

async fn first(State(view): State<Arc<View>>) -> Redirect {
    Redirect::to(&address("/ui/", FIRST, &view.viewer.options))
}

/// `GET /ui/{report}?options`
async fn report_page(State(view): State<Arc<View>>, Path(name): Path<String>, RawQuery(query): RawQuery) -> Answer<Response> {
    let (report, pairs, had_empty) = asked(&name, query)?;
    // A form sends its empty fields, too; addresses are shorter without them.
    if had_empty {
        return Ok(Redirect::to(&address("/ui/", report.name, &pairs)).into_response());
    }
    Ok(page::report(&view, report, &pairs).await.into_response())
}

/// `GET /view/{report}?options`: the report itself; with `download=1` to be saved.
async fn report_bytes(
    State(view): State<Arc<View>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Answer<Response> {
    let (report, mut pairs, _) = asked(&name, query)?;
    let is_download = pairs.iter().any(|(key, _)| key == "download");
    pairs.retain(|(key, _)| key != "download");
    let bytes = draw::report(&view, report, &pairs).await?;
    let file_name = is_download.then(|| format!("{}.{}", file_stem(&view.viewer.name), report.extension));
    Document { bytes, media_type: report.media_type, file_name, unchanging: false }.answer(&headers).await
}

/// Pairs of key and value, as in a query.
type Pairs = Vec<(String, String)>;

/// The report of that name, its options, and whether the query had empty ones.
fn asked(name: &str, query: Option<String>) -> Answer<(&'static Report, Pairs, bool)> {
    let found = REPORTS.iter().find(|report| report.name == name);
    let report = found.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no report {name:?}")))?;
    let params = Params::parse(&query.unwrap_or_default())?;
    let all: Pairs = params.except(&[]).map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let had_empty = all.iter().any(|(_, value)| value.is_empty());
    Ok((report, all.into_iter().filter(|(_, value)| !value.is_empty()).collect(), had_empty))
}

fn address(place: &str, report: &str, pairs: &[(String, String)]) -> String {
    let query: Vec<String> = pairs.iter().map(|(key, value)| format!("{}={}", encode(key), encode(value))).collect();
    if query.is_empty() { format!("{place}{report}") } else { format!("{place}{report}?{}", query.join("&")) }
}

/// The profile's name as the beginning of a file's: letters, digits, `.`, `_` and `-`.
fn file_stem(name: &str) -> String {
    let name = name.split(['/', ' ']).rfind(|part| !part.is_empty()).unwrap_or("profile");
    let name = name.trim_end_matches(".gz").trim_end_matches(".pb");
    name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).take(100).collect()
}
