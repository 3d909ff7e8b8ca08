//! The flame graph inside an HTML page, with the functions that use most as a table below. The page needs nothing but itself.

use std::fmt::Write;

use procprof_profile::Profile;

use super::Graph;
use super::amount::percent;
use crate::subject::Subject;
use crate::text::{one_line, xml};
use crate::{Result, top};

/// Rows of the table.
const ROWS: usize = 50;

const STYLE: &str = include_str!("page.css");

pub(super) fn page(profile: &Profile, graph: &Graph<'_>) -> Result<String> {
    let title = xml(&graph.heading.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    out.push_str(&graph.svg());
    push_table(&mut out, profile, graph)?;
    out.push_str("</main>\n</body>\n</html>\n");
    Ok(out)
}

fn push_table(out: &mut String, profile: &Profile, graph: &Graph<'_>) -> Result<()> {
    let mut options = graph.options.clone();
    (options.nodecount, options.nodefraction, options.trim) = (Some(ROWS), 0.0, true);
    let subject = Subject::new(profile, &options)?;
    let found = subject.graph(top::drawing(&options));
    let total = subject.total;
    let what = xml(&graph.amount.what);
    let shown = found.graph.shown.len();
    let _ = writeln!(
        out,
        "<section>\n<h2>Top functions</h2>\n<p>{what}, by function: the {shown} of {} that use most themselves.</p>\n<table>\n\
         <thead><tr><th scope=\"col\">Self</th><th scope=\"col\">Self %</th><th scope=\"col\">Total</th><th scope=\"col\">Total %</th>\
         <th scope=\"col\">Function</th></tr></thead>\n<tbody>",
        found.passed
    );
    for node in found.graph.shown_nodes() {
        let value = |value: i64| (xml(&graph.amount.text(options.divided(value))), percent(value, total));
        let [flat, cum] = [node.flat.value(), node.cum.value()].map(value);
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"name\">{}</td></tr>",
            flat.0,
            xml(&flat.1),
            cum.0,
            xml(&cum.1),
            xml(&one_line(&node.name))
        );
    }
    out.push_str("</tbody>\n</table>\n</section>\n");
    Ok(())
}
