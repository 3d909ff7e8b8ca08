//! The viewer's pages: complete without JavaScript; pictures stand in frames that are shut off from the page.

use std::sync::Arc;

use bytes::Bytes;
use maud::{DOCTYPE, Markup, html};
use procprof_report::{REPORTS, Report, Top, TopRow};

use super::form::form;
use super::{FLAME, PAGES, Pairs, REPORTED, View, address, draw};
use crate::assets;
use crate::problem::{ApiResult, Problem};
use crate::viewer::{Command, ViewerConfig, viewer};

/// Most bytes of a text that stand in a page.
const TEXT_MAX: usize = 2 << 20;
/// Rows of `top` unless asked otherwise.
const TOP_ROWS: &str = "500";

/// Reports with a tab of their own, and its label; those that do not exist are passed over.
const TABS: &[(&str, &str)] = &[
    (FLAME, "Flame graph"),
    ("svg", "Graph"),
    ("top", "Top"),
    ("tree", "Tree"),
    ("peek", "Peek"),
    ("list", "Source"),
    ("disasm", "Disassembly"),
    ("weblist", "Source and code"),
    ("traces", "Traces"),
    ("tags", "Labels"),
    ("comments", "Comments"),
    ("symbols", "Symbols"),
    ("raw", "Raw"),
];

/// The flame graph viewer.
pub(super) async fn flame(view: &Arc<View>, pairs: &Pairs) -> Markup {
    let seen = |report: &str| format!("{}/view/{report}", view.base);
    let data = |kind: &str| format!("{}/data/{kind}", view.base);
    let options: Vec<(&str, &str)> = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let config =
        ViewerConfig::new(data, &options, |report| Some(seen(report)), |report| format!("{}?download=1", seen(report)));
    let file = view.viewer.name.replace('\'', r"'\''");
    let commands = vec![
        Command { label: "procprof", text: format!("procprof report -top{{flags}} '{file}'") },
        Command { label: "go tool pprof", text: format!("go tool pprof '{file}'") },
    ];
    let chosen: Pairs = pairs.iter().filter(|(key, _)| key == "sample_index").cloned().collect();
    let about = draw::about(view, &chosen).await.unwrap_or_default();
    frame(
        view,
        None,
        html! {
            main class="viewer" {
                (viewer(&config.with_commands(commands), &address(PAGES, "top", pairs)))
                @if !about.is_empty() {
                    div class="columns" { section class="card" { h2 { "Profile" } (facts(&about)) } }
                }
            }
        },
    )
}

/// A report with its form; an error is shown in place of the report.
pub(super) async fn report(view: &Arc<View>, report: &'static Report, pairs: &Pairs) -> Markup {
    let body = match content(view, report, pairs).await {
        Ok(body) => body,
        Err(problem) => {
            html! { div class="empty" { p class="head" { "This report can't be made" } p { (problem.message) } } }
        }
    };
    let about = draw::about(view, &pairs.iter().filter(|(key, _)| key == "sample_index").cloned().collect())
        .await
        .unwrap_or_default();
    frame(
        view,
        Some((report, pairs)),
        html! {
            main class="viewer" {
                (form(&view.viewer.profile, report, pairs))
                (body)
                @if !about.is_empty() {
                    div class="columns" { section class="card" { h2 { "Profile" } (facts(&about)) } }
                }
            }
        },
    )
}

async fn content(view: &Arc<View>, report: &'static Report, pairs: &Pairs) -> ApiResult<Markup> {
    let has_symbol = pairs.iter().any(|(key, _)| key == "symbol");
    if report.takes_symbol() && !has_symbol && report.name != "peek" {
        return Ok(
            html! { div class="empty" { p class="head" { "Which functions?" } p { "Type a part of a name above; a row \
                of "
            a href=(address(PAGES, "top", &pairs.clone())) { "Top" } " leads here, too." } } },
        );
    }
    if report.name == "top" {
        return table(view, pairs).await;
    }
    if !report.media_type.starts_with("text/") || report.media_type.starts_with("text/html") {
        // The frame would show an error small and without the page's looks.
        draw::report(view, report, pairs).await?;
        let source = address(REPORTED, report.name, pairs);
        return Ok(html! { iframe class="graph" src=(source) title=(report.help) sandbox="allow-scripts" {} });
    }
    let bytes = draw::report(view, report, pairs).await?;
    Ok(text(&bytes, &address(REPORTED, report.name, pairs)))
}

/// A text, as much of it as a page holds.
fn text(bytes: &Bytes, whole: &str) -> Markup {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(TEXT_MAX)]);
    html! {
        div class="table" { pre class="report" { (shown) } }
        @if bytes.len() > TEXT_MAX {
            p class="pages" {
                a href=(whole) { "The first " (TEXT_MAX >> 20) " MiB are shown; all " (bytes.len() >> 20) " MiB" }
            }
        }
    }
}

