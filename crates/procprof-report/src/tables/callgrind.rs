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
//! A name is written out at its first use and is its number after that; an address is relative to the one before where
//! that is shorter.

use std::fmt::Write;

use foldhash::HashMap;

use crate::display::measure::scale;
use crate::display::text::one_line;
use crate::graph::{Graph, Node};
use crate::header::subject::{Drawing, Subject};
use crate::output::Output;
use crate::selection::view::View;
use crate::{Budget, Granularity, Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let subject = Subject::new(view, options)?;
    let drawing = Drawing {
        granularity: Granularity::Addresses,
        trims: false,
        nodes: 0,
        picture: false,
        call_tree: true,
        objects: true,
    };
    let shown = subject.graph(drawing)?;
    let graph = &shown.graph;
    let to = subject.output_unit(graph, true);
    let cost = |value: i64| scale(value, subject.unit, to).0 as i64;
    let callees = distinct_names(graph, &options.budget)?;
    let [mut objects, mut files, mut functions] = [Names::default(), Names::default(), Names::default()];

    let _ = writeln!(out.text, "positions: instr line\nevents: {}({})", one_line(&subject.kind), one_line(to));
    let mut before: Option<&Node<'_>> = None;
    for id in &graph.shown {
        let node = graph.node(*id);
        let place = &node.place;
        let follows = |before: &Node<'_>| {
            (before.place.mapping, &before.place.file, before.place.name) == (place.mapping, &place.file, place.name)
        };
        if !before.is_some_and(follows) {
            let _ = writeln!(out.text, "\nob={}", objects.short(place.mapping));
            let _ = writeln!(out.text, "fl={}", files.short(&place.file));
            let _ = writeln!(out.text, "fn={}", functions.short(place.name));
        }
        let _ = writeln!(out.text, "{} {} {}", address(before, place.address), place.line, cost(node.flat.value()));
        for edge in graph.sorted(&node.outgoing) {
            let edge = &graph.edges[edge as usize];
            let callee = &graph.node(edge.target).place;
            let name = callees.get(&edge.target).map_or(callee.name, String::as_str);
            let _ = writeln!(out.text, "cfl={}\ncfn={}", files.short(&callee.file), functions.short(name));
            let _ = writeln!(
                out.text,
                "calls=0 {} {}\n* * {}",
                address(before, callee.address),
                callee.line,
                cost(edge.weight.sum)
            );
            out.drain()?;
        }
        out.drain()?;
        before = Some(node);
    }
    Ok(())
}

/// Numbers of names that were already written.
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

/// Names with a number for nodes whose function is not the only one of that name and file: in several binaries, or, in
/// a call tree, with several callers.
fn distinct_names<'g>(graph: &'g Graph<'_>, budget: &Budget) -> Result<HashMap<u32, String>> {
    type Function<'g> = (i64, &'g str, Option<u32>);
    let function = |id: u32| -> Function<'g> {
        let (place, incoming) = (&graph.node(id).place, &graph.node(id).incoming);
        let caller =
            if graph.is_call_tree { incoming.first().map(|edge| graph.edges[*edge as usize].source) } else { None };
        (place.start_line, place.mapping, caller)
    };
    let mut numbers: HashMap<(&str, &str), HashMap<Function<'g>, usize>> = HashMap::default();
    for id in &graph.shown {
        let place = &graph.node(*id).place;
        let functions = numbers.entry((&place.file, place.name)).or_default();
        let next = functions.len() + 1;
        functions.entry(function(*id)).or_insert(next);
    }
    let mut names = HashMap::default();
    let mut meter = budget.meter("the table of names");
    for id in &graph.shown {
        let place = &graph.node(*id).place;
        let functions = &numbers[&(place.file.as_ref(), place.name)];
        if functions.len() > 1 {
            let name = format!("{} [{}/{}]", place.name, functions[&function(*id)], functions.len());
            meter.take(name.len())?;
            names.insert(*id, name);
        }
    }
    Ok(names)
}
