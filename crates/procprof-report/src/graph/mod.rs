//! Functions (or files, lines, addresses) with their flat and cumulative values, and the calls between them.
//!
//! The rules are pprof's: a stack counts a node's cum once however often it recurses, flat goes to the leaf, nodes
//! below a share of the total are dropped and counted, and calls over dropped nodes join the remaining ones. Where
//! pprof's order is arbitrary (places that print alike, opposite values), it is by place here.

mod count;
mod order;
mod steps;
mod tags;
mod trim;

use std::borrow::Cow;
use std::ops::Range;

use foldhash::HashMap;
use procprof_profile::{LocationId, Profile, Sample};

use crate::display::place::{Detail, Place, Position};
use crate::display::text::one_line;
use crate::output::budget::Meter;
use crate::{Budget, Result};
pub(crate) use count::group_cums;
pub(crate) use order::Order;
use tags::SampleTags;
pub(crate) use tags::{Tag, TagFormat, Tags, sort as sort_tags};
pub(crate) use trim::{Limits, TAGS_MAX, Trimmed};

/// The value of a sample that is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values {
    pub(crate) sample_type: usize,
    /// Divide by the first sample type.
    pub(crate) mean: bool,
}

/// A sum, and its divisor for the mean; 0 for the sum itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    pub(crate) sum: i64,
    pub(crate) divisor: i64,
}

/// The options of making a graph from a profile.
pub(crate) struct Shape<'a> {
    pub(crate) values: Values,
    /// Whether places reached by different paths are different nodes.
    pub(crate) call_tree: bool,
    /// Whether nodes with a negative value are not shown.
    pub(crate) drop_negative: bool,
    /// The format of labels; `None` if they are not needed.
    pub(crate) tags: Option<TagFormat<'a>>,
    pub(crate) budget: &'a Budget,
}

/// Nodes and the calls between them.
pub(crate) struct Graph<'a> {
    pub(crate) nodes: Vec<Node<'a>>,
    pub(crate) edges: Vec<Edge>,
    /// Whether places reached by different paths are different nodes.
    pub(crate) is_call_tree: bool,
    /// Nodes to show, in order.
    pub(crate) shown: Vec<u32>,
}

pub(crate) struct Node<'a> {
    pub(crate) place: Place<'a>,
    /// The place as text.
    pub(crate) name: Cow<'a, str>,
    pub(crate) flat: Weight,
    pub(crate) cum: Weight,
    /// Calls of this node.
    pub(crate) incoming: Vec<u32>,
    /// Calls from this node.
    pub(crate) outgoing: Vec<u32>,
    pub(crate) tags: Tags,
}

/// The calls from one node to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) source: u32,
    pub(crate) target: u32,
    pub(crate) weight: Weight,
    /// Whether some go over omitted nodes.
    pub(crate) residual: bool,
    /// Whether all were inlined.
    pub(crate) inlined: bool,
    /// The last sample that was added, counted from 1: a sample counts once however often it passes.
    last_sample: u32,
}

/// All places of a profile, and those of each location.
pub(crate) struct Places<'a> {
    pub(crate) places: Vec<Place<'a>>,
    /// For each location, a range of `of_lines`.
    of_location: Vec<Range<u32>>,
    /// Place of each line, innermost first.
    pub(crate) of_lines: Vec<u32>,
}

impl Values {
    pub(crate) fn weight(self, sample: &Sample<'_>) -> Weight {
        Weight { sum: sample.values[self.sample_type], divisor: if self.mean { sample.values[0] } else { 0 } }
    }
}

impl Weight {
    /// The mean, or the sum.
    pub(crate) fn value(self) -> i64 {
        if self.divisor == 0 { self.sum } else { self.sum.wrapping_div(self.divisor) }
    }

    pub(crate) fn add(&mut self, other: Weight) {
        self.sum = self.sum.saturating_add(other.sum);
        if other.divisor != 0 {
            self.divisor = self.divisor.saturating_add(other.divisor);
        }
    }

    fn is_zero(self) -> bool {
        self == Weight::default()
    }
}

impl<'a> Graph<'a> {
    /// All of a profile.
    pub(crate) fn new(profile: &Profile, places: &Places<'a>, shape: &Shape<'_>) -> Result<Graph<'a>> {
        if shape.call_tree { Graph::of_paths(profile, places, shape) } else { Graph::of_places(profile, places, shape) }
    }

    pub(crate) fn node(&self, id: u32) -> &Node<'a> {
        &self.nodes[id as usize]
    }

    /// The nodes to show, in order.
    pub(crate) fn shown_nodes(&self) -> impl Iterator<Item = &Node<'a>> {
        self.shown.iter().map(|id| self.node(*id))
    }

    /// The sum of the flat values of the shown nodes.
    pub(crate) fn shown_total(&self) -> i64 {
        self.shown_nodes().fold(0, |sum, node| sum.saturating_add(node.flat.value()))
    }
}

