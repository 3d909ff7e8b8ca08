//! The server over HTTP: the route table, the checks that every request passes, the JSON API and the pages.
//!
//! [`serve`] answers from the parts of `procprof-core` that [`Web`] holds. Every address is one row of a route table,
//! from which the router and the OpenAPI document ([`openapi_document`]) are made; schemas come from the types that
//! handlers take and return. Domain errors become problem documents here, and pages for browsers.
//! [`ReportServer`] serves the pages of one profile alone, for `procprof report -http`.
//!
//! Nothing here contains SQL or report logic.

mod activity;
mod answer;
mod api;
mod assets;
mod base_path;
mod blocking;
mod caller;
mod guard;
mod listen;
mod multipart;
mod node_search;
mod openapi;
mod opened;
mod pace;
mod pages;
mod params;
mod policy;
mod problem;
mod profile_document;
mod report_server;
mod route;
mod routes;
mod schema;
mod server_url;
mod starrocks;
mod subjects;
#[cfg(test)]
mod tests;
mod texts;
mod this_server_endpoints;
mod time;
mod trees;
mod upload;
mod viewer;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state, map_request};
use axum::response::{IntoResponse, Response};
use procprof_core::archiving::Archiver;
use procprof_core::audit::Audit;
use procprof_core::auth::Authenticator;
use procprof_core::captures::Captures;
use procprof_core::config::Config;
use procprof_core::file_limit::{self, http_connections};
use procprof_core::hosts::Hosts;
use procprof_core::ingest::Ingest;
use procprof_core::metrics::Metrics;
use procprof_core::nodes::Registry;
use procprof_core::render::Renderer;
use procprof_core::resymbolize::Resymbolizer;
use procprof_core::retention::Retention;
use procprof_core::servers::Servers;
use procprof_core::settings::Settings;
use procprof_core::symbols::{Intakes, SymbolStore};
use procprof_core::usage::KnownUsage;

use procprof_agent::Agent;
use procprof_store::Store;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use activity::KnownActivity;
pub use opened::OpenedFiles;
pub use report_server::{ReadSources, ReportServer, ReportServerHandle};

use guard::Gate;
use listen::Limits;
use problem::Problem;

/// Time that open requests have when the server stops.
const DRAIN: Duration = Duration::from_secs(2);

/// The parts of the server from which requests are answered.
pub struct Web {
    /// Configuration, folders and address.
    pub settings: Arc<Settings>,
    /// The nodes and how they are.
    pub registry: Arc<Registry>,
    /// The stored profiles and errors.
    pub store: Arc<Store>,
    /// Figures for Prometheus.
    pub metrics: Arc<Metrics>,
    /// The users.
    pub authenticator: Arc<Authenticator>,
    /// The log of acts and refusals.
    pub audit: Audit,
    /// Takes pushed profiles in.
    pub ingest: Arc<Ingest>,
    /// Hosts with a host agent.
    pub hosts: Arc<Hosts>,
    /// Captures on request, and the switch of those on schedule.
    pub captures: Arc<Captures>,
    /// Names what had no names when it was stored.
    pub resymbolizer: Arc<Resymbolizer>,
    /// Reports.
    pub renderer: Arc<Renderer>,
    /// The result of the last deletion.
    pub retention: Arc<Retention>,
    /// Writes the archive; `None` without one.
    pub archiver: Option<Arc<Archiver>>,
    /// The servers of the archive; `None` without one.
    pub servers: Option<Arc<Servers>>,
    /// The use of the store, as it was a moment ago.
    pub usage: KnownUsage,
    /// The profiles collected within the last day, as it was a moment ago.
    pub activity: KnownActivity,
    /// Files that users look at without storing them.
    pub opened: OpenedFiles,
    /// Uploaded symbols.
    pub symbols: Arc<SymbolStore>,
    /// Uploads under way.
    pub intakes: Intakes,
    /// Of the server itself.
    pub agent: Agent,
    /// Ends everything.
    pub stop: CancellationToken,
}

impl Web {
    /// The configuration at this moment.
    fn config(&self) -> Arc<Config> {
        self.settings.config()
    }
}

/// Serves HTTP on a listener, by TLS if there is an acceptor, until [`Web::stop`]; no connection is left when it ends.
pub async fn serve(web: Arc<Web>, listener: TcpListener, tls: Option<TlsAcceptor>) {
    let config = web.config();
    let files = file_limit::limit();
    let connections = http_connections(config.http_connections_max, files);
    if connections < config.http_connections_max {
        tracing::warn!(
            "http_connections_max = {}, but a limit of {files} open files has room for {connections} HTTP connections",
            config.http_connections_max
        );
    }
    let limits = Limits {
        connections: usize::try_from(connections).unwrap_or(usize::MAX),
        header: Duration::from_secs(config.http_header_seconds_max),
        stalled: listen::STALLED,
        drain: DRAIN,
    };
    let router = base_path::below(&config.base_path, router(&web));
    listen::serve(listener, router, tls, limits, web.stop.clone()).await;
}

/// The router for all routes of the table.
fn router(web: &Arc<Web>) -> Router {
    let mut router = Router::new();
    for route in routes::ROUTES {
        let gate = Gate { web: Arc::clone(web), access: route.access };
        router = router.route(route.path, (route.mount)().route_layer(from_fn_with_state(gate, guard::admit)));
    }
    router
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Arc::clone(web), base_path::relink))
        .layer(from_fn(answer::economical))
        .layer(map_request(bounded_address))
        .layer(from_fn_with_state(Arc::clone(web), guard::outer))
        .layer(from_fn(texts::in_language))
        .with_state(Arc::clone(web))
}

/// The OpenAPI document of this version.
pub fn openapi_document() -> serde_json::Value {
    serde_json::to_value(openapi::document(routes::ROUTES)).unwrap_or_default()
}

async fn nothing_here() -> Response {
    Problem::not_found("there is nothing here").into_response()
}

async fn wrong_method() -> Response {
    Problem::new(axum::http::StatusCode::METHOD_NOT_ALLOWED, "wrong_method", "this address takes another method")
        .into_response()
}

/// Refuses addresses beyond what any page or report needs.
async fn bounded_address(request: Request) -> Result<Request, Problem> {
    let length = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if length > 16 << 10 {
        return Err(Problem::new(
            axum::http::StatusCode::URI_TOO_LONG,
            "uri_too_long",
            "the address has more than 16 KiB",
        ));
    }
    Ok(request)
}
