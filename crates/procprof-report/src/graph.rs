//! Functions (or files, lines, addresses) with what they use themselves and with all they call, and whether they were inlined.
//!
//! The rules are pprof's: a stack counts a node's cum once however often it recurses, flat goes to the leaf, nodes below a share of the
//! total are dropped and counted, and a node is `(inline)` when every call that is left to it was inlined.

use rustc_hash::FxHashMap;

use procprof_profile::{LabelValue, LocationId, Profile};

use crate::place::Place;
use crate::selection::Selection;
use crate::{Options, Sort};

/// How the calls to a node were compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inlining {
    None,
    Partial,
    Full,
}

/// One row of `top`.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) flat: i64,
    pub(crate) cum: i64,
    pub(crate) inlining: Inlining,
}

/// The rows that are left, and what was left out.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) rows: Vec<Row>,
    /// Rows below the share.
    pub(crate) dropped: usize,
    /// Rows that passed, before `nodecount` cut them.
    pub(crate) passed: usize,
}

struct Node {
    printable: String,
    /// Breaks ties between rows that print alike.
    tie: String,
    flat: i64,
    cum: i64,
    stamp: u32,
}

struct Edge {
    weight: i64,
    inlined: bool,
    stamp: u32,
}

/// All nodes of a profile, and for each location those of its lines, innermost first.
struct Nodes {
    nodes: Vec<Node>,
    of_location: Vec<std::ops::Range<usize>>,
    line_nodes: Vec<u32>,
}

/// Selects and sorts the rows of one sample type.
pub(crate) fn rows(profile: &Profile, selection: &Selection<'_>, sample_type: usize, options: &Options) -> Rows {
    let mut nodes = Nodes::new(profile, options);
    let edges = nodes.count(selection, sample_type, &|_| true);
    let flat_total = nodes.nodes.iter().fold(0i64, |sum, node| sum.saturating_add(node.flat));
    let cutoff = |fraction: f64| ((flat_total as f64 * fraction) as i64).saturating_abs();
    let node_cutoff = cutoff(options.nodefraction);

    let used: Vec<u32> = (0..nodes.nodes.len() as u32).filter(|id| nodes.is_used(*id)).collect();
    let mut kept: Vec<u32> = used.iter().copied().filter(|id| nodes.nodes[*id as usize].cum.saturating_abs() >= node_cutoff).collect();
    let (dropped, passed) = (used.len() - kept.len(), kept.len());
    kept.sort_by(|a, b| order(&nodes.nodes[*a as usize], &nodes.nodes[*b as usize], options.sort));
    if options.nodecount > 0 {
        kept.truncate(options.nodecount);
    }
    let edges = if kept.len() == used.len() {
        edges
    } else {
        let mut is_kept = vec![false; nodes.nodes.len()];
        kept.iter().for_each(|id| is_kept[*id as usize] = true);
        nodes.count(selection, sample_type, &|id: u32| is_kept[id as usize])
    };
    let inlining = inlining(&edges, nodes.nodes.len(), cutoff(options.edgefraction));
    let row = |id: u32| {
        let node = &mut nodes.nodes[id as usize];
        Row { name: std::mem::take(&mut node.printable), flat: node.flat, cum: node.cum, inlining: inlining[id as usize] }
    };
    Rows { rows: kept.into_iter().map(row).collect(), dropped, passed }
}

/// The total that percentages refer to: absolute values, of the base samples alone when the profile is a difference to them.
pub(crate) fn total(profile: &Profile, sample_type: usize) -> i64 {
    let (mut all, mut base) = (0i64, 0i64);
    for sample in profile.samples() {
        let value = sample.values[sample_type].saturating_abs();
        all = all.saturating_add(value);
        let is_base = sample.labels.iter().any(|label| {
            let text = matches!(label.value, LabelValue::Text(text) if profile.string(text) == "true");
            text && profile.string(label.key) == "pprof::base"
        });
        if is_base {
            base = base.saturating_add(value);
        }
    }
    if base > 0 { base } else { all }
}

