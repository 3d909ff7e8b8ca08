//! Flame graphs as pictures (SVG), as `flamegraph.pl`, inferno and py-spy draw them: titles and boxes.
//!
//! ```text
//! <g><title>main (10 samples, 50.00%)</title><rect x="10.0" y="37" width="1180.0" height="15.0" …/></g>
//! ```
//! A box lies on its caller: of the row nearer to that of the root (`all`, which is no frame), the box below its
//! middle. Roots are at the bottom, or at the top of a picture turned upside down. A stack has what its box counts more
//! than the boxes on it. Boxes too narrow to be drawn are not in the picture; what they count is their callers'.
//!
//! The counted word gives the sample type: `samples`, `space` of bytes, `time` of seconds and their parts, else the
//! word itself. Of differences (`…%; +1.00%`) the widths are read.
//!
//! Source: <https://github.com/brendangregg/FlameGraph>, <https://github.com/jonhoo/inferno>

use std::borrow::Cow;

use memchr::memmem;

use super::call_tree::{self, CallTree, Frame, NodeId, UNLABELLED};
use super::left_out::LeftOut;
use super::{Detect, Format, Limits};
use crate::{Error, Place, Profile, Result};

/// Name of the format.
pub const NAME: &str = "flame-svg";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "flame graph of flamegraph.pl or inferno, SVG",
    detect,
    decode,
    events: None,
    encode: None,
};

/// Most bytes that are read to detect a picture: its style and script precede the first box.
const DETECT_BYTES: usize = 128 << 10;

/// Whether the bytes are a picture with boxes that count something.
pub fn detect(bytes: &[u8]) -> Detect {
    let start = bytes.trim_ascii_start();
    if !start.starts_with(b"<") {
        return if start.is_empty() { Detect::NeedMore } else { Detect::No };
    }
    let head = &bytes[..bytes.len().min(DETECT_BYTES)];
    let Some(svg) = memmem::find(&head[..head.len().min(4096)], b"<svg") else {
        return if head.len() < 4096 && start.starts_with(b"<?xml") { Detect::NeedMore } else { Detect::No };
    };
    match memmem::find(&head[svg..], b"%)</title>") {
        Some(_) => Detect::Yes,
        None if head.len() < DETECT_BYTES => Detect::NeedMore,
        None => Detect::No,
    }
}

/// A box of the picture.
struct Rectangle<'t> {
    name: Cow<'t, str>,
    value: f64,
    left: f64,
    width: f64,
    top: f64,
    /// Where it is in the text.
    offset: usize,
}

/// Decodes a picture.
///
/// # Errors
/// [`Error::Malformed`] without any box, [`Error::TooLarge`] past the depth limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let text = String::from_utf8_lossy(bytes);
    let mut left_out = LeftOut::default();
    let (boxes, word) = read_boxes(&text, &mut left_out);
    count_lines_behind(&text, &mut left_out);
    let unit = Unit::from_word(&word);
    let tree = CallTree::new(NAME, &[(&unit.kind, unit.unit)], bytes.len(), limits);
    let (profile, not_drawn) = build(boxes, tree, unit.factor, &mut left_out)?;
    let is_empty = profile.sample_count() == 0;
    if not_drawn > 0.0 && left_out.is_empty() {
        warnings.push(format!("{NAME}: {not_drawn} {word} are in roots too narrow to be drawn, and left out"));
    }
    left_out.end(NAME, is_empty, warnings)?;
    if is_empty {
        return Err(Error::Malformed { format: NAME, place: Place::Offset(0), what: "no boxes".to_owned() });
    }
    Ok(profile)
}

/// All boxes with a title, and the word for what they count.
fn read_boxes<'t>(text: &'t str, left_out: &mut LeftOut) -> (Vec<Rectangle<'t>>, String) {
    let (mut boxes, mut word, mut at) = (Vec::new(), String::new(), 0);
    while let Some(start) = text[at..].find("<title>").map(|start| at + start + 7) {
        let Some(end) = text[start..].find("</title>").map(|end| start + end) else { break };
        at = end + 8;
        let next = text[at..].find("<title>").map_or(text.len(), |next| at + next);
        let Some(rectangle) = text[at..next].find("<rect ").map(|rectangle| &text[at + rectangle..next]) else {
            continue;
        };
        let rectangle = rectangle.split('>').next().unwrap_or_default();
        let read = Title::read(&text[start..end]).and_then(|title| {
            let number = |key: &str| attribute(rectangle, key);
            if word.is_empty() {
                word = unescaped(title.word).into_owned();
            }
            let (left, width, top) = (number("x")?, number("width")?, number("y")?);
            Some(Rectangle { name: unescaped(title.name), value: title.value, left, width, top, offset: start })
        });
        match read {
            Some(read) => boxes.push(read),
            None => left_out.add(1, odd(start, "expected a box such as \"main (10 samples, 50.00%)\"")),
        }
    }
    (boxes, word)
}

