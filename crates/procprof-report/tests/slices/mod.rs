//! Slices, search, table and sandwich against the whole tree, counted in the simplest way.

mod decoded;
mod functions;
mod standalone;

use std::borrow::Cow;
use std::collections::BTreeMap;

use procprof_profile::{Addr, Mapping, Profile, ProfileBuilder};
use procprof_report::viewer::{Extent, SLICE_NODES_MAX, Tree, WIDE};
use procprof_report::{Budget, Error, Options, StackTree};

use crate::samples;
use decoded::{Decoded, Row, decoded};

const EVERYTHING: u32 = u32::MAX;
const WHOLE: Extent = Extent { wide: EVERYTHING, rows: u32::MAX, nodes: usize::MAX };

fn options(pairs: &[(&str, &str)]) -> Options {
    Options::parse(pairs.iter().copied()).unwrap()
}

fn tree(profile: &Profile, pairs: &[(&str, &str)]) -> Tree {
    Tree::new(Cow::Borrowed(profile), None, &options(pairs)).unwrap()
}

fn difference(profile: &Profile, base: &Profile, pairs: &[(&str, &str)]) -> Tree {
    Tree::new(Cow::Borrowed(profile), Some(Cow::Borrowed(base)), &options(pairs)).unwrap()
}

fn slice(tree: &Tree, node: u32, wide: u32, most: usize) -> Decoded {
    let extent = Extent { wide, nodes: most, ..Extent::default() };
    decoded(&tree.slice(node, &extent, &Budget::default()).unwrap())
}

/// The callers and the callees of the function with these frames.
fn sandwich(tree: &Tree, frames: &[u32]) -> (Decoded, Decoded) {
    let budget = Budget::default();
    let sides = [tree.callers(frames, &budget), tree.callees(frames, &budget)];
    sides.map(|side| decoded(&side.unwrap().slice(0, &WHOLE, &budget).unwrap())).into()
}

/// All nodes that have a width.
fn all(tree: &Tree) -> Vec<Row> {
    slice(tree, 0, EVERYTHING, usize::MAX).rows
}

fn profiles() -> Vec<(&'static str, Profile)> {
    vec![
        ("mixed", samples::mixed()),
        ("empty", samples::stacks(&[])),
        ("no stack", samples::stacks(&[(&[], 5)])),
        ("zero", samples::stacks(&[(&["a", "b"], 0)])),
        ("negative", samples::stacks(&[(&["a", "b"], -5), (&["a", "c"], 3), (&["a", "c", "d"], 3)])),
        ("huge", samples::stacks(&[(&["a"], i64::MAX), (&["b"], i64::MAX)])),
        ("recursive", samples::stacks(&[(&["a", "b", "a", "c", "a"], 5), (&["b", "a", "b"], 3), (&["a", "a"], 2)])),
        ("walk", samples::walk(200, 64)),
        ("go.cpu", samples::file("go.cpu.pb.gz")),
        ("go.heap", samples::file("go.heap.pb.gz")),
        ("rust.heap", samples::file("rust.heap.pb.gz")),
    ]
}

/// The tree of the same stacks, as the report `json` shows it.
fn plain(profile: &Profile, pairs: &[(&str, &str)]) -> StackTree {
    let adjusted = profile.clone().adjusted(procprof_profile::Grammar::Pprof).unwrap();
    let kept = procprof_report::shown_by_default(&adjusted).unwrap();
    StackTree::new(&kept, &options(pairs)).unwrap()
}

