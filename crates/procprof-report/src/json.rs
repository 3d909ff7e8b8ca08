//! `json`: the merged call tree as columns, so that a tree of any depth is flat to a parser.
//!
//! ```json
//! {"version":1,"sample_type":"cpu","unit":"nanoseconds","profile_total":100,"total":100,
//!  "frames":[{"name":"all","kind":"remark"},{"name":"main","kind":"native"}],
//!  "nodes":{"frame":[0,1],"depth":[0,1],"total":[100,100],"flat":[0,100],"inlined":[0,0]}}
//! ```
//! Nodes are in preorder, the root first; `frame` is a position in `frames`; `inlined` is 0 for called, 1 for partly, 2 for fully inlined.

use std::fmt::{Display, Write};

use crate::stack_tree::{Inlined, StackTree};
use crate::text::push_json;
use crate::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let profile = view.profile.as_ref();
    let tree = StackTree::new(profile, options)?;
    let (kind, unit) = profile.sample_type(tree.sample_type);
    let mut out = String::from("{\"version\":1,\"sample_type\":");
    push_json(&mut out, kind);
    out.push_str(",\"unit\":");
    push_json(&mut out, unit);
    let _ = write!(out, ",\"profile_total\":{},\"total\":{},\n\"frames\":[", tree.profile_total, tree.total());
    for (index, frame) in tree.frames.iter().enumerate() {
        out.push_str(if index == 0 { "{\"name\":" } else { ",\n{\"name\":" });
        push_json(&mut out, &frame.name);
        out.push_str(",\"kind\":");
        push_json(&mut out, frame.kind.label());
        if !frame.remark.is_empty() {
            out.push_str(",\"remark\":");
            push_json(&mut out, &frame.remark);
        }
        out.push('}');
    }
    out.push_str("],\n\"nodes\":{");
    push_column(&mut out, "frame", tree.nodes.iter().map(|node| node.frame));
    out.push_str(",\n");
    push_column(&mut out, "depth", tree.nodes.iter().map(|node| node.depth));
    out.push_str(",\n");
    push_column(&mut out, "total", tree.nodes.iter().map(|node| node.total));
    out.push_str(",\n");
    push_column(&mut out, "flat", tree.nodes.iter().map(|node| node.flat));
    out.push_str(",\n");
    push_column(&mut out, "inlined", tree.nodes.iter().map(|node| inlined_digit(node.inlined)));
    out.push_str("}}\n");
    Ok(out.into_bytes())
}

/// 0 for called, 1 for partly, 2 for fully inlined.
pub(crate) fn inlined_digit(inlined: Inlined) -> u8 {
    match inlined {
        Inlined::No => 0,
        Inlined::Partly => 1,
        Inlined::Fully => 2,
    }
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
