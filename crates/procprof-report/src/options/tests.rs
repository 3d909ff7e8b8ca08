//! Options as text, as parsed, and as refused.

use super::*;

fn refused(pairs: &[(&str, &str)]) -> String {
    Options::parse(pairs.iter().copied()).expect_err("these options must be refused").to_string()
}

#[test]
fn typed_options_become_meant_ones() {
    let pairs = [
        ("focus", "^hot"),
        ("sort", "cum"),
        ("root", "main"),
        ("root", "a;b"),
        ("ignore", ""),
        ("minfraction", "0.25"),
    ];
    let options = Options::parse(pairs).unwrap();
    assert_eq!((options.filters.focus.as_str(), options.filters.ignore.as_str()), ("^hot", ""));
    assert_eq!(options.sort, Sort::Cum);
    assert_eq!(options.root, ["main", "a;b"]);
    assert_eq!(options.minfraction, 0.25);
}

#[test]
fn the_defaults_in_the_table_are_the_defaults() {
    let typed = Options::parse(OPTIONS.iter().map(|row| (row.key, row.default))).unwrap();
    assert_eq!(format!("{typed:?}"), format!("{:?}", Options::default()));
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_name() {
    assert_eq!(refused(&[("fokus", "x")]), "no report option \"fokus\"; did you mean \"focus\"?");
    assert_eq!(refused(&[("zebra", "x")]), "no report option \"zebra\"");
    assert_eq!(
        refused(&[("granularity", "line")]),
        "report option granularity=\"line\": expected functions, filefunctions, files, lines, addresses"
    );
    assert_eq!(refused(&[("nodecount", "-1")]), "report option nodecount=\"-1\": expected a number from 0 to 1000000");
    assert_eq!(
        refused(&[("nodefraction", "NaN")]),
        "report option nodefraction=\"NaN\": expected a number from 0 to 1"
    );
    assert_eq!(refused(&[("sort", "cum"), ("sort", "flat")]), "report option sort=\"flat\": given twice");
    assert!(refused(&[("focus", "(")]).starts_with("report option focus=\"(\": regex parse error"));
    assert!(refused(&[("focus", "((a{100}){100}){100}")]).contains("exceeds size limit"));
}
