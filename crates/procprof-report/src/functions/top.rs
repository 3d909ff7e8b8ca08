//! `top`: rows of flat and cum, in the shape of `go tool pprof -top`; moments are in UTC.
//!
//! ```text
//! Showing nodes accounting for 8.70s, 99.66% of 8.73s total
//! Dropped 12 nodes (cum <= 0.04s)
//!       flat  flat%   sum%        cum   cum%
//!      6.11s 69.99% 69.99%      6.11s 69.99%  hot_70
//! ```
//! `topproto` is the same as a profile with one sample for each row: its cum and its flat, in the profile's unit unless
//! another is requested (pprof writes whole numbers of the unit that `top` would show, which are often 0).

use std::borrow::Cow;
use std::fmt::Write;

use procprof_profile::{Addr, Function, Line, Location, Profile, ProfileBuilder, format};

use crate::display::measure::{percentage, scale};
use crate::display::text::one_line;
use crate::graph::{Graph, Node};
use crate::header::headline;
use crate::header::subject::{Drawing, Subject};
use crate::output::Output;
use crate::selection::view::View;
use crate::{Options, Result, Sources};

/// The rows of `top` and the lines above them, for tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Top {
    /// Facts about the profile, filters, and the shown part.
    pub lines: Vec<String>,
    /// In the requested order.
    pub rows: Vec<TopRow>,
}

/// A function and its values, as text with units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopRow {
    /// By itself.
    pub flat: String,
    /// Its part of the whole.
    pub flat_share: String,
    /// The sum of the parts of this row and those above.
    pub sum_share: String,
    /// With all it calls.
    pub cum: String,
    /// That part of the whole.
    pub cum_share: String,
    /// Its name; may be a file, line or address by granularity.
    pub name: String,
    /// ` (inline)`, ` (partial-inline)` or nothing.
    pub inlining: &'static str,
}

/// Computes the table that the report `top` prints.
///
/// # Errors
/// As [`Report::render`](crate::Report::render).
pub fn top(profile: &Profile, options: &Options) -> Result<Top> {
    rows(&View::new(Cow::Borrowed(profile), options)?, options)
}

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let Top { lines, rows } = rows(view, options)?;
    for line in lines {
        let _ = writeln!(out.text, "{line}");
    }
    let _ = writeln!(out.text, "{:>10} {:>5}% {:>5}% {:>10} {:>5}%", "flat", "flat", "sum", "cum", "cum");
    for TopRow { flat, flat_share, sum_share, cum, cum_share, name, inlining } in rows {
        let _ = writeln!(
            out.text,
            "{flat:>10} {flat_share} {sum_share} {cum:>10} {cum_share}  {}{inlining}",
            one_line(&name)
        );
        out.drain()?;
    }
    Ok(())
}

fn rows(view: &View<'_>, options: &Options) -> Result<Top> {
    let subject = Subject::new(view, options)?;
    let shown = subject.graph(drawing(options))?;
    let to = subject.output_unit(&shown.graph, false);
    let mut sum = 0i64;
    let row = |node: &Node| {
        let (flat, cum) = (node.flat.value(), node.cum.value());
        sum = sum.saturating_add(flat);
        let [flat_share, sum_share, cum_share] = [flat, sum, cum].map(|value| percentage(value, subject.total));
        let [flat, cum] = [flat, cum].map(|value| subject.amount(value, to));
        TopRow {
            flat,
            flat_share,
            sum_share,
            cum,
            cum_share,
            name: node.name.to_string(),
            inlining: inlining(&shown.graph, node),
        }
    };
    Ok(Top { lines: headline::lines(&subject, &shown, to), rows: shown.graph.shown_nodes().map(row).collect() })
}

pub(crate) fn render_proto(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let subject = Subject::new(view, options)?;
    let shown = subject.graph(drawing(options))?;
    let to = if ["minimum", "auto"].contains(&options.unit.as_str()) { subject.unit } else { &options.unit };
    let whole = subject.whole;
    let mut builder = ProfileBuilder::new(&[("cum", to), ("flat", to)]);
    builder.time(whole.time(), whole.duration());
    let period_type = whole.period_type();
    builder.period(whole.string(period_type.kind), whole.string(period_type.unit), whole.period());
    for node in shown.graph.shown_nodes() {
        let place = &node.place;
        let (name, filename) = (builder.intern(place.name), builder.intern(&place.file));
        let function =
            builder.function(Function { name, filename, start_line: place.start_line, ..Function::default() });
        let line = Line { function, line: place.line, column: place.column };
        let location = builder.location(Location::new(None, Addr(place.address)), &[line]);
        let [cum, flat] =
            [node.cum, node.flat].map(|weight| scale(options.divided(weight.value()), subject.unit, to).0 as i64);
        builder.sample(&[location], &[cum, flat], &[]);
    }
    out.bytes(&format::pprof::encode_gzip(&builder.finish()?)?)
}

pub(crate) fn drawing(options: &Options) -> Drawing {
    Drawing {
        granularity: options.granularity,
        trims: true,
        nodes: 0,
        picture: false,
        call_tree: false,
        objects: false,
    }
}

/// Whether the calls of a node that are shown were inlined.
fn inlining(graph: &Graph<'_>, node: &Node<'_>) -> &'static str {
    let inlined = node.incoming.iter().filter(|edge| graph.edges[**edge as usize].inlined).count();
    match inlined {
        0 => "",
        all if all == node.incoming.len() => " (inline)",
        _ => " (partial-inline)",
    }
}
