//! The options of a report as a form: the ones people use in sight, the others behind a fold.

use maud::{Markup, html};
use procprof_profile::Profile;
use procprof_report::{OPTIONS, OptionRow, Report};

use super::{PAGES, Pairs, address};

/// Options in sight, with a short label.
const IN_SIGHT: &[(&str, &str)] = &[
    ("focus", "Focus"),
    ("ignore", "Ignore"),
    ("hide", "Hide"),
    ("show", "Show"),
    ("show_from", "Show from"),
    ("granularity", "Granularity"),
];

/// Options that pages set by themselves.
const BY_THE_PAGE: &[&str] = &["sample_index", "symbol", "root", "title"];

/// The form, and what holds now as marks that take it back.
pub(super) fn form(profile: &Profile, report: &Report, pairs: &Pairs) -> Markup {
    let value = |key: &str| pairs.iter().find(|(known, _)| known == key).map_or("", |(_, value)| value.as_str());
    let others = OPTIONS
        .iter()
        .filter(|row| !BY_THE_PAGE.contains(&row.key) && !IN_SIGHT.iter().any(|(key, _)| *key == row.key));
    let is_open = others.clone().any(|row| !value(row.key).is_empty());
    html! {
        form class="refine" method="get" action=(format!("{PAGES}{}", report.name)) {
            @if profile.sample_types().len() > 1 { (sample_types(profile, value("sample_index"))) }
            @if report.takes_symbol() {
                label class="wide" {
                    "Functions"
                    input name="symbol" value=(value("symbol")) placeholder="regular expression" spellcheck="false"
                        autofocus;
                }
            } @else if !value("symbol").is_empty() {
                input type="hidden" name="symbol" value=(value("symbol"));
            }
            @for (key, label) in IN_SIGHT {
                @if let Some(row) = OPTIONS.iter().find(|row| row.key == *key) { (field(row, label, value(key))) }
            }
            button class="primary" { "Apply" }
            details class="more" open[is_open] {
                summary { "More options" }
                div class="fields" { @for row in others { (field(row, row.key, value(row.key))) } }
            }
        }
        @if pairs.iter().any(|(key, _)| key != "sample_index") { (marks(report, pairs)) }
    }
}

fn sample_types(profile: &Profile, chosen: &str) -> Markup {
    let names: Vec<&str> = (0..profile.sample_types().len()).map(|index| profile.sample_type(index).0).collect();
    let default = names.get(profile.default_sample_type()).copied().unwrap_or_default();
    let chosen = if chosen.is_empty() { default } else { chosen };
    html! {
        label { "Sample type"
            select name="sample_index" {
                @for (index, name) in names.iter().enumerate() {
                    option value=(name) selected[chosen == *name || chosen == index.to_string()] { (name) }
                }
            }
        }
    }
}

fn field(row: &OptionRow, label: &str, value: &str) -> Markup {
    let choices = choices(row);
    let default = if row.default.is_empty() { "default" } else { row.default };
    html! {
        label title=(row.help) { (label)
            @if choices.is_empty() {
                input name=(row.key) value=(value) placeholder=(if row.default.is_empty() { "" } else { row.default })
                    spellcheck="false" autocomplete="off";
            } @else {
                select name=(row.key) {
                    option value="" { (default) }
                    @for choice in choices.iter().filter(|choice| **choice != row.default) {
                        option selected[value == *choice] { (choice) }
                    }
                }
            }
        }
    }
}

/// The values of an option that has few.
fn choices(row: &OptionRow) -> &'static [&'static str] {
    match row.key {
        "granularity" => &["functions", "filefunctions", "files", "lines", "addresses"],
        "waits" => &["lock", "idle", "wait", "all"],
        "sort" => &["flat", "cum"],
        "layout" => &["flame", "icicle"],
        _ if ["true", "false"].contains(&row.default) => &["true", "false"],
        _ => &[],
    }
}

/// Each option that holds, as a link to the page without it.
fn marks(report: &Report, pairs: &Pairs) -> Markup {
    let without = |gone: &str| {
        address(PAGES, report.name, &pairs.iter().filter(|(key, _)| key != gone).cloned().collect::<Pairs>())
    };
    let keep: Pairs = pairs.iter().filter(|(key, _)| key == "sample_index").cloned().collect();
    html! {
        p class="filters marks" {
            @for (key, value) in pairs.iter().filter(|(key, _)| key != "sample_index") {
                a href=(without(key)) title={ "Take " (key) " back" } {
                    (key) "=" (value) span aria-hidden="true" { " ×" }
                }
            }
            @if pairs.iter().filter(|(key, _)| key != "sample_index").count() > 1 {
                a href=(address(PAGES, report.name, &keep)) { "Reset" }
            }
        }
    }
}
