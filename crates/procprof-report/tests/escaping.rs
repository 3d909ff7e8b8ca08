//! Names are hostile.

use crate::samples;

pub(crate) const NAMES: [&str; 8] = [
    "</script><svg onload=\"document.documentElement.setAttribute('pwned',1)\">",
    "]]></style><script>document.documentElement.setAttribute('pwned',1)</script>",
    "\" onclick=\"document.documentElement.setAttribute('pwned',1)",
    "'--><img src=x onerror=document.documentElement.setAttribute('pwned',1)>",
    "a\0b\u{1}\n\r\t\u{7f}\u{9b}31m",
    "\u{202e}evil\u{2066}\u{ffff}\u{fffe}",
    "&amp;&#60;b&#62;${1}`\\u003c",
    "日本語の関数::名前😀",
];

#[test]
fn no_report_lets_a_name_out() {
    let profile = samples::stacks(&[(&NAMES, 5), (&["plain", "a;b c"], 7)]);
    for kind in ["flamegraph", "html", "svg"] {
        let out = samples::text(&profile, kind, &[("title", NAMES[0])]);
        let is_page = kind == "html";
        assert_eq!(out.matches("<script").count(), if is_page { 3 } else { 1 }, "{kind}");
        assert_eq!(out.matches("</script>").count(), out.matches("<script").count(), "{kind}");
        assert_eq!(out.matches("</style>").count(), out.matches("<style>").count(), "{kind}");
        assert_eq!(out.matches("]]>").count(), if is_page { 0 } else { 2 }, "{kind}");
        for raw in ["onload=\"", "onclick=\"", "<img", "\0", "\u{1}", "\u{202e}", "\u{ffff}", "<b>"] {
            assert!(!out.contains(raw), "{kind} lets {raw:?} through");
        }
        assert!(out.contains("日本語の関数::名前😀"));
    }
    for kind in ["top", "collapsed", "tree", "peek", "traces", "tags", "raw", "dot", "callgrind", "list"] {
        let out = samples::text(&profile, kind, &[]);
        let columns = out.replace("+ context \t \t ", "");
        assert!(columns.chars().all(|c| c == '\n' || !c.is_control()), "{kind}");
    }
    // All that is quoted ends where it should.
    let dot = samples::text(&profile, "dot", &[]);
    for line in dot.lines() {
        assert_eq!(line.replace("\\\\", "").replace("\\\"", "").matches('"').count() % 2, 0, "{line}");
    }
    let collapsed = samples::text(&profile, "collapsed", &[]);
    assert_eq!(collapsed.lines().last(), Some("plain;a,b c 7"));
    let json: serde_json::Value = serde_json::from_str(&samples::text(&profile, "json", &[])).unwrap();
    assert_eq!(json["frames"].as_array().unwrap().len(), NAMES.len() + 3);
}
