//! Search, table and sandwich.

use std::collections::BTreeSet;

use procprof_profile::Profile;
use procprof_report::viewer::{TableOrder, TableQuery, Tree};
use procprof_report::{Budget, StackTree};
use regex::Regex;

use super::decoded::Row;
use super::{all, difference, plain, profiles, sandwich, tree};
use crate::samples;

/// The total of the nodes that the function picks and that are below no other one.
fn outermost(whole: &StackTree, is_picked: impl Fn(&str) -> bool) -> (i64, u32) {
    let (mut total, mut count, mut end) = (0i64, 0, 0);
    for (place, node) in whole.nodes.iter().enumerate().skip(1) {
        if is_picked(&whole.frame(node).name) {
            count += 1;
            if place >= end {
                total = total.saturating_add(node.total);
                end = node.end as usize;
            }
        }
    }
    (total, count)
}

fn rows(tree: &Tree, order: TableOrder, pattern: &str) -> Vec<(String, i64, i64, u32)> {
    let query = TableQuery { order, pattern: Some(pattern.to_owned()), offset: 0, limit: usize::MAX };
    let table = tree.table(&query, &Budget::default()).unwrap();
    assert_eq!(table.rows.len(), table.all);
    table.rows.iter().map(|row| (row.name.to_owned(), row.own, row.total, row.nodes)).collect()
}

#[test]
fn a_search_counts_each_stack_once() {
    for (name, profile) in profiles() {
        let (tree, whole) = (tree(&profile, &[]), plain(&profile, &[]));
        for pattern in ["", ".", "^a$", "a|b", "(?i)FUNCTION_1", "runtime", "no such name"] {
            let found = tree.search(pattern, &Budget::default()).unwrap();
            let expected = Regex::new(pattern).unwrap();
            assert_eq!(
                (found.total, found.nodes),
                outermost(&whole, |name| expected.is_match(name)),
                "{name} {pattern}"
            );
            let is_match = |node: &&procprof_report::Node| expected.is_match(&whole.frame(node).name);
            let names: BTreeSet<u32> = whole.nodes[1..].iter().filter(is_match).map(|node| node.frame).collect();
            assert_eq!(found.frames.len(), names.len(), "{name} {pattern}");
            assert!(found.frames.is_sorted());
        }
    }
    let error = tree(&samples::mixed(), &[]).search("a(", &Budget::default()).unwrap_err().to_string();
    assert!(
        error.starts_with("report option re=\"a(\": regex parse error") && error.contains("unclosed group"),
        "{error}"
    );
}

#[test]
fn a_table_counts_recursion_once() {
    for (name, profile) in profiles() {
        let (tree, whole) = (tree(&profile, &[]), plain(&profile, &[]));
        for (function, own, total, nodes) in rows(&tree, TableOrder::Own, "") {
            let named = |node: &&procprof_report::Node| whole.frame(node).name == function;
            let flat = whole.nodes[1..].iter().filter(named).fold(0i64, |sum, node| sum.saturating_add(node.flat));
            assert_eq!((own, (total, nodes)), (flat, outermost(&whole, |name| name == function)), "{name} {function}");
        }
    }
}

#[test]
fn a_table_is_sorted_and_cut() {
    let profile = samples::stacks(&[(&["a", "b", "a"], 5), (&["b", "c"], 7), (&["d"], 1)]);
    let base = samples::stacks(&[(&["b", "c"], 7), (&["e"], 4), (&["d"], 2)]);
    let names =
        |tree: &Tree, order, pattern: &str| rows(tree, order, pattern).into_iter().map(|row| row.0).collect::<String>();
    let plain = tree(&profile, &[]);
    assert_eq!(names(&plain, TableOrder::Own, ""), "cadb");
    assert_eq!(names(&plain, TableOrder::Total, ""), "bcad");
    assert_eq!(names(&plain, TableOrder::Name, ""), "abcd");
    assert_eq!(names(&plain, TableOrder::Name, "[bd]"), "bd");
    assert_eq!(names(&difference(&profile, &base, &[]), TableOrder::OwnChange, ""), "aedbc");
    let query = TableQuery { offset: 1, limit: 2, ..TableQuery::default() };
    let table = plain.table(&query, &Budget::default()).unwrap();
    let found: Vec<&str> = table.rows.iter().map(|row| row.name).collect();
    assert_eq!((found, table.all), (vec!["a", "d"], 4));
}

