//! The call tree on small profiles.

use procprof_profile::{Function, Line, Location, ProfileBuilder};

use super::*;

fn outline(tree: &StackTree) -> Vec<String> {
    let line = |node: &Node| {
        format!("{}{} {} {}", " ".repeat(node.depth as usize), tree.frame(node).name, node.total, node.flat)
    };
    tree.nodes.iter().map(line).collect()
}

fn stacks(stacks: &[(&[&str], i64)]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    for (stack, value) in stacks {
        let frames: Vec<_> = stack.iter().rev().map(|name| builder.frame(name)).collect();
        builder.sample(&frames, &[*value], &[]);
    }
    builder.finish().unwrap()
}

fn tree(profile: &Profile, pairs: &[(&str, &str)]) -> StackTree {
    StackTree::new(profile, &Options::parse(pairs.iter().copied()).unwrap()).unwrap()
}

#[test]
fn equal_paths_merge_and_siblings_are_in_order() {
    let profile = stacks(&[(&["m", "b"], 1), (&["m", "a", "m"], 2), (&["m"], 4), (&[], 8), (&["m", "b"], 16)]);
    let whole = tree(&profile, &[]);
    assert_eq!(outline(&whole), ["all 31 0", " [no stack] 8 8", " m 23 4", "  a 2 0", "   m 2 2", "  b 17 17"]);
    assert_eq!(whole.nodes[2].end, 6);
    assert_eq!(
        outline(&tree(&profile, &[("focus", "a"), ("ignore", "x")])),
        ["all 2 0", " m 2 0", "  a 2 0", "   m 2 2"]
    );
    assert_eq!(outline(&tree(&profile, &[("ignore", "a")])), ["all 21 0", " m 21 4", "  b 17 17"]);
}

#[test]
fn a_path_leads_to_its_part_of_the_tree() {
    let profile = stacks(&[(&["m", "a"], 1), (&["m", "b", "c"], 2), (&["m", "b"], 4), (&["z"], 8)]);
    let part = tree(&profile, &[("root", "m"), ("root", "b")]);
    assert_eq!(outline(&part), ["all 6 0", " m 6 0", "  b 6 4", "   c 2 2"]);
    assert_eq!(part.nodes.iter().map(|node| node.end).collect::<Vec<_>>(), [4, 4, 4, 4]);
    assert_eq!(part.profile_total, 15);
    let error = StackTree::new(&profile, &Options::parse([("root", "x")]).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "report option root=\"x\": no such frame at this step of the path");
}

#[test]
fn inlined_lines_are_frames_of_their_own() {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let mut function = |name: &str| {
        let name = builder.intern(name);
        builder.function(Function { name, ..Function::default() })
    };
    let lines = [function("inner"), function("outer")].map(|function| Line { function, ..Line::default() });
    let both = builder.location(Location::default(), &lines);
    let alone = builder.location(Location::default(), &lines[..1]);
    let outer = builder.location(Location::default(), &lines[1..]);
    builder.sample(&[both], &[1], &[]);
    let fully = tree(&builder.finish().unwrap(), &[]);
    assert_eq!(outline(&fully), ["all 1 0", " outer 1 0", "  inner 1 1"]);
    assert_eq!(fully.nodes[2].inlined, Inlined::Fully);
    assert_eq!(fully.nodes[1].inlined, Inlined::No);
    let _ = (alone, outer);
}

#[test]
fn the_deepest_stack_is_no_danger() {
    let deep: Vec<String> = (0..65_536).map(|depth| format!("f{}", depth % 7)).collect();
    let names: Vec<&str> = deep.iter().map(String::as_str).collect();
    let profile = stacks(&[(&names, 3), (&names[..60_000], 4)]);
    let tree = tree(&profile, &[]);
    assert_eq!(tree.nodes.len(), 65_537);
    assert_eq!(tree.nodes.iter().map(|node| node.flat).sum::<i64>(), 7);
}
