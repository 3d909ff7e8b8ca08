//! The flame graph viewer as one HTML file that stands alone: its script, its style, and one slice of the call tree as
//! gzip in base64. Without JavaScript, the functions that use most are shown as a table.

use std::fmt::Write;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::display::amount::{Amount, percent};
use crate::display::text::{one_line, xml};
use crate::functions::top;
use crate::header::subject::Subject;
use crate::output::Output;
use crate::selection::view::View;
use crate::viewer::{Extent, Tree, script, style};
use crate::{Error, Options, Result};

/// Rows of the table.
const ROWS: usize = 50;
/// Page around the viewer.
const STYLE: &str = include_str!("page.css");
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes the page.
pub(crate) fn render_html(
    view: &View<'_>,
    options: &Options,
    _sources: &crate::Sources,
    out: &mut Output<'_>,
) -> Result<()> {
    let tree = Tree::from_view(view, options)?;
    let title = xml(tree.title());
    let _ = write!(
        out.text,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
         <style>\n{STYLE}{}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n",
        style().text
    );
    for fact in tree.facts() {
        let _ = writeln!(out.text, "<p class=\"fact\">{}</p>", xml(&one_line(fact)));
    }
    out.text.push_str("<div id=\"viewer\">\n");
    for note in tree.notes() {
        let _ = writeln!(out.text, "<p class=\"fact\">{}</p>", xml(&one_line(&note.text())));
    }
    push_table(&mut out.text, view, options)?;
    out.text.push_str("</div>\n<script type=\"application/json\" id=\"viewer-config\">{}</script>\n");
    out.text.push_str("<script type=\"text/plain\" id=\"viewer-tree\">");
    out.drain()?;
    let wide = if options.minfraction > 0.0 { (1.0 / options.minfraction) as u32 } else { u32::MAX };
    let slice = tree.slice(0, &Extent { wide, nodes: options.maxboxes, ..Extent::default() }, &options.budget)?;
    push_base64(&mut out.text, &compressed(&slice)?);
    drop(slice);
    let _ = writeln!(
        out.text,
        "</script>\n<script type=\"module\">\n{}</script>\n</main>\n</body>\n</html>",
        script().text
    );
    Ok(())
}

fn compressed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let write = encoder.write_all(bytes).and_then(|()| encoder.finish());
    write.map_err(|_| Error::MemoryLimit { table: "the compressed tree", most: u64::MAX })
}

fn push_base64(out: &mut String, bytes: &[u8]) {
    out.reserve(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let value = three.iter().fold(0_u32, |value, byte| value << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..4 {
            let is_filled = digit <= three.len();
            out.push(if is_filled { char::from(BASE64[(value >> (18 - 6 * digit)) as usize & 63]) } else { '=' });
        }
    }
}

/// The functions that use most, for browsers without JavaScript.
fn push_table(out: &mut String, view: &View<'_>, options: &Options) -> Result<()> {
    let mut options = options.clone();
    (options.nodecount, options.nodefraction, options.trim) = (Some(ROWS), 0.0, true);
    let subject = Subject::new(view, &options)?;
    let found = subject.graph(top::drawing(&options))?;
    let amount = Amount::of_profile(&view.profile, options.sample_type(&view.profile)?);
    let what = xml(&amount.what);
    let shown = found.graph.shown.len();
    let _ = writeln!(
        out,
        "<section class=\"pv-fallback\">\n<h2>Top functions</h2>\n<p>{what} by function: the {shown} of {} with the largest own value.</p>\n\
         <table>\n<thead><tr><th scope=\"col\">Self</th><th scope=\"col\">Self %</th><th scope=\"col\">Total</th>\
         <th scope=\"col\">Total %</th><th scope=\"col\">Function</th></tr></thead>\n<tbody>",
        found.passed
    );
    for node in found.graph.shown_nodes() {
        let value = |value: i64| (xml(&amount.text(options.divided(value))), percent(value, subject.total));
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

#[cfg(test)]
mod tests {
    use super::push_base64;

    #[test]
    fn base64_is_padded() {
        for (bytes, expected) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("\u{ff}\u{3e}?", "w78+Pw==")]
        {
            let mut text = String::new();
            push_base64(&mut text, bytes.as_bytes());
            assert_eq!(text, expected, "{bytes:?}");
        }
    }
}
