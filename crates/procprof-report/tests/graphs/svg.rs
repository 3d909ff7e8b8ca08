//! procprof's drawing, read from its file.

use super::measure::{Box, Edge, Graph, Point};

/// The graph that a file draws. Its lines are one element each, as they are written.
pub(super) fn parsed(svg: &str) -> Graph {
    let number = |text: &str, name: &str| attribute(text, name).parse::<f64>().unwrap();
    let head = svg.lines().find(|line| line.starts_with("<svg ")).unwrap();
    let mut graph = Graph { width: number(head, "width"), height: number(head, "height"), ..Graph::default() };
    for line in svg.lines() {
        if let Some(rest) = line.split_once("<path d=\"").filter(|_| line.starts_with("<g class=\"e")) {
            let (from, to) = (number(line, "data-from") as usize, number(line, "data-to") as usize);
            graph.edges.push(Edge { from, to, curve: points(rest.1.split('"').next().unwrap()) });
        }
    }
    // A node's facts are on a line of their own.
    for node in svg.split("<g class=\"n").skip(1) {
        let shape = node.split_once("</title>").unwrap().1;
        graph.nodes.push(if shape.starts_with("<rect") { rectangle(shape) } else { outline(shape) });
    }
    graph
}

fn rectangle(shape: &str) -> Box {
    let number = |name: &str| attribute(shape, name).parse::<f64>().unwrap();
    let (width, height) = (number("width"), number("height"));
    Box { center: Point { x: number("x") + width / 2.0, y: number("y") + height / 2.0 }, width, height }
}

/// A label's box: `Mleft,topHxLright,yVbottomHleftZ`.
fn outline(shape: &str) -> Box {
    let numbers: Vec<f64> = attribute(shape, "d")
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .filter_map(|word| word.parse().ok())
        .collect();
    let [left, top, _, right, _, bottom, _] = numbers[..] else { panic!("{shape}") };
    Box {
        center: Point { x: (left + right) / 2.0, y: (top + bottom) / 2.0 },
        width: right - left,
        height: bottom - top,
    }
}

fn attribute<'t>(text: &'t str, name: &str) -> &'t str {
    let start = format!(" {name}=\"");
    text.split_once(&start).unwrap_or_else(|| panic!("{name} in {text}")).1.split('"').next().unwrap()
}

fn points(path: &str) -> Vec<Point> {
    let pairs = path.split(['M', 'C', ' ']).filter_map(|pair| pair.split_once(','));
    pairs.map(|(x, y)| Point { x: x.parse().unwrap(), y: y.parse().unwrap() }).collect()
}
