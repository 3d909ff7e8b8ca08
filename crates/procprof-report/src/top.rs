//! `top`: rows of flat and cum, in the shape of `go tool pprof -top`; moments are in UTC.
//!
//! ```text
//! File: server
//! Type: cpu
//! Time: 2026-11-20 22:08:03 UTC
//! Duration: 10.01s, Total samples = 8.73s (87.21%)
//! Showing nodes accounting for 8.70s, 99.66% of 8.73s total
//! Dropped 12 nodes (cum <= 0.04s)
//!       flat  flat%   sum%        cum   cum%
//!      6.11s 69.99% 69.99%      6.11s 69.99%  hot_70
//! ```

use std::fmt::Write;

use procprof_profile::{Profile, StringId};

use crate::graph::{self, Inlining, Row, Rows};
use crate::measure::{label, percentage, scale};
use crate::place::base_name;
use crate::selection::Selection;
use crate::text::one_line;
use crate::view::View;
use crate::{Options, Result, Sources, moment};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let profile = view.profile.as_ref();
    let sample_type = options.sample_type(profile)?;
    let selection = Selection::new(profile, options);
    let total = graph::total(profile, sample_type);
    let rows = graph::rows(profile, &selection, sample_type, options);
    let (kind, from) = profile.sample_type(sample_type);
    let to = output_unit(&rows.rows, total, from, &options.unit);
    let value = |value: i64| label(value, from, to);

    let mut out = String::new();
    for line in facts(profile, kind, from, total, &value) {
        let _ = writeln!(out, "{}", one_line(&line));
    }
    for line in filters(options) {
        let _ = writeln!(out, "{}", one_line(&line));
    }
    for line in summary(&rows, total, options, &value) {
        let _ = writeln!(out, "{line}");
    }
    let _ = writeln!(out, "{:>10} {:>5}% {:>5}% {:>10} {:>5}%", "flat", "flat", "sum", "cum", "cum");
    let mut sum = 0i64;
    for row in &rows.rows {
        sum = sum.saturating_add(row.flat);
        let inlining = match row.inlining {
            Inlining::None => "",
            Inlining::Partial => " (partial-inline)",
            Inlining::Full => " (inline)",
        };
        let (flat, cum) = (value(row.flat), value(row.cum));
        let [flat_share, sum_share, cum_share] = [row.flat, sum, row.cum].map(|value| percentage(value, total));
        let _ = writeln!(out, "{flat:>10} {flat_share} {sum_share} {cum:>10} {cum_share}  {}{inlining}", one_line(&row.name));
    }
    Ok(out.into_bytes())
}

/// The lines about the profile as a whole.
fn facts(profile: &Profile, kind: &str, unit: &str, total: i64, value: &dyn Fn(i64) -> String) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |name: &str, text: &str| {
        if !text.is_empty() {
            lines.push(format!("{name}{text}"));
        }
    };
    if let Some(mapping) = profile.mappings().first() {
        add("File: ", base_name(profile.string(mapping.filename)));
        add("Build ID: ", profile.string(mapping.build_id));
    }
    for comment in profile.comments().filter(|comment| !comment.starts_with('#')) {
        add("", comment);
    }
    add("Type: ", kind);
    let doc_url = profile.parts().doc_url;
    if doc_url != StringId::default() {
        add("Doc: ", profile.string(doc_url));
    }
    if profile.time().0 != 0 {
        add("Time: ", &moment::utc(profile.time()));
    }
    if profile.duration().0 != 0 {
        let (nanos, scaled_unit) = scale(total, unit, "nanoseconds");
        let is_time = scaled_unit == "ns" && nanos != 0.0;
        let share = if is_time { format!("({})", percentage(nanos as i64, profile.duration().0)) } else { String::new() };
        let duration = label(profile.duration().0, "nanoseconds", "auto");
        add("Duration: ", &format!("{duration}, Total samples = {} {share}", value(total)));
    }
    lines
}

fn filters(options: &Options) -> Vec<String> {
    let named = [("focus", &options.focus), ("ignore", &options.ignore)];
    let mut lines: Vec<String> = named.iter().filter_map(|(name, regex)| Some(format!("   {name}={}", regex.as_ref()?.as_str()))).collect();
    if !lines.is_empty() {
        lines.insert(0, "Active filters:".to_owned());
    }
    lines
}

fn summary(rows: &Rows, total: i64, options: &Options, value: &dyn Fn(i64) -> String) -> Vec<String> {
    let shown = rows.rows.iter().fold(0i64, |sum, row| sum.saturating_add(row.flat));
    let share = percentage(shown, total);
    let mut lines = vec![format!("Showing nodes accounting for {}, {} of {} total", value(shown), share.trim(), value(total))];
    if total == 0 {
        return lines;
    }
    if rows.dropped > 0 {
        let nodes = if rows.dropped > 1 { "nodes" } else { "node" };
        let limit = ((total as f64 * options.nodefraction) as i64).saturating_abs();
        lines.push(format!("Dropped {} {nodes} (cum <= {})", rows.dropped, value(limit)));
    }
    if !rows.rows.is_empty() && rows.rows.len() < rows.passed {
        lines.push(format!("Showing top {} nodes out of {}", rows.rows.len(), rows.passed));
    }
    lines
}

/// The unit all values are written in: for `minimum`, one in which the smallest is not below 0.01.
fn output_unit<'a>(rows: &[Row], total: i64, from: &'a str, wanted: &'a str) -> &'a str {
    if wanted != "minimum" || rows.is_empty() {
        return wanted;
    }
    let size = |row: &Row| if row.flat != 0 { row.flat.saturating_abs() } else { row.cum.saturating_abs() };
    let least = rows.iter().map(size).filter(|size| *size > 0).min().unwrap_or(total);
    let unit_of = |value: i64| scale(value, from, "minimum").1;
    let (least_unit, total_unit) = (unit_of(least), unit_of(total));
    let unit = if least_unit != total_unit && least.saturating_mul(100) < total { unit_of(least.saturating_mul(100)) } else { least_unit };
    if unit.is_empty() { from } else { unit }
}