#[test]
fn a_slice_has_the_nodes_of_the_tree() {
    for (name, profile) in profiles() {
        let (tree, whole) = (tree(&profile, &[]), plain(&profile, &[]));
        assert_eq!(tree.node_count() as usize, whole.nodes.len(), "{name}");
        for (wide, most) in
            [(EVERYTHING, usize::MAX), (WIDE, SLICE_NODES_MAX), (50, 10_000), (EVERYTHING, 40), (EVERYTHING, 0)]
        {
            let slice = slice(&tree, 0, wide, most);
            assert!(slice.rows.len() - 1 <= most, "{name} {wide} {most}");
            for row in &slice.rows {
                let node = &whole.nodes[row.node as usize];
                let expected = (node.depth.into(), u64::from(node.end) - row.node, node.total, node.flat);
                assert_eq!((row.depth, row.size, row.total, row.own), expected, "{name} {wide}");
                assert_eq!(
                    (row.name.as_str(), row.inlined),
                    (whole.frame(node).name.as_str(), node.inlined as u64),
                    "{name}"
                );
            }
            if most == usize::MAX {
                let least = (whole.total().max(0) as f64 / f64::from(wide)).max(f64::MIN_POSITIVE);
                let is_wide = |node: &procprof_report::Node| node.total as f64 >= least;
                let count = whole.nodes[1..].iter().filter(|node| is_wide(node)).count() + 1;
                assert!(name == "negative" || slice.rows.len() == count, "{name}: {} of {count}", slice.rows.len());
            }
        }
    }
}

#[test]
fn shown_and_hidden_are_the_whole() {
    let (profile, base) = (samples::walk(200, 64), samples::walk(150, 50));
    for tree in [tree(&profile, &[]), difference(&profile, &base, &[])] {
        let whole = all(&tree);
        assert_eq!(whole.len(), tree.node_count() as usize);
        let Decoded { rows, header } = slice(&tree, 0, 60, usize::MAX);
        assert!(rows.len() > 20 && rows.len() * 2 < whole.len(), "{} of {}", rows.len(), whole.len());
        assert_eq!(header["whole"]["nodes"], whole.len());
        for (place, row) in rows.iter().enumerate() {
            let below: Vec<&Row> =
                rows[place + 1..].iter().take_while(|other| other.node < row.node + row.size).collect();
            let shown: i64 = below.iter().filter(|other| other.depth == row.depth + 1).map(|child| child.total).sum();
            let is_shown = |node: u64| below.iter().any(|other| other.node == node);
            let inside = &whole[row.node as usize + 1..(row.node + row.size) as usize];
            let hidden = inside.iter().filter(|other| other.depth == row.depth + 1 && !is_shown(other.node));
            assert_eq!(row.total - row.own - shown, hidden.map(|child| child.total).sum::<i64>());
        }
    }
}

#[test]
fn the_slice_of_a_node_is_its_part_of_the_whole() {
    for tree in [tree(&samples::walk(60, 40), &[]), difference(&samples::walk(40, 30), &samples::walk(60, 40), &[])] {
        let whole = all(&tree);
        for node in (0..tree.node_count()).step_by(37) {
            let rows = slice(&tree, node, EVERYTHING, usize::MAX).rows;
            let at = rows.iter().position(|row| row.node == u64::from(node)).unwrap();
            let (path, part) = rows.split_at(at);
            assert_eq!(part, &whole[node as usize..node as usize + part[0].size as usize]);
            assert!(
                path.iter()
                    .enumerate()
                    .all(|(depth, row)| row.depth == depth as u64 && *row == whole[row.node as usize])
            );
            assert!(path.iter().all(|row| row.node < u64::from(node) && u64::from(node) < row.node + row.size));
            assert_eq!(path.len() as u64, part[0].depth);
        }
    }
    let error = tree(&samples::mixed(), &[]).slice(99, &Extent::default(), &Budget::default()).unwrap_err();
    assert_eq!(error.to_string(), "report option node=\"99\": the tree has 11 nodes");
}

#[test]
fn equally_narrow_nodes_are_cut_from_the_deepest() {
    let names: Vec<String> = (0..30).map(|column| format!("column{column:02}")).collect();
    let stacks: Vec<Vec<&str>> = names.iter().map(|name| vec![name.as_str(); 20]).collect();
    let stacks: Vec<(&[&str], i64)> = stacks.iter().map(|stack| (stack.as_slice(), 1)).collect();
    let tree = tree(&samples::stacks(&stacks), &[]);
    let rows = slice(&tree, 0, WIDE, 100).rows;
    let at_depth = |depth| rows.iter().filter(|row| row.depth == depth).count();
    assert_eq!((0..6).map(at_depth).collect::<Vec<_>>(), [1, 30, 30, 30, 10, 0]);
}

