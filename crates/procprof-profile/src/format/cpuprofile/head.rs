//! The call tree as Chrome until 57 and Node until 7 wrote it: nodes within each other, their frames' parts among
//! theirs.
//!
//! ```text
//! {"functionName":"(root)","url":"","lineNumber":0,"columnNumber":0,"hitCount":0,"id":1,"children":[{"functionName":"hot",…}]}
//! ```
//! Lines and columns begin with 1, unlike those of later versions. Nested as it is, it is read without recursion.

use super::NAME;
use crate::format::call_tree::CallTree;
use crate::format::json::{DEPTH_MAX, Elements, Json, Members};
use crate::format::left_out::LeftOut;
use crate::format::v8::{self, Nodes};
use crate::{Error, Result};

/// A node whose end has not been read.
struct Open {
    node: u32,
    members: Members,
    /// Its children, while they are read.
    children: Option<Elements>,
    name: String,
    url: String,
    line: i64,
    column: i64,
    id: Option<i64>,
    hits: i64,
}

/// Reads the root and all below it.
///
/// # Errors
/// [`Error::Malformed`] and [`Error::Truncated`] with the place, [`Error::TooLarge`] for nodes nested too deeply.
pub(super) fn read(json: &mut Json<'_>, nodes: &mut Nodes, tree: &mut CallTree, left_out: &mut LeftOut) -> Result<()> {
    let mut open = vec![begin(json, nodes, None)?];
    while let Some(innermost) = open.last_mut() {
        if let Some(children) = &mut innermost.children {
            if children.next(json)? {
                let parent = innermost.node;
                if open.len() * 2 > DEPTH_MAX {
                    return Err(Error::TooLarge { format: NAME, what: "the nesting", limit: DEPTH_MAX as u64 });
                }
                open.push(begin(json, nodes, Some(parent))?);
            } else {
                innermost.children = None;
            }
            continue;
        }
        match innermost.members.next(json)?.as_deref() {
            Some("functionName") => innermost.name = json.text()?.into_owned(),
            Some("url") => innermost.url = json.text()?.into_owned(),
            Some("lineNumber") => innermost.line = json.integer()?,
            Some("columnNumber") => innermost.column = json.integer()?,
            Some("id") => innermost.id = Some(json.integer()?),
            Some("hitCount") => innermost.hits = json.integer()?,
            Some("children") => innermost.children = Some(json.elements()?),
            Some(_) => json.skip()?,
            None => {
                if let Some(done) = open.pop() {
                    let read = end(&done, json, nodes, tree);
                    left_out.keep(read)?;
                }
            }
        }
    }
    Ok(())
}

fn begin(json: &mut Json<'_>, nodes: &mut Nodes, parent: Option<u32>) -> Result<Open> {
    let members = json.members()?;
    Ok(Open {
        node: nodes.push(None, parent, 0),
        members,
        children: None,
        name: String::new(),
        url: String::new(),
        line: 0,
        column: 0,
        id: None,
        hits: 0,
    })
}

fn end(done: &Open, json: &Json<'_>, nodes: &mut Nodes, tree: &mut CallTree) -> Result<()> {
    let id = done.id.ok_or_else(|| json.wrong("a node without \"id\""))?;
    nodes.set_frame(done.node, v8::frame(&done.name, &done.url, done.line, done.column, tree));
    if nodes.identify(done.node, id, done.hits) { Ok(()) } else { Err(json.wrong(format!("a second node {id}"))) }
}
