//! The line above a goroutine's stack.
//!
//! ```text
//! goroutine 18 gp=0xc000007c00 m=nil [chan receive (leaked), 5 minutes, locked to thread]:
//! goroutine 19 [select] {tenant: "a b", "odd key": x}:          labels, from Go 1.27 on
//! goroutine 19 [select labels:{"tenant": "a b"}]:               Go 1.26 with GODEBUG=tracebacklabels=1
//! ```
//! Format: Go, `goroutineheader` in `runtime/traceback.go`.

use crate::format::go_labels::labels_in;

/// The facts of the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GoroutineHeader {
    pub(super) state: String,
    pub(super) minutes: i64,
    /// Whether nothing can ever wake it.
    pub(super) is_leaked: bool,
    pub(super) labels: Vec<(String, String)>,
}

impl GoroutineHeader {
    pub(super) fn parse(line: &str) -> Option<GoroutineHeader> {
        let rest = line.strip_prefix("goroutine ")?;
        let (number, rest) = rest.split_once(' ')?;
        if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (_, inner) = rest.strip_suffix(':')?.split_once('[')?;
        let (facts, labels) = inner.split_at(inner.find([']', '{'])?);
        let (facts, labels) = match labels.strip_prefix(']') {
            Some(behind) => (facts, behind.trim()),
            None => (facts.trim_end_matches("labels:").trim_end(), labels.strip_suffix(']')?),
        };
        let labels = labels_in(labels)?;
        let mut parts = facts.split(", ");
        let state = parts.next().unwrap_or_default();
        let state = state.strip_suffix(" (scan)").unwrap_or(state);
        let is_leaked = state.ends_with(" (leaked)");
        let state = state.strip_suffix(" (leaked)").unwrap_or(state).to_owned();
        let minutes = parts.find_map(|part| part.strip_suffix(" minutes")?.parse().ok()).unwrap_or(0);
        Some(GoroutineHeader { state, minutes, is_leaked, labels })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_all_versions_are_read() {
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let is = |state: &str, minutes, is_leaked, labels| {
            Some(GoroutineHeader { state: state.to_owned(), minutes, is_leaked, labels })
        };
        for (line, expected) in [
            ("goroutine 1 [running]:", is("running", 0, false, vec![])),
            (
                "goroutine 7 gp=0x1 m=nil [chan receive (nil chan), 5 minutes, locked to thread]:",
                is("chan receive (nil chan)", 5, false, vec![]),
            ),
            ("goroutine 7 [chan send (leaked) (scan)]:", is("chan send", 0, true, vec![])),
            (
                "goroutine 7 [select, 2 minutes] {tenant: \"a b\", \"k\\\"], {\": x}:",
                is("select", 2, false, vec![label("tenant", "a b"), label("k\"], {", "x")]),
            ),
            (
                "goroutine 7 [chan receive (leaked)] {a: \"]:}\\u00e9\\n\"}:",
                is("chan receive", 0, true, vec![label("a", "]:}\u{e9}\n")]),
            ),
            (
                "goroutine 7 [chan receive labels:{\"k\": \"v}]\", \"l\": \"\\x41\"}]:",
                is("chan receive", 0, false, vec![label("k", "v}]"), label("l", "A")]),
            ),
            ("goroutine 7 [select]{\"a\": \"b\"}:", is("select", 0, false, vec![label("a", "b")])),
            ("goroutine 7 [select] {\"a}:", is("select", 0, false, vec![label("labels", "\"a")])),
            ("goroutine 7 [select] other:", None),
            ("goroutine 7 [select", None),
            ("goroutine x [select]:", None),
        ] {
            assert_eq!(GoroutineHeader::parse(line), expected, "{line}");
        }
    }
}
