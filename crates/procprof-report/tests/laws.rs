//! Properties of every profile and report.

use procprof_profile::Profile;
use procprof_report::{Options, REPORTS, Sources, StackTree, render};

use crate::samples;

fn profiles() -> Vec<(&'static str, Profile)> {
    vec![
        ("mixed", samples::mixed()),
        ("empty", samples::stacks(&[])),
        ("no stack", samples::stacks(&[(&[], 5)])),
        ("zero", samples::stacks(&[(&["a", "b"], 0)])),
        ("negative", samples::stacks(&[(&["a", "b"], -5), (&["a", "c"], 3)])),
        ("huge", samples::stacks(&[(&["a"], i64::MAX), (&["b"], i64::MAX)])),
        ("walk", samples::walk(500, 128)),
        ("go.cpu", samples::file("go.cpu.pb.gz")),
        ("go.heap", samples::file("go.heap.pb.gz")),
        ("rust.heap", samples::file("rust.heap.pb.gz")),
    ]
}

#[test]
fn flat_sums_to_the_total() {
    for (name, profile) in profiles() {
        for index in 0..profile.sample_types().len() {
            let options = Options { sample_index: index.to_string(), ..Options::default() };
            let tree = StackTree::new(&profile, &options).unwrap();
            let flat = tree.nodes.iter().fold(0i64, |sum, node| sum.saturating_add(node.flat));
            assert_eq!(flat, profile.total(index), "{name}");
            assert_eq!(tree.total(), profile.total(index), "{name}");
        }
    }
}

#[test]
fn every_report_renders_every_profile_the_same_way_twice() {
    for (name, profile) in profiles() {
        for report in REPORTS {
            let options = Options::default();
            if ["speedscope", "cpuprofile"].contains(&report.name)
                && profile.samples().any(|sample| sample.values.iter().any(|value| *value < 0))
            {
                let error = report.render(&profile, &options, &Sources::default()).unwrap_err().to_string();
                assert!(error.contains("has no values below 0"), "{name}: {error}");
                continue;
            }
            let first = report
                .render(&profile, &options, &Sources::default())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(
                first,
                report.render(&profile, &options, &Sources::default()).unwrap(),
                "{name} {}",
                report.name
            );
        }
    }
}

#[test]
fn the_order_of_samples_changes_nothing() {
    let forward: [(&[&str], i64); 3] = [(&["a", "b"], 1), (&["a", "c"], 2), (&["d"], 3)];
    let mut backward = forward;
    backward.reverse();
    for kind in ["flamegraph", "html", "top", "collapsed"] {
        assert_eq!(
            samples::text(&samples::stacks(&forward), kind, &[]),
            samples::text(&samples::stacks(&backward), kind, &[]),
            "{kind}"
        );
    }
}

#[test]
fn the_deepest_stack_renders() {
    let names: Vec<String> = (0..65_536).map(|depth| format!("f{}", depth % 7)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let profile = samples::stacks(&[(&names, 3), (&["other"], 4)]);
    for kind in ["flamegraph", "html", "top", "json"] {
        assert!(samples::text(&profile, kind, &[]).len() > 100, "{kind}");
    }
    let svg = samples::text(&profile, "flamegraph", &[]);
    assert!(svg.contains("64,537 frames above depth 999 are merged into hatched boxes, 42.86% in all"));
}

#[test]
fn the_number_of_boxes_is_bounded_and_merged_ones_are_reported() {
    let profile = samples::walk(2_000, 128);
    for most in [100, 1_000, 20_000] {
        let svg = samples::text(&profile, "flamegraph", &[("maxboxes", &most.to_string())]);
        let depth = svg.split("\"depth\":[").nth(1).unwrap().split(']').next().unwrap();
        let boxes = depth.split(',').count();
        assert!(boxes <= most && boxes > most / 3, "{boxes} of {most}");
        assert!(svg.contains("are merged into hatched boxes"), "{most}");
    }
    let names: Vec<String> = (0..300).map(|index| format!("f{index:03}")).collect();
    let uniform: Vec<Vec<&str>> = names.iter().map(|name| vec![name.as_str(); 10]).collect();
    let uniform: Vec<(&[&str], i64)> = uniform.iter().map(|stack| (stack.as_slice(), 1)).collect();
    let svg = samples::text(&samples::stacks(&uniform), "flamegraph", &[("maxboxes", "1500")]);
    assert!(svg.contains("2,400 frames above depth 2 are merged into hatched boxes, 100% in all"));
    let svg = samples::text(&samples::mixed(), "flamegraph", &[("minfraction", "0.16")]);
    assert!(svg.contains("5 frames narrower than 16% are merged into hatched boxes, 40.00% in all"));
    assert!(svg.contains("<text x=\"4\" y=\"12.5\">… 4 frames, 34.00%</text>"));
}

#[test]
fn the_pprof_report_is_the_profile_or_the_selected_part() {
    let profile = samples::mixed();
    let part =
        render(&profile, "pprof", &Options::parse([("ignore", "server")]).unwrap(), &Sources::default()).unwrap();
    let part = procprof_profile::format::decode(&part, &Default::default()).unwrap().profile;
    assert_eq!(part.total(0), 34);
    assert_eq!(samples::text(&part, "collapsed", &[("sample_index", "samples")]).lines().count(), 4);
    let error = render(&profile, "flamegraf", &Options::default(), &Sources::default()).unwrap_err();
    assert_eq!(error.to_string(), "no report \"flamegraf\"; did you mean \"flamegraph\"?");
    let error =
        render(&profile, "top", &Options::parse([("sample_index", "wall")]).unwrap(), &Sources::default()).unwrap_err();
    assert_eq!(error.to_string(), "report option sample_index=\"wall\": the profile has samples, cpu");
}

#[test]
fn topproto_has_the_rows_of_top() {
    let profile = samples::file("go.cpu.pb.gz");
    let of = |pairs: &[(&str, &str)]| {
        let options = Options::parse(pairs.iter().copied()).unwrap();
        let bytes = render(&profile, "topproto", &options, &Sources::default()).unwrap();
        procprof_profile::format::decode(&bytes, &Default::default()).unwrap().profile
    };
    let all = of(&[("nodefraction", "0")]);
    assert_eq!((all.sample_type(0), all.sample_type(1)), (("cum", "nanoseconds"), ("flat", "nanoseconds")));
    assert_eq!(all.total(1), profile.total(1));
    let ten = of(&[("nodecount", "10"), ("unit", "ms")]);
    assert_eq!((ten.sample_count(), ten.sample_type(1)), (10, ("flat", "ms")));
}

#[test]
fn the_largest_graph_is_drawn_in_time() {
    let profile = samples::walk(2_000, 128);
    for kind in ["dot", "tree", "callgrind"] {
        assert!(samples::text(&profile, kind, &[("trim", "false")]).len() > 1_000_000, "{kind}");
    }
    let dot = samples::text(&profile, "dot", &[("nodecount", "3000"), ("nodefraction", "0"), ("edgefraction", "0")]);
    assert!(dot.lines().filter(|line| line.contains(" id=\"node")).count() == 3_000);
}
