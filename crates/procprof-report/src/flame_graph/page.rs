//! The flame graph inside an HTML page, with the functions that use most as a table below. The page needs nothing but itself.

use std::fmt::Write;

use procprof_profile::Profile;

use super::Graph;
use super::amount::percent;
use crate::graph;
use crate::selection::Selection;
use crate::text::{one_line, xml};

/// Rows of the table.
const ROWS: usize = 50;

const STYLE: &str = include_str!("page.css");

pub(super) fn page(profile: &Profile, graph: &Graph<'_>) -> String {
    let title = xml(&graph.heading.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    out.push_str(&graph.svg());
    push_table(&mut out, profile, graph);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn push_table(out: &mut String, profile: &Profile, graph: &Graph<'_>) {
    let selection = Selection::new(profile, graph.options);
    let sample_type = graph.tree.sample_type;
    let mut options = graph.options.clone();
    (options.nodecount, options.nodefraction) = (ROWS, 0.0);
    let found = graph::rows(profile, &selection, sample_type, &options);
    let total = graph::total(profile, sample_type);
    let what = xml(&graph.amount.what);
    let shown = found.rows.len();
    let _ = writeln!(
        out,
        "<section>\n<h2>Top functions</h2>\n<p>The {shown} of {} that use most themselves: {what}.</p>\n<table>\n\
         <thead><tr><th scope=\"col\">Self</th><th scope=\"col\">Self %</th><th scope=\"col\">Total</th><th scope=\"col\">Total %</th>\
         <th scope=\"col\">Function</th></tr></thead>\n<tbody>",
        found.passed
    );
    for row in &found.rows {
        let [flat, cum] = [row.flat, row.cum].map(|value| (xml(&graph.amount.text(value)), percent(value, total)));
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"name\">{}</td></tr>",
            flat.0,
            xml(&flat.1),
            cum.0,
            xml(&cum.1),
            xml(&one_line(&row.name))
        );
    }
    out.push_str("</tbody>\n</table>\n</section>\n");
}
