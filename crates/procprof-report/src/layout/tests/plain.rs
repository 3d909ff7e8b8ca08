//! Graphviz's own drawing, in its plain format: lengths in inches, y grows upwards.
//!
//! ```text
//! graph 1 7.5 10.2
//! node N1 3.1 9.9 1.2 0.6 "label" filled box black "#f8f8f8"
//! edge N1 N2 4 3.1 9.5 3.0 9.2 3.0 9.0 3.0 8.8 " 6.11s" 3.3 9.1 solid black
//! stop
//! ```

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::{Drawing, Edge, Graph, Point, Route, Size};

/// A graph with the sizes that Graphviz gives its nodes and labels, its drawing, and the processor time that took.
pub(super) fn drawn(dot: &str) -> (Graph, Drawing, Duration) {
    let mut child = Command::new("dot")
        .arg("-Tplain")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`dot` (package graphviz) must be installed for this test");
    let began = Instant::now();
    let mut input = child.stdin.take().unwrap();
    let text = dot.to_owned();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let took = began.elapsed();
    let (graph, drawing) = parse(&String::from_utf8(output.stdout).unwrap(), dot);
    (graph, drawing, took)
}

fn parse(plain: &str, dot: &str) -> (Graph, Drawing) {
    let weights = weights(dot);
    let (mut graph, mut drawing) = (Graph::default(), Drawing::default());
    let mut numbers = BTreeMap::new();
    for line in plain.replace("\\\n", "").lines() {
        let words = words(line);
        let inches = |index: usize| words[index].parse::<f64>().unwrap() * 72.0;
        match words[0].as_str() {
            "graph" => drawing.size = Size { width: inches(2), height: inches(3) },
            "node" => {
                numbers.insert(words[1].clone(), graph.nodes.len());
                drawing.nodes.push(Point { x: inches(2), y: drawing.size.height - inches(3) });
                graph.nodes.push(Size { width: inches(4), height: inches(5) });
            }
            "edge" => {
                let count: usize = words[3].parse().unwrap();
                let at = |index: usize| Point { x: inches(4 + 2 * index), y: drawing.size.height - inches(5 + 2 * index) };
                let curve: Vec<Point> = (0..count).map(at).collect();
                let weight = weights.get(&(words[1].clone(), words[2].clone())).copied().unwrap_or(1);
                let text = &words[4 + 2 * count];
                let rows = text.split("\\n").count() as f64;
                let longest = text.split("\\n").map(str::len).max().unwrap_or(0) as f64;
                let label = Size { width: longest * 6.6, height: rows * 16.0 };
                let length_min = if weight == i64::MAX { 2 } else { 1 };
                graph.edges.push(Edge { from: numbers[&words[1]], to: numbers[&words[2]], weight, length_min, label });
                drawing.edges.push(Route { curve, label: Point::default() });
            }
            _ => {}
        }
    }
    (graph, drawing)
}

/// Weights of edges, as the DOT file says.
fn weights(dot: &str) -> BTreeMap<(String, String), i64> {
    let mut found = BTreeMap::new();
    for line in dot.lines() {
        let Some((from, rest)) = line.split_once(" -> ") else { continue };
        let Some((to, attributes)) = rest.split_once(" [") else { continue };
        let weight = attributes.split("weight=").nth(1).map_or("1", |rest| rest.split([' ', ',', ']']).next().unwrap());
        found.insert((from.to_owned(), to.to_owned()), weight.parse().unwrap());
    }
    found
}

fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let (mut is_quoted, mut is_escaped) = (false, false);
    for c in line.chars() {
        match c {
            '"' if !is_escaped => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    words
}
