//! Reports of one small profile against files. The file's name has the report and its options. `UPDATE_EXPECT=1`
//! rewrites them.

use crate::samples;

fn check(name: &str, kind: &str, pairs: &[(&str, &str)]) {
    let path = samples::folder().join(name);
    let got = samples::text(&samples::mixed(), kind, pairs);
    // The viewer is a file of its own; what a golden shows is what was made for this profile.
    let got = match (got.find("<script>"), got.find("</script>")) {
        (Some(start), Some(end)) => format!("{}{}", &got[..start], &got[end + 9..]),
        _ => got,
    };
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, &got).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(got == expected, "{name} differs; UPDATE_EXPECT=1 writes it anew\n{got}");
}

#[test]
fn reports_are_as_before() {
    check("mixed.flamegraph.svg", "flamegraph", &[]);
    check(
        "mixed.flamegraph.layout=icicle.minfraction=0.1.svg",
        "flamegraph",
        &[("layout", "icicle"), ("minfraction", "0.1")],
    );
    check("mixed.top.txt", "top", &[]);
    check("mixed.collapsed.txt", "collapsed", &[]);
    check("mixed.collapsed.granularity=lines.txt", "collapsed", &[("granularity", "lines")]);
    check("mixed.json", "json", &[]);
    check("mixed.symbols.txt", "symbols", &[]);
}
