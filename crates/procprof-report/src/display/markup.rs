//! HTML and SVG of reports: constants of the program, and texts that are escaped.

use std::fmt::{self, Display, LowerHex, Write};

use super::text::{push_xml, push_xml_text};

/// Appends HTML or SVG to a report. Markup is a constant of the program; every other text is escaped, for elements and
/// for quoted attributes alike.
pub(crate) struct MarkupWriter<'a> {
    out: &'a mut String,
}

/// Writes a constant with values in place of `{}`, each of which is escaped: `markup!(writer, "<b>{}</b>", name)`.
///
/// A value stands in a text or in an attribute in double quotes. The constant names none of them (`{name}` does not
/// compile), since such a value would not be escaped.
macro_rules! markup {
    ($writer:expr, $markup:literal $(, $value:expr)* $(,)?) => {{
        const { assert!($crate::display::markup::names_no_value($markup), "values of markup follow it") };
        $writer.write_escaped(format_args!($markup $(, $crate::display::markup::EscapedValue(&$value))*));
    }};
}
pub(crate) use markup;

impl<'a> MarkupWriter<'a> {
    /// Appends to `out`.
    pub(crate) fn new(out: &'a mut String) -> MarkupWriter<'a> {
        MarkupWriter { out }
    }

    /// Markup, a script or a style of the program.
    pub(crate) fn constant(&mut self, markup: &'static str) {
        self.out.push_str(markup);
    }

    /// A text, escaped.
    pub(crate) fn text(&mut self, text: &str) {
        push_xml(self.out, text);
    }

    /// A long text of an element without unfit characters, such as JSON of [`super::text::push_json`]: quotes, which are
    /// harmless in an element, stay as they are.
    pub(crate) fn element_text(&mut self, text: &str) {
        push_xml_text(self.out, text);
    }

    /// Called by [`markup!`] alone, which wraps each value.
    pub(crate) fn write_escaped(&mut self, markup: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.out.write_fmt(markup);
    }
}

/// A value whose text is escaped as it is written.
pub(crate) struct EscapedValue<'a, T: ?Sized>(pub(crate) &'a T);

impl<T: Display + ?Sized> Display for EscapedValue<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.precision() {
            Some(digits) => write!(EscapingFormatter(f), "{:.digits$}", self.0),
            None => write!(EscapingFormatter(f), "{}", self.0),
        }
    }
}

impl LowerHex for EscapedValue<'_, u64> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LowerHex::fmt(self.0, f)
    }
}

/// Escapes what is written to it.
struct EscapingFormatter<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for EscapingFormatter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b' ' | b'.' | b'-' | b'#' | b'%')) {
            return self.0.write_str(text);
        }
        let mut escaped = String::with_capacity(text.len());
        push_xml(&mut escaped, text);
        self.0.write_str(&escaped)
    }
}

/// Whether no place of a format string names its value: `{}`, `{:.1}` and `{{`, but not `{name}` nor `{0}`.
pub(crate) const fn names_no_value(format: &str) -> bool {
    let (bytes, mut at) = (format.as_bytes(), 0);
    while at < bytes.len() {
        if bytes[at] == b'{' {
            at += 1;
            if at == bytes.len() || !matches!(bytes[at], b'{' | b'}' | b':') {
                return false;
            }
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_constants_are_not() {
        let mut out = String::new();
        let mut writer = MarkupWriter::new(&mut out);
        let name = "a\"</b><script>'\u{202e}\n";
        markup!(writer, "<b title=\"{}\">{}</b>", name, name.to_owned());
        markup!(writer, "<i x=\"{:.1}\" y=\"{}\">{:x}</i>{{}}", 1.25, -7_i64, 255_u64);
        writer.text("<&>");
        writer.element_text("{\"a\":\"<\"}");
        writer.constant("<hr>");
        let escaped = "a&quot;&lt;/b&gt;&lt;script&gt;&#39;\u{fffd}\u{fffd}";
        assert_eq!(
            out,
            format!(
                "<b title=\"{escaped}\">{escaped}</b><i x=\"1.2\" y=\"-7\">ff</i>{{}}&lt;&amp;&gt;{{\"a\":\"&lt;\"}}<hr>"
            )
        );
    }

    #[test]
    fn a_constant_names_no_value() {
        for (format, expected) in [
            ("<b>{}</b>", true),
            ("{:.1}{:x}", true),
            ("b{{fill:red}}", true),
            ("<b>{name}</b>", false),
            ("{0}", false),
            ("{0:x}", false),
            ("{", false),
        ] {
            assert_eq!(names_no_value(format), expected, "{format}");
        }
    }
}
