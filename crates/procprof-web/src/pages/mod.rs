//! The pages: complete without JavaScript; the script shows times in the viewer's zone, keeps lists fresh, and adds
//! choosing ranges of the timeline.

mod archive;
mod commands;
mod errors;
mod facts;
mod frame;
mod heap;
mod help;
mod host;
mod list;
mod merge;
mod node_field;
mod numbered;
mod open;
mod operate;
mod overview;
mod period;
mod process;
mod profile;
mod scaling;
mod search;
mod settings;
mod symbols;
mod thumbnail;
mod wanted;

use axum::http::StatusCode;
use maud::{Markup, html};
use procprof_profile::ProfileType;

pub(super) use archive::archive;
pub(super) use errors::errors;
pub(super) use heap::{growth, heap, heap_profiler, switch_heap};
pub(super) use help::help;
pub(super) use host::set_rate;
pub(super) use list::{list, select};
pub(super) use merge::merge;
pub(super) use numbered::PAGES_MAX;
pub(super) use open::{close, open, opened, upload};
pub(super) use operate::{cancel, collect, delete, pause, pin};
pub(super) use overview::{overview, start};
pub(super) use profile::profile;
pub(super) use search::search;
pub(super) use settings::settings;
pub(super) use symbols::{remove_symbols, symbols};

use super::params::encode;
use super::problem::Problem;
use super::texts::{Text, t, without_query};
use frame::Frame;

/// A problem, for people.
pub(super) fn problem(problem: &Problem) -> Markup {
    let (heading, advice) = in_words(problem);
    let body = html! {
        main class="one" {
            div class="problem" {
                p class="status" { (problem.status.as_u16()) }
                h1 { (heading) }
                p class="notice bad" { (problem.message) }
                @if let Some(advice) = advice { p { (advice) } }
                p class="filters" {
                    @if let Some(page) = without_query().filter(|_| problem.status == StatusCode::BAD_REQUEST) {
                        a href=(page) { (t!("Open the page without parameters")) }
                    }
                    a href="/proc_profile" { (t!("Profiles")) }
                    a href="/" { (t!("All nodes")) }
                    a href="/help" { (t!("Help")) }
                }
            }
            @if let Some(form) = &problem.form { (form) }
        }
    };
    Frame { place: "", title: heading.get(), node: None, live: false, status: None }.page(body)
}

