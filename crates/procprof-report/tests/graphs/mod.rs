//! Drawn call graphs: beside Graphviz's, in Chromium, and as PDF in poppler.

mod measure;
mod pdf;
mod plain;
mod svg;
mod viewer;

use measure::{Graph, Measures};
use plain::Graphviz;
use procprof_profile::Profile;
use procprof_report::{Options, Sources, render};

use crate::samples;

/// A name, a profile, and the options it is drawn with.
type Case = (&'static str, Profile, Vec<(&'static str, &'static str)>);

fn cases() -> Vec<Case> {
    let all = vec![("nodecount", "1024"), ("nodefraction", "0"), ("edgefraction", "0")];
    vec![
        ("go.cpu", samples::file("go.cpu.pb.gz"), vec![]),
        ("go.cpu of all", samples::file("go.cpu.pb.gz"), all.clone()),
        ("go.cpu as a tree", samples::file("go.cpu.pb.gz"), vec![("call_tree", "true")]),
        ("go.heap", samples::file("go.heap.pb.gz"), vec![]),
        ("cpp.cpu", samples::file("cpp.cpu.pb.gz"), vec![]),
        ("rust.heap", samples::file("rust.heap.pb.gz"), all),
        ("labels", samples::labels(), vec![]),
        ("mixed", samples::mixed(), vec![]),
    ]
}

fn both(graphviz: &Graphviz, profile: &Profile, pairs: &[(&str, &str)]) -> (Graph, Graph) {
    let ours = svg::parsed(&samples::text(profile, "svg", pairs));
    let theirs = graphviz.drawn(&samples::text(profile, "dot", pairs));
    (ours, theirs)
}

#[test]
fn graphs_are_as_readable_as_those_of_graphviz() {
    let (graphviz, mut sums) = (Graphviz::new(), [Measures::default(); 2]);
    for (name, profile, pairs) in cases() {
        let (ours, theirs) = both(&graphviz, &profile, &pairs);
        assert_eq!(
            (ours.nodes.len(), ours.edges.len()),
            (theirs.nodes.len() - 1, theirs.edges.len()),
            "{name}: Graphviz's legend is a node"
        );
        let [own, other] = [ours.measures(), theirs.measures()];
        eprintln!("{name}\n  ours     {own:?}\n  Graphviz {other:?}");
        assert_eq!(own.through_nodes, 0, "{name}: no edge passes a node");
        assert!(
            own.crossings <= other.crossings * 13 / 10 + 5,
            "{name}: {} crossings, {} by Graphviz",
            own.crossings,
            other.crossings
        );
        assert!(own.area() <= other.area() * 1.1, "{name}: {own:?} {other:?}");
        for (sum, measures) in sums.iter_mut().zip([own, other]) {
            sum.add(measures);
        }
    }
    let [own, other] = sums;
    assert!(own.crossings <= other.crossings, "{} crossings in all, {} by Graphviz", own.crossings, other.crossings);
    assert!(own.length <= other.length && own.area() <= other.area(), "{own:?} {other:?}");
}

#[test]
fn what_cannot_be_drawn_is_reported() {
    let profile = samples::walk(2_000, 128);
    let options = Options::parse([("trim", "false")]).unwrap();
    for kind in ["svg", "pdf"] {
        let error = render(&profile, kind, &options, &Sources::default()).unwrap_err().to_string();
        assert!(
            error.starts_with(
                "the call graph has 16585 nodes and 45987 edges, at most 4096 and 16384 are drawn; lower nodecount"
            ),
            "{error}"
        );
    }
}
