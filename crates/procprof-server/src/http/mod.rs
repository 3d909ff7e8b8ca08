//! HTTP: the route table, what every request passes, the JSON API and the pages.

mod answer;
mod api;
mod assets;
mod base;
mod guard;
mod listen;
mod newcomers;
mod openapi;
mod own_endpoints;
mod pages;
mod params;
mod problem;
mod route;
mod routes;
mod starrocks;
#[cfg(test)]
mod tests;
mod viewer;

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn_with_state, map_request};
use axum::response::{IntoResponse, Response};

pub use listen::bind_error;
pub(crate) use listen::{Limits, bind, serve, tls_acceptor};
pub(crate) use problem::{Problem, chain};
pub use viewer::{ReadSources, Viewer, ViewerHandle};

use crate::app::App;
use guard::Gate;

/// The router for all routes of the table.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let mut router = Router::new();
    for route in routes::ROUTES {
        let gate = Gate { app: Arc::clone(app), access: route.access };
        router = router.route(route.path, (route.mount)().route_layer(from_fn_with_state(gate, guard::admit)));
    }
    router
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(map_request(bounded_address))
        .layer(from_fn_with_state(Arc::clone(app), guard::outer))
        .with_state(Arc::clone(app))
}

/// The OpenAPI document of this version.
pub fn openapi_document() -> serde_json::Value {
    openapi::document(routes::ROUTES)
}

async fn nothing_here() -> Response {
    Problem::not_found("there is nothing here").into_response()
}

async fn wrong_method() -> Response {
    Problem::new(axum::http::StatusCode::METHOD_NOT_ALLOWED, "wrong_method", "this address takes another method").into_response()
}

/// Refuses addresses beyond what any page or report needs.
async fn bounded_address(request: Request) -> Result<Request, Problem> {
    let length = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if length > 16 << 10 {
        return Err(Problem::new(axum::http::StatusCode::URI_TOO_LONG, "uri_too_long", "the address has more than 16 KiB"));
    }
    Ok(request)
}
