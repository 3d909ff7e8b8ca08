//! Stacks of frames that are only names, collected as a tree: for formats without addresses, many of which list their
//! stacks frame by frame, as a tree, or as calls that begin and end.
//!
//! Equal stacks with equal labels become one sample. A tree is smaller than its stacks, which are written out in the
//! end; so the frames of all of them are bounded by the input ([`FRAMES_MULTIPLE`]), and no small file becomes a large
//! profile.

use foldhash::HashMap;

use super::Limits;
use super::json::{Json, Kind};
use crate::{Error, Function, Label, Line, Location, LocationId, Mapping, MappingId, Profile, ProfileBuilder, Result};

/// Most frames that all stacks may have together, in times the bytes of the input.
const FRAMES_MULTIPLE: usize = 8;
/// The allowance on top.
const FRAMES_FREE: usize = 1 << 10;

/// A frame by its names. Whatever is empty or 0 is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame<'a> {
    pub(super) name: &'a str,
    pub(super) file: &'a str,
    /// The line that ran.
    pub(super) line: i64,
    pub(super) column: i64,
    /// The first line of the function.
    pub(super) start_line: i64,
    /// The library or program.
    pub(super) module: &'a str,
}

/// A stack: a node of the tree with all above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeId(u32);

/// The stack without frames.
pub(super) const ROOT: NodeId = NodeId(0);

/// Labels that a sample can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Labels(u32);

/// No labels.
pub(super) const UNLABELLED: Labels = Labels(0);

struct Node {
    parent: NodeId,
    frame: LocationId,
    depth: u32,
}

/// Collects stacks and their values.
pub(super) struct CallTree {
    /// For everything else: types, time, comments, labels.
    pub(super) builder: ProfileBuilder,
    format: &'static str,
    depth_max: usize,
    frames_max: usize,
    locations: HashMap<(Line, Option<MappingId>), LocationId>,
    modules: HashMap<String, MappingId>,
    nodes: Vec<Node>,
    children: HashMap<(NodeId, LocationId), NodeId>,
    label_sets: Vec<Vec<Label>>,
    labels: HashMap<Vec<Label>, Labels>,
    places: HashMap<(NodeId, Labels), u32>,
    samples: Vec<(NodeId, Labels)>,
    values: Vec<i64>,
}

impl CallTree {
    /// An empty one for samples of these types, of an input of so many bytes.
    pub(super) fn new(
        format: &'static str,
        sample_types: &[(&str, &str)],
        input_bytes: usize,
        limits: &Limits,
    ) -> CallTree {
        CallTree {
            builder: ProfileBuilder::new(sample_types),
            format,
            depth_max: limits.depth,
            frames_max: input_bytes.saturating_mul(FRAMES_MULTIPLE).saturating_add(FRAMES_FREE),
            locations: HashMap::default(),
            modules: HashMap::default(),
            nodes: vec![Node { parent: ROOT, frame: LocationId(0), depth: 0 }],
            children: HashMap::default(),
            label_sets: vec![Vec::new()],
            labels: HashMap::default(),
            places: HashMap::default(),
            samples: Vec::new(),
            values: Vec::new(),
        }
    }

    /// The location of a frame, the same for equal ones.
    pub(super) fn frame(&mut self, frame: &Frame<'_>) -> LocationId {
        let (name, filename) = (self.builder.intern(frame.name), self.builder.intern(frame.file));
        let function =
            self.builder.function(Function { name, system_name: name, filename, start_line: frame.start_line.max(0) });
        let line = Line { function, line: frame.line.max(0), column: frame.column.max(0) };
        let mapping = self.module(frame.module);
        if let Some(id) = self.locations.get(&(line, mapping)) {
            return *id;
        }
        let location = Location { mapping, ..Location::default() };
        let id = self.builder.location(location, &[line]);
        self.locations.insert((line, mapping), id);
        id
    }

