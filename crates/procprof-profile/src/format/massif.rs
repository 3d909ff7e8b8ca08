//! Massif's snapshots of a heap: the tree of its peak.
//!
//! ```text
//! desc: --time-unit=B
//! cmd: ./work
//! time_unit: B
//! #-----------
//! snapshot=3
//! …
//! heap_tree=peak
//! n2: 3000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.
//!  n1: 2000 0x109147: fill (work.c:3)
//!   n0: 2000 0x109165: main (work.c:9)
//!  n0: 1000 in 2 places, all below massif's threshold (1.00%)
//! ```
//! A node is the caller of the one that it is indented below; its bytes are those of its callers, of which the line
//! says how many there are. `inuse_space` is the bytes of those without. Without a peak the largest detailed tree is
//! taken.
//!
//! Format: <https://valgrind.org/docs/manual/ms-manual.html>, `massif/ms_main.c`.

use super::call_tree::{self, CallTree, Frame, UNLABELLED};
use super::valgrind_frame::ValgrindFrame;
use super::{Detect, Format, Limits};
use crate::text::{Lines, OddLines};
use crate::{Error, LocationId, Place, Profile, Result};

/// Name of the format.
pub const NAME: &str = "massif";

/// The row of the format table.
pub(super) const FORMAT: Format =
    Format { name: NAME, help: "Massif's snapshots, their peak", detect, decode, events: None, encode: None };

/// The first lines, in their order.
const HEAD: [&[u8]; 3] = [b"desc:", b"cmd:", b"time_unit:"];

/// Whether the bytes are a file of Massif, by its first three lines.
pub fn detect(bytes: &[u8]) -> Detect {
    let mut lines = Lines::new(bytes);
    for start in HEAD {
        match lines.next() {
            None => return Detect::NeedMore,
            Some(line) if line.is_cut && start.starts_with(line.text) => return Detect::NeedMore,
            Some(line) if !line.text.starts_with(start) => return Detect::No,
            Some(_) => {}
        }
    }
    Detect::Yes
}

/// A node of a tree.
struct Node {
    depth: usize,
    bytes: i64,
    /// Whether its bytes are those of the nodes below it.
    has_callers: bool,
    frame: Option<LocationId>,
}

/// Decodes the tree of the peak.
///
/// # Errors
/// [`Error::Malformed`] without any tree, [`Error::TooLarge`] past the depth limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let mut tree = CallTree::new(NAME, &[("inuse_space", "bytes")], bytes.len(), limits);
    let (mut odd, mut best, mut is_peak) = (OddLines::default(), Vec::new(), false);
    let (mut nodes, mut nodes_are_peak) = (Vec::new(), false);
    let mut take = |nodes: &mut Vec<Node>, now_peak: bool| {
        let size = |nodes: &[Node]| nodes.first().map_or(0, |node| node.bytes);
        if now_peak && !is_peak || now_peak == is_peak && size(nodes) > size(&best) {
            (best, is_peak) = (std::mem::take(nodes), now_peak);
        }
        nodes.clear();
    };
    for (index, text) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(text.trim_ascii_end());
        if let Some(kind) = line.strip_prefix("heap_tree=") {
            take(&mut nodes, nodes_are_peak);
            nodes_are_peak = kind == "peak";
            continue;
        }
        if index < HEAD.len() || line.is_empty() || line.starts_with('#') || is_fact(&line) {
            continue;
        }
        match read_node(&line, &mut tree) {
            // A node that is missing would put those below it elsewhere.
            Some(node) if node.depth <= nodes.last().map_or(0, |last: &Node| last.depth + 1) => nodes.push(node),
            _ => odd.add(index + 1, line.chars().take(60).collect()),
        }
    }
    take(&mut nodes, nodes_are_peak);
    if best.is_empty() {
        let what = "no tree of the heap; a larger `--detailed-freq` or a program that allocates has one".to_owned();
        return Err(Error::Malformed { format: NAME, place: Place::Line(1), what });
    }
    odd.warn(NAME, warnings);
    build(&best, tree)
}

/// Whether a line is `snapshot=3`, `mem_heap_B=0`, `time=7`.
fn is_fact(line: &str) -> bool {
    ["snapshot=", "time=", "mem_"].iter().any(|start| line.starts_with(start))
}

/// Reads ` n1: 2000 0x109147: fill (work.c:3)`.
fn read_node(line: &str, tree: &mut CallTree) -> Option<Node> {
    let text = line.trim_start_matches(' ');
    let depth = line.len() - text.len();
    let (children, rest) = text.strip_prefix('n')?.split_once(": ")?;
    let has_callers = children.parse::<u64>().ok()? > 0;
    let (bytes, name) = rest.split_once(' ')?;
    let bytes = bytes.parse().ok()?;
    let is_rest = name.starts_with("in ") && name.contains("massif's threshold");
    let frame = match ValgrindFrame::parse(name) {
        _ if depth == 0 => None,
        _ if is_rest => Some(tree.frame(&Frame { name: "[below the threshold]", ..Frame::default() })),
        frame => Some(tree.frame(&frame.as_frame())),
    };
    Some(Node { depth, bytes, has_callers, frame })
}

fn build(nodes: &[Node], mut tree: CallTree) -> Result<Profile> {
    // The frames from the allocation, the leaf, to the node's.
    let mut path: Vec<LocationId> = Vec::new();
    for node in nodes {
        path.truncate(node.depth.saturating_sub(1));
        path.extend(node.frame);
        tree.check_depth(path.len())?;
        if !node.has_callers {
            let stack = path.iter().rev().try_fold(call_tree::ROOT, |stack, frame| tree.child(stack, *frame))?;
            tree.add(stack, UNLABELLED, &[node.bytes]);
        }
    }
    tree.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::fixtures::{check, check_hostile, decoded};

    #[test]
    fn the_peak_is_read() {
        let snapshot = |number: i32, tree: &str| {
            format!(
                "#-----------\nsnapshot={number}\n#-----------\ntime=9\nmem_heap_B=3\nmem_heap_extra_B=1\nmem_stacks_B=0\nheap_tree={tree}\n"
            )
        };
        let text = format!(
            "desc: --time-unit=B\ncmd: ./work\ntime_unit: B\n{}{}{}",
            snapshot(0, "empty"),
            snapshot(1, "detailed\nn0: 9000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc."),
            snapshot(
                2,
                "peak\nn2: 3000 (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n n2: 2000 0x109147: fill (work.c:3)\n  n0: 1500 0x109165: main (work.c:9)\n  n0: 500 in 1 place, below massif's threshold (1.00%)\n n0: 1000 in 2 places, all below massif's threshold (1.00%)"
            ),
        );
        let decoded = decoded(text.as_bytes());
        let profile = &decoded.profile;
        assert_eq!((decoded.format, profile.total(0), decoded.warnings.len()), (NAME, 3000, 0));
        let sample = profile.sample(0);
        let names: Vec<_> = sample.stack.iter().map(|id| profile.lines(*id)[0]).collect();
        let names: Vec<_> =
            names.iter().map(|line| (profile.string(profile.function(line.function).name), line.line)).collect();
        assert_eq!((names, sample.values[0]), (vec![("fill", 3), ("main", 9)], 1500));
        check_hostile(text.as_bytes());
    }

    #[test]
    fn what_the_tool_wrote_is_read() {
        let profile = check("massif/heap.massif", NAME).profile;
        assert_eq!(profile.total(0), 6000);
    }
}
