//! A slice as bytes, media type `application/vnd.procprof.tree`.
//!
//! ```text
//! "PPT1"  u32 length of the JSON  JSON  columns
//! ```
//! Numbers of four bytes are little-endian. The JSON has the texts beside the boxes, and the names; the
//! columns follow in this order, each after its length in bytes (u32), one LEB128 number a node, nodes in preorder,
//! `z` for zigzag:
//!
//! | column | content |
//! |---|---|
//! | `skip` | the node's number is that of the node before, plus 1, plus this; the first node's is this |
//! | `up` | the depth is that of the node before, plus 1, minus this; the first node has depth 0 |
//! | `frame` | index into `names`, times four, plus 0 for called, 1 for partly, 2 for fully inlined |
//! | `size` | the nodes of the whole tree below and including it |
//! | `total` z, `self` z | the values |
//! | `base_total` z, `base_self` z | those of the base, in a difference |
//!
//! The nodes from the root to the parent of the sliced node come first, one a depth. What is not sent follows from what
//! is: `total - self - totals of the children` is hidden below a node, in `size - 1 - sizes of the children` nodes.

use std::fmt::Write;

use super::about::About;
use super::nodes::Nodes;
use super::note::Note;
use super::slice::{Extent, Widths, visible};
use procprof_profile::diff::Scaling;

use crate::display::amount::Family;
use crate::display::frame::Frame;
use crate::display::palette;
use crate::display::text::push_json;
use crate::{Budget, Error, FrameKind, Layout, Result};

/// The first bytes of a slice.
pub(super) const MAGIC: &[u8; 4] = b"PPT1";
/// A frame that has no number in the slice yet.
const UNUSED: u32 = u32::MAX;

/// Everything a slice is made of.
pub(super) struct Source<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) depth: u32,
    pub(super) frames: &'a [Frame],
    pub(super) about: &'a About,
}

/// The slice below a node, and the path to it.
pub(super) fn encode(source: &Source<'_>, node: u32, extent: &Extent, budget: &Budget) -> Result<Vec<u8>> {
    let Source { nodes, about, .. } = source;
    let widths = Widths { nodes, base_scale: about.base_scale };
    let path = nodes.ancestors(node);
    let depth = path.len() as u32;
    let below = visible(&widths, node, extent, budget)?;
    let mut shown: Vec<(u32, u32)> = path.into_iter().zip(0..).collect();
    shown.push((node, depth));
    shown.extend(below.into_iter().map(|(node, distance)| (node, depth + distance)));
    let used = Used::new(source, &shown);
    let header = header(source, node, shown.len(), &used, budget)?;
    let mut bytes = Vec::with_capacity(header.len() + shown.len() * 12);
    bytes.extend_from_slice(MAGIC);
    push_length(&mut bytes, header.len())?;
    bytes.extend_from_slice(header.as_bytes());
    columns(&mut bytes, nodes, &shown, &used)?;
    if bytes.len() as u64 > budget.output_bytes {
        return Err(Error::OutputLimit { most: budget.output_bytes });
    }
    Ok(bytes)
}

/// The frames of a slice in the order of their first node.
struct Used {
    /// The numbers of the frames in the whole tree.
    frames: Vec<u32>,
    /// The place of each frame of the whole tree in `frames`.
    places: Vec<u32>,
}

impl Used {
    fn new(source: &Source<'_>, shown: &[(u32, u32)]) -> Used {
        let mut used = Used { frames: Vec::new(), places: vec![UNUSED; source.frames.len()] };
        for (node, _) in shown {
            let frame = source.nodes.frame(*node);
            let place = &mut used.places[frame as usize];
            if *place == UNUSED {
                *place = used.frames.len() as u32;
                used.frames.push(frame);
            }
        }
        used
    }
}

fn columns(bytes: &mut Vec<u8>, nodes: &Nodes, shown: &[(u32, u32)], used: &Used) -> Result<()> {
    let mut expected = 0;
    column(bytes, shown, |node, _| {
        let skip = node - expected;
        expected = node + 1;
        u64::from(skip)
    })?;
    let mut next_depth = 0;
    column(bytes, shown, |_, depth| {
        let up = next_depth - depth;
        next_depth = depth + 1;
        u64::from(up)
    })?;
    column(bytes, shown, |node, _| u64::from(used.places[nodes.frame(node) as usize] << 2 | nodes.inlined(node)))?;
    column(bytes, shown, |node, _| u64::from(nodes.end(node) - node))?;
    column(bytes, shown, |node, _| zigzag(nodes.values(node).total))?;
    column(bytes, shown, |node, _| zigzag(nodes.values(node).own))?;
    if nodes.is_difference() {
        column(bytes, shown, |node, _| zigzag(nodes.values(node).base_total))?;
        column(bytes, shown, |node, _| zigzag(nodes.values(node).base_own))?;
    }
    Ok(())
}