    /// A frame that is an object of JSON with these keys: its name, file, line and column. Whatever is missing or
    /// `null` is unknown.
    ///
    /// # Errors
    /// As the reader of JSON.
    pub(super) fn read_frame(&mut self, json: &mut Json<'_>, keys: [&str; 4]) -> Result<LocationId> {
        let text = |json: Option<Json<'_>>| match json {
            Some(mut json) if json.kind()? == Kind::Text => json.text().map(|text| text.into_owned()),
            _ => Ok(String::new()),
        };
        let number = |json: Option<Json<'_>>| match json {
            Some(mut json) if json.kind()? == Kind::Number => json.integer(),
            _ => Ok(0),
        };
        let [name, file, line, column] = json.fields(keys)?;
        let (name, file) = (text(name)?, text(file)?);
        Ok(self.frame(&Frame {
            name: &name,
            file: &file,
            line: number(line)?,
            column: number(column)?,
            ..Frame::default()
        }))
    }

    fn module(&mut self, module: &str) -> Option<MappingId> {
        if module.is_empty() {
            return None;
        }
        if let Some(id) = self.modules.get(module) {
            return Some(*id);
        }
        let filename = self.builder.intern(module);
        let id = self.builder.mapping(Mapping { filename, has_functions: true, ..Mapping::default() });
        self.modules.insert(module.to_owned(), id);
        Some(id)
    }

    /// The stack with one more frame, called by the others.
    ///
    /// # Errors
    /// [`Error::TooLarge`] past the depth limit.
    pub(super) fn child(&mut self, parent: NodeId, frame: LocationId) -> Result<NodeId> {
        if let Some(id) = self.children.get(&(parent, frame)) {
            return Ok(*id);
        }
        let depth = self.nodes[parent.0 as usize].depth + 1;
        self.check_depth(depth as usize)?;
        let id = NodeId(crate::parts::narrow(self.nodes.len(), "stacks")?);
        self.nodes.push(Node { parent, frame, depth });
        self.children.insert((parent, frame), id);
        Ok(id)
    }

    /// Errs for a stack of more frames than the limit.
    pub(super) fn check_depth(&self, depth: usize) -> Result<()> {
        if depth <= self.depth_max {
            return Ok(());
        }
        Err(Error::TooLarge { format: self.format, what: "frames of a stack", limit: self.depth_max as u64 })
    }

    /// Labels as a set; unequal orders are unequal sets.
    pub(super) fn labels(&mut self, labels: &[Label]) -> Labels {
        if labels.is_empty() {
            return UNLABELLED;
        }
        if let Some(id) = self.labels.get(labels) {
            return *id;
        }
        let id = Labels(self.label_sets.len() as u32);
        self.label_sets.push(labels.to_vec());
        self.labels.insert(labels.to_vec(), id);
        id
    }

    /// Adds to the values of a stack, one for each sample type; saturates.
    pub(super) fn add(&mut self, node: NodeId, labels: Labels, values: &[i64]) {
        let width = self.builder.parts_mut().sample_types.len();
        debug_assert_eq!(values.len(), width);
        let place = *self.places.entry((node, labels)).or_insert_with(|| {
            self.samples.push((node, labels));
            self.values.resize(self.samples.len() * width, 0);
            self.samples.len() as u32 - 1
        });
        let sums = &mut self.values[place as usize * width..][..width];
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
    }

    /// Writes the stacks out and gives the profile; those whose values are all 0 are left out.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more frames in all stacks than the input allows, [`Error::Invalid`] for tables that are
    /// full.
    pub(super) fn finish(mut self) -> Result<Profile> {
        let width = self.builder.parts_mut().sample_types.len();
        self.children = HashMap::default();
        self.places = HashMap::default();
        let has_values = |index: usize| self.values[index * width..][..width].iter().any(|value| *value != 0);
        let wanted: Vec<u32> = (0..self.samples.len() as u32).filter(|index| has_values(*index as usize)).collect();
        let frames = wanted.iter().map(|index| self.nodes[self.samples[*index as usize].0.0 as usize].depth as usize);
        let frames = frames.fold(0usize, usize::saturating_add);
        if frames > self.frames_max {
            let what = "the number of frames in all stacks, for an input of its size,";
            return Err(Error::TooLarge { format: self.format, what, limit: self.frames_max as u64 });
        }
        let parts = self.builder.parts_mut();
        parts.stacks.reserve_exact(frames);
        parts.stack_ends.reserve_exact(wanted.len());
        parts.values.reserve_exact(wanted.len() * width);
        let mut stack = Vec::new();
        for index in wanted {
            let (mut node, labels) = self.samples[index as usize];
            stack.clear();
            while node != ROOT {
                let Node { parent, frame, .. } = self.nodes[node.0 as usize];
                stack.push(frame);
                node = parent;
            }
            self.builder.sample(
                &stack,
                &self.values[index as usize * width..][..width],
                &self.label_sets[labels.0 as usize],
            );
        }
        self.builder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl CallTree {
        fn name(&mut self, name: &str) -> LocationId {
            self.frame(&Frame { name, ..Frame::default() })
        }

        fn stack(&mut self, frames: impl IntoIterator<Item = LocationId>) -> Result<NodeId> {
            frames.into_iter().try_fold(ROOT, |parent, frame| self.child(parent, frame))
        }
    }

    fn tree(input_bytes: usize) -> CallTree {
        CallTree::new("test", &[("samples", "count")], input_bytes, &Limits { depth: 100, ..Limits::default() })
    }

    #[test]
    fn equal_stacks_are_one_sample() {
        let mut tree = tree(100);
        let (main, work) = (
            tree.name("main"),
            tree.frame(&Frame { name: "work", file: "w.c", line: 3, module: "lib.so", ..Frame::default() }),
        );
        let thread = tree.builder.text_label("thread", "t");
        let labels = tree.labels(&[thread]);
        for (labels, value) in [(UNLABELLED, 1), (labels, 2), (UNLABELLED, 3)] {
            let stack = tree.stack([main, work]).unwrap();
            tree.add(stack, labels, &[value]);
        }
        let empty = tree.stack([main]).unwrap();
        tree.add(empty, UNLABELLED, &[0]);
        let profile = tree.finish().unwrap();
        let samples: Vec<_> =
            profile.samples().map(|sample| (sample.stack.len(), sample.values[0], sample.labels.len())).collect();
        assert_eq!(samples, [(2, 4, 0), (2, 2, 1)]);
        assert_eq!(profile.sample(0).stack, [work, main]);
        assert_eq!(profile.mappings().len(), 1);
    }

    #[test]
    fn depth_and_frames_are_bounded() {
        let mut deep = tree(100);
        let frame = deep.name("again");
        assert!(deep.stack([frame; 100]).is_ok());
        assert_eq!(
            deep.stack([frame; 101]).unwrap_err().to_string(),
            "test: frames of a stack passes the limit of 100"
        );
        let mut many = tree(0);
        let mut node = ROOT;
        for _ in 0..46 {
            node = many.child(node, frame).unwrap();
            many.add(node, UNLABELLED, &[1]);
        }
        let error = many.finish().unwrap_err().to_string();
        assert!(error.contains("frames in all stacks") && error.ends_with("limit of 1024"), "{error}");
    }
}
