//! `.cpuprofile` of Chrome, Node and Deno: the call tree of V8, and which of its nodes was on top at each sample.
//!
//! ```text
//! {"nodes":[{"id":1,"callFrame":{"functionName":"(root)","scriptId":"0","url":"","lineNumber":-1,"columnNumber":-1},
//!            "hitCount":0,"children":[2]},…],
//!  "startTime":38246000,"endTime":38646000,"samples":[2,2,3],"timeDeltas":[120,1250,1250]}
//! ```
//! Times are microseconds; the first delta is the time from the start to the first sample. A sample stands for the time
//! until the next one in time, which need not be the next in the file, the last until the end: `wall`; `samples` counts
//! them. Without `samples` the time of the whole is divided by `hitCount`. Nodes are as `super::v8` has them. Older
//! versions have nodes within each other and the time of each sample; their start and end are seconds:
//!
//! ```text
//! {"typeId":"CPU","uid":"1","title":"w","head":{"functionName":"(root)",…,"children":[…]},
//!  "startTime":38.246,"endTime":38.646,"samples":[2,2,3],"timestamps":[38246120,38247370,38248620]}
//! ```
//!
//! [`encode`] writes the default sample type as one sample for each stack, as long as its value: nanoseconds as
//! microseconds, of other units 1 is a microsecond. Format:
//! <https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile>

use super::call_tree::{CallTree, UNLABELLED};
use super::json::{self, Column, Json};
use super::left_out::LeftOut;
use super::v8::{Nodes, Timeline};
use super::{Detect, Format, Limits};
use crate::{Nanos, Profile, Result};

mod encode;
mod head;

pub use encode::encode;

/// Name of the format.
pub const NAME: &str = "cpuprofile";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: ".cpuprofile of Chrome and Node", detect, decode, events: None, encode: Some(encode) };

/// The sample types.
pub(super) const TYPES: &[(&str, &str)] = &[("samples", "count"), ("wall", "nanoseconds")];

/// Whether the bytes are a CPU profile of V8, by its first node.
pub fn detect(bytes: &[u8]) -> Detect {
    json::detect(bytes, json::Form::Cpuprofile)
}

/// Decodes a profile.
///
/// # Errors
/// [`crate::Error::Malformed`] and [`crate::Error::Truncated`] with the place, [`crate::Error::TooLarge`] past the
/// limits.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut json = Json::new(NAME, bytes);
    let names = ["nodes", "head", "startTime", "endTime", "samples", "timeDeltas", "timestamps"];
    let [nodes, head, start, end, samples, deltas, times] = json.fields(names)?;
    json.end(warnings);
    let mut tree = CallTree::new(NAME, TYPES, bytes.len(), limits);
    let (mut known, mut left_out) = (Nodes::default(), LeftOut::default());
    let is_nested = nodes.is_none();
    match (nodes, head) {
        (Some(mut nodes), _) => nodes.records(&mut left_out, |json| known.read(json, &mut tree))?,
        (None, Some(mut head)) => head::read(&mut head, &mut known, &mut tree, &mut left_out)?,
        (None, None) => return Err(json.wrong("no \"nodes\" and no \"head\"")),
    }
    known.link();
    let unit = if is_nested { 1e6 } else { 1.0 };
    let micros = |json: Option<Json<'_>>| json.map_or(Ok(0.0), |mut json| json.number()).map(|number| number * unit);
    let start = micros(start)?;
    let duration = nanos(micros(end)? - start).max(0);
    let times = if is_nested { times.map(|json| (json, Some(start))) } else { None };
    let times = times.or_else(|| deltas.map(|json| (json, None)));
    let times = times.map(|(json, before)| Column::new(json).map(|column| Times { column, before })).transpose()?;
    match (samples, times) {
        (Some(samples), Some(times)) => {
            read_samples(samples, times, duration, &mut known, &mut tree, &mut left_out)?;
        }
        _ => divide(duration, &mut known, &mut tree)?,
    }
    tree.builder.time(Nanos(0), Nanos(duration));
    let profile = tree.finish()?;
    left_out.end(NAME, profile.sample_count() == 0, warnings)?;
    Ok(profile)
}

fn nanos(micros: f64) -> i64 {
    (micros * 1e3).round() as i64
}

/// When samples were taken.
struct Times<'a> {
    column: Column<'a>,
    /// The time of the sample before where each has its time, in microseconds; `None` where each has its distance.
    before: Option<f64>,
}

impl Times<'_> {
    /// Nanoseconds since the sample before; `None` if there are no more.
    fn delta(&mut self) -> Result<Option<i64>> {
        let Some(mut json) = self.column.next()? else { return Ok(None) };
        let number = json.number()?;
        Ok(Some(nanos(number - self.before.as_mut().map_or(0.0, |before| std::mem::replace(before, number)))))
    }
}

fn read_samples(
    mut samples: Json<'_>,
    mut times: Times<'_>,
    duration: i64,
    known: &mut Nodes,
    tree: &mut CallTree,
    left_out: &mut LeftOut,
) -> Result<()> {
    let mut timeline = Timeline::default();
    samples.records(left_out, |json| {
        let Some(delta) = times.delta()? else { return Err(json.wrong("a sample without a time")) };
        timeline.add(delta);
        let id = json.integer()?;
        let node =
            known.find(id).ok_or_else(|| json.wrong(format!("a sample of the node {id}, which does not exist")))?;
        let stack = known.stack(node, tree)?;
        timeline.set_stack(stack);
        Ok(())
    })?;
    timeline.write(Some(duration), UNLABELLED, tree);
    times.column.end("a time without a sample", left_out)
}

/// Divides the time among the nodes by their hits.
fn divide(duration: i64, known: &mut Nodes, tree: &mut CallTree) -> Result<()> {
    let hits: Vec<(u32, i64)> = known.hits().filter(|(_, hits)| *hits > 0).collect();
    let total = hits.iter().fold(0i64, |total, (_, hits)| total.saturating_add(*hits)).max(1);
    for (node, hits) in hits {
        let stack = known.stack(node, tree)?;
        let share = i128::from(duration) * i128::from(hits) / i128::from(total);
        tree.add(stack, UNLABELLED, &[hits, share as i64]);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
