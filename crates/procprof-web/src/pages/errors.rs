//! `/proc_profile/errors`: everything that went wrong with a node, newest first, in pages; and the newest of it for the
//! list's side.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use maud::{Markup, html};
use procprof_core::nodes::Node;
use procprof_store::{ErrorEntry, ErrorFilter, Page, PageRequest};

use super::frame::Frame;
use super::{moment, type_label};
use crate::Web;
use crate::params::Params;
use crate::problem::ApiResult;
use crate::texts::t;

/// Rows of a page.
const ROWS: usize = 100;
/// Rows beside the list.
const NEWEST: usize = 10;

/// The newest rows of a node, for [`card`].
pub(super) fn newest(web: &Web, node: &Node) -> Page<ErrorEntry, u64> {
    rows(web, node, &PageRequest::first(NEWEST))
}

fn rows(web: &Web, node: &Node, request: &PageRequest<u64>) -> Page<ErrorEntry, u64> {
    web.store.list_errors(&ErrorFilter { nodes: vec![node.id], ..ErrorFilter::default() }, request)
}

/// `GET /proc_profile/errors?node=&cursor=`
pub(crate) async fn errors(State(web): State<Arc<Web>>, RawQuery(query): RawQuery) -> ApiResult<Markup> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["node", "cursor"])?;
    let node = params.node(&web)?;
    let after = params.number("cursor", 0, u64::MAX)?;
    let page = rows(&web, &node, &PageRequest { limit: ROWS, after });
    let base = format!("/proc_profile/errors?node={}", node.id);
    let body = html! {
        main class="one" {
            p class="crumbs" {
                a href=(format!("/proc_profile?node={}", node.id)) { (node.label()) } " / " (t!("errors"))
            }
            h1 { (t!("What went wrong")) }
            @if page.rows.is_empty() { div class="empty" { p class="head" { (t!("Nothing")) } } }
            @else { section class="card errors whole" { (list(&page.rows)) } }
            p class="pages" {
                @if after.is_some() { a href=(base) { (t!("← Newest")) } }
                @if let Some(next) = page.next { a href=(format!("{base}&cursor={next}")) { (t!("Older →")) } }
            }
        }
    };
    let title = t!("Errors of {0}", node.label());
    Ok(Frame { place: "/proc_profile", title: &title, node: None, live: false, status: None }.page(body))
}

/// The newest rows beside the list of profiles; nothing when there is none.
pub(super) fn card(node: &Node, newest: &Page<ErrorEntry, u64>) -> Markup {
    html! {
        @if !newest.rows.is_empty() {
            section class="card errors" {
                h2 { (t!("What went wrong")) }
                (list(&newest.rows))
                p class="more" { a href=(format!("/proc_profile/errors?node={}", node.id)) { (t!("All errors →")) } }
            }
        }
    }
}

fn list(rows: &[ErrorEntry]) -> Markup {
    html! {
        ol {
            @for entry in rows {
                li {
                    p class="when" { (moment(entry.row.time.0)) " · "
                        @if let Some(kind) = &entry.row.profile_type {
                            (type_label(kind))
                        } @else {
                            (entry.row.kind.name())
                        }
                    }
                    p class="reason" title=(entry.row.reason) { (entry.row.reason) }
                    @if !entry.row.first_bytes.is_empty() {
                        details {
                            summary { (t!("First bytes")) } code { (entry.row.first_bytes.escape_ascii().to_string()) }
                        }
                    }
                }
            }
        }
    }
}
