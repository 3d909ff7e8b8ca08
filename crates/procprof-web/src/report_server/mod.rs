//! The server of `report -http`: every report of one profile as a page, its options as a form.
//!
//! It stores nothing and changes nothing. It answers only requests with a host name of this machine that no other site
//! can resolve to it, at paths that begin with a token: other users of this machine cannot read the profile.

mod data;
mod draw;
mod form;
mod page;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn, from_fn_with_state, map_request};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use procprof_core::auth::random_hex;
use procprof_core::{Error, Result, listening};
use procprof_profile::Profile;
use procprof_report::{Options, REPORTS, Report, Sources};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::answer::{Document, economical};
use super::guard::{host_name, known_host};
use super::params::{Params, encode};
use super::policy::harden;
use super::problem::{ApiResult, Problem};
use super::viewer::{VIEW_STATE, options_of};
use super::{assets, bounded_address, listen};
use data::Trees;
use draw::Drawings;

/// Where pages are, and reports by themselves, seen from either.
const PAGES: &str = "../ui/";
const REPORTED: &str = "../view/";
/// Random bytes of the token.
const TOKEN_BYTES: usize = 16;
/// The report that is a page of its own: the flame graph viewer.
const FLAME: &str = "flamegraph";
/// What the accept loop may hold.
const LIMITS: listen::Limits = listen::Limits {
    connections: 64,
    header: Duration::from_secs(10),
    stalled: listen::STALLED,
    drain: Duration::from_secs(1),
};

/// Reads the texts of this machine that a report shows beside the profile.
pub type ReadSources = dyn Fn(&Report, &Profile, &Options) -> procprof_report::Result<Sources> + Send + Sync;

/// A profile to be served.
pub struct ReportServer {
    /// The name of the profile at the top of every page.
    pub name: String,
    /// The profile, with names where there are any; where it is compared, the difference, which reports are made of.
    pub profile: Profile,
    /// The profile and the one that it is compared with, which the flame graph shows side by side.
    pub compared: Option<(Profile, Profile)>,
    /// Options that hold until the reader chooses others, as typed.
    pub options: Vec<(String, String)>,
    /// Reads sources and machine code.
    pub sources: Box<ReadSources>,
}

