//! Trial.

use std::time::Duration;

use super::measure::measures;
use super::plain;

#[test]
fn trial() {
    let Ok(path) = std::env::var("LAYOUT_DOT") else { return };
    for path in path.split(',') {
        let (graph, theirs, took) = plain::drawn(&std::fs::read_to_string(path).unwrap());
        let began = cpu();
        let ours = graph.drawing().unwrap();
        let own = cpu() - began;
        println!("{path}: {} nodes {} edges; dot {took:?}, ours {own:?}", graph.nodes.len(), graph.edges.len());
        println!("  dot  {:?}", measures(&graph, &theirs));
        println!("  ours {:?}", measures(&graph, &ours));
    }
}

fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}
