//! `json`: the merged call tree as columns, so that a tree of any depth is flat to a parser.
//!
//! ```json
//! {"version":1,"sample_type":"cpu","unit":"nanoseconds","profile_total":100,"total":100,
//!  "frames":[{"name":"all","kind":"remark"},{"name":"main","kind":"native"}],
//!  "nodes":{"frame":[0,1],"depth":[0,1],"total":[100,100],"flat":[0,100],"inlined":[0,0]}}
//! ```
//! Nodes are in preorder, the root first; `frame` is a position in `frames`; `inlined` is 0 for called, 1 for partly, 2
//! for fully inlined.

use std::fmt::{Display, Write};

use crate::display::text::push_json;
use crate::output::Output;
use crate::selection::view::View;
use crate::stacks::stack_tree::{StackTree, inlined_digit};
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let profile = view.profile.as_ref();
    let tree = StackTree::new(profile, options)?;
    let (kind, unit) = profile.sample_type(tree.sample_type);
    out.text.push_str("{\"version\":1,\"sample_type\":");
    push_json(&mut out.text, kind);
    out.text.push_str(",\"unit\":");
    push_json(&mut out.text, unit);
    let _ = write!(out.text, ",\"profile_total\":{},\"total\":{},\n\"frames\":[", tree.profile_total, tree.total());
    for (index, frame) in tree.frames.iter().enumerate() {
        out.text.push_str(if index == 0 { "{\"name\":" } else { ",\n{\"name\":" });
        push_json(&mut out.text, &frame.name);
        out.text.push_str(",\"kind\":");
        push_json(&mut out.text, frame.kind.label());
        if !frame.remark.is_empty() {
            out.text.push_str(",\"remark\":");
            push_json(&mut out.text, &frame.remark);
        }
        out.text.push('}');
        out.drain()?;
    }
    out.text.push_str("],\n\"nodes\":{");
    write_column(out, "frame", tree.nodes.iter().map(|node| node.frame))?;
    out.text.push_str(",\n");
    write_column(out, "depth", tree.nodes.iter().map(|node| node.depth))?;
    out.text.push_str(",\n");
    write_column(out, "total", tree.nodes.iter().map(|node| node.total))?;
    out.text.push_str(",\n");
    write_column(out, "flat", tree.nodes.iter().map(|node| node.flat))?;
    out.text.push_str(",\n");
    write_column(out, "inlined", tree.nodes.iter().map(|node| inlined_digit(node.inlined)))?;
    out.text.push_str("}}\n");
    Ok(())
}

/// As [`push_column`], piece by piece.
fn write_column<T: Display>(out: &mut Output<'_>, name: &str, values: impl Iterator<Item = T>) -> Result<()> {
    let _ = write!(out.text, "\"{name}\":[");
    for (index, value) in values.enumerate() {
        let _ = write!(out.text, "{}{value}", if index == 0 { "" } else { "," });
        out.drain()?;
    }
    out.text.push(']');
    Ok(())
}

/// Appends `"name":[...]`.
pub(crate) fn push_column<T: Display>(out: &mut String, name: &str, values: impl Iterator<Item = T>) {
    let _ = write!(out, "\"{name}\":[");
    for (index, value) in values.enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(out, "{comma}{value}");
    }
    out.push(']');
}