impl Nodes {
    fn new(profile: &Profile, options: &Options) -> Nodes {
        let mut known: FxHashMap<Place<'_>, u32> = FxHashMap::default();
        let mut found = Nodes { nodes: Vec::new(), of_location: Vec::new(), line_nodes: Vec::new() };
        for (index, location) in profile.locations().iter().enumerate() {
            let start = found.line_nodes.len();
            let lines = profile.lines(LocationId(index as u32));
            let bare = lines.is_empty().then_some(None);
            for line in lines.iter().map(Some).chain(bare) {
                let place = Place::new(profile, location, line, options.granularity);
                let nodes = &mut found.nodes;
                let id = *known.entry(place).or_insert_with_key(|place| {
                    nodes.push(Node::new(place));
                    nodes.len() as u32 - 1
                });
                found.line_nodes.push(id);
            }
            found.of_location.push(start..found.line_nodes.len());
        }
        found
    }

    fn is_used(&self, id: u32) -> bool {
        let node = &self.nodes[id as usize];
        node.flat != 0 || node.cum != 0
    }

    /// Counts flat, cum and calls anew, as if only the kept nodes existed: a call over left-out ones joins what is left.
    fn count(&mut self, selection: &Selection<'_>, sample_type: usize, is_kept: &dyn Fn(u32) -> bool) -> FxHashMap<(u32, u32), Edge> {
        let mut edges: FxHashMap<(u32, u32), Edge> = FxHashMap::default();
        for node in &mut self.nodes {
            (node.flat, node.cum, node.stamp) = (0, 0, 0);
        }
        let mut stamp = 0;
        for sample in selection.samples().filter(|sample| sample.values[sample_type] != 0) {
            let value = sample.values[sample_type];
            stamp += 1;
            let mut parent: Option<u32> = None;
            let mut leaf_is_kept = true;
            for location in sample.stack.iter().rev() {
                let range = self.of_location[location.index()].clone();
                for position in range.clone().rev() {
                    let id = self.line_nodes[position];
                    leaf_is_kept = is_kept(id);
                    if !leaf_is_kept {
                        continue;
                    }
                    let node = &mut self.nodes[id as usize];
                    if node.stamp != stamp {
                        node.stamp = stamp;
                        node.cum = node.cum.saturating_add(value);
                    }
                    if let Some(parent) = parent.filter(|parent| *parent != id) {
                        let edge = edges.entry((parent, id)).or_insert(Edge { weight: 0, inlined: true, stamp: 0 });
                        if edge.stamp != stamp {
                            edge.stamp = stamp;
                            edge.weight = edge.weight.saturating_add(value);
                            edge.inlined &= position + 1 != range.end;
                        }
                    }
                    parent = Some(id);
                }
            }
            if let Some(leaf) = parent.filter(|_| leaf_is_kept) {
                let flat = &mut self.nodes[leaf as usize].flat;
                *flat = flat.saturating_add(value);
            }
        }
        edges
    }
}

impl Node {
    fn new(place: &Place<'_>) -> Node {
        let tie = format!(
            "{} {} {} {} {} {} {}",
            place.name, place.address, place.file, place.start_line, place.line, place.column, place.mapping
        );
        Node { printable: place.printable(), tie, flat: 0, cum: 0, stamp: 0 }
    }
}

fn order(a: &Node, b: &Node, sort: Sort) -> std::cmp::Ordering {
    let (first, second) = match sort {
        Sort::Flat => ([a.flat, b.flat], [a.cum, b.cum]),
        Sort::Cum => ([a.cum, b.cum], [a.flat, b.flat]),
    };
    let larger = |[a, b]: [i64; 2]| b.unsigned_abs().cmp(&a.unsigned_abs());
    larger(first).then_with(|| a.printable.cmp(&b.printable)).then_with(|| larger(second)).then_with(|| a.tie.cmp(&b.tie))
}

fn inlining(edges: &FxHashMap<(u32, u32), Edge>, nodes: usize, cutoff: i64) -> Vec<Inlining> {
    let mut found: Vec<Option<Inlining>> = vec![None; nodes];
    for ((_, callee), edge) in edges.iter().filter(|(_, edge)| edge.weight.saturating_abs() >= cutoff) {
        let this = if edge.inlined { Inlining::Full } else { Inlining::None };
        let slot = &mut found[*callee as usize];
        *slot = match *slot {
            Some(before) if before != this => Some(Inlining::Partial),
            _ => Some(this),
        };
    }
    found.into_iter().map(|inlining| inlining.unwrap_or(Inlining::None)).collect()
}
