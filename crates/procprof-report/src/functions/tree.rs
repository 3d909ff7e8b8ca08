//! `tree` and `peek`: each function between its callers and its callees, in the shape of `go tool pprof -tree` and
//! `-peek`.
//!
//! ```text
//!       flat  flat%   sum%        cum   cum%   calls calls% + context
//! ----------------------------------------------------------+-------------
//!                                              6.11s   100% |   main.work
//!      6.11s 69.99% 69.99%      6.11s 69.99%                | hot_70
//! ```
//! `tree` shows the functions that `top` would, up to 80 of them; `peek` those whose name matches, with all their
//! calls.

use std::fmt::Write;

use regex::Regex;

use crate::display::measure::percentage;
use crate::display::text::one_line;
use crate::graph::{Edge, Graph, Trimmed};
use crate::header::headline;
use crate::header::subject::{Drawing, Subject};
use crate::output::Output;
use crate::selection::view::View;
use crate::{Error, Options, Result, Sources};

const SEPARATOR: &str = "----------------------------------------------------------+-------------";
/// Blanks and tabs at the end as pprof has them.
const COLUMNS: &str = "      flat  flat%   sum%        cum   cum%   calls calls% + context \t \t ";

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let subject = Subject::new(view, options)?;
    let shown = subject.graph(drawing(options, true))?;
    table(out, &subject, &shown, None)
}

pub(crate) fn render_peek(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let subject = Subject::new(view, options)?;
    let shown = subject.graph(drawing(options, false))?;
    let Some(wanted) = &options.symbol else { return table(out, &subject, &shown, None) };
    if !shown.graph.shown_nodes().any(|node| wanted.is_match(&node.name)) {
        return Err(Error::no_match(wanted, "the profile has none"));
    }
    table(out, &subject, &shown, Some(wanted))
}

fn drawing(options: &Options, trims: bool) -> Drawing {
    Drawing { granularity: options.granularity, trims, nodes: 80, picture: false, call_tree: false, objects: false }
}

fn table(out: &mut Output<'_>, subject: &Subject<'_>, shown: &Trimmed<'_>, wanted: Option<&Regex>) -> Result<()> {
    let graph = &shown.graph;
    let to = subject.output_unit(graph, false);
    for line in headline::lines(subject, shown, to) {
        let _ = writeln!(out.text, "{line}");
    }
    let _ = writeln!(out.text, "{SEPARATOR}\n{COLUMNS}");
    let mut sum = 0i64;
    for node in graph.shown_nodes().filter(|node| wanted.is_none_or(|wanted| wanted.is_match(&node.name))) {
        let (flat, cum) = (node.flat.value(), node.cum.value());
        let _ = writeln!(out.text, "{SEPARATOR}");
        for edge in graph.sorted(&node.incoming) {
            push_call(&mut out.text, subject, graph, (&graph.edges[edge as usize], |edge| edge.source), cum, to);
            out.drain()?;
        }
        sum = sum.saturating_add(flat);
        let [flat_share, sum_share, cum_share] = [flat, sum, cum].map(|value| percentage(value, subject.total));
        let [flat, cum_text] = [flat, cum].map(|value| subject.amount(value, to));
        let name = one_line(&node.name);
        let _ = writeln!(
            out.text,
            "{flat:>10} {flat_share} {sum_share} {cum_text:>10} {cum_share}                | {name}"
        );
        for edge in graph.sorted(&node.outgoing) {
            push_call(&mut out.text, subject, graph, (&graph.edges[edge as usize], |edge| edge.target), cum, to);
            out.drain()?;
        }
    }
    if !graph.shown.is_empty() {
        let _ = writeln!(out.text, "{SEPARATOR}");
    }
    Ok(())
}

/// A line for a call, with the name of its other end.
fn push_call(
    out: &mut String,
    subject: &Subject<'_>,
    graph: &Graph<'_>,
    call: (&Edge, fn(&Edge) -> u32),
    cum: i64,
    to: &str,
) {
    let (edge, other) = call;
    let inlined = if edge.inlined { " (inline)" } else { "" };
    let name = one_line(&graph.node(other(edge)).name);
    let weight = edge.weight.sum;
    let _ = writeln!(out, "{:>50} {} |   {name}{inlined}", subject.amount(weight, to), percentage(weight, cum));
}
