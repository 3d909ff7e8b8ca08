//! The common parts of text reports and drawn graphs: the selected values, the total that shares refer to, and the
//! format of amounts.

use procprof_profile::diff::BASE_LABEL;
use procprof_profile::waits::LeftOutWaits;
use procprof_profile::{LabelValue, Profile};

use crate::display::labels::Units;
use crate::display::measure::{label, scale};
use crate::display::place::Detail;
use crate::graph::{Graph, Limits, Node, Order, Places, Shape, TagFormat, Trimmed, Values, Weight, group_cums};
use crate::selection::Selection;
use crate::selection::view::View;
use crate::{Granularity, Options, Result, Sort};

/// A profile, the options, and the filtered profile.
pub(crate) struct Subject<'a> {
    /// Before filters.
    pub(crate) whole: &'a Profile,
    /// The waits that it does not have.
    pub(crate) left_out: &'a LeftOutWaits,
    pub(crate) options: &'a Options,
    pub(crate) values: Values,
    /// Name of the values.
    pub(crate) kind: String,
    /// Unit of the values.
    pub(crate) unit: &'a str,
    /// The base of shares: absolute values, of the base samples alone when the profile is a difference to them.
    pub(crate) total: i64,
    selection: Selection<'a>,
}

/// The parameters of a report's graph beyond its options.
#[derive(Clone, Copy)]
pub(crate) struct Drawing {
    pub(crate) granularity: Granularity,
    /// Whether light nodes and edges are left out.
    pub(crate) trims: bool,
    /// Most nodes by default.
    pub(crate) nodes: usize,
    /// Whether it is a picture.
    pub(crate) picture: bool,
    /// Whether it may be a call tree.
    pub(crate) call_tree: bool,
    /// Whether equal functions of different binaries stay apart.
    pub(crate) objects: bool,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(view: &'a View<'_>, options: &'a Options) -> Result<Subject<'a>> {
        let whole = view.profile.as_ref();
        let sample_type = options.sample_type(whole)?;
        let values = Values { sample_type, mean: options.mean };
        let (kind, unit) = whole.sample_type(sample_type);
        let kind = if options.mean { format!("mean_{kind}") } else { kind.to_owned() };
        let selection = Selection::new(whole, options)?;
        options.budget.go_on()?;
        let total = total(if options.relative_percentages { selection.profile() } else { whole }, values);
        Ok(Subject { whole, left_out: &view.left_out_waits, options, values, kind, unit, total, selection })
    }

    /// The filtered profile.
    pub(crate) fn profile(&self) -> &Profile {
        self.selection.profile()
    }

    /// The amount as text in a unit.
    pub(crate) fn amount(&self, value: i64, to: &str) -> String {
        label(self.options.divided(value), self.unit, to)
    }

    /// The graph, trimmed.
    pub(crate) fn graph(&self, drawing: Drawing) -> Result<Trimmed<'_>> {
        let options = self.options;
        let tags = drawing.picture.then(|| TagFormat {
            bytes_unit: Units::from_profile(self.whole).unit_of("bytes").to_owned(),
            to: &options.unit,
        });
        let call_tree = options.call_tree && drawing.call_tree;
        let shape = Shape {
            values: self.values,
            call_tree,
            drop_negative: options.drop_negative,
            tags,
            budget: &options.budget,
        };
        let limits = if drawing.trims && options.trim {
            let nodes = options.nodecount.unwrap_or(drawing.nodes);
            Limits { nodes, node_share: options.nodefraction, edge_share: options.edgefraction }
        } else {
            Limits { nodes: 0, node_share: 0.0, edge_share: 0.0 }
        };
        let order = match options.sort {
            _ if drawing.picture => Order::Picture,
            Sort::Flat => Order::Flat,
            Sort::Cum => Order::Cum,
        };
        Trimmed::new(self.profile(), &self.places(drawing)?, &shape, limits, order)
    }

    fn places(&self, drawing: Drawing) -> Result<Places<'_>> {
        let detail = Detail::at(drawing.granularity, self.options);
        Places::new(self.profile(), detail, drawing.objects, &self.options.budget)
    }

    /// The cum of groups of nodes of that graph: a sample counts once, however many nodes of a group it passes.
    pub(crate) fn cums(&self, drawing: Drawing, groups: &[Vec<&Node<'_>>]) -> Result<Vec<Weight>> {
        if groups.is_empty() {
            return Ok(Vec::new());
        }
        let budget = &self.options.budget;
        let shape = Shape { values: self.values, call_tree: false, drop_negative: false, tags: None, budget };
        group_cums(self.profile(), &self.places(drawing)?, &shape, groups)
    }

    /// The unit all amounts are written in: for `minimum`, one in which the smallest is a whole, or, unless `whole`, at
    /// least 0.01.
    pub(crate) fn output_unit(&self, graph: &Graph<'_>, whole: bool) -> &str {
        let wanted = self.options.unit.as_str();
        if wanted != "minimum" || graph.shown.is_empty() {
            return wanted;
        }
        let sizes =
            graph.shown_nodes().map(|node| if node.flat.value() != 0 { node.flat.value() } else { node.cum.value() });
        let least = sizes.map(i64::saturating_abs).filter(|size| *size > 0).min().unwrap_or(self.total);
        let (least, total) = (self.options.divided(least), self.options.divided(self.total));
        let unit_of = |value: i64| scale(value, self.unit, "minimum").1;
        let (least_unit, total_unit) = (unit_of(least), unit_of(total));
        let hundredfold = least.saturating_mul(100);
        let unit =
            if !whole && least_unit != total_unit && hundredfold < total { unit_of(hundredfold) } else { least_unit };
        if unit.is_empty() { self.unit } else { unit }
    }
}

fn total(profile: &Profile, values: Values) -> i64 {
    let (mut all, mut base) = ((0i64, 0i64), (0i64, 0i64));
    let add = |sum: &mut (i64, i64), value: i64, divisor: i64| {
        *sum = (sum.0.saturating_add(value), sum.1.saturating_add(divisor))
    };
    for sample in profile.samples() {
        let weight = values.weight(&sample);
        add(&mut all, weight.sum.saturating_abs(), weight.divisor);
        let is_base = sample.labels.iter().any(|label| {
            let text = matches!(label.value, LabelValue::Text(text) if profile.string(text) == "true");
            text && profile.string(label.key) == BASE_LABEL
        });
        if is_base {
            add(&mut base, weight.sum.saturating_abs(), weight.divisor);
        }
    }
    let (sum, divisor) = if base.0 > 0 { base } else { all };
    if divisor == 0 { sum } else { sum.wrapping_div(divisor) }
}
