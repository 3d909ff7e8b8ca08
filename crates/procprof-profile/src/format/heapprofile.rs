//! `.heapprofile` of Chrome and Node: what V8's sampling heap profiler found alive, as a tree of allocating functions.
//!
//! ```text
//! {"head":{"callFrame":{"functionName":"(root)","scriptId":"0","url":"","lineNumber":-1,"columnNumber":-1},"selfSize":0,"id":1,
//!  "children":[{"callFrame":{"functionName":"allocate",…},"selfSize":524368,"id":2,"children":[]}]},"samples":[{"size":16,"nodeId":2,"ordinal":1}]}
//! ```
//! The one sample type is `inuse_space`, which V8 has estimated from its samples. Nodes are as `super::v8` has them.
//! Format: <https://chromedevtools.github.io/devtools-protocol/tot/HeapProfiler/#type-SamplingHeapProfile>

use super::call_tree::{CallTree, UNLABELLED};
use super::json::{self, DEPTH_MAX, Elements, Json, Kind, Members};
use super::left_out::LeftOut;
use super::v8::{self, Nodes};
use super::{Detect, Format, Limits};
use crate::{Error, Profile, Result};

/// Name of the format.
pub const NAME: &str = "heapprofile";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: ".heapprofile of Chrome and Node", detect, decode, events: None, encode: None };

/// Whether the bytes are a heap profile of V8, by the root of its tree.
pub fn detect(bytes: &[u8]) -> Detect {
    json::detect(bytes, json::Form::Heapprofile)
}

/// Decodes a profile.
///
/// # Errors
/// [`Error::Malformed`] and [`Error::Truncated`] with the place, [`Error::TooLarge`] past the limits.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut json = Json::new(NAME, bytes);
    let mut tree = CallTree::new(NAME, &[("inuse_space", "bytes")], bytes.len(), limits);
    let mut reader = Reader { nodes: Nodes::default(), sizes: Vec::new(), left_out: LeftOut::default() };
    json.object(|json, key| if key == "head" { reader.read(json, &mut tree) } else { json.skip() })?;
    json.end(warnings);
    let Reader { mut nodes, sizes, left_out } = reader;
    for (node, size) in (0u32..).zip(sizes) {
        if size != 0 {
            let stack = nodes.stack(node, &mut tree)?;
            tree.add(stack, UNLABELLED, &[size]);
        }
    }
    let profile = tree.finish()?;
    left_out.end(NAME, profile.sample_count() == 0, warnings)?;
    Ok(profile)
}

struct Reader {
    nodes: Nodes,
    /// Bytes of each node.
    sizes: Vec<i64>,
    left_out: LeftOut,
}

/// A node whose end has not been read.
struct Open {
    node: u32,
    members: Members,
    /// Its children, while they are read.
    children: Option<Elements>,
}

impl Reader {
    /// Reads the tree below a node, the node too. Nested as it is, it is read without recursion.
    fn read(&mut self, json: &mut Json<'_>, tree: &mut CallTree) -> Result<()> {
        let mut open = vec![self.open(json, None)?];
        while let Some(innermost) = open.last_mut() {
            if let Some(children) = &mut innermost.children {
                if children.next(json)? {
                    let parent = innermost.node;
                    if open.len() * 2 > DEPTH_MAX {
                        return Err(Error::TooLarge { format: NAME, what: "the nesting", limit: DEPTH_MAX as u64 });
                    }
                    open.push(self.open(json, Some(parent))?);
                } else {
                    innermost.children = None;
                }
                continue;
            }
            let node = innermost.node;
            match innermost.members.next(json)?.as_deref() {
                Some("callFrame") => {
                    let read = v8::read_frame(&mut json.later()?, tree);
                    if let Some(frame) = self.left_out.keep(read)? {
                        self.nodes.set_frame(node, frame);
                    }
                }
                Some("selfSize") => {
                    let read = json.later()?.integer();
                    self.sizes[node as usize] = self.left_out.keep(read)?.unwrap_or(0);
                }
                Some("children") if json.kind()? == Kind::Array => innermost.children = Some(json.elements()?),
                Some("children") => {
                    self.left_out.add(1, json.expected("an array"));
                    json.skip()?;
                }
                Some(_) => json.skip()?,
                None => drop(open.pop()),
            }
        }
        Ok(())
    }

    fn open(&mut self, json: &mut Json<'_>, parent: Option<u32>) -> Result<Open> {
        let members = json.members()?;
        self.sizes.push(0);
        Ok(Open { node: self.nodes.push(None, parent, 0), members, children: None })
    }
}

#[cfg(test)]
mod tests;
