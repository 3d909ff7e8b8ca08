//! Samples that the trace has beside its events, and the frames that they name by keys.

use std::collections::BTreeMap;

use foldhash::HashMap;

use super::{CallTree, Frame, Json, NodeId, Profile, Result, Threads, call_tree, number, word};
use crate::format::left_out::LeftOut;
use crate::{Error, LocationId};

/// A frame by its key: itself, and the key of its caller.
type Frames = HashMap<String, (LocationId, Option<String>)>;

/// The samples of all threads.
pub(super) struct FrameSamples {
    tree: CallTree,
    /// Of each thread times in nanoseconds and stacks.
    threads: BTreeMap<u32, Vec<(i64, NodeId)>>,
}

impl FrameSamples {
    pub(super) fn new(tree: CallTree) -> FrameSamples {
        FrameSamples { tree, threads: BTreeMap::new() }
    }

    /// Reads samples and the table of frames.
    pub(super) fn read(
        &mut self,
        mut samples: Json<'_>,
        mut table: Json<'_>,
        threads: &mut Threads,
        left_out: &mut LeftOut,
    ) -> Result<()> {
        let mut frames = Frames::default();
        table.object(|json, key| {
            let read = read_frame(json.later()?, &mut self.tree);
            frames.extend(left_out.keep(read)?.map(|frame| (key.to_owned(), frame)));
            Ok(())
        })?;
        let mut known = HashMap::default();
        samples.records(left_out, |json| {
            let [frame, time, pid, tid] = json.fields(["sf", "ts", "pid", "tid"])?;
            let (Some(frame), Some(time)) = (frame, time) else {
                return Err(json.wrong("a sample without \"sf\" or \"ts\""));
            };
            let stack = self.stack(&word(frame)?, &frames, &mut known)?;
            let time = (number(time)? * 1e3).round() as i64;
            let id = |json: Option<Json<'_>>| json.map_or(Ok(String::new()), word);
            let thread = threads.number(&id(pid)?, &id(tid)?);
            self.threads.entry(thread).or_default().push((time, stack));
            Ok(())
        })
    }

    /// The stack of a frame; that of each frame is found once.
    fn stack(&mut self, innermost: &str, frames: &Frames, known: &mut HashMap<String, NodeId>) -> Result<NodeId> {
        let (mut path, mut next, mut node) = (Vec::new(), Some(innermost), call_tree::ROOT);
        while let Some(key) = next {
            if let Some(found) = known.get(key) {
                node = *found;
                break;
            }
            let Some((location, parent)) = frames.get(key) else {
                return Err(Error::invalid(format!("no frame {key:?}")));
            };
            if path.len() == frames.len() {
                return Err(Error::invalid("frames that are each other's callers"));
            }
            path.push((key, *location));
            self.tree.check_depth(path.len())?;
            next = parent.as_deref();
        }
        for (key, location) in path.into_iter().rev() {
            node = self.tree.child(node, location)?;
            known.insert(key.to_owned(), node);
        }
        Ok(node)
    }

    pub(super) fn finish(mut self, threads: &Threads) -> Result<Profile> {
        for (thread, mut samples) in self.threads {
            let labels = threads.labels(thread, &mut self.tree);
            samples.sort_by_key(|(time, _)| *time);
            let ends = samples.iter().skip(1).map(|(time, _)| *time).collect::<Vec<i64>>();
            for (index, (time, stack)) in samples.into_iter().enumerate() {
                let end = ends.get(index).copied().unwrap_or(time);
                self.tree.add(stack, labels, &[1, end.saturating_sub(time)]);
            }
        }
        self.tree.finish()
    }
}

fn read_frame(mut json: Json<'_>, tree: &mut CallTree) -> Result<(LocationId, Option<String>)> {
    let [name, parent, line, column, start_line] = json.fields(["name", "parent", "line", "column", "funcLine"])?;
    let name = name.map_or(Ok(String::new()), word)?;
    let whole = |json: Option<Json<'_>>| json.map_or(Ok(0), |json| word(json).map(|word| word.parse().unwrap_or(0)));
    let frame = Frame {
        name: if name.is_empty() { "(anonymous)" } else { &name },
        line: whole(line)?,
        column: whole(column)?,
        start_line: whole(start_line)?,
        ..Frame::default()
    };
    Ok((tree.frame(&frame), parent.map(word).transpose()?))
}