#[test]
fn a_difference_has_the_values_of_both() {
    let (profile, base) = (samples::walk(90, 30), samples::walk(60, 40));
    let joined = difference(&profile, &base, &[]);
    let mut expected: BTreeMap<Vec<String>, [i64; 4]> = BTreeMap::new();
    for (place, side) in [&profile, &base].into_iter().enumerate() {
        for (path, row) in paths(&all(&tree(side, &[]))) {
            let values = expected.entry(path).or_default();
            (values[place * 2], values[place * 2 + 1]) = (row.total, row.own);
        }
    }
    let found = paths(&all(&joined));
    assert_eq!(found.len(), expected.len());
    for (path, row) in found {
        let (base_total, base_own) = row.base.unwrap();
        assert_eq!(expected[&path], [row.total, row.own, base_total, base_own], "{path:?}");
    }
}

/// The names from the root of each row.
fn paths(rows: &[Row]) -> Vec<(Vec<String>, Row)> {
    let mut path: Vec<String> = Vec::new();
    let with_path = |row: &Row| {
        path.truncate(row.depth as usize);
        path.push(row.name.clone());
        (path.clone(), row.clone())
    };
    rows.iter().map(with_path).collect()
}

#[test]
fn a_profile_does_not_differ_from_itself() {
    for (name, profile) in profiles() {
        let tree = difference(&profile, &profile, &[("normalize", "true")]);
        let rows = all(&tree);
        assert!(rows.iter().all(|row| row.base == Some((row.total, row.own))), "{name}");
        let header = slice(&tree, 0, WIDE, 100).header;
        let scale = header["diff"]["scale"].as_f64().unwrap();
        assert!(scale == 1.0, "{name}: {scale}");
    }
}

#[test]
fn a_base_is_scaled_on_request_only() {
    let (profile, base) = (samples::stacks(&[(&["a", "b"], 30)]), samples::stacks(&[(&["a", "c"], 10)]));
    for (pairs, scale) in [(&[][..], 1.0), (&[("normalize", "true")][..], 3.0)] {
        let slice = slice(&difference(&profile, &base, pairs), 0, WIDE, 100);
        assert_eq!(slice.header["diff"]["scale"].as_f64().unwrap(), scale);
        let values: Vec<_> = slice.rows.iter().map(|row| (row.name.as_str(), row.total, row.base.unwrap().0)).collect();
        assert_eq!(values, [("all", 30, 10), ("a", 30, 10), ("b", 30, 0), ("c", 0, 10)]);
    }
    let error = Tree::new(Cow::Owned(samples::labels()), Some(Cow::Borrowed(&base)), &options(&[])).unwrap_err();
    assert!(matches!(error, Error::Profile(_)), "{error}");
    assert_eq!(error.to_string(), "profiles differ: the base has no inuse_space in bytes");
}

#[test]
fn code_without_symbols_is_weighed_by_what_it_hides() {
    let notes = |hides: bool| {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        let filename = builder.intern("/usr/lib/libfoo.so.1");
        let mapping =
            builder.mapping(Mapping { start: Addr(0x1000), limit: Addr(0x9000), filename, ..Mapping::default() });
        let [start, leaf] = [0x2000, 0x3000].map(|address| builder.address(Some(mapping), Addr(address)));
        let (nowhere, named) = (builder.address(None, Addr(1)), builder.frame("work"));
        builder.sample(&[named, start], &[90], &[]);
        if hides {
            builder.sample(&[leaf, named, start], &[8], &[]);
            builder.sample(&[nowhere], &[2], &[]);
        }
        slice(&tree(&builder.finish().unwrap(), &[]), 0, WIDE, 10).header["notes"].clone()
    };
    assert_eq!(notes(false), serde_json::json!([]), "the start of a thread hides nothing");
    let expected = "10.00% is in code without symbols, which those of its files would name: libfoo.so.1 8.00%";
    let note = serde_json::json!({"key": "unnamed", "text": expected, "values": ["10.00%", "libfoo.so.1 8.00%"]});
    assert_eq!(notes(true), serde_json::json!([note]));
}

