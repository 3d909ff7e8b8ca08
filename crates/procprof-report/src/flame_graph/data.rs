//! The boxes as columns of JSON for `viewer.js`.
//!
//! `depth`, `frame`, `total`, `flat` and `inlined` have one entry for each box, in preorder; where a box begins follows
//! from them. A merged box has `frame` -1, and its number of frames in `flat`. Frames that no box shows are left out.

use std::fmt::Write;

use super::Graph;
use super::boxes::{Box, Content};
use super::picture::heading_height;
use crate::Layout;
use crate::display::amount::Family;
use crate::display::palette;
use crate::display::text::push_json;
use crate::stacks::json::push_column;
use crate::stacks::stack_tree::inlined_digit;

pub(super) fn json(graph: &Graph<'_>) -> String {
    let mut json = String::with_capacity(1 << 16);
    push_facts(&mut json, graph);
    let numbers = used_frames(graph);
    push_frames(&mut json, graph, &numbers.1);
    push_boxes(&mut json, &graph.boxes.boxes, &numbers.0);
    json.push('}');
    json
}

fn push_facts(json: &mut String, graph: &Graph<'_>) {
    let amount = &graph.amount;
    let family = match amount.family {
        Family::Time => "time",
        Family::Bytes => "bytes",
        Family::Plain => "plain",
    };
    let layout = match graph.options.layout {
        Layout::Flame => "flame",
        Layout::Icicle => "icicle",
    };
    let _ = write!(json, "{{\"family\":\"{family}\",\"factor\":{},\"unit\":", amount.factor);
    push_json(json, &amount.unit);
    json.push_str(",\"what\":");
    push_json(json, &amount.what);
    let merged = graph.boxes.merged_total;
    let _ = write!(json, ",\"layout\":\"{layout}\",\"head\":{},\"merged\":{merged}", heading_height(&graph.heading));
}

/// The new number of each frame that a box shows, and the old numbers in order of the new.
fn used_frames(graph: &Graph<'_>) -> (Vec<i64>, Vec<u32>) {
    let mut numbers = vec![-1; graph.tree.frames.len()];
    let mut used = Vec::new();
    for this in &graph.boxes.boxes {
        if let Content::Frame { frame, .. } = this.content
            && numbers[frame as usize] < 0
        {
            numbers[frame as usize] = used.len() as i64;
            used.push(frame);
        }
    }
    (numbers, used)
}

fn push_frames(json: &mut String, graph: &Graph<'_>, used: &[u32]) {
    let frames = || used.iter().map(|frame| &graph.tree.frames[*frame as usize]);
    json.push_str(",\"names\":[");
    for (index, frame) in frames().enumerate() {
        json.push_str(if index == 0 { "" } else { "," });
        push_json(json, &frame.name);
    }
    json.push_str("],\"classes\":\"");
    frames().for_each(|frame| json.push_str(&palette::class(frame.kind, &frame.name)));
    json.push_str("\",\"kinds\":{");
    for (index, kind) in crate::FrameKind::ALL.into_iter().enumerate() {
        json.push_str(if index == 0 { "" } else { "," });
        push_json(json, &palette::class(kind, "")[..1]);
        json.push(':');
        push_json(json, kind.label());
    }
    json.push_str("},\"remarks\":{");
    for (index, (number, frame)) in frames().enumerate().filter(|(_, frame)| !frame.remark.is_empty()).enumerate() {
        let _ = write!(json, "{}\"{number}\":", if index == 0 { "" } else { "," });
        push_json(json, &frame.remark);
    }
    json.push('}');
}

fn push_boxes(json: &mut String, boxes: &[Box], numbers: &[i64]) {
    let frame = |this: &Box| match this.content {
        Content::Frame { frame, .. } => numbers[frame as usize],
        Content::Merged(_) => -1,
    };
    let flat = |this: &Box| match this.content {
        Content::Frame { .. } => this.flat,
        Content::Merged(frames) => i64::from(frames),
    };
    let inlined = |this: &Box| match this.content {
        Content::Frame { inlined, .. } => inlined_digit(inlined),
        Content::Merged(_) => 0,
    };
    json.push(',');
    push_column(json, "depth", boxes.iter().map(|this| this.depth));
    json.push(',');
    push_column(json, "frame", boxes.iter().map(frame));
    json.push(',');
    push_column(json, "total", boxes.iter().map(|this| this.total));
    json.push(',');
    push_column(json, "flat", boxes.iter().map(flat));
    json.push_str(",\"inlined\":\"");
    boxes.iter().for_each(|this| json.push(char::from(b'0' + inlined(this))));
    json.push('"');
}