fn count_lines_behind(text: &str, left_out: &mut LeftOut) {
    let end = text.rfind("</svg>").map_or(text.len(), |end| end + 6);
    for line in text[end..].lines().filter(|line| !line.trim().is_empty()) {
        let offset = line.as_ptr() as usize - text.as_ptr() as usize;
        left_out.add(1, odd(offset, "text behind the picture"));
    }
}

fn odd(offset: usize, what: &str) -> Error {
    Error::Malformed { format: NAME, place: Place::Offset(offset), what: what.to_owned() }
}

/// The title of a box.
struct Title<'t> {
    name: &'t str,
    value: f64,
    word: &'t str,
}

impl<'t> Title<'t> {
    /// Reads `main (1,234 samples, 50.00%)`, `main (10 samples, 50.00%; +1.00%)`.
    fn read(text: &'t str) -> Option<Title<'t>> {
        let (name, counted) = text.trim_end().strip_suffix(')')?.rsplit_once(" (")?;
        let (counted, percent) = counted.rsplit_once(", ")?;
        percent.split(';').next()?.strip_suffix('%')?.parse::<f64>().ok()?;
        let (value, word) = counted.split_once(' ').unwrap_or((counted, ""));
        let value = value.replace(',', "").parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)?;
        Some(Title { name, value, word })
    }
}

/// The number of `width="12.5"` or `width="1.25%"`.
fn attribute(rectangle: &str, key: &str) -> Option<f64> {
    let start = rectangle.find(&format!(" {key}=\""))? + key.len() + 3;
    let value = rectangle[start..].split('"').next()?.trim_end_matches('%');
    value.parse().ok().filter(|value: &f64| value.is_finite())
}

fn unescaped(name: &str) -> Cow<'_, str> {
    if !name.contains('&') {
        return Cow::Borrowed(name);
    }
    const ENTITIES: [(&str, &str); 6] =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&amp;", "&")];
    // The ampersand comes last, so that what it escapes stays.
    Cow::Owned(ENTITIES.iter().fold(name.to_owned(), |name, (entity, plain)| name.replace(entity, plain)))
}

/// The sample type of a counted word.
struct Unit {
    kind: String,
    unit: &'static str,
    factor: f64,
}

impl Unit {
    fn from_word(word: &str) -> Unit {
        let (kind, unit, factor) = match word.trim() {
            "" | "samples" => ("samples", "count", 1.0),
            "bytes" => ("space", "bytes", 1.0),
            "ns" | "nanoseconds" => ("time", "nanoseconds", 1.0),
            "us" | "μs" | "µs" | "microseconds" => ("time", "nanoseconds", 1e3),
            "ms" | "milliseconds" => ("time", "nanoseconds", 1e6),
            "s" | "seconds" => ("time", "nanoseconds", 1e9),
            other => (other, "count", 1.0),
        };
        Unit { kind: kind.to_owned(), unit, factor }
    }
}

/// A box on which others may lie.
struct Drawn {
    left: f64,
    right: f64,
    node: NodeId,
    /// What it counts more than the boxes on it.
    own: f64,
}