fn column(bytes: &mut Vec<u8>, shown: &[(u32, u32)], mut value: impl FnMut(u32, u32) -> u64) -> Result<()> {
    let start = bytes.len();
    push_length(bytes, 0)?;
    for (node, depth) in shown {
        push_leb128(bytes, value(*node, *depth));
    }
    let length = fitting(bytes.len() - start - 4)?;
    bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// Appends a length as four bytes.
fn push_length(bytes: &mut Vec<u8>, length: usize) -> Result<()> {
    bytes.extend_from_slice(&fitting(length)?.to_le_bytes());
    Ok(())
}

fn fitting(length: usize) -> Result<u32> {
    u32::try_from(length).map_err(|_| Error::OutputLimit { most: u32::MAX.into() })
}

fn push_leb128(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn header(source: &Source<'_>, node: u32, count: usize, used: &Used, budget: &Budget) -> Result<String> {
    let Source { nodes, about, .. } = source;
    let mut json = String::from("{\"version\":1,\"title\":");
    push_json(&mut json, &about.title);
    json.push_str(",\"sample_types\":[");
    list(&mut json, &about.sample_types, |json, (kind, unit)| {
        json.push('[');
        push_json(json, kind);
        json.push(',');
        push_json(json, unit);
        json.push(']');
    });
    let _ = write!(json, "],\"sample_index\":{}", about.sample_index);
    push_amount(&mut json, about);
    let whole = nodes.values(0);
    let _ = write!(json, ",\"whole\":{{\"nodes\":{},\"total\":{}", nodes.len(), whole.total);
    if nodes.is_difference() {
        let _ = write!(json, ",\"base_total\":{}", whole.base_total);
    }
    let _ = write!(json, ",\"depth\":{}}},\"profile_total\":{}", source.depth, about.profile_total);
    if let Some(base_total) = about.base_profile_total {
        let _ = write!(json, ",\"base_profile_total\":{base_total}");
    }
    let _ = write!(json, ",\"node\":{node}");
    if nodes.is_difference() {
        let is_scaled = about.scaling != Scaling::AsMeasured;
        let _ = write!(json, ",\"diff\":{{\"normalized\":{is_scaled},\"scale\":{}}}", about.base_scale);
    }
    push_frames(&mut json, source, used, budget)?;
    let _ = write!(json, ",\"nodes\":{count}");
    json.push_str(",\"facts\":[");
    list(&mut json, &about.facts, |json, fact| push_json(json, fact));
    json.push_str("],\"notes\":[");
    list(&mut json, &about.notes, push_note);
    json.push_str("]}");
    Ok(json)
}

fn push_note(json: &mut String, note: &Note) {
    let _ = write!(json, "{{\"key\":\"{}\",\"text\":", note.key);
    push_json(json, &note.english);
    json.push_str(",\"values\":[");
    list(json, &note.values, |json, value| push_json(json, value));
    json.push(']');
    if note.is_of_base {
        json.push_str(",\"base\":true");
    }
    if let Some((key, value)) = note.shown_by {
        let _ = write!(json, ",\"option\":[\"{key}\",\"{value}\"]");
    }
    json.push('}');
}

fn push_amount(json: &mut String, about: &About) {
    let family = match about.amount.family {
        Family::Time => "time",
        Family::Bytes => "bytes",
        Family::Plain => "plain",
    };
    let layout = match about.layout {
        Layout::Flame => "flame",
        Layout::Icicle => "icicle",
    };
    let _ = write!(json, ",\"amount\":{{\"family\":\"{family}\",\"factor\":{},\"unit\":", about.amount.factor);
    push_json(json, &about.amount.unit);
    json.push_str(",\"what\":");
    push_json(json, &about.amount.what);
    json.push_str(",\"kind\":");
    push_json(json, &about.amount.kind);
    let _ = write!(json, "}},\"layout\":\"{layout}\"");
}

fn push_frames(json: &mut String, source: &Source<'_>, used: &Used, budget: &Budget) -> Result<()> {
    let frames = || used.frames.iter().map(|frame| &source.frames[*frame as usize]);
    json.push_str(",\"frames\":[");
    list(json, &used.frames, |json, frame| {
        let _ = write!(json, "{frame}");
    });
    json.push_str("],\"names\":[");
    for (index, frame) in frames().enumerate() {
        json.push_str(if index == 0 { "" } else { "," });
        push_json(json, &frame.name);
        if json.len() as u64 > budget.output_bytes {
            return Err(Error::OutputLimit { most: budget.output_bytes });
        }
    }
    json.push_str("],\"kinds\":\"");
    json.extend(frames().map(|frame| palette::letter(frame.kind)));
    json.push_str("\",\"kind_names\":{");
    list(json, &FrameKind::ALL, |json, kind| {
        let _ = write!(json, "\"{}\":\"{}\"", palette::letter(*kind), kind.label());
    });
    json.push('}');
    push_packages(json, frames());
    json.push_str(",\"remarks\":{");
    let remarked: Vec<(usize, &Frame)> = frames().enumerate().filter(|(_, frame)| !frame.remark.is_empty()).collect();
    list(json, &remarked, |json, (index, frame)| {
        let _ = write!(json, "\"{index}\":");
        push_json(json, &frame.remark);
    });
    json.push('}');
    Ok(())
}

fn push_packages<'a>(json: &mut String, frames: impl Iterator<Item = &'a Frame>) {
    let mut numbers: foldhash::HashMap<&str, usize> = foldhash::HashMap::default();
    let mut names: Vec<&str> = Vec::new();
    let number = |frame: &'a Frame| {
        let package = palette::package(&frame.name);
        *numbers.entry(package).or_insert_with(|| {
            names.push(package);
            names.len() - 1
        })
    };
    let packages: Vec<usize> = frames.map(number).collect();
    json.push_str(",\"packages\":[");
    list(json, &packages, |json, number| {
        let _ = write!(json, "{number}");
    });
    json.push_str("],\"package_names\":[");
    list(json, &names, |json, name| push_json(json, name));
    json.push(']');
}

/// Appends the items with commas between them.
fn list<T>(json: &mut String, items: &[T], mut push: impl FnMut(&mut String, &T)) {
    for (index, item) in items.iter().enumerate() {
        json.push_str(if index == 0 { "" } else { "," });
        push(json, item);
    }
}
