//! The flame graph viewer as one HTML file that stands alone: its script, its style, and one slice of the call tree as
//! gzip in base64. Without JavaScript, the functions that use most are shown as a table.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::display::amount::{Amount, percent};
use crate::display::markup::{MarkupWriter, markup};
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
    let title = tree.title();
    let mut page = MarkupWriter::new(&mut out.text);
    markup!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n",
        title
    );
    page.constant(STYLE);
    page.constant(style().text);
    markup!(page, "</style>\n</head>\n<body>\n<main>\n<h1>{}</h1>\n", title);
    for fact in tree.facts() {
        markup!(page, "<p class=\"fact\">{}</p>\n", fact);
    }
    page.constant("<div id=\"viewer\">\n");
    for note in tree.notes() {
        markup!(page, "<p class=\"fact\">{}</p>\n", note.text());
    }
    push_table(&mut page, view, options)?;
    page.constant("</div>\n<script type=\"application/json\" id=\"viewer-config\">{}</script>\n");
    page.constant("<script type=\"text/plain\" id=\"viewer-tree\">");
    out.drain()?;
    let wide = if options.minfraction > 0.0 { (1.0 / options.minfraction) as u32 } else { u32::MAX };
    let slice = tree.slice(0, &Extent { wide, nodes: options.maxboxes, ..Extent::default() }, &options.budget)?;
    // Its letters are none that markup uses.
    push_base64(&mut out.text, &compressed(&slice)?);
    drop(slice);
    let mut page = MarkupWriter::new(&mut out.text);
    for part in ["</script>\n<script type=\"module\">\n", script().text, "</script>\n</main>\n</body>\n</html>\n"] {
        page.constant(part);
    }
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
fn push_table(out: &mut MarkupWriter<'_>, view: &View<'_>, options: &Options) -> Result<()> {
    let mut options = options.clone();
    (options.nodecount, options.nodefraction, options.trim) = (Some(ROWS), 0.0, true);
    let subject = Subject::new(view, &options)?;
    let found = subject.graph(top::drawing(&options))?;
    let amount = Amount::of_profile(&view.profile, options.sample_type(&view.profile)?);
    markup!(
        out,
        "<section class=\"pv-fallback\">\n<h2>Top functions</h2>\n<p>{} by function: the {} of {} with the largest own value.</p>\n\
         <table>\n<thead><tr><th scope=\"col\">Self</th><th scope=\"col\">Self %</th><th scope=\"col\">Total</th>\
         <th scope=\"col\">Total %</th><th scope=\"col\">Function</th></tr></thead>\n<tbody>\n",
        amount.what,
        found.graph.shown.len(),
        found.passed
    );
    for node in found.graph.shown_nodes() {
        let value = |value: i64| (amount.text(options.divided(value)), percent(value, subject.total));
        let [flat, cum] = [node.flat.value(), node.cum.value()].map(value);
        markup!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"name\">{}</td></tr>\n",
            flat.0,
            flat.1,
            cum.0,
            cum.1,
            node.name
        );
    }
    out.constant("</tbody>\n</table>\n</section>\n");
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