#[test]
fn a_sandwich_has_the_values_of_the_table() {
    for (name, profile) in profiles() {
        let tree = tree(&profile, &[]);
        for (function, own, total, nodes) in rows(&tree, TableOrder::Total, "").into_iter().take(25) {
            if name == "negative" || total <= 0 {
                continue;
            }
            let frames = tree.frames_named(&function);
            let (callers, callees) = sandwich(&tree, &frames);
            let is_function = |row: &&Row| row.name == function;
            assert_eq!((callers.rows[0].total, callees.rows[0].total), (total, total), "{name} {function}");
            let self_below: i64 = callees.rows.iter().filter(is_function).map(|row| row.own).sum();
            assert_eq!(self_below, own, "{name} {function}");
            let reached: i64 = callers.rows.iter().map(|row| row.own).sum();
            assert_eq!(reached, total, "{name} {function}: all callers end at the root");
            assert!(callees.rows.iter().filter(is_function).count() <= nodes as usize);
            for slice in [&callers, &callees] {
                let with_value = slice.rows.iter().filter(|row| row.total > 0).count();
                assert!(
                    slice.rows.len() as u64 <= slice.rows[0].size && with_value == slice.rows.len(),
                    "{name} {function}"
                );
            }
        }
    }
}

#[test]
fn callers_are_merged_towards_the_root() {
    let profile = samples::stacks(&[
        (&["a", "f", "x"], 1),
        (&["b", "a", "f", "f", "y"], 2),
        (&["c", "f"], 4),
        (&["f"], 8),
        (&["z"], 16),
    ]);
    let outline = |rows: &[Row]| {
        rows.iter()
            .map(|row| format!("{}{} {} {}", " ".repeat(row.depth as usize), row.name, row.total, row.own))
            .collect::<Vec<_>>()
    };
    let tree = tree(&profile, &[]);
    let (callers, callees) = sandwich(&tree, &tree.frames_named("f"));
    assert_eq!(outline(&callers.rows), ["f 15 8", " a 3 1", "  b 2 2", " c 4 4"]);
    assert_eq!(outline(&callees.rows), ["f 15 12", " f 2 0", "  y 2 2", " x 1 1"]);
    let budget = Budget::default();
    assert!(tree.callers(&tree.frames_named("all"), &budget).is_err(), "the root is no function");
    assert!(tree.callees(&[12_345], &budget).is_err());
}

#[test]
fn a_sandwich_of_a_difference_has_both_values() {
    let (profile, base): (Profile, Profile) =
        (samples::stacks(&[(&["a", "f", "x"], 1)]), samples::stacks(&[(&["a", "f", "y"], 2), (&["f"], 4)]));
    let tree = difference(&profile, &base, &[]);
    let (callers, callees) = sandwich(&tree, &tree.frames_named("f"));
    let values =
        |rows: &[Row]| rows.iter().map(|row| (row.name.clone(), row.total, row.base.unwrap().0)).collect::<Vec<_>>();
    assert_eq!(values(&callers.rows), [("f".to_owned(), 1, 6), ("a".to_owned(), 1, 2)]);
    assert_eq!(values(&callees.rows), [("f".to_owned(), 1, 6), ("x".to_owned(), 1, 0), ("y".to_owned(), 0, 2)]);
    let found = tree.search("f", &Budget::default()).unwrap();
    assert_eq!((found.total, found.base_total), (1, Some(6)));
    assert_eq!(all(&tree).len(), tree.node_count() as usize);
}