#[test]
fn facts_of_former_versions_stand_above_no_report() {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let frame = builder.frame("main");
    builder.sample(&[frame], &[1], &[]);
    ["procprof:node=10001", "#procprof:type=cpu", "taken by hand"].iter().for_each(|comment| builder.comment(comment));
    let top = samples::text(&builder.finish().unwrap(), "top", &[]);
    assert!(top.starts_with("taken by hand\nType: samples\n"), "{top}");
}

#[test]
fn a_labelled_difference_is_taken_apart() {
    let (profile, base) = (samples::walk(60, 30), samples::walk(50, 40));
    let labelled = procprof_profile::diff::diff_base(&base, &profile).unwrap();
    let (apart, expected) = (tree(&labelled, &[]), difference(&profile, &base, &[]));
    // A sum has only the frames that are used, so their numbers differ.
    let rows = |tree: &Tree| all(tree).into_iter().map(|row| Row { frame: 0, ..row }).collect::<Vec<_>>();
    assert_eq!(rows(&apart), rows(&expected));
    let header = slice(&apart, 0, WIDE, 10).header;
    assert_eq!(
        (header["profile_total"].as_i64().unwrap(), header["base_profile_total"].as_i64().unwrap()),
        (profile.total(0), base.total(0))
    );
}

#[test]
fn an_inverted_tree_is_that_of_reversed_stacks() {
    let forward: [(&[&str], i64); 3] = [(&["a", "b", "c"], 1), (&["a", "c"], 2), (&["d", "b", "c"], 4)];
    let backward: [(&[&str], i64); 3] = [(&["c", "b", "a"], 1), (&["c", "a"], 2), (&["c", "b", "d"], 4)];
    let inverted = tree(&samples::stacks(&forward), &[("invert", "true")]);
    assert_eq!(all(&inverted), all(&tree(&samples::stacks(&backward), &[])));
    let text = samples::text(&samples::stacks(&forward), "collapsed", &[("invert", "true")]);
    assert_eq!(text, "c;a 2\nc;b;a 1\nc;b;d 4\n");
    let inlined = samples::text(&samples::mixed(), "collapsed", &[("invert", "true"), ("focus", "vec")]);
    assert_eq!(inlined, "core::ptr::write;std::vec::Vec<T>::push;server::serve 400000000\n");
}

#[test]
fn repeated_calls_are_collapsed() {
    let cases: &[(&[&str], &str)] = &[
        (&["f", "f", "f", "h"], "f;h"),
        (&["m", "f", "g", "f", "g", "h"], "m;f;g;h"),
        (&["m", "f", "g", "f", "h"], "m;f;g;f;h"),
        (&["a", "b", "a", "b", "b", "a", "b"], "a;b"),
        (&["a", "b", "c", "d", "e", "f", "g", "h", "a", "b", "c", "d", "e", "f", "g", "h"], "a;b;c;d;e;f;g;h"),
    ];
    for (stack, expected) in cases {
        let text = samples::text(&samples::stacks(&[(stack, 7)]), "collapsed", &[("collapse_recursion", "true")]);
        assert_eq!(text, format!("{expected} 7\n"), "{stack:?}");
    }
    let profile = samples::walk(100, 50);
    let (with, without) = (tree(&profile, &[("collapse_recursion", "true")]), tree(&profile, &[]));
    assert_eq!((all(&with)[0].total, with.node_count()), (all(&without)[0].total, without.node_count()));
}

#[test]
fn a_slice_ends_at_its_last_row() {
    for (name, profile) in profiles() {
        let tree = tree(&profile, &[]);
        let whole = all(&tree);
        for (rows, nodes) in [(0, usize::MAX), (1, usize::MAX), (3, usize::MAX), (3, 20)] {
            let extent = Extent { wide: EVERYTHING, rows, nodes };
            let part = decoded(&tree.slice(0, &extent, &Budget::default()).unwrap()).rows;
            let values = |row: &Row| (row.node, row.size, row.total, row.own);
            let expected: Vec<_> = whole.iter().filter(|row| row.depth <= u64::from(rows)).map(values).collect();
            let found: Vec<_> = part.iter().map(values).collect();
            assert_eq!(found.len(), expected.len().min(nodes.saturating_add(1)), "{name} {rows} {nodes}");
            assert!(found.iter().all(|row| expected.contains(row)), "{name} {rows} {nodes}");
        }
    }
}

