//! Frames as Valgrind's tools write them: `0x109147: fill (work.c:3)`, `0x4C2: ??? (in /usr/lib/libc.so.6)`.

use super::call_tree::Frame;

/// A frame, taken apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ValgrindFrame<'a> {
    name: &'a str,
    file: &'a str,
    line: i64,
    column: i64,
    module: &'a str,
}

impl<'a> ValgrindFrame<'a> {
    pub(super) fn parse(text: &'a str) -> ValgrindFrame<'a> {
        let (address, rest) = text.split_once(": ").unwrap_or(("", text));
        let is_address = address.starts_with("0x");
        let text = if is_address { rest } else { text };
        let Some((name, place)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")) else {
            return ValgrindFrame { name: text, ..ValgrindFrame::default() };
        };
        let name = if name == "???" && is_address { address } else { name };
        if let Some(module) = place.strip_prefix("in ") {
            return ValgrindFrame { name, module, ..ValgrindFrame::default() };
        }
        let number = |text: &'a str| {
            let (front, number) = text.rsplit_once(':')?;
            Some((front, number.parse::<i64>().ok()?))
        };
        match number(place) {
            // dhat-rs writes columns, too.
            Some((front, last)) => match number(front) {
                Some((file, line)) => ValgrindFrame { name, file, line, column: last, module: "" },
                None => ValgrindFrame { name, file: front, line: last, ..ValgrindFrame::default() },
            },
            None => ValgrindFrame { name: text, ..ValgrindFrame::default() },
        }
    }

    pub(super) fn as_frame(&self) -> Frame<'a> {
        let ValgrindFrame { name, file, line, column, module } = *self;
        Frame { name, file, line, column, module, start_line: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_apart() {
        let none = ValgrindFrame::default();
        for (text, expected) in [
            ("0x1: f (a.c:3)", ValgrindFrame { name: "f", file: "a.c", line: 3, ..none }),
            (
                "0x1: a::f(int) (src/a.rs:3:7)",
                ValgrindFrame { name: "a::f(int)", file: "src/a.rs", line: 3, column: 7, ..none },
            ),
            ("0x1: ??? (in /lib/c.so)", ValgrindFrame { name: "0x1", module: "/lib/c.so", ..none }),
            ("[root]", ValgrindFrame { name: "[root]", ..none }),
            ("operator new(unsigned long)", ValgrindFrame { name: "operator new(unsigned long)", ..none }),
        ] {
            assert_eq!(ValgrindFrame::parse(text), expected, "{text}");
        }
    }
}