impl<'a> Node<'a> {
    fn new(place: Place<'a>) -> Node<'a> {
        let name = place.printable();
        let (flat, cum) = (Weight::default(), Weight::default());
        Node { place, name, flat, cum, incoming: Vec::new(), outgoing: Vec::new(), tags: Tags::default() }
    }

    fn clear(&mut self) {
        (self.flat, self.cum) = (Weight::default(), Weight::default());
        self.incoming.clear();
        self.outgoing.clear();
        self.tags = Tags::default();
    }

    /// Bytes that a node takes, but for its labels.
    fn bytes(&self) -> usize {
        let file = if let Cow::Owned(file) = &self.place.file { file.len() } else { 0 };
        let name = if let Cow::Owned(name) = &self.name { name.len() } else { 0 };
        size_of::<Node<'_>>() + file + name
    }

    fn add_flat(&mut self, weight: Weight, tags: Option<&SampleTags<'_>>, meter: &mut Meter) -> Result<()> {
        self.flat.add(weight);
        tags.map_or(Ok(()), |tags| self.tags.add(weight, tags, |tag| &mut tag.flat, meter))
    }

    fn add_cum(&mut self, weight: Weight, tags: Option<&SampleTags<'_>>, meter: &mut Meter) -> Result<()> {
        self.cum.add(weight);
        tags.map_or(Ok(()), |tags| self.add_cum_tags(weight, tags, meter))
    }

    fn add_cum_tags(&mut self, weight: Weight, tags: &SampleTags<'_>, meter: &mut Meter) -> Result<()> {
        self.tags.add(weight, tags, |tag| &mut tag.cum, meter)
    }
}

impl Edge {
    fn add(&mut self, weight: Weight, residual: bool, inlined: bool) {
        self.weight.add(weight);
        self.residual |= residual;
        self.inlined &= inlined;
    }
}

impl<'a> Places<'a> {
    /// Places in some detail; with `objects`, equal functions of different binaries are different places.
    pub(crate) fn new(profile: &'a Profile, detail: Detail, objects: bool, budget: &Budget) -> Result<Places<'a>> {
        let locations = profile.locations();
        let mut found =
            Places { places: Vec::new(), of_location: Vec::with_capacity(locations.len()), of_lines: Vec::new() };
        let mut known: HashMap<Place<'_>, u32> = HashMap::default();
        // Most positions were met before: their numbers show that without comparing texts.
        let mut met: HashMap<Position, u32> = HashMap::default();
        let (mut meter, mut pace) = (budget.meter("the table of places"), budget.pace());
        let mut new_bytes = 0;
        for (index, location) in locations.iter().enumerate() {
            let start = found.of_lines.len() as u32;
            let lines = profile.lines(LocationId(index as u32));
            let bare = lines.is_empty().then_some(None);
            for line in lines.iter().map(Some).chain(bare) {
                let id = *met.entry(Position::new(location, line, detail)).or_insert_with(|| {
                    let mut place = Place::new(profile, location, line, detail);
                    if objects {
                        place.distinguish_objects(profile, location, line);
                    }
                    *known.entry(place).or_insert_with_key(|place| {
                        if let Cow::Owned(file) = &place.file {
                            new_bytes += 2 * file.len();
                        }
                        found.places.push(place.clone());
                        found.places.len() as u32 - 1
                    })
                });
                meter.take(std::mem::take(&mut new_bytes))?;
                found.of_lines.push(id);
            }
            pace.steps(lines.len() + 1)?;
            found.of_location.push(start..found.of_lines.len() as u32);
        }
        Ok(found)
    }

    /// The places as text, each on one line.
    pub(crate) fn names(&self, budget: &Budget) -> Result<Vec<String>> {
        let mut meter = budget.meter("the table of names");
        let name = |place: &Place<'_>| {
            let name = one_line(&place.printable()).into_owned();
            meter.take(size_of::<String>() + name.len())?;
            Ok(name)
        };
        self.places.iter().map(name).collect()
    }

    /// Positions in `of_lines` of a location, innermost first; never empty.
    pub(crate) fn of_location(&self, location: LocationId) -> Range<usize> {
        let range = &self.of_location[location.index()];
        range.start as usize..range.end as usize
    }
}
