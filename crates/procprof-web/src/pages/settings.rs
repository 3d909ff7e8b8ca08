//! `/settings`: the configuration in effect, key by key, and what retention makes of it.

use std::sync::Arc;

use axum::extract::State;
use maud::{Markup, html};
use procprof_core::config::{KEYS, Key, Slot};

use super::frame::Frame;
use super::{operate, overview, size};
use crate::Web;
use crate::caller::Caller;
use crate::problem::ApiResult;
use crate::texts::t;

/// `GET /settings`
pub(crate) async fn settings(State(web): State<Arc<Web>>, Caller(principal): Caller) -> ApiResult<Markup> {
    let usage = web.usage.get(&web.store).await?;
    let config = web.config();
    let status = web.captures.is_paused().then(operate::paused_chip);
    let rows = KEYS.iter().filter(|key| !matches!(key.slot, Slot::Ignored)).map(|key| (key, key.get_text(&config)));
    let body = html! {
        main class="one settings" {
            h1 { (t!("Settings")) }
            p class="muted" {
                (t!("As read from the configuration and the command line. Keys are changed in its file, or by {0}; SIGHUP has the file read again. What differs from the default is marked.").fill(&[html! { code { "--set KEY=VALUE" } }]))
            }
            div class="cards first" {
                (overview::storage(&web, &usage, "/settings"))
                @if principal.operates() { (operate::schedule_card(web.captures.is_paused())) }
            }
            div class="table" { table {
                thead {
                    tr {
                        th scope="col" { (t!("Key")) }
                        th scope="col" { (t!("Value")) }
                        th scope="col" { (t!("What it does")) }
                        th scope="col" class="wide" { (t!("Takes effect")) }
                    }
                }
                tbody { @for (key, value) in rows { (row(key, &value)) } }
            } }
        }
    };
    Ok(Frame { place: "/settings", title: t!("Settings").get(), node: None, live: false, status }.page(body))
}

fn row(key: &Key, value: &str) -> Markup {
    let shown = match (key.slot, value.parse::<u64>()) {
        (Slot::Bytes(_), Ok(bytes)) => size(bytes),
        _ => value.to_owned(),
    };
    let is_changed = !is_default(key, value);
    html! {
        tr class=[is_changed.then_some("changed")] {
            td { code { (parts(key.name)) } }
            td {
                @if shown.is_empty() {
                    span class="muted" { (t!("none")) }
                } @else {
                    (shown)
                    @if !key.unit.is_empty() && !matches!(key.slot, Slot::Bytes(_)) { " " (key.unit) }
                }
                @if is_changed {
                    " "
                    span class="tag"
                        title=(t!("Default: {0}", if key.default.is_empty() { t!("none").get() } else { key.default }))
                    {
                        (t!("changed"))
                    }
                }
            }
            td { (prose(key.help)) }
            td class="wide muted" { @if key.reload { (t!("on SIGHUP")) } @else { (t!("at a restart")) } }
        }
    }
}

/// A name that is broken between its words alone.
fn parts(name: &str) -> Markup {
    html! { @for word in name.split_inclusive('_') { (word) wbr; } }
}

/// A text whose code stands between backticks.
fn prose(text: &str) -> Markup {
    html! {
        @for (number, part) in text.split('`').enumerate() { @if number % 2 == 1 { code { (part) } } @else { (part) } }
    }
}

/// Whether a value is what the key has where the configuration does not name it.
fn is_default(key: &Key, value: &str) -> bool {
    let defaults = procprof_core::config::Config::defaults();
    key.get_text(&defaults) == value
}