/// Stacks boxes onto their callers; also gives what the box `all` counts more than those on it.
fn build(
    mut boxes: Vec<Rectangle<'_>>,
    mut tree: CallTree,
    factor: f64,
    left_out: &mut LeftOut,
) -> Result<(Profile, f64)> {
    let is_upside_down = is_root_at_top(&boxes);
    let height = |one: &Rectangle<'_>| if is_upside_down { one.top } else { -one.top };
    boxes.sort_by(|one, next| height(one).total_cmp(&height(next)).then(one.left.total_cmp(&next.left)));
    // Of the row below.
    let mut below: Vec<Drawn> = Vec::new();
    let add = |tree: &mut CallTree, row: Vec<Drawn>| {
        for Drawn { node, own, .. } in row.into_iter().filter(|drawn| drawn.node != call_tree::ROOT) {
            tree.add(node, UNLABELLED, &[(own.max(0.0) * factor).round() as i64]);
        }
    };
    let mut not_drawn = 0.0;
    for (level, row) in boxes.chunk_by(|one, next| one.top == next.top).enumerate() {
        let mut here = Vec::with_capacity(row.len());
        for one in row {
            let mut parent = call_tree::ROOT;
            if level > 0 {
                let middle = one.left + one.width / 2.0;
                let place = below.partition_point(|drawn| drawn.left <= middle).checked_sub(1);
                let Some(place) = place.filter(|place| middle <= below[*place].right) else {
                    left_out.add(1, odd(one.offset, "a box on no other"));
                    continue;
                };
                below[place].own -= one.value;
                parent = below[place].node;
            }
            let is_all = level == 0 && row.len() == 1 && one.name == "all";
            let node = match is_all {
                true => parent,
                false => {
                    let frame = tree.frame(&Frame { name: &one.name, ..Frame::default() });
                    tree.child(parent, frame)?
                }
            };
            here.push(Drawn { left: one.left, right: one.left + one.width, node, own: one.value });
        }
        let done = std::mem::replace(&mut below, here);
        let all = done.iter().filter(|drawn| drawn.node == call_tree::ROOT);
        not_drawn += all.map(|drawn| drawn.own.max(0.0)).sum::<f64>();
        add(&mut tree, done);
    }
    add(&mut tree, below);
    Ok((tree.finish()?, not_drawn))
}

/// Whether the row of the root is the highest: the one with the box `all`, else with the widest box.
fn is_root_at_top(boxes: &[Rectangle<'_>]) -> bool {
    let (top, bottom) = boxes
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(top, bottom), one| (one.top.min(top), one.top.max(bottom)));
    let row = |at: f64| boxes.iter().filter(move |one| one.top == at);
    let widest = |at: f64| row(at).fold(0.0, |widest: f64, one| widest.max(one.width));
    match (row(bottom).any(|one| one.name == "all"), row(top).any(|one| one.name == "all")) {
        (true, _) => false,
        (false, true) => true,
        (false, false) => widest(top) > widest(bottom),
    }
}

#[cfg(test)]
mod tests {
    use crate::format::collapsed;
    use crate::format::fixtures::{check_hostile, complaint, decoded};

    fn picture(boxes: &[(&str, &str, f64, f64, u32)]) -> String {
        let mut text = "<?xml version=\"1.0\" standalone=\"no\"?>\n<!DOCTYPE svg PUBLIC>\n<svg version=\"1.1\" width=\"1200\">\n<text id=\"title\" x=\"600\">Flame Graph</text>\n".to_owned();
        for (name, counted, x, width, y) in boxes {
            text += &format!(
                "<g >\n<title>{name} ({counted})</title><rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"15.0\" rx=\"2\" />\n<text x=\"1\" y=\"2\">{name}</text>\n</g>\n"
            );
        }
        text + "</svg>\n"
    }

    fn stacks(text: &str) -> String {
        String::from_utf8(collapsed::encode(&decoded(text.as_bytes()).profile).unwrap()).unwrap()
    }

    #[test]
    fn boxes_lie_on_their_callers() {
        let boxes = [
            ("all", "1,010 samples, 100%", 10.0, 101.0, 60),
            ("main", "1,010 samples, 100.00%", 10.0, 101.0, 44),
            ("a&lt;int&gt;", "1,000 samples, 99.01%", 10.0, 100.0, 28),
            ("b", "10 samples, 0.99%", 110.0, 1.0, 28),
            ("c", "4 samples, 0.40%; +0.10%", 110.2, 0.4, 12),
        ];
        let expected = "main;a<int> 1000\nmain;b 6\nmain;b;c 4\n";
        let text = picture(&boxes);
        assert_eq!(stacks(&text), expected);
        assert_eq!(
            stacks(&picture(&boxes.map(|(name, counted, x, width, y)| (name, counted, x, width, 72 - y)))),
            expected
        );
        assert_eq!(stacks(&text.replace("samples", "ms")).lines().next(), Some("main;a<int> 1000000000"));
        assert_eq!(decoded(text.replace("samples", "bytes").as_bytes()).profile.sample_type(0), ("space", "bytes"));
        check_hostile(text.as_bytes());
    }

    #[test]
    fn what_is_no_box_is_counted() {
        let text = picture(&[("f", "1 samples, 50%", 10.0, 100.0, 44), ("g", "1 samples, half", 110.0, 100.0, 44)]);
        assert_eq!(
            complaint(text.as_bytes()),
            "flame-svg: left out 1 record that cannot be read, the first: offset 275: expected a box such as \"main (10 samples, 50.00%)\""
        );
        assert!(complaint(b"<svg><title>x (y%)</title></svg>").contains("flame-svg: offset 0: no boxes"));
    }
}
