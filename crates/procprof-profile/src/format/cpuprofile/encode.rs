//! Writes the default sample type.

use std::fmt::Write;

use foldhash::HashMap;

use crate::format::json::push_text;
use crate::format::named_frames::NamedFrames;
use crate::{Error, Profile, Result};

/// A node of the tree that is written.
struct Node {
    frame: u32,
    hits: u64,
    children: Vec<u32>,
}

/// Encodes the default sample type.
///
/// # Errors
/// [`Error::Incompatible`] for values below 0, which the format does not have.
pub fn encode(profile: &Profile) -> Result<Vec<u8>> {
    let index = profile.default_sample_type();
    let frames = NamedFrames::new(profile);
    let mut nodes = vec![Node { frame: 0, hits: 0, children: Vec::new() }];
    let mut known: HashMap<(u32, u32), u32> = HashMap::default();
    let is_nanos = profile.sample_type(index).1 == "nanoseconds";
    let (mut samples, mut deltas) = (String::new(), String::new());
    // Rounded as a whole, so that the rounding of many samples does not add up.
    let (mut total, mut written) = (0u128, 0u128);
    for sample in profile.samples() {
        let value = u64::try_from(sample.values[index]).map_err(|_| {
            Error::Incompatible(".cpuprofile has no values below 0, such as those of a difference".to_owned())
        })?;
        if value == 0 {
            continue;
        }
        let mut node = 0u32;
        for frame in frames.numbers(sample.stack) {
            node = *known.entry((node, frame)).or_insert_with(|| {
                let child = nodes.len() as u32;
                nodes.push(Node { frame, hits: 0, children: Vec::new() });
                nodes[node as usize].children.push(child);
                child
            });
        }
        nodes[node as usize].hits += 1;
        let comma = if samples.is_empty() { "" } else { "," };
        let _ = write!(samples, "{comma}{}", node + 1);
        // A delta is of the time before a sample; that of the last is what is left until the end.
        let _ = write!(deltas, "{comma}{}", total_micros(total, is_nanos) - written);
        written = total_micros(total, is_nanos);
        total += u128::from(value);
    }
    let mut out = String::from("{\"nodes\":[");
    for (index, node) in nodes.iter().enumerate() {
        out.push_str(if index == 0 { "\n" } else { ",\n" });
        push_node(&mut out, index, node, &frames);
    }
    let end = total_micros(total, is_nanos);
    let _ = writeln!(out, "],\"startTime\":0,\"endTime\":{end},\"samples\":[{samples}],\"timeDeltas\":[{deltas}]}}");
    Ok(out.into_bytes())
}

fn total_micros(total: u128, is_nanos: bool) -> u128 {
    if is_nanos { (total + 500) / 1000 } else { total }
}

fn push_node(out: &mut String, index: usize, node: &Node, frames: &NamedFrames<'_>) {
    let frame = (index > 0).then(|| frames.frame(node.frame));
    let _ = write!(out, "{{\"id\":{},\"callFrame\":{{\"functionName\":", index + 1);
    push_text(out, frame.map_or("(root)", |frame| &frame.name));
    out.push_str(",\"scriptId\":\"0\",\"url\":");
    push_text(out, frame.map_or("", |frame| frame.file));
    let (line, column) =
        frame.map_or((0, 0), |frame| (if frame.start_line > 0 { frame.start_line } else { frame.line }, frame.column));
    let _ = write!(
        out,
        ",\"lineNumber\":{},\"columnNumber\":{}}},\"hitCount\":{}",
        line.max(0) - 1,
        column.max(0) - 1,
        node.hits
    );
    if !node.children.is_empty() {
        out.push_str(",\"children\":[");
        for (position, child) in node.children.iter().enumerate() {
            let _ = write!(out, "{}{}", if position == 0 { "" } else { "," }, child + 1);
        }
        out.push(']');
    }
    out.push('}');
}