async fn table(view: &Arc<View>, pairs: &Pairs) -> ApiResult<Markup> {
    let mut limited = pairs.clone();
    if !limited.iter().any(|(key, _)| key == "nodecount") {
        limited.push(("nodecount".to_owned(), TOP_ROWS.to_owned()));
    }
    let Top { lines, rows } = draw::top(view, &limited).await?;
    let sorted = |by: &str| {
        let mut pairs: Pairs = pairs.iter().filter(|(key, _)| key != "sort").cloned().collect();
        pairs.push(("sort".to_owned(), by.to_owned()));
        address(PAGES, "top", &pairs)
    };
    let by_cum = pairs.iter().any(|(key, value)| key == "sort" && value == "cum");
    let shown = lines.iter().position(|line| line.starts_with("Showing nodes")).map_or(&[][..], |at| &lines[at..]);
    Ok(html! {
        @if !shown.is_empty() { p class="muted" { (shown.join(" · ")) } }
        div class="table" {
            table class="top" {
                thead { tr {
                    th class="number" aria-sort=[(!by_cum).then_some("descending")] {
                        a href=(sorted("flat")) { "Flat" }
                    }
                    th class="number" { "Flat %" }
                    th class="number wide" { "Sum %" }
                    th class="number" aria-sort=[by_cum.then_some("descending")] { a href=(sorted("cum")) { "Cum" } }
                    th class="number" { "Cum %" }
                    th { "Name" }
                    th {}
                } }
                tbody { @for row in &rows { (top_row(row, pairs)) } }
            }
        }
    })
}

fn top_row(row: &TopRow, pairs: &Pairs) -> Markup {
    let about = |report: &str| {
        let mut pairs: Pairs =
            pairs.iter().filter(|(key, _)| !["symbol", "sort", "nodecount"].contains(&key.as_str())).cloned().collect();
        pairs.push(("symbol".to_owned(), exactly(&row.name)));
        address(PAGES, report, &pairs)
    };
    html! {
        tr {
            td class="number" { (row.flat) }
            td class="number share" { (row.flat_share.trim()) (bar(&row.flat_share)) }
            td class="number wide muted" { (row.sum_share.trim()) }
            td class="number" { (row.cum) }
            td class="number share" { (row.cum_share.trim()) (bar(&row.cum_share)) }
            td class="name" {
                a href=(about("peek")) title="Callers and callees" { (row.name) } span class="muted" { (row.inlining) }
            }
            td class="number" { a href=(about("list")) title="Source lines" { "source" } }
        }
    }
}

/// A share as the length of a line under its number.
fn bar(share: &str) -> Markup {
    let percent: f64 = share.trim().trim_end_matches('%').parse().unwrap_or(0.0);
    html! {
        svg class="bar-of" viewBox="0 0 100 2" preserveAspectRatio="none" aria-hidden="true" {
            rect width=(format!("{:.2}", percent.abs().min(100.0))) height="2" {}
        }
    }
}

/// A regular expression that matches this name alone.
fn exactly(name: &str) -> String {
    let mut pattern = String::from("^");
    for letter in name.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('$');
    pattern
}

/// `Name: value` lines.
fn facts(lines: &[String]) -> Markup {
    html! {
        dl {
            @for line in lines {
                @match line.split_once(": ") {
                    Some((name, value)) => { dt { (name) } dd { (value) } }
                    None => { dt { "Note" } dd { (line) } }
                }
            }
        }
    }
}

/// A problem, for people.
pub(super) fn problem(view: &View, problem: &Problem) -> Markup {
    let reason = problem.status.canonical_reason().unwrap_or("Error");
    frame(
        view,
        None,
        html! {
            div class="problem" {
                p class="status" { (problem.status.as_u16()) }
                h1 { (reason) }
                p { (problem.message) }
                p { a href=(PAGES) { "To the profile" } }
            }
        },
    )
}

/// The same where there is no room for a page.
pub(super) fn plain_problem(problem: &Problem) -> Markup {
    html! { (DOCTYPE) title { "Problem" } p { (problem.message) } }
}

/// What all pages have around them.
fn frame(view: &View, current: Option<(&Report, &Pairs)>, body: Markup) -> Markup {
    let name = &view.viewer.name;
    let none = Pairs::new();
    let (report, pairs) = current.map_or((None, &none), |(report, pairs)| (Some(report), pairs));
    let tabs = TABS.iter().filter(|(name, _)| REPORTS.iter().any(|report| report.name == *name));
    let title = report
        .and_then(|report| TABS.iter().find(|(name, _)| *name == report.name))
        .map_or("Flame graph", |(_, label)| *label);
    let saved = |report: &Report| {
        let mut pairs = pairs.clone();
        pairs.push(("download".to_owned(), "1".to_owned()));
        address(REPORTED, report.name, &pairs)
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · " (name) " · procprof" }
                link rel="icon" type="image/svg+xml" href=(assets::icon());
                link rel="stylesheet" href=(assets::style());
                link rel="stylesheet" href=(assets::viewer_style());
            }
            body {
                header class="bar" {
                    a class="brand" href=(PAGES) {
                        img src=(assets::icon()) alt="" width="22" height="22"; span { "procprof" }
                    }
                    span class="file" title=(name) { (name) }
                    @if current.is_none() {
                        details class="save" {
                            summary { "Reports" }
                            ul {
                                @for (key, label) in tabs.clone().skip(1) {
                                    li { a href=(address(PAGES, key, pairs)) { (label) } }
                                }
                            }
                        }
                    }
                    details class="save" {
                        summary { "Download" }
                        ul {
                            @for report in REPORTS.iter().filter(|report| !report.takes_code()) {
                                li { a href=(saved(report)) download title=(report.help) { (report.name) } }
                            }
                        }
                    }
                }
                @if current.is_some() {
                    nav class="tabs" aria-label="Reports" {
                        @for (key, label) in tabs {
                            a href=(address(PAGES, key, pairs))
                                aria-current=[report.filter(|report| report.name == *key).map(|_| "page")]
                            {
                                (label)
                            }
                        }
                    }
                }
                (body)
            }
        }
    }
}
