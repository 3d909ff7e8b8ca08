//! Names are untrusted: escapes texts before they are written into a report.

use std::borrow::Cow;

/// Replaces a character that must not be shown.
const REPLACEMENT: char = '\u{fffd}';

/// Characters that would end a line, control a terminal, reorder the text around them, or are not allowed in XML.
fn is_unfit(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Whether a text is printable ASCII, as nearly all are; checks many bytes at once, up to the end.
fn is_plain(text: &str) -> bool {
    !text.bytes().fold(false, |found, byte| found | !matches!(byte, b' '..=b'~'))
}

/// The replacement of a character: a blank for a tab, which separates a kernel symbol from its module.
fn fit(c: char) -> char {
    match c {
        '\t' => ' ',
        c if is_unfit(c) => REPLACEMENT,
        c => c,
    }
}

/// The text with every unfit character replaced.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    if text.contains(is_unfit) { Cow::Owned(text.chars().map(fit).collect()) } else { Cow::Borrowed(text) }
}

/// Appends the text for an XML or HTML element, where quotes are harmless; unfit characters must be gone already.
pub(crate) fn push_xml_text(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>']) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        push_xml(out, &after[..1]);
        rest = &after[1..];
    }
    out.push_str(rest);
}

/// Appends the text for an XML or HTML element or quoted attribute.
pub(crate) fn push_xml(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(fit(c)),
        }
    }
}

/// Appends the text as a JSON string, quotes included; unfit characters are replaced.
pub(crate) fn push_json(out: &mut String, text: &str) {
    out.push('"');
    let text = one_line(text);
    let mut rest = text.as_ref();
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest.as_bytes()) {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        out.push('\\');
        out.push_str(&after[..1]);
        rest = &after[1..];
    }
    out.push_str(rest);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xml(text: &str) -> String {
        let mut out = String::new();
        push_xml(&mut out, text);
        out
    }

    #[test]
    fn hostile_names_become_harmless() {
        let name = "a\0b\n</script><svg onload=\"x\">&]]>'\u{202e}\u{ffff}\\";
        assert_eq!(one_line(name), "a\u{fffd}b\u{fffd}</script><svg onload=\"x\">&]]>'\u{fffd}\u{fffd}\\");
        assert_eq!(
            xml(name),
            "a\u{fffd}b\u{fffd}&lt;/script&gt;&lt;svg onload=&quot;x&quot;&gt;&amp;]]&gt;&#39;\u{fffd}\u{fffd}\\"
        );
        let mut json = String::new();
        push_json(&mut json, name);
        assert_eq!(json, "\"a\u{fffd}b\u{fffd}</script><svg onload=\\\"x\\\">&]]>'\u{fffd}\u{fffd}\\\\\"");
        assert!(matches!(one_line("plain"), Cow::Borrowed(_)));
        assert_eq!((one_line("nf_hook\t[nf_tables]").as_ref(), xml("a\tb").as_str()), ("nf_hook [nf_tables]", "a b"));
    }
}
