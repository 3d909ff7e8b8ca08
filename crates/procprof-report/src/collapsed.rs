//! `collapsed`: one line for each stack, root first, frames joined by `;`, then its value. Stacks are merged and ordered by name.
//!
//! ```text
//! main;serve;hot_70 61
//! ```
//! A `;` inside a name is written as `,`, since readers split at it.

use std::io::Write;

use crate::stack_tree::StackTree;
use crate::view::View;
use crate::{Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources) -> Result<Vec<u8>> {
    let tree = StackTree::new(&view.profile, options)?;
    let names: Vec<String> = tree.frames.iter().map(|frame| frame.name.replace(';', ",")).collect();
    let mut out = Vec::new();
    let mut path = String::new();
    let mut ends: Vec<usize> = Vec::new();
    for node in &tree.nodes[1..] {
        ends.truncate(node.depth as usize - 1);
        path.truncate(ends.last().copied().unwrap_or(0));
        if !path.is_empty() {
            path.push(';');
        }
        path.push_str(&names[node.frame as usize]);
        ends.push(path.len());
        if node.flat != 0 {
            out.extend_from_slice(path.as_bytes());
            let _ = writeln!(out, " {}", node.flat);
        }
    }
    Ok(out)
}
