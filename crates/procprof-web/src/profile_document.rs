//! A stored profile as a response: rendered in a format, or the file itself.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use procprof_core::chain;
use procprof_core::render::{Subject, is_final};
use procprof_core::shares::Requester;
use procprof_core::symbols::WantedSymbols;
use procprof_report::Report;
use procprof_store::{Entry, Format};

use super::answer::Document;
use super::blocking::on_store;
use super::problem::{ApiResult, Problem};
use super::subjects::covered;
use crate::Web;

/// A profile in a format: the flame graph by default; a page made elsewhere as it is.
pub(super) async fn render(
    web: &Arc<Web>,
    subject: &Subject,
    format: Option<&str>,
    pairs: &[(&str, &str)],
    requester: &Requester,
) -> ApiResult<Response> {
    let report = format.unwrap_or("flamegraph");
    if let Some(entry) = subject.plain() {
        match entry.format {
            Format::Flame | Format::HtmlArchive => return foreign(web, entry).await,
            Format::Recording => return download(web, entry).await,
            _ if report == "pprof" => return download(web, entry).await,
            _ => {}
        }
    }
    let report = Report::named(report).map_err(|error| Problem::bad_request(error.to_string()))?;
    let bytes = web.renderer.render(subject, report, pairs, requester).await?;
    let document =
        Document { bytes, media_type: report.media_type, file_name: None, unchanging: is_final(subject, report) };
    Ok(covered(document.answer()?, subject))
}

/// The stored file itself.
pub(super) async fn download(web: &Arc<Web>, entry: &Entry) -> ApiResult<Response> {
    let (renderer, stored) = (Arc::clone(&web.renderer), entry.clone());
    let document = Document {
        bytes: on_store(move || renderer.stored_file(&stored)).await?,
        media_type: "application/octet-stream",
        file_name: Some(entry.file_name.clone()),
        unchanging: WantedSymbols::from_facts(&entry.meta).is_empty(),
    };
    document.answer()
}

/// A page made elsewhere; what it holds decides what it is, not its name.
async fn foreign(web: &Arc<Web>, entry: &Entry) -> ApiResult<Response> {
    let (store, id) = (Arc::clone(&web.store), entry.id);
    let page = tokio::task::spawn_blocking(move || store.open_page(id))
        .await
        .map_err(|error| Problem::internal(error.to_string()))?;
    let page = page.map_err(|error| match &error {
        procprof_store::Error::Malformed { .. } => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "malformed",
            format!("{}: {}", entry.file_name, chain(&error)),
        ),
        _ => Problem::from(error),
    })?;
    let media_type = if is_svg(&page) { "image/svg+xml" } else { "text/html; charset=utf-8" };
    Document { bytes: page.into(), media_type, file_name: None, unchanging: true }.answer()
}

/// Whether a page begins as an SVG picture does, behind declarations and comments.
fn is_svg(page: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&page[..page.len().min(4096)]).to_ascii_lowercase();
    match (head.find("<svg"), head.find("<html")) {
        (Some(svg), Some(html)) => svg < html,
        (svg, _) => svg.is_some(),
    }
}