/// A problem's kind, and what to do about it.
fn in_words(problem: &Problem) -> (Text, Option<String>) {
    match problem.status {
        StatusCode::BAD_REQUEST => {
            let advice = t!("Correct the address, or open the page without parameters.").to_string();
            (t!("This page cannot read a part of its address"), Some(advice))
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            let advice = t!("Retention deletes old profiles; a pinned profile is kept. The list has what is there.");
            let is_gone = problem.status == StatusCode::GONE;
            (if is_gone { t!("Deleted") } else { t!("Not found") }, Some(advice.to_string()))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => (t!("Not permitted"), None),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            (t!("The server is busy"), problem.retry_after.map(|seconds| t!("Try again in {0} s.", seconds)))
        }
        status if status.is_client_error() => (t!("This cannot be shown"), None),
        _ => (t!("The server could not do this"), None),
    }
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

/// A value of a profile in few digits.
fn quantity(value: i64, unit: &str) -> String {
    const STEPS: [(f64, &str); 5] = [(86_400e9, "d"), (3600e9, "h"), (1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let magnitude = value.unsigned_abs() as f64;
    match unit {
        "nanoseconds" if value == 0 => "0 s".to_owned(),
        "nanoseconds" => match STEPS.iter().find(|(step, _)| magnitude >= *step) {
            Some((step, name)) => format!("{} {name}", significant(value as f64 / step)),
            None => format!("{value} ns"),
        },
        "bytes" if value >= 0 => size(value.unsigned_abs()),
        "count" if value >= 0 => grouped(value.unsigned_abs()),
        "count" | "" => value.to_string(),
        other => format!("{value} {other}"),
    }
}

/// Three significant digits, without zeros at the end of a fraction.
fn significant(value: f64) -> String {
    let text = match value.abs() {
        magnitude if magnitude >= 99.95 => format!("{value:.0}"),
        magnitude if magnitude >= 9.995 => format!("{value:.1}"),
        magnitude if magnitude >= 0.0995 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// A number in groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// A number of profiles.
fn profile_count(number: u64) -> String {
    if number == 1 { t!("1 profile").to_string() } else { t!("{0} profiles", grouped(number)) }
}

/// A length of time in its largest unit.
fn span(nanos: i64) -> String {
    let seconds = nanos.max(0) / 1_000_000_000;
    match seconds {
        1 => t!("1 second").to_string(),
        0..=119 => t!("{0} seconds", seconds),
        120..=7199 => t!("{0} minutes", (seconds + 30) / 60),
        7200..=172_799 => t!("{0} hours", (seconds + 1800) / 3600),
        _ => t!("{0} days", (seconds + 43_200) / 86_400),
    }
}

/// How long ago a moment was.
fn ago(nanos: i64) -> String {
    let passed = procprof_core::clock::now().0.saturating_sub(nanos);
    if passed < 2_000_000_000 { t!("now").to_string() } else { t!("{0} ago", span(passed)) }
}

/// A type of profiles.
fn type_label(kind: &ProfileType) -> &str {
    let label = match kind {
        ProfileType::Cpu => t!("CPU"),
        ProfileType::Wall => t!("Wall"),
        ProfileType::OffCpu => t!("Off CPU"),
        ProfileType::Alloc => t!("Memory (Allocation)"),
        ProfileType::Heap => t!("Heap (in use)"),
        ProfileType::Contention => t!("Contention"),
        ProfileType::Mutex => t!("Contention (holder)"),
        ProfileType::Goroutine => t!("Goroutines"),
        ProfileType::GoroutineLeak => t!("Leaked goroutines"),
        ProfileType::Other(name) => return name,
    };
    label.get()
}

/// Why a profile was captured, for people.
fn trigger_name(trigger: &str) -> &str {
    match trigger {
        "schedule" => t!("schedule").get(),
        "manual" => t!("manual").get(),
        "push" => t!("push").get(),
        "import" => t!("import").get(),
        other => other,
    }
}

/// A thin bar as long as its share of a whole.
fn share(value: i64, whole: i64) -> Markup {
    let percent = (value.max(0) as f64 * 100.0 / whole.max(1) as f64).clamp(0.0, 100.0);
    html! {
        svg class="share" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" {
            rect width=(format!("{percent:.1}")) height="4" {}
        }
    }
}

/// A moment below a picture of a period: its time of day, or its day where the period is long.
fn tick(nanos: i64, period: i64) -> Markup {
    let Ok(time) = jiff::Timestamp::from_nanosecond(i128::from(nanos)) else { return html! {} };
    let (class, shape) = match period / 3_600_000_000_000 {
        ..=1 => ("clock", "%H:%M:%S UTC"),
        2..=47 => ("minute", "%H:%M UTC"),
        _ => ("day", "%Y-%m-%d"),
    };
    html! { time class=(class) datetime=(format!("{time:.3}")) { (time.strftime(shape).to_string()) } }
}

/// The query of the profiles of a node and type that were completed in a period.
fn range_query(node: u64, kind: &ProfileType, from: i64, to: i64) -> String {
    format!("node={node}&{}", time_query(kind, from, to))
}

/// The parameters of profiles of a type in a range.
fn time_query(kind: &ProfileType, from: i64, to: i64) -> String {
    let (from, to) = (crate::time::rfc3339(from), crate::time::rfc3339(to));
    format!("type={}&from={}&to={}", encode(kind.name()), encode(&from), encode(&to))
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
    html! {
        time class="clock" datetime=(format!("{time:.3}")) title=(utc) { (time.strftime("%H:%M:%S UTC").to_string()) }
    }
}

/// A moment: UTC as text and on hover; the script shows it in the viewer's zone.
fn moment(nanos: i64) -> Markup {
    let Ok(time) = jiff::Timestamp::from_nanosecond(i128::from(nanos)) else { return html! { "?" } };
    let utc = time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    html! { time datetime=(format!("{time:.3}")) title=(utc) { (utc) } }
}

#[cfg(test)]
mod tests {
    use super::{grouped, quantity, significant, span};

    #[test]
    fn quantities_have_three_digits_and_a_unit() {
        for (value, unit, text) in [
            (47_230_000_000, "nanoseconds", "47.2 s"),
            (999_960_000_000, "nanoseconds", "1000 s"),
            (7_200_000_000_000, "nanoseconds", "2 h"),
            (1_500_000, "nanoseconds", "1.5 ms"),
            (0, "nanoseconds", "0 s"),
            (12, "nanoseconds", "12 ns"),
            (-2_000_000_000, "nanoseconds", "-2 s"),
            (1_400_000, "bytes", "1.3 MiB"),
            (1_234_567, "count", "1,234,567"),
            (-5, "count", "-5"),
            (5, "widgets", "5 widgets"),
        ] {
            assert_eq!(quantity(value, unit), text);
        }
        assert_eq!([0.034, 1.0, 15.96, 240.0, 0.0].map(significant), ["0.034", "1", "16", "240", "0"]);
        assert_eq!([0, 999, 1000].map(grouped), ["0", "999", "1,000"]);
        assert_eq!(
            [1, 90, 3600, 90_000, 300_000].map(|seconds| span(seconds * 1_000_000_000)),
            ["1 second", "90 seconds", "60 minutes", "25 hours", "3 days"]
        );
    }
}
