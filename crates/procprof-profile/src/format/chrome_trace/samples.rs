//! Samples of V8's profiler, which come in chunks: nodes by their parents, samples, and the time between them.

use foldhash::HashMap;

use super::{CallTree, Json, Kind, Profile, Result, Threads};
use crate::format::json::Column;
use crate::format::left_out::LeftOut;
use crate::format::v8::{Nodes, Timeline};

/// A profile under construction.
#[derive(Default)]
struct Recording {
    thread: u32,
    nodes: Nodes,
    /// Samples of nodes and the nanoseconds since the one before.
    samples: Vec<(u32, i64)>,
    left_out: LeftOut,
}

/// All profiles of a trace.
pub(super) struct Samples {
    tree: CallTree,
    places: HashMap<(String, String), usize>,
    all: Vec<Recording>,
}

impl Samples {
    pub(super) fn new(tree: CallTree) -> Samples {
        Samples { tree, places: HashMap::default(), all: Vec::new() }
    }

    /// Reads the beginning of a profile, with the thread it is of, or a chunk of one.
    pub(super) fn read(
        &mut self,
        key: (String, String),
        of: Option<u32>,
        thread: u32,
        args: Option<Json<'_>>,
    ) -> Result<()> {
        let place = *self.places.entry(key).or_insert_with(|| {
            self.all.push(Recording { thread, ..Recording::default() });
            self.all.len() - 1
        });
        let recording = &mut self.all[place];
        recording.thread = of.unwrap_or(recording.thread);
        let Some(mut data) = args.map(|args| field(args, "data")).transpose()?.flatten() else { return Ok(()) };
        let [profile, deltas] = data.fields(["cpuProfile", "timeDeltas"])?;
        let Some(mut profile) = profile.filter(|profile| profile.kind() == Ok(Kind::Object)) else { return Ok(()) };
        let [nodes, samples, inner_deltas] = profile.fields(["nodes", "samples", "timeDeltas"])?;
        if let Some(mut nodes) = nodes {
            nodes.records(&mut recording.left_out, |json| recording.nodes.read(json, &mut self.tree))?;
            recording.nodes.link();
        }
        if let (Some(samples), Some(deltas)) = (samples, deltas.or(inner_deltas)) {
            recording.read_samples(samples, deltas)?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self, threads: &Threads, left_out: &mut LeftOut) -> Result<Profile> {
        for recording in &mut self.all {
            left_out.append(std::mem::take(&mut recording.left_out));
            let labels = threads.labels(recording.thread, &mut self.tree);
            let mut timeline = Timeline::default();
            for (node, delta) in std::mem::take(&mut recording.samples) {
                timeline.add(delta);
                timeline.set_stack(recording.nodes.stack(node, &mut self.tree)?);
            }
            timeline.write(None, labels, &mut self.tree);
        }
        self.tree.finish()
    }
}

impl Recording {
    fn read_samples(&mut self, mut samples: Json<'_>, deltas: Json<'_>) -> Result<()> {
        let mut deltas = Column::new(deltas)?;
        samples.records(&mut self.left_out, |json| {
            let delta = deltas.next()?;
            let id = json.integer()?;
            let Some(mut delta) = delta else { return Err(json.wrong("a sample without a time")) };
            let node = self
                .nodes
                .find(id)
                .ok_or_else(|| json.wrong(format!("a sample of the node {id}, which no chunk so far has")))?;
            self.samples.push((node, (delta.number()? * 1e3).round() as i64));
            Ok(())
        })?;
        deltas.end("a time without a sample", &mut self.left_out)
    }
}

fn field<'a>(mut json: Json<'a>, key: &str) -> Result<Option<Json<'a>>> {
    if json.kind()? != Kind::Object {
        return Ok(None);
    }
    Ok(json.fields([key])?[0])
}
