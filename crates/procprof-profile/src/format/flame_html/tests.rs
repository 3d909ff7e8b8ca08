use std::collections::BTreeMap;

use super::super::{Detect, fixtures};
use super::*;
use crate::format::{collapsed, decode};

/// Stacks with their values, root first.
fn stacks(profile: &Profile) -> BTreeMap<String, i64> {
    let text = String::from_utf8(collapsed::encode(profile).unwrap()).unwrap();
    let mut stacks = BTreeMap::new();
    for line in text.lines() {
        let (stack, value) = line.rsplit_once(' ').unwrap();
        *stacks.entry(stack.to_owned()).or_default() += value.parse::<i64>().unwrap();
    }
    stacks
}

/// A page of version 1.8 to 2.9 or of 3.0 and later.
fn page(head: &str, tree: &str) -> Vec<u8> {
    let head = format!(
        "<!DOCTYPE html>\n<h1>{head}</h1>\n<script>\n// Copyright 2020 Andrei Pangin\nconst levels = Array(9);\n\tf(key, 1, 2)\n"
    );
    format!("{head}{tree}search();\n</script></body></html>\n").into_bytes()
}

fn values(text: &[u8]) -> BTreeMap<String, i64> {
    stacks(&fixtures::decoded(text).profile)
}

#[test]
fn pages_of_real_sessions_have_the_stacks_of_their_collapsed_output() {
    for version in ["4.0", "4.5"] {
        let decoded = fixtures::decoded(&fixtures::bytes(&format!("async-profiler-html/work-{version}.html")));
        let expected = fixtures::decoded(&fixtures::bytes(&format!("async-profiler-html/work-{version}.collapsed")));
        assert_eq!((decoded.format, decoded.profile.sample_type(0)), (NAME, ("samples", "count")), "{version}");
        assert_eq!(stacks(&decoded.profile), stacks(&expected.profile), "{version}");
        assert_eq!(decoded.profile.meta().profile_type, Some(ProfileType::Cpu));
        let reversed =
            fixtures::decoded(&fixtures::bytes(&format!("async-profiler-html/work-{version}-reversed.html")));
        assert_eq!(stacks(&reversed.profile), stacks(&expected.profile), "{version} reversed");
    }
}

#[test]
fn names_are_unpacked_and_boxes_stand_where_they_are_put() {
    let names = "const cpool = [\n'all',\n' a/B.run',\n'$C.it\\'s',\n'#D\\\\n',\n];\nunpack(cpool);\n\n";
    let tree = "n(3,10)\nu(9,7)\nu(17,2)\nn(25,1)\nf(27,1,4,3)\n";
    let decoded = decode(&page("Lock profile (ns)", &format!("{names}{tree}")), &Limits::default()).unwrap();
    let expected = [("a/B.run", 4), ("a/B.run;a/B.C.it's", 2), ("a/B.run;a/BD\\n", 1), ("a/BD\\n", 3)];
    assert_eq!(stacks(&decoded.profile), expected.map(|(stack, value)| (stack.to_owned(), value)).into());
    assert_eq!(decoded.profile.sample_type(0), ("delay", "nanoseconds"));
}

#[test]
fn frames_decide_the_direction_of_stacks() {
    // Two stacks of a page: `first` and its two callers or callees.
    let tree = |flag: &str, names: [&str; 3]| {
        let [first, second, third] = names;
        let head = format!("CPU profile</h1>\n\t{flag}\n<h1>CPU profile");
        let boxes = format!("f(0,0,9,4,'all')\nf(1,0,9,0,'{first}')\nf(2,0,6,0,'{second}')\nf(2,6,3,0,'{third}')\n");
        values(&page(&head, &boxes)).into_keys().collect::<Vec<_>>()
    };
    let (lets, turned, constant) = ("let inverted = false;", "let inverted = true;", "const inverted = true;");
    for flag in [lets, turned] {
        assert_eq!(
            tree(flag, ["java/lang/Thread.run", "a", "b"]),
            ["java/lang/Thread.run;a", "java/lang/Thread.run;b"]
        );
        assert_eq!(
            tree(flag, ["spin", "A.main", "java/lang/Thread.run"]),
            ["A.main;spin", "java/lang/Thread.run;spin"]
        );
        assert_eq!(tree(flag, ["do_fork_[k]", "a", "b"]), ["a;do_fork_[k]", "b;do_fork_[k]"]);
        assert_eq!(tree(flag, ["few", "a", "b"]), ["few;a", "few;b"]);
    }
    assert_eq!(tree(constant, ["A.main", "a", "b"]), ["a;A.main", "b;A.main"]);
}

