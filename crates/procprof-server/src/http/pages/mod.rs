//! The pages: complete without JavaScript; the script only puts times into the viewer's zone and keeps lists fresh.

mod errors;
mod facts;
mod frame;
mod list;
mod operate;
mod profile;
mod strip;
mod symbols;
mod wanted;

use axum::response::Redirect;
use maud::{Markup, html};

pub(super) use errors::errors;
pub(super) use list::list;
pub(super) use operate::{collect, delete, pause, pin};
pub(super) use profile::profile;
pub(super) use symbols::{remove_symbols, symbols};

use super::problem::Problem;
use frame::Frame;

/// `GET /`
pub(super) async fn home() -> Redirect {
    Redirect::to("/proc_profile")
}

/// A problem, for people.
pub(super) fn problem(problem: &Problem) -> Markup {
    let body = html! {
        div class="problem" {
            p class="status" { (problem.status.as_u16()) }
            h1 { (problem.status.canonical_reason().unwrap_or("Error")) }
            p { (problem.message) }
            p { a href="/proc_profile" { "To the list of profiles" } }
        }
    };
    Frame { title: problem.status.canonical_reason().unwrap_or("Error"), live: false, status: None }.page(body)
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A value of a profile for people.
fn amount(value: i64, unit: &str) -> String {
    match unit {
        "nanoseconds" if value.unsigned_abs() >= 1_000_000_000 => format!("{:.2} s", value as f64 / 1e9),
        "nanoseconds" => format!("{:.1} ms", value as f64 / 1e6),
        "bytes" if value >= 0 => size(value.unsigned_abs()),
        "count" => value.to_string(),
        other => format!("{value} {other}"),
    }
}

/// The time of day of a moment close by, in the same way.
fn clock(time: jiff::Timestamp) -> Markup {
    let utc = time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    html! { time class="clock" datetime=(format!("{time:.3}")) title=(utc) { (time.strftime("%H:%M:%S UTC").to_string()) } }
}

/// A moment: UTC as text and on hover; the script shows it in the viewer's zone.
fn moment(nanos: i64) -> Markup {
    let Ok(time) = jiff::Timestamp::from_nanosecond(i128::from(nanos)) else { return html! { "?" } };
    let utc = time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    html! { time datetime=(format!("{time:.3}")) title=(utc) { (utc) } }
}