/// A running server.
pub struct ReportServerHandle {
    address: SocketAddr,
    path: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl ReportServer {
    /// Serves the profile at `wanted`, whose port may be 0, until the handle stops it, to those who know
    /// [`ReportServerHandle::path`].
    ///
    /// # Errors
    /// The address can't be bound; if it is taken, the error names the process that holds it.
    pub async fn start(self, wanted: SocketAddr) -> Result<ReportServerHandle> {
        let listener = listening::bind(wanted, true, "-http").await?;
        let address = listener.local_addr().map_err(|error| listening::bind_error(wanted, error, "-http"))?;
        let stop = CancellationToken::new();
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let token = random_hex(TOKEN_BYTES).map_err(|why| Error::Setup { what: "token", why })?;
        let base = format!("/{token}");
        let view = Arc::new(View {
            viewer: self,
            drawings: Drawings::default(),
            trees: Trees::default(),
            address,
            machine,
            base: base.clone(),
        });
        let task = tokio::spawn(listen::serve(listener, router(&view), None, LIMITS, stop.clone()));
        Ok(ReportServerHandle { address, path: base, stop, task })
    }
}

impl ReportServerHandle {
    /// The address that is bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The path that all its addresses begin with: `/` and a random token.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Stops it; requests under way have a second.
    pub async fn stop(self) {
        self.stop.cancel();
        // A task that panicked has logged it and holds nothing any more.
        let _ = self.task.await;
    }
}

/// The running viewer, as its pages see it.
struct View {
    viewer: ReportServer,
    drawings: Drawings,
    trees: Trees,
    address: SocketAddr,
    machine: String,
    /// What all paths but those of the assets begin with.
    base: String,
}

fn router(view: &Arc<View>) -> Router {
    let base = &view.base;
    Router::new()
        .route(base, get(first))
        .route(&format!("{base}/"), get(first))
        .route(&format!("{base}/ui/"), get(flame_page))
        .route(&format!("{base}/ui/{{report}}"), get(report_page))
        .route(&format!("{base}/view/{{report}}"), get(report_bytes))
        .route(&format!("{base}/data/{{kind}}"), get(data::data))
        .route("/assets/{file}", get(assets::serve))
        .route("/favicon.ico", get(assets::serve_icon))
        .fallback(nothing_here)
        .layer(from_fn(economical))
        .layer(map_request(bounded_address))
        .layer(from_fn_with_state(Arc::clone(view), outer))
        .with_state(Arc::clone(view))
}

async fn nothing_here(State(view): State<Arc<View>>, request: Request) -> Problem {
    match request.uri().path().starts_with(&view.base) {
        true => Problem::not_found("there is nothing here"),
        false => {
            Problem::forbidden("open the whole address that procprof printed: without its token, nothing is shown")
        }
    }
}

/// Refuses names that another site could have brought here; problems become pages; every answer has the safe headers.
async fn outer(State(view): State<Arc<View>>, request: Request, next: Next) -> Response {
    let name = host_name(request.headers(), request.uri()).unwrap_or_default();
    let is_page = !request.uri().path().contains("/view/");
    let is_data = request.uri().path().contains("/data/");
    let mut response = match known_host(&name, view.address, &[], &view.machine) {
        true => next.run(request).await,
        false => Problem::forbidden(format!(
            "host {:?} is not a name of this viewer",
            name.chars().take(100).collect::<String>()
        ))
        .into_response(),
    };
    if let Some(problem) = response.extensions_mut().remove::<Problem>().filter(|_| !is_data) {
        let page = if is_page { page::problem(&view, &problem) } else { page::plain_problem(&problem) };
        response = (response.status(), page).into_response();
    }
    harden(response.headers_mut());
    response
}

async fn first(State(view): State<Arc<View>>) -> Redirect {
    Redirect::to(&address(&format!("{}/ui/", view.base), "", &view.viewer.options))
}

/// `GET /ui/?state&options`: the flame graph viewer.
async fn flame_page(State(view): State<Arc<View>>, RawQuery(query): RawQuery) -> ApiResult<Response> {
    let params = Params::parse(&query.unwrap_or_default())?;
    let known: Vec<&str> = VIEW_STATE.iter().copied().chain(options_of()).collect();
    let params = params.only(&known)?;
    let options = params.except(&VIEW_STATE).map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    Ok(page::flame(&view, &options).await.into_response())
}

/// `GET /ui/{report}?options`
async fn report_page(
    State(view): State<Arc<View>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> ApiResult<Response> {
    let (report, pairs, had_empty) = asked(&name, query)?;
    if report.name == FLAME {
        return Ok(Redirect::to(&address(&format!("{}/ui/", view.base), "", &pairs)).into_response());
    }
    // A form sends its empty fields, too; addresses are shorter without them.
    if had_empty {
        return Ok(Redirect::to(&address(PAGES, report.name, &pairs)).into_response());
    }
    Ok(page::report(&view, report, &pairs).await.into_response())
}

/// `GET /view/{report}?options`: the report itself; with `download=1` to be saved.
async fn report_bytes(
    State(view): State<Arc<View>>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
) -> ApiResult<Response> {
    let (report, mut pairs, _) = asked(&name, query)?;
    let is_download = pairs.iter().any(|(key, _)| key == "download");
    pairs.retain(|(key, _)| key != "download");
    let bytes = draw::report(&view, report, &pairs).await?;
    let file_name = is_download.then(|| format!("{}.{}", file_stem(&view.viewer.name), report.extension));
    Document { bytes, media_type: report.media_type, file_name, unchanging: false }.answer()
}

/// Pairs of key and value, as in a query.
type Pairs = Vec<(String, String)>;

/// The report of that name, its options, and whether the query had empty ones.
fn asked(name: &str, query: Option<String>) -> ApiResult<(&'static Report, Pairs, bool)> {
    let found = REPORTS.iter().find(|report| report.name == name);
    let report = found
        .ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no report {name:?}")))?;
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