#[test]
fn pages_before_3_0_have_a_name_in_each_box() {
    let tree = "f(0,0,10,4,'all')\nf(1,0,6,0,'a.b')\nf(2,0,2,0,'it\\'s, \\\\ so',1,2,3)\nf(1,6,4,2,'do_fork')\n";
    let decoded = decode(&page("Allocation profile (bytes)", tree), &Limits::default()).unwrap();
    let expected = [("a.b", 4), ("a.b;it's, \\ so", 2), ("do_fork", 4)];
    assert_eq!(stacks(&decoded.profile), expected.map(|(stack, value)| (stack.to_owned(), value)).into());
    assert_eq!(decoded.profile.sample_type(0), ("alloc_space", "bytes"));
    let files: Vec<_> =
        decoded.profile.mappings().iter().map(|mapping| decoded.profile.string(mapping.filename)).collect();
    assert_eq!(files, ["[jvm]", "[kernel]"]);
}

#[test]
fn errors_of_broken_pages_contain_the_place() {
    let first = "const cpool = [\n'all',\n' a',\n];\nn(3,9)\n";
    for (tree, expected) in [
        ("u(999,1)\n", "line 12: expected a box of the tree"),
        ("f(8,7,0,1)\n", "line 12: expected a box of the tree"),
        ("u(8,99999999999999999999)\n", "line 12: expected a box of the tree"),
    ] {
        assert_eq!(
            fixtures::error(&page("CPU profile", &format!("{first}{tree}"))),
            format!("{NAME}: {expected}"),
            "{tree}"
        );
    }
    assert!(fixtures::error(&page("", "const cpool = [\n'all',\nx\n")).contains("line 9: expected a name in quotes"));
    let difference = page("CPU profile", &format!("\tconst maxdiff = /*maxdiff:*/12;\n{first}"));
    assert!(
        fixtures::error(&difference).contains("line 7: a differential flame graph"),
        "{}",
        fixtures::error(&difference)
    );
    let whole = page("CPU profile", first);
    let cut = &whole[..whole.len() - 40];
    assert!(fixtures::error(cut).contains("input ends inside the tree"), "{}", fixtures::error(cut));
    assert_eq!(values(&whole).len(), 0);
}

#[test]
fn one_deep_stack_below_many_leaves_is_bounded() {
    let mut tree = String::from("const cpool = [\n'all',\n' a',\n];\nn(3,9000)\n");
    (0..2000).for_each(|_| tree.push_str("u(8,8000)\n"));
    (0..2000).for_each(|_| tree.push_str("f(8,2001,1,1)\n"));
    assert!(
        fixtures::error(&page("CPU profile", &tree))
            .contains("the size of stacks, in times the page's, passes the limit of 32")
    );
    let limits = Limits { depth: 100, ..Limits::default() };
    assert!(decode(&page("CPU profile", &tree), &limits).unwrap_err().to_string().contains("frames of a stack"));
}

#[test]
fn other_pages_are_not_taken() {
    assert_eq!(detect(b"<!DOCTYPE html><h1>async-profiler</h1>"), Detect::NeedMore);
    assert_eq!(detect(&[b"<html>".to_vec(), vec![b' '; DETECT_BYTES]].concat()), Detect::No);
    assert_eq!(detect(b"heap profile"), Detect::No);
    fixtures::check_hostile(&page("CPU profile", "const cpool = [\n'all',\n' a',\n];\nn(3,9)\nu(8,3)\nn(9,2)\n"));
}