#[test]
fn a_path_leads_to_its_part() {
    let profile = samples::stacks(&[(&["m", "a"], 1), (&["m", "b", "c"], 2), (&["m", "b"], 4), (&["z"], 8)]);
    let part = all(&tree(&profile, &[("root", "m"), ("root", "b")]));
    let outline: Vec<_> = part.iter().map(|row| (row.name.as_str(), row.depth, row.size, row.total, row.own)).collect();
    assert_eq!(outline, [("all", 0, 4, 6, 0), ("m", 1, 3, 6, 0), ("b", 2, 2, 6, 4), ("c", 3, 1, 2, 2)]);
    let error = Tree::new(Cow::Borrowed(&profile), None, &options(&[("root", "x")])).unwrap_err();
    assert_eq!(error.to_string(), "report option root=\"x\": no such frame at this step of the path");
}

#[test]
fn the_deepest_stack_is_sliced() {
    let names: Vec<String> = (0..65_536).map(|depth| format!("f{}", depth % 7)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let tree = tree(&samples::stacks(&[(&names, 3), (&["other"], 4)]), &[]);
    let deepest = slice(&tree, 65_536, WIDE, 10);
    assert_eq!((deepest.rows.len(), deepest.rows[65_536].depth), (65_537, 65_536));
    assert_eq!(deepest.header["whole"]["depth"], 65_536);
    let (frames, budget) = (tree.frames_named("f3"), Budget::default());
    for part in [tree.callers(&frames, &budget), tree.callees(&frames, &budget)] {
        part.unwrap().slice(0, &Extent::default(), &budget).unwrap();
    }
}

#[test]
fn a_tree_stays_within_its_budget() {
    let profile = samples::walk(200, 64);
    let limited = Options { budget: Budget::new(u64::MAX, 24 * 1000), ..Options::default() };
    let error = Tree::new(Cow::Borrowed(&profile), None, &limited).unwrap_err();
    assert!(matches!(error, Error::MemoryLimit { .. }), "{error}");
    let tree = tree(&profile, &[]);
    let error = tree.slice(0, &WHOLE, &Budget::new(1000, u64::MAX)).unwrap_err();
    assert!(matches!(error, Error::OutputLimit { most: 1000 }), "{error}");
    let stopped = Budget::default().until(|| true);
    assert!(matches!(tree.slice(0, &Extent::default(), &stopped), Err(Error::Stopped)));
    assert!(tree.memory_bytes() >= u64::from(tree.node_count()) * 24);
}

#[test]
fn a_small_slice_is_as_described() {
    let (whole, base) = (samples::mixed(), samples::stacks(&[(&["server::serve", "gone"], 30_000_000)]));
    let (part, compared) = (tree(&whole, &[("focus", "serve")]), difference(&whole, &base, &[]));
    for (name, tree, node) in [("mixed.slice.txt", part, 4), ("mixed.base.slice.txt", compared, 0)] {
        let bytes = tree.slice(node, &Extent::default(), &Budget::default()).unwrap();
        let Decoded { header, rows } = decoded(&bytes);
        let mut text = format!("{header:#}\n");
        for row in rows {
            let base = row.base.map_or(String::new(), |(total, own)| format!(" base {total} {own}"));
            let Row { node, depth, name, frame, inlined, size, total, own, .. } = row;
            text += &format!(
                "{node} {}{name} (frame {frame}, inlined {inlined}, size {size}): {total} {own}{base}\n",
                " ".repeat(depth as usize)
            );
        }
        let columns = &bytes[8 + u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]) as usize..];
        text += &format!("columns {}\n", columns.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let path = samples::folder().join(name);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(text == expected, "{name} differs; UPDATE_EXPECT=1 writes it anew\n{text}");
    }
}
