//! The lines above a text report, and in the legend of a drawn graph: facts about the profile, filters, and the shown
//! part.
//!
//! ```text
//! File: server
//! Type: cpu
//! Time: 2026-11-20 22:08:03 UTC
//! Duration: 10.01s, Total samples = 8.73s (87.21%)
//! Showing nodes accounting for 8.70s, 99.66% of 8.73s total
//! Dropped 12 nodes (cum <= 0.04s)
//! ```

use std::borrow::Cow;

use procprof_profile::waits::{LeftOutWaits, Wait};
use procprof_profile::{Meta, Profile, StringId};

use crate::display::amount::counts;
use crate::display::measure::{label, percentage, scale};
use crate::display::moment;
use crate::display::place::base_name;
use crate::display::text::one_line;
use crate::graph::Trimmed;
use crate::header::subject::Subject;
use crate::selection::view::View;
use crate::{Options, Result};

/// Bytes of a filter that are shown.
const FILTER_BYTES: usize = 80;
/// Bytes of comments that are shown: one text can be any number of a profile's comments.
const COMMENT_BYTES: usize = 256 << 10;

/// All lines above a text report.
pub(crate) fn lines(subject: &Subject<'_>, shown: &Trimmed<'_>, to: &str) -> Vec<String> {
    let mut lines = if subject.options.compact_labels { Vec::new() } else { facts(subject, to) };
    lines.extend(left_out(subject));
    lines.extend(filters(subject));
    lines.extend(summary(subject, shown, to, false));
    lines
}

/// All lines of the legend of a drawn graph.
pub(crate) fn legend(subject: &Subject<'_>, shown: &Trimmed<'_>, to: &str) -> Vec<String> {
    let mut lines = facts(subject, to);
    lines.extend(left_out(subject));
    lines.extend(filters(subject));
    lines.extend(summary(subject, shown, to, true));
    lines
}

/// The subject, time and total of the profile: the lines above text reports, without those about one report.
///
/// # Errors
/// As [`Report::render`](crate::Report::render).
pub fn about(profile: &Profile, options: &Options) -> Result<Vec<String>> {
    let view = View::new(Cow::Borrowed(profile), options)?;
    let subject = Subject::new(&view, options)?;
    Ok(facts(&subject, &options.unit).into_iter().chain(left_out(&subject)).collect())
}

/// The lines about the profile as a whole.
pub(crate) fn facts(subject: &Subject<'_>, to: &str) -> Vec<String> {
    let profile = subject.whole;
    let mut lines = Vec::new();
    let mut add = |name: &str, text: &str| {
        if !text.is_empty() {
            lines.push(one_line(&format!("{name}{text}")).into_owned());
        }
    };
    if let Some(mapping) = profile.mappings().first() {
        add("File: ", base_name(profile.string(mapping.filename)));
        add("Build ID: ", profile.string(mapping.build_id));
    }
    let (mut left, mut hidden) = (COMMENT_BYTES, 0);
    for comment in profile.comments().filter(|comment| !comment.starts_with('#') && !Meta::is_fact(comment)) {
        match left.checked_sub(comment.len()) {
            Some(rest) => {
                left = rest;
                add("", comment);
            }
            None => hidden += 1,
        }
    }
    if hidden > 0 {
        add("", &format!("({hidden} more comments; the report comments shows all)"));
    }
    let counts = counts(profile, subject.values.sample_type);
    add("Type: ", &counts.map_or_else(|| subject.kind.clone(), |counts| format!("{} ({counts})", subject.kind)));
    if profile.parts().doc_url != StringId::default() {
        add("Doc: ", profile.string(profile.parts().doc_url));
    }
    if profile.time().0 != 0 {
        add("Time: ", &moment::utc(profile.time()));
    }
    if profile.duration().0 != 0 {
        let (nanos, scaled_unit) = scale(subject.total, subject.unit, "nanoseconds");
        let is_time = scaled_unit == "ns" && nanos != 0.0;
        let share =
            if is_time { format!("({})", percentage(nanos as i64, profile.duration().0)) } else { String::new() };
        let duration = label(profile.duration().0, "nanoseconds", "auto");
        add("Duration: ", &format!("{duration}, Total samples = {} {share}", subject.amount(subject.total, to)));
    }
    lines
}

/// The waits that are not shown.
pub(crate) fn left_out(subject: &Subject<'_>) -> Option<String> {
    left_out_waits(subject.left_out, subject.options, subject.values.sample_type, subject.unit)
}

/// The sums of waits of a sample type, in its unit, that are not shown.
pub(crate) fn left_out_waits(
    waits: &LeftOutWaits,
    options: &Options,
    sample_type: usize,
    unit: &str,
) -> Option<String> {
    let amount = |value| label(options.divided(value), unit, "auto");
    let named = waits.sums(sample_type).map(|(wait, sum)| named_wait(wait, &amount(sum)));
    let left_out = named.collect::<Vec<_>>().join(", ");
    (!left_out.is_empty()).then(|| format!("Left out: {left_out} (waits=all shows them)"))
}

/// An amount of waits of a kind.
pub(crate) fn named_wait(wait: Wait, amount: &str) -> String {
    let kind = match wait {
        Wait::Lock => "lock waits",
        Wait::Idle => "idle",
        Wait::Other => "waits",
    };
    format!("{amount} {kind}")
}

fn filters(subject: &Subject<'_>) -> Vec<String> {
    let cut = |text: String| match text
        .char_indices()
        .map(|(start, c)| start + c.len_utf8())
        .take_while(|end| *end <= FILTER_BYTES)
        .last()
    {
        Some(end) if end < text.len() => format!("   {}…", &text[..end]),
        _ => format!("   {text}"),
    };
    let active = subject.options.active_filters();
    let lines = active.iter().map(|(key, value)| cut(one_line(&format!("{key}={value}")).into_owned()));
    let heading = (!active.is_empty()).then(|| "Active filters:".to_owned());
    heading.into_iter().chain(lines).collect()
}

fn summary(subject: &Subject<'_>, shown: &Trimmed<'_>, to: &str, with_edges: bool) -> Vec<String> {
    let total = subject.total;
    let sum = shown.graph.shown_total();
    let share = percentage(sum, total);
    let amount = |value: i64| subject.amount(value, to);
    let mut lines =
        vec![format!("Showing nodes accounting for {}, {} of {} total", amount(sum), share.trim(), amount(total))];
    if total == 0 {
        return lines;
    }
    let mut dropped = |count: usize, what: &str, by: &str, share: f64| {
        if count > 0 {
            let plural = if count > 1 { "s" } else { "" };
            let limit = ((total as f64 * share) as i64).saturating_abs();
            lines.push(format!("Dropped {count} {what}{plural} ({by} <= {})", amount(limit)));
        }
    };
    dropped(shown.dropped_nodes, "node", "cum", subject.options.nodefraction);
    if with_edges {
        dropped(shown.dropped_edges, "edge", "freq", subject.options.edgefraction);
    }
    let count = shown.graph.shown.len();
    if count > 0 && count < shown.passed {
        lines.push(format!("Showing top {count} nodes out of {}", shown.passed));
    }
    lines
}
