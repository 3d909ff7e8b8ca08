//! Counting samples into a graph: flat, cum, calls and labels of each node.

use std::collections::hash_map::Entry;

use foldhash::HashMap;

use procprof_profile::{Profile, Sample};

use super::steps::Steps;
use super::tags::SampleTags;
use super::{Edge, Graph, Node, Places, Shape, Weight};
use crate::Result;
use crate::display::place::Place;

/// The cum of a node while samples are counted: separate from the rest of the node, for locality over millions of
/// frames.
#[derive(Clone, Copy, Default)]
struct Cum {
    weight: Weight,
    /// The last sample that was added, counted from 1: a sample counts once however often it passes.
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

/// The samples with a value, counted from 1.
fn weighed<'p>(profile: &'p Profile, shape: &Shape<'_>) -> impl Iterator<Item = (u32, Sample<'p>, Weight)> {
    let weighed =
        profile.samples().map(|sample| (shape.values.weight(&sample), sample)).filter(|(weight, _)| !weight.is_zero());
    weighed.zip(1..).map(|((weight, sample), count)| (count, sample, weight))
}

/// The cum of each group of places: a sample counts once, however many places of the group it passes.
pub(crate) fn group_cums(
    profile: &Profile,
    places: &Places<'_>,
    shape: &Shape<'_>,
    groups: &[Vec<&Node<'_>>],
) -> Result<Vec<Weight>> {
    let mut cums = vec![Cum::default(); groups.len()];
    let mut of_place: HashMap<&Place<'_>, Vec<u32>> = HashMap::default();
    for (group, nodes) in (0u32..).zip(groups) {
        nodes.iter().for_each(|node| of_place.entry(&node.place).or_default().push(group));
    }
    let of_place: Vec<&[u32]> =
        places.places.iter().map(|place| of_place.get(place).map_or(&[][..], Vec::as_slice)).collect();
    let mut pace = shape.budget.pace();
    for (count, sample, weight) in weighed(profile, shape) {
        for location in sample.stack {
            let lines = places.of_location(*location);
            pace.steps(lines.len())?;
            for place in &places.of_lines[lines] {
                for group in of_place[*place as usize] {
                    cums[*group as usize].add(count, weight);
                }
            }
        }
    }
    Ok(cums.into_iter().map(|cum| cum.weight).collect())
}

impl<'a> Graph<'a> {
    /// One node for each place, however it was reached.
    pub(super) fn of_places(profile: &Profile, places: &Places<'a>, shape: &Shape<'_>) -> Result<Graph<'a>> {
        let mut graph = Graph::of_bare_places(places, shape)?;
        graph.count(profile, places, shape, None)?;
        Ok(graph)
    }

    /// One node for each place with its weight, but without calls and labels: enough to find the nodes that are too
    /// light.
    pub(super) fn of_weights(profile: &Profile, places: &Places<'a>, shape: &Shape<'_>) -> Result<Graph<'a>> {
        let mut graph = Graph::of_bare_places(places, shape)?;
        let mut cums = vec![Cum::default(); graph.nodes.len()];
        let mut pace = shape.budget.pace();
        for (count, sample, weight) in weighed(profile, shape) {
            for location in sample.stack {
                pace.steps(places.of_location(*location).len())?;
                for place in &places.of_lines[places.of_location(*location)] {
                    cums[*place as usize].add(count, weight);
                }
            }
            if let Some(leaf) =
                sample.stack.first().and_then(|leaf| places.of_lines.get(places.of_location(*leaf).start))
            {
                graph.nodes[*leaf as usize].flat.add(weight);
            }
        }
        graph.finish_nodes(&cums, shape, |_| true);
        Ok(graph)
    }

    fn of_bare_places(places: &Places<'a>, shape: &Shape<'_>) -> Result<Graph<'a>> {
        let mut meter = shape.budget.meter("the graph");
        let mut nodes = Vec::with_capacity(places.places.len());
        for place in &places.places {
            let node = Node::new(place.clone());
            meter.take(node.bytes())?;
            nodes.push(node);
        }
        Ok(Graph { nodes, edges: Vec::new(), is_call_tree: false, shown: Vec::new() })
    }

    /// Counts again, as if only the kept nodes existed: a call over omitted ones joins the remaining ones and is called
    /// residual.
    pub(super) fn count(
        &mut self,
        profile: &Profile,
        places: &Places<'a>,
        shape: &Shape<'_>,
        kept: Option<&[bool]>,
    ) -> Result<()> {
        self.nodes.iter_mut().for_each(Node::clear);
        self.edges.clear();
        let is_kept = |id: u32| kept.is_none_or(|kept| kept[id as usize]);
        let mut steps = Steps::from_places(places, is_kept);
        let mut cums = vec![Cum::default(); self.nodes.len()];
        let (mut meter, mut pace) = (shape.budget.meter("the graph's calls and labels"), shape.budget.pace());
        for (count, sample, weight) in weighed(profile, shape) {
            let tags = SampleTags::from_sample(profile, &sample, shape)?;
            let mut parent: Option<u32> = None;
            let mut residual = false;
            for location in sample.stack.iter().rev() {
                let (range, ends_residual) = steps.of_location(location.index());
                pace.steps(range.len() + 1)?;
                for position in range {
                    let step = steps.step(position);
                    let id = step.node;
                    residual |= step.residual;
                    if let (true, Some(tags)) = (cums[id as usize].add(count, weight), &tags) {
                        self.nodes[id as usize].add_cum_tags(weight, tags, &mut meter)?;
                    }
                    if let Some(parent) = parent.filter(|parent| *parent != id) {
                        let known = steps.last_edge(position, parent);
                        let before = self.edges.len();
                        let edge = known.unwrap_or_else(|| steps.edge(position, parent, || self.push_edge(parent, id)));
                        meter.take_values::<Edge>(self.edges.len() - before)?;
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
                self.nodes[leaf as usize].add_flat(weight, tags.as_ref(), &mut meter)?;
            }
        }
        self.finish_nodes(&cums, shape, is_kept);
        Ok(())
    }

    /// Takes the counts, and finds the nodes to show.
    fn finish_nodes(&mut self, cums: &[Cum], shape: &Shape<'_>, is_kept: impl Fn(u32) -> bool) {
        self.nodes.iter_mut().zip(cums).for_each(|(node, cum)| node.cum = cum.weight);
        let counted = |id: &u32| is_kept(*id) && self.is_worth_showing(*id, shape);
        self.shown = (0..self.nodes.len() as u32).filter(counted).collect();
    }

    /// One node for each path from the root.
    pub(super) fn of_paths(profile: &Profile, places: &Places<'a>, shape: &Shape<'_>) -> Result<Graph<'a>> {
        let mut graph = Graph { nodes: Vec::new(), edges: Vec::new(), is_call_tree: true, shown: Vec::new() };
        let mut known: HashMap<(Option<u32>, u32), (u32, Option<u32>)> = HashMap::default();
        let (mut meter, mut pace) = (shape.budget.meter("the graph of paths"), shape.budget.pace());
        for sample in profile.samples() {
            let weight = shape.values.weight(&sample);
            if weight.is_zero() {
                continue;
            }
            let tags = SampleTags::from_sample(profile, &sample, shape)?;
            let mut parent: Option<u32> = None;
            for location in sample.stack.iter().rev() {
                let range = places.of_location(*location);
                pace.steps(range.len())?;
                for position in range.clone().rev() {
                    let place = places.of_lines[position];
                    let (node, edge) = match known.entry((parent, place)) {
                        Entry::Occupied(known) => *known.get(),
                        Entry::Vacant(new) => {
                            let node = Node::new(places.places[place as usize].clone());
                            meter.take(node.bytes() + size_of::<Edge>())?;
                            graph.nodes.push(node);
                            let node = graph.nodes.len() as u32 - 1;
                            *new.insert((node, parent.map(|parent| graph.push_edge(parent, node))))
                        }
                    };
                    graph.nodes[node as usize].add_cum(weight, tags.as_ref(), &mut meter)?;
                    if let Some(edge) = edge {
                        graph.edges[edge as usize].add(weight, false, position + 1 != range.end);
                    }
                    parent = Some(node);
                }
            }
            if let Some(leaf) = parent {
                graph.nodes[leaf as usize].add_flat(weight, tags.as_ref(), &mut meter)?;
            }
        }
        graph.shown = (0..graph.nodes.len() as u32).filter(|id| graph.is_worth_showing(*id, shape)).collect();
        Ok(graph)
    }

    fn is_worth_showing(&self, id: u32, shape: &Shape<'_>) -> bool {
        let (flat, cum) = (self.nodes[id as usize].flat.sum, self.nodes[id as usize].cum.sum);
        let is_negative = flat < 0 || (flat == 0 && cum < 0);
        (flat != 0 || cum != 0) && !(shape.drop_negative && is_negative)
    }

    fn push_edge(&mut self, source: u32, target: u32) -> u32 {
        let id = self.edges.len() as u32;
        self.edges.push(Edge {
            source,
            target,
            weight: Weight::default(),
            residual: false,
            inlined: true,
            last_sample: 0,
        });
        self.nodes[source as usize].outgoing.push(id);
        self.nodes[target as usize].incoming.push(id);
        id
    }
}
