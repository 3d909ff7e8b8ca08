//! `callgrind`: every address with its cost and calls, for KCachegrind, in the shape of `go tool pprof -callgrind`.
//!
//! ```text
//! positions: instr line
//! events: cpu(ms)
//!
//! ob=(1) /usr/bin/server
//! fl=(1) /src/main.go
//! fn=(1) main.work
//! 0x46b2d0 30 610
//! cfl=(1)
//! cfn=(2) hot_70
//! calls=0 +16 28
//! * * 6110
//! ```
//! A name is written out where it first stands and is its number after that; an address is relative to the one before where that is shorter.

use std::fmt::Write;

use foldhash::HashMap;

use crate::graph::{Graph, Node};
use crate::measure::scale;
use crate::subject::{Drawing, Subject};
use crate::text::one_line;
use crate::view::View;
use crate::{Granularity, Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let subject = Subject::new(&view.profile, options)?;
    let drawing = Drawing { granularity: Granularity::Addresses, trims: false, nodes: 0, picture: false, call_tree: true, objects: true };
    let shown = subject.graph(drawing);
    let graph = &shown.graph;
    let to = subject.output_unit(graph, true);
    let cost = |value: i64| scale(value, subject.unit, to).0 as i64;
    let callees = distinct_names(graph);
    let [mut objects, mut files, mut functions] = [Names::default(), Names::default(), Names::default()];

    let mut out = format!("positions: instr line\nevents: {}({})\n", one_line(&subject.kind), one_line(to));
    let mut before: Option<&Node<'_>> = None;
    for id in &graph.shown {
        let node = graph.node(*id);
        let place = &node.place;
        let follows =
            |before: &Node<'_>| (before.place.mapping, &before.place.file, before.place.name) == (place.mapping, &place.file, place.name);
        if !before.is_some_and(follows) {
            let _ = writeln!(out, "\nob={}", objects.short(place.mapping));
            let _ = writeln!(out, "fl={}", files.short(&place.file));
            let _ = writeln!(out, "fn={}", functions.short(place.name));
        }
        let _ = writeln!(out, "{} {} {}", address(before, place.address), place.line, cost(node.flat.value()));
        for edge in graph.sorted(&node.outgoing) {
            let edge = &graph.edges[edge as usize];
            let callee = &graph.node(edge.target).place;
            let name = callees.get(&edge.target).map_or(callee.name, String::as_str);
            let _ = writeln!(out, "cfl={}\ncfn={}", files.short(&callee.file), functions.short(name));
            let _ = writeln!(out, "calls=0 {} {}\n* * {}", address(before, callee.address), callee.line, cost(edge.weight.sum));
        }
        before = Some(node);
    }
    Ok(out.into_bytes())
}

/// Numbers of names that stood already.
#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    fn short(&mut self, name: &str) -> String {
        if name.is_empty() {
            return String::new();
        }
        if let Some(number) = self.0.get(name) {
            return format!("({number})");
        }
        let number = self.0.len() + 1;
        self.0.insert(name.to_owned(), number);
        format!("({number}) {}", one_line(name))
    }
}

fn address(before: Option<&Node<'_>>, address: u64) -> String {
    let absolute = format!("{address:#x}");
    let Some(before) = before.map(|node| node.place.address) else { return absolute };
    if before == address {
        return "*".to_owned();
    }
    let relative = format!("{:+}", address.wrapping_sub(before) as i64);
    if relative.len() < absolute.len() { relative } else { absolute }
}

/// Names with a number for nodes whose function is not the only one of that name and file: those of several binaries, or, in a call tree,
/// called by several.
fn distinct_names(graph: &Graph<'_>) -> HashMap<u32, String> {
    type Function = (i64, String, Option<u32>);
    let function = |id: u32| -> Function {
        let (place, incoming) = (&graph.node(id).place, &graph.node(id).incoming);
        let caller = if graph.is_call_tree { incoming.first().map(|edge| graph.edges[*edge as usize].source) } else { None };
        (place.start_line, place.mapping.to_owned(), caller)
    };
    let mut numbers: HashMap<(&str, &str), HashMap<Function, usize>> = HashMap::default();
    for id in &graph.shown {
        let place = &graph.node(*id).place;
        let functions = numbers.entry((&place.file, place.name)).or_default();
        let next = functions.len() + 1;
        functions.entry(function(*id)).or_insert(next);
    }
    let mut names = HashMap::default();
    for id in &graph.shown {
        let place = &graph.node(*id).place;
        let functions = &numbers[&(place.file.as_ref(), place.name)];
        if functions.len() > 1 {
            names.insert(*id, format!("{} [{}/{}]", place.name, functions[&function(*id)], functions.len()));
        }
    }
    names
}
