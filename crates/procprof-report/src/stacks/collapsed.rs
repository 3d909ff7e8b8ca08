//! `collapsed`: one line for each stack, root first, frames joined by `;`, then its value. Stacks are merged and
//! ordered by name.
//!
//! ```text
//! main;serve;hot_70 61
//! ```
//! A `;` inside a name is written as `,`, since readers split at it. Lines are written as they are made: neither lines
//! nor a call tree are kept.

use std::borrow::Cow;
use std::fmt::Write;

use procprof_profile::Profile;

use crate::output::Output;
use crate::selection::view::View;
use crate::stacks::stack_tree::merge::Sink;
use crate::stacks::stack_tree::{Inlined, Shown};
use crate::{Error, Options, Result, Sources};

pub(crate) fn render(view: &View<'_>, options: &Options, _sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    each(&view.profile, options, &mut |stack, value| {
        out.text.push_str(stack);
        let _ = writeln!(out.text, " {value}");
        out.drain()
    })
}

/// Calls the function with each line of the report `collapsed`: the stack as text, and its value.
///
/// # Errors
/// As [`Report::render`](crate::Report::render), and whatever `line` returns.
pub fn stacks(profile: &Profile, options: &Options, line: &mut dyn FnMut(&str, i64) -> Result<()>) -> Result<()> {
    each(&View::new(Cow::Borrowed(profile), options)?.profile, options, line)
}

fn each(profile: &Profile, options: &Options, line: &mut dyn FnMut(&str, i64) -> Result<()>) -> Result<()> {
    let shown = Shown::new(profile, options)?;
    let names = shown.frames.frames.iter().map(|frame| frame.name.replace(';', ",")).collect();
    let plain = shown.frames.frames.iter().map(|frame| frame.name.as_str()).collect();
    let (root, most) = (options.root.as_slice(), options.budget.output_bytes);
    let (path, ends) = (String::new(), Vec::new());
    let mut lines = Lines { names, plain, root, path, ends, below: 0, farthest: 0, flat: 0, most, line };
    shown.merge(&mut lines)?;
    match options.root.get(lines.farthest) {
        Some(missing) => Err(Error::value("root", missing, "no such frame at this step of the path")),
        None => Ok(()),
    }
}

/// Makes lines of the nodes as they come.
struct Lines<'a> {
    /// As written, and unchanged.
    names: Vec<String>,
    plain: Vec<&'a str>,
    /// The path below which stacks are shown.
    root: &'a [String],
    /// The names of the open nodes, and the end of each.
    path: String,
    ends: Vec<usize>,
    /// The number of open nodes along `root`, and the largest so far.
    below: usize,
    farthest: usize,
    /// The value of the node that began last.
    flat: i64,
    /// The limit of the report in bytes.
    most: u64,
    line: &'a mut dyn FnMut(&str, i64) -> Result<()>,
}

impl Lines<'_> {
    /// Calls the function with the line of the node that began last.
    fn end_line(&mut self) -> Result<()> {
        let flat = std::mem::take(&mut self.flat);
        let is_wanted = flat != 0 && !self.ends.is_empty() && self.below == self.root.len();
        if is_wanted { (self.line)(&self.path, flat) } else { Ok(()) }
    }
}

impl Sink for Lines<'_> {
    fn open(&mut self, frame: u32, depth: u32, _inlined: Inlined) -> Result<()> {
        self.end_line()?;
        let Some(above) = (depth as usize).checked_sub(1) else { return Ok(()) };
        let is_next =
            self.below == above && self.root.get(above).is_some_and(|name| name == self.plain[frame as usize]);
        // Of several children with that name, which differ in kind, the first is used.
        if is_next && self.farthest == above {
            self.below += 1;
            self.farthest = self.below;
        }
        if !self.path.is_empty() {
            self.path.push(';');
        }
        self.path.push_str(&self.names[frame as usize]);
        // The line of the stack's end would not fit, so it is not kept.
        if self.path.len() as u64 > self.most {
            return Err(Error::OutputLimit { most: self.most });
        }
        self.ends.push(self.path.len());
        Ok(())
    }

    fn charge(&mut self, value: i64) {
        self.flat = self.flat.saturating_add(value);
    }

    fn close(&mut self, depth: usize) -> Result<()> {
        self.end_line()?;
        self.ends.truncate(depth.saturating_sub(1));
        self.path.truncate(self.ends.last().copied().unwrap_or(0));
        self.below = self.below.min(self.ends.len());
        Ok(())
    }
}
