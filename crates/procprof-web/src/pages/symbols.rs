//! `/symbols`: the symbols that were uploaded, and the files whose symbols stored profiles lack.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::response::Redirect;
use maud::{Markup, html};
use procprof_core::symbols::Record;

use super::frame::Frame;
use super::numbered::NumberedPage;
use super::operate::form;
use super::wanted::{advice, help, most};
use super::{grouped, moment, size};
use crate::Web;
use crate::api::symbols::{Demand, discard};
use crate::caller::Caller;
use crate::params::{Params, encode};
use crate::problem::{ApiResult, Problem};
use crate::server_url::ServerUrl;
use crate::texts::t;

/// Missing files shown.
const MISSING_MAX: usize = 50;

/// `GET /symbols?q=&page=`
pub(crate) async fn symbols(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    base: ServerUrl,
    RawQuery(query): RawQuery,
) -> ApiResult<Markup> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["q", "page"])?;
    let text = params.get("q").unwrap_or_default();
    let demand = Demand::collect(&web).await?;
    let mut records = web.symbols.list();
    let missing = demand.missing(&web.symbols);
    let (bytes, limit) = (records.iter().map(|record| record.bytes).sum::<u64>(), web.config().symbols_bytes_max);
    let is_empty = records.is_empty();
    records.retain(|record| record.has(text));
    let page = NumberedPage::new(records, &params)?;
    let body = html! {
        main class="one symbols" {
            h1 { (t!("Symbols")) }
            p class="muted" {
                (t!("Profiles of stripped files get their names from what is sent here by {0}.").fill(&[html! { code { "procprof symbols push" } }]))
            }
            @if !missing.is_empty() {
                section class="card wanted" {
                    h2 { (t!("Names are missing")) }
                    @for row in missing.iter().take(MISSING_MAX) {
                        (most(&row.wanted))
                        p class="muted" {
                            @if row.profiles == 1 {
                                (t!("wanted by 1 profile"))
                            } @else {
                                (t!("wanted by {0} profiles", row.profiles))
                            }
                        }
                        @if row.same_name {
                            p class="muted" {
                                (t!("Symbols of a file of this name were sent; a profile that they fit gets names when it is opened."))
                            }
                        }
                        (help(&row.wanted, &base))
                    }
                    @if missing.len() > MISSING_MAX {
                        p class="muted" { (t!("and {0} more", missing.len() - MISSING_MAX)) }
                    }
                    (advice())
                }
            }
            @if is_empty {
                div class="empty" {
                    p class="head" { (t!("No symbols yet")) } p { (t!("What is sent is listed here.")) }
                }
            } @else {
                form class="search" action="/symbols" role="search" {
                    input type="search" name="q" value=(text) placeholder=(t!("File or build id"))
                        aria-label=(t!("Find symbols"));
                    button type="submit" { (t!("Find")) }
                }
                @if page.rows.is_empty() {
                    div class="empty" {
                        p class="head" { (t!("No symbols match")) } p { a href="/symbols" { (t!("Show all")) } }
                    }
                } @else {
                    (table(&page.rows, &demand, principal.operates()))
                    (page.links(|number| format!("/symbols?page={number}&q={}", encode(text))))
                }
            }
            p class="muted" {
                (t!("{0} of {1}; beyond it what was used longest ago makes room. Profiles that were named keep their names when symbols are removed.", size(bytes), size(limit)))
            }
        }
    };
    Ok(Frame { place: "/symbols", title: t!("Symbols").get(), node: None, live: false, status: None }.page(body))
}

fn table(records: &[Record], demand: &Demand, operates: bool) -> Markup {
    html! {
        div class="table" { table {
            thead { tr {
                th scope="col" { (t!("File")) }
                th scope="col" { (t!("Known by")) }
                th scope="col" class="number" { (t!("Size")) }
                th scope="col" class="number" { (t!("Functions")) }
                th scope="col" { (t!("Stored")) }
                th scope="col" { (t!("Last used")) }
                th scope="col" class="number" { (t!("Profiles")) }
                @if operates { th scope="col" { span class="hidden" { (t!("Remove")) } } }
            } }
            tbody { @for record in records { (row(record, demand, operates)) } }
        } }
    }
}

fn row(record: &Record, demand: &Demand, operates: bool) -> Markup {
    let (using, wanting) = (demand.using(&record.key), demand.wanting(record));
    html! {
        tr {
            td { strong { (record.name) } br; span class="muted" { (record.detail.name()) } }
            td { code { (record.key) } }
            td class="number" { (size(record.bytes)) }
            td class="number" { (grouped(record.functions)) }
            td class="when" {
                (moment(record.stored))
                @if !record.by.is_empty() { br; span class="muted" { (t!("by {0}", format!("{} ({})", record.by, record.owner.name()))) } }
            }
            td class="when" {
                @if let Some(last) = record.last_used { (moment(last)) } @else { span class="muted" { (t!("never")) } }
            }
            td class="number"
                title=(t!("Profiles named by these symbols; those that get their names when they are opened"))
            {
                @if wanting > 0 { (t!("{0} + {1} waiting", using, wanting)) } @else { (using) }
            }
            @if operates { td {
                details class="confirm" {
                    summary { (t!("Remove…")) }
                    form method="post" action="/symbols/remove" {
                        input type="hidden" name="key" value=(record.key);
                        button type="submit" class="danger" { (t!("Remove these symbols")) }
                    }
                }
            } }
        }
    }
}

/// `POST /symbols/remove`
pub(crate) async fn remove_symbols(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    body: Bytes,
) -> ApiResult<Redirect> {
    let params = form(&body, &["key"])?;
    let key = params.need("key")?.parse().map_err(|error| Problem::bad_request(format!("key: {error}")))?;
    discard(&web, &principal, key).await?;
    Ok(Redirect::to("/symbols"))
}
