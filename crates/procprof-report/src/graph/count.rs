//! Counting samples into a graph: flat, cum, calls and labels of each node.

use foldhash::HashMap;

use procprof_profile::{Profile, Sample};

use super::steps::Steps;
use super::tags::SampleTags;
use super::{Edge, Graph, Node, Places, Shape, Weight};

/// The cum of a node while samples are counted: apart from the rest of the node, so that millions of frames find it near.
#[derive(Clone, Copy, Default)]
struct Cum {
    weight: Weight,
    /// The last sample that was added, counted from 1: a sample counts once however often it comes by.
    last_sample: u32,
}

impl Cum {
    /// Adds a sample; false where it was added before.
    #[inline]
    fn add(&mut self, sample: u32, weight: Weight) -> bool {
        let is_new = self.last_sample != sample;
        if is_new {
            self.last_sample = sample;
            self.weight.add(weight);
        }
        is_new
    }
}

/// The samples that weigh anything, counted from 1.
fn weighed<'p>(profile: &'p Profile, shape: &Shape<'_>) -> impl Iterator<Item = (u32, Sample<'p>, Weight)> {
    let weighed = profile.samples().map(|sample| (shape.values.weight(&sample), sample)).filter(|(weight, _)| !weight.is_zero());
    weighed.zip(1..).map(|((weight, sample), count)| (count, sample, weight))
}

impl<'a> Graph<'a> {
    /// One node for each place, however it was reached.
    pub(super) fn of_places(profile: &Profile, places: &Places<'a>, shape: &Shape<'_>) -> Graph<'a> {
        let mut graph = Graph::of_bare_places(places);
        graph.count(profile, places, shape, None);
        graph
    }

    /// One node for each place with what it weighs, but no calls and no labels yet: enough to tell which nodes are too light.
    pub(super) fn of_weights(profile: &Profile, places: &Places<'a>, shape: &Shape<'_>) -> Graph<'a> {
        let mut graph = Graph::of_bare_places(places);
        let mut cums = vec![Cum::default(); graph.nodes.len()];
        for (count, sample, weight) in weighed(profile, shape) {
            for location in sample.stack {
                for place in &places.of_lines[places.of(*location)] {
                    cums[*place as usize].add(count, weight);
                }
            }
            if let Some(leaf) = sample.stack.first().and_then(|leaf| places.of_lines.get(places.of(*leaf).start)) {
                graph.nodes[*leaf as usize].flat.add(weight);
            }
        }
        graph.finish_nodes(&cums, shape, |_| true);
        graph
    }

    fn of_bare_places(places: &Places<'a>) -> Graph<'a> {
        let nodes = places.places.iter().cloned().map(Node::new).collect();
        Graph { nodes, edges: Vec::new(), is_call_tree: false, shown: Vec::new() }
    }

    /// Counts anew, as if only the kept nodes existed: a call over left-out ones joins what is left and is called residual.
    pub(super) fn count(&mut self, profile: &Profile, places: &Places<'a>, shape: &Shape<'_>, kept: Option<&[bool]>) {
        self.nodes.iter_mut().for_each(Node::clear);
        self.edges.clear();
        let is_kept = |id: u32| kept.is_none_or(|kept| kept[id as usize]);
        let mut steps = Steps::of(places, is_kept);
        let mut cums = vec![Cum::default(); self.nodes.len()];
        for (count, sample, weight) in weighed(profile, shape) {
            let tags = shape.tags.as_ref().and_then(|format| SampleTags::of(profile, &sample, format));
            let mut parent: Option<u32> = None;
            let mut residual = false;
            for location in sample.stack.iter().rev() {
                let (range, ends_residual) = steps.of_location(location.index());
                for position in range {
                    let step = steps.step(position);
                    let id = step.node;
                    residual |= step.residual;
                    if let (true, Some(tags)) = (cums[id as usize].add(count, weight), &tags) {
                        self.nodes[id as usize].add_cum_tags(weight, tags);
                    }
                    if let Some(parent) = parent.filter(|parent| *parent != id) {
                        let known = steps.last_edge(position, parent);
                        let edge = known.unwrap_or_else(|| steps.edge(position, parent, || self.push_edge(parent, id)));
                        let edge = &mut self.edges[edge as usize];
                        if edge.last_sample != count {
                            edge.last_sample = count;
                            edge.add(weight, residual, step.inlined);
                        }
                    }
                    parent = Some(id);
                    residual = false;
                }
                residual |= ends_residual;
            }
            if let Some(leaf) = parent.filter(|_| !residual) {
                self.nodes[leaf as usize].add_flat(weight, tags.as_ref());
            }
        }
        self.finish_nodes(&cums, shape, is_kept);
    }

    /// Takes what was counted, and finds the nodes to show.
    fn finish_nodes(&mut self, cums: &[Cum], shape: &Shape<'_>, is_kept: impl Fn(u32) -> bool) {
        self.nodes.iter_mut().zip(cums).for_each(|(node, cum)| node.cum = cum.weight);
        let counted = |id: &u32| is_kept(*id) && self.is_worth_showing(*id, shape);
        self.shown = (0..self.nodes.len() as u32).filter(counted).collect();
    }

    /// One node for each path from the root.
    pub(super) fn of_paths(profile: &Profile, places: &Places<'a>, shape: &Shape<'_>) -> Graph<'a> {
        let mut graph = Graph { nodes: Vec::new(), edges: Vec::new(), is_call_tree: true, shown: Vec::new() };
        let mut known: HashMap<(Option<u32>, u32), (u32, Option<u32>)> = HashMap::default();
        for sample in profile.samples() {
            let weight = shape.values.weight(&sample);
            if weight.is_zero() {
                continue;
            }
            let tags = shape.tags.as_ref().and_then(|format| SampleTags::of(profile, &sample, format));
            let mut parent: Option<u32> = None;
            for location in sample.stack.iter().rev() {
                let range = places.of(*location);
                for position in range.clone().rev() {
                    let place = places.of_lines[position];
                    let (node, edge) = *known.entry((parent, place)).or_insert_with(|| {
                        graph.nodes.push(Node::new(places.places[place as usize].clone()));
                        let node = graph.nodes.len() as u32 - 1;
                        (node, parent.map(|parent| graph.push_edge(parent, node)))
                    });
                    graph.nodes[node as usize].add_cum(weight, tags.as_ref());
                    if let Some(edge) = edge {
                        graph.edges[edge as usize].add(weight, false, position + 1 != range.end);
                    }
                    parent = Some(node);
                }
            }
            if let Some(leaf) = parent {
                graph.nodes[leaf as usize].add_flat(weight, tags.as_ref());
            }
        }
        graph.shown = (0..graph.nodes.len() as u32).filter(|id| graph.is_worth_showing(*id, shape)).collect();
        graph
    }

    fn is_worth_showing(&self, id: u32, shape: &Shape<'_>) -> bool {
        let (flat, cum) = (self.nodes[id as usize].flat.sum, self.nodes[id as usize].cum.sum);
        let is_negative = flat < 0 || (flat == 0 && cum < 0);
        (flat != 0 || cum != 0) && !(shape.drop_negative && is_negative)
    }

    fn push_edge(&mut self, source: u32, target: u32) -> u32 {
        let id = self.edges.len() as u32;
        self.edges.push(Edge { source, target, weight: Weight::default(), residual: false, inlined: true, last_sample: 0 });
        self.nodes[source as usize].outgoing.push(id);
        self.nodes[target as usize].incoming.push(id);
        id
    }
}
