//! The call trees of V8, which `.cpuprofile`, `.heapprofile` and Chrome's traces hold: nodes with a call frame each.
//!
//! ```text
//! {"id":3,"callFrame":{"functionName":"hot","scriptId":"80","url":"file:///w.js","lineNumber":1,"columnNumber":12},"hitCount":9,"children":[4]}
//! ```
//! Lines and columns begin with 0 there and with 1 here. The root is no frame; `(program)`, `(idle)` and
//! `(garbage collector)` are. A function without a name is `(anonymous)`, as DevTools shows it.

use foldhash::HashMap;

use super::call_tree::{self, CallTree, Frame, Labels, NodeId};
use super::json::{Json, Kind};
use crate::{Error, LocationId, Result};

/// Nodes by their ids, parents and children in any order.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    places: HashMap<i64, u32>,
    nodes: Vec<Node>,
    /// Nodes and the ids of their children.
    children: Vec<(u32, i64)>,
    /// Nodes and the ids of their parents.
    parents: Vec<(u32, i64)>,
}

#[derive(Debug)]
struct Node {
    /// `None` for the root.
    frame: Option<LocationId>,
    parent: Option<u32>,
    hits: i64,
    stack: Option<NodeId>,
}

impl Nodes {
    /// Reads one node.
    ///
    /// # Errors
    /// For a node without a call frame, or one whose id another has.
    pub(super) fn read(&mut self, json: &mut Json<'_>, tree: &mut CallTree) -> Result<()> {
        let [id, frame, hits, children, parent] = json.fields(["id", "callFrame", "hitCount", "children", "parent"])?;
        let (Some(mut id), Some(mut frame)) = (id, frame) else {
            return Err(json.wrong("a node without \"id\" or \"callFrame\""));
        };
        let id = id.integer()?;
        let hits = hits.map_or(Ok(0), |mut hits| hits.integer())?;
        let frame = read_frame(&mut frame, tree)?;
        if self.places.contains_key(&id) {
            return Err(json.wrong(format!("a second node {id}")));
        }
        let place = self.push(frame, None, hits);
        self.places.insert(id, place);
        if let Some(mut children) = children {
            children.array(|json| {
                self.children.push((place, json.integer()?));
                Ok(())
            })?;
        }
        if let Some(mut parent) = parent {
            self.parents.push((place, parent.integer()?));
        }
        Ok(())
    }

    /// Gives a node that was [added](Nodes::push) its id and what it counted; `false` if another has the id.
    pub(super) fn identify(&mut self, node: u32, id: i64, hits: i64) -> bool {
        self.nodes[node as usize].hits = hits;
        self.places.insert(id, node).is_none()
    }

    /// Adds a node whose parent is known.
    pub(super) fn push(&mut self, frame: Option<LocationId>, parent: Option<u32>, hits: i64) -> u32 {
        self.nodes.push(Node { frame, parent, hits, stack: None });
        self.nodes.len() as u32 - 1
    }

    /// Gives a node its frame.
    pub(super) fn set_frame(&mut self, node: u32, frame: Option<LocationId>) {
        self.nodes[node as usize].frame = frame;
    }

    /// Joins parents and children, as far as both have been read.
    pub(super) fn link(&mut self) {
        for (place, child) in std::mem::take(&mut self.children) {
            if let Some(child) = self.places.get(&child) {
                self.nodes[*child as usize].parent = Some(place);
            }
        }
        for (place, parent) in std::mem::take(&mut self.parents) {
            self.nodes[place as usize].parent = self.places.get(&parent).copied();
        }
    }

    /// The node with that id.
    pub(super) fn find(&self, id: i64) -> Option<u32> {
        self.places.get(&id).copied()
    }

    /// All nodes with what they counted.
    pub(super) fn hits(&self) -> impl Iterator<Item = (u32, i64)> + '_ {
        self.nodes.iter().enumerate().map(|(index, node)| (index as u32, node.hits))
    }

    /// The stack of a node; [`Nodes::link`] comes before.
    ///
    /// # Errors
    /// [`Error::TooLarge`] past the depth limit, [`Error::Invalid`] for nodes in a circle.
    pub(super) fn stack(&mut self, node: u32, tree: &mut CallTree) -> Result<NodeId> {
        let mut path = Vec::new();
        let mut place = Some(node);
        let mut stack = call_tree::ROOT;
        while let Some(index) = place {
            let node = &self.nodes[index as usize];
            if let Some(known) = node.stack {
                stack = known;
                break;
            }
            path.push(index);
            if path.len() > self.nodes.len() {
                return Err(Error::invalid("nodes of V8 that are each other's parents"));
            }
            tree.check_depth(path.len().saturating_sub(1))?;
            place = node.parent;
        }
        for index in path.into_iter().rev() {
            let node = &mut self.nodes[index as usize];
            if let Some(frame) = node.frame {
                stack = tree.child(stack, frame)?;
            }
            node.stack = Some(stack);
        }
        Ok(stack)
    }
}

/// Samples in the order of their times. V8's clock goes back now and then, so that they are not written in it.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    now: i64,
    /// Times and stacks; samples that are left out have none.
    samples: Vec<(i64, Option<NodeId>)>,
}

impl Timeline {
    /// Adds a sample so many nanoseconds after the one before; perhaps less than 0.
    pub(super) fn add(&mut self, nanos: i64) {
        self.now = self.now.saturating_add(nanos);
        self.samples.push((self.now, None));
    }

    /// Gives the last sample its stack.
    pub(super) fn set_stack(&mut self, stack: NodeId) {
        if let Some((_, last)) = self.samples.last_mut() {
            *last = Some(stack);
        }
    }

    /// Adds all samples to a tree of `samples` and `wall`: each stands for the time until the next one, the last until
    /// the end.
    pub(super) fn write(mut self, end: Option<i64>, labels: Labels, tree: &mut CallTree) {
        self.samples.sort_by_key(|(time, _)| *time);
        for (index, (time, stack)) in self.samples.iter().enumerate() {
            let until = self.samples.get(index + 1).map(|(time, _)| *time).or(end).unwrap_or(*time);
            if let Some(stack) = stack {
                tree.add(*stack, labels, &[1, until.saturating_sub(*time).max(0)]);
            }
        }
    }
}

/// Reads a call frame: `None` for the root.
pub(super) fn read_frame(json: &mut Json<'_>, tree: &mut CallTree) -> Result<Option<LocationId>> {
    let [name, url, line, column] = json.fields(["functionName", "url", "lineNumber", "columnNumber"])?;
    let text = |json: Option<Json<'_>>| json.map_or(Ok(String::new()), |mut json| json.text().map(Into::into));
    let number = |json: Option<Json<'_>>| match json {
        Some(mut json) if json.kind() == Ok(Kind::Number) => json.integer().map(|number| number.saturating_add(1)),
        _ => Ok(0),
    };
    Ok(frame(&text(name)?, &text(url)?, number(line)?, number(column)?, tree))
}

/// The frame of a function at a line and column that begin with 1, 0 for none; `None` for the root.
pub(super) fn frame(name: &str, url: &str, line: i64, column: i64, tree: &mut CallTree) -> Option<LocationId> {
    if name == "(root)" && url.is_empty() {
        return None;
    }
    let name = if name.is_empty() { "(anonymous)" } else { name };
    // A path of this machine can be listed; other URLs stay as they are.
    let file = url.strip_prefix("file://").filter(|path| path.starts_with('/')).unwrap_or(url);
    Some(tree.frame(&Frame { name, file, line, column, start_line: line, module: "" }))
}
