//! Queries about the functions of a tree: search, a table with values, callers and callees.
//!
//! Each takes one pass over the nodes in preorder. The descendants of a node are those up to its end, which shows
//! recursive calls without following parents.

use std::cmp::Ordering;

use regex::{Regex, RegexBuilder};

use super::callers::callers;
use super::join::{Member, Side, join};
use super::nodes::{Copied, Nodes};
use super::tree::Tree;
use crate::display::palette;
use crate::{Budget, Error, Result};

/// The frames and nodes whose names match an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// Numbers of the frames, ascending.
    pub frames: Vec<u32>,
    /// The number of nodes.
    pub nodes: u32,
    /// Their value, each stack counted once.
    pub total: i64,
    /// That of the base, in a difference.
    pub base_total: Option<i64>,
}

/// The order of a [`FunctionTable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableOrder {
    /// The largest self value first.
    #[default]
    Own,
    /// The largest total first.
    Total,
    /// By name.
    Name,
    /// The largest change of the self value first, up or down; the base is scaled if that is requested.
    OwnChange,
    /// The largest change of the total first.
    TotalChange,
}

/// A part of the rows of the table of functions.
#[derive(Clone, Debug, Default)]
pub struct TableQuery {
    /// The order of rows.
    pub order: TableOrder,
    /// Only names that match this expression.
    pub pattern: Option<String>,
    /// Rows to skip.
    pub offset: usize,
    /// Most rows.
    pub limit: usize,
}

/// Functions with their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionTable<'a> {
    /// The requested rows.
    pub rows: Vec<FunctionRow<'a>>,
    /// The number of all rows.
    pub all: usize,
}

/// A function and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionRow<'a> {
    /// The number of its frame.
    pub frame: u32,
    /// Its name.
    pub name: &'a str,
    /// The letter of its kind of code.
    pub kind: char,
    /// The self value.
    pub own: i64,
    /// The total; of recursive calls, the outermost counts.
    pub total: i64,
    /// Both in the base, in a difference.
    pub base: Option<(i64, i64)>,
    /// The number of nodes.
    pub nodes: u32,
}

/// The values of a frame.
#[derive(Clone, Copy, Default)]
struct Sums {
    own: i64,
    total: i64,
    base_own: i64,
    base_total: i64,
    nodes: u32,
    /// The end of the outermost node that is open.
    end: u32,
}

impl Tree {
    /// The functions whose names match, and their share, in linear time for any expression.
    ///
    /// # Errors
    /// [`Error::Value`] for an invalid expression, with the place; [`Error::Stopped`].
    pub fn search(&self, pattern: &str, budget: &Budget) -> Result<Matches> {
        let pattern = compiled(pattern)?;
        let uses = self.uses();
        let is_match: Vec<bool> =
            self.frames.iter().zip(uses).map(|(frame, uses)| *uses > 0 && pattern.is_match(&frame.name)).collect();
        let frames: Vec<u32> =
            (0u32..).zip(&is_match).filter(|(_, is_match)| **is_match).map(|(frame, _)| frame).collect();
        let nodes = frames.iter().map(|frame| uses[*frame as usize]).sum();
        let base_total = self.nodes.is_difference().then_some(0);
        let mut found = Matches { frames, nodes, total: 0, base_total };
        let mut pace = budget.pace();
        let mut node = 1;
        while node < self.nodes.len() {
            pace.steps(1)?;
            if !is_match[self.nodes.frame(node) as usize] {
                node += 1;
                continue;
            }
            found.total = found.total.saturating_add(self.nodes.total(node));
            if let Some(base_total) = &mut found.base_total {
                *base_total = base_total.saturating_add(self.nodes.base_total(node));
            }
            // What is below it is counted with it.
            node = self.nodes.end(node);
        }
        Ok(found)
    }

    /// The functions with their values.
    ///
    /// # Errors
    /// [`Error::Value`] for an invalid expression, [`Error::Stopped`].
    pub fn table(&self, query: &TableQuery, budget: &Budget) -> Result<FunctionTable<'_>> {
        let is_match = match query.pattern.as_deref() {
            None | Some("") => vec![true; self.frames.len()],
            Some(pattern) => self.matching(&compiled(pattern)?),
        };
        let sums = sums(&self.nodes, self.frames.len(), budget)?;
        let is_shown = |frame: &u32| sums[*frame as usize].nodes > 0 && is_match[*frame as usize];
        let mut order: Vec<u32> = (0..self.frames.len() as u32).filter(is_shown).collect();
        // Frames are numbered by name, and the sort is stable.
        let scale = self.about.base_scale;
        order.sort_by(|one, other| compare(query.order, scale, &sums[*one as usize], &sums[*other as usize]));
        let rows =
            order.iter().skip(query.offset).take(query.limit).map(|frame| self.row(*frame, &sums[*frame as usize]));
        Ok(FunctionTable { rows: rows.collect(), all: order.len() })
    }

    fn row(&self, frame: u32, sums: &Sums) -> FunctionRow<'_> {
        let known = &self.frames[frame as usize];
        FunctionRow {
            frame,
            name: &known.name,
            kind: palette::letter(known.kind),
            own: sums.own,
            total: sums.total,
            base: self.nodes.is_difference().then_some((sums.base_own, sums.base_total)),
            nodes: sums.nodes,
        }
    }

    /// The numbers of the frames of that name; there are several if their kinds of code differ.
    pub fn frames_named(&self, name: &str) -> Vec<u32> {
        let first = self.frames.partition_point(|frame| frame.name.as_str() < name);
        let named = self.frames[first..].iter().take_while(|frame| frame.name == name);
        (first as u32..).zip(named).map(|(number, _)| number).collect()
    }

    /// The callers of a function: the root is the function, and below each node are its callers. Of recursive calls, the
    /// outermost counts.
    ///
    /// # Errors
    /// [`Error::Value`] when no node has any of these frames, [`Error::MemoryLimit`], [`Error::Stopped`].
    pub fn callers(&self, frames: &[u32], budget: &Budget) -> Result<Tree> {
        Ok(self.part(callers(&self.nodes, &self.outermost(frames)?, budget)?))
    }

    /// The callees of a function, which is the root. Of recursive calls, the outermost counts.
    ///
    /// # Errors
    /// As [`Tree::callers`].
    pub fn callees(&self, frames: &[u32], budget: &Budget) -> Result<Tree> {
        let side = Side { nodes: &self.nodes, copied: Copied::AsTheyAre };
        let members: Vec<Member> = self.outermost(frames)?.into_iter().map(|node| Member { side: 0, node }).collect();
        Ok(self.part(join(&[side], &members, self.nodes.is_difference(), budget)?))
    }

    /// The nodes of the frames that are not below another of them.
    fn outermost(&self, frames: &[u32]) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        let mut end = 0;
        for node in 1..self.nodes.len() {
            if node >= end && frames.contains(&self.nodes.frame(node)) {
                found.push(node);
                end = self.nodes.end(node);
            }
        }
        if found.is_empty() {
            let asked: Vec<String> = frames.iter().map(u32::to_string).collect();
            return Err(Error::value("frame", &asked.join(","), "no node of the tree has this frame"));
        }
        Ok(found)
    }

    fn matching(&self, pattern: &Regex) -> Vec<bool> {
        self.frames.iter().map(|frame| pattern.is_match(&frame.name)).collect()
    }
}

fn sums(nodes: &Nodes, frames: usize, budget: &Budget) -> Result<Vec<Sums>> {
    let mut sums = vec![Sums::default(); frames];
    let mut pace = budget.pace();
    for node in 1..nodes.len() {
        pace.steps(1)?;
        let values = nodes.values(node);
        let sum = &mut sums[nodes.frame(node) as usize];
        sum.nodes += 1;
        sum.own = sum.own.saturating_add(values.own);
        sum.base_own = sum.base_own.saturating_add(values.base_own);
        if node >= sum.end {
            sum.end = nodes.end(node);
            sum.total = sum.total.saturating_add(values.total);
            sum.base_total = sum.base_total.saturating_add(values.base_total);
        }
    }
    Ok(sums)
}

fn compare(order: TableOrder, scale: f64, one: &Sums, other: &Sums) -> Ordering {
    let own_change = |sums: &Sums| (sums.own as f64 - scale * sums.base_own as f64).abs();
    let total_change = |sums: &Sums| (sums.total as f64 - scale * sums.base_total as f64).abs();
    let width = |value: i64, base: i64| value.saturating_abs().saturating_add(base.saturating_abs());
    match order {
        TableOrder::Own => (width(other.own, other.base_own), width(other.total, other.base_total))
            .cmp(&(width(one.own, one.base_own), width(one.total, one.base_total))),
        TableOrder::Total => (width(other.total, other.base_total), width(other.own, other.base_own))
            .cmp(&(width(one.total, one.base_total), width(one.own, one.base_own))),
        TableOrder::Name => Ordering::Equal,
        TableOrder::OwnChange => own_change(other)
            .total_cmp(&own_change(one))
            .then_with(|| total_change(other).total_cmp(&total_change(one))),
        TableOrder::TotalChange => total_change(other)
            .total_cmp(&total_change(one))
            .then_with(|| own_change(other).total_cmp(&own_change(one))),
    }
}

/// Compiles to at most 2 MiB, so that a pattern from a query is cheap.
fn compiled(pattern: &str) -> Result<Regex> {
    let compiled = RegexBuilder::new(pattern).size_limit(2 << 20).build();
    compiled.map_err(|error| Error::value("re", pattern, error.to_string()))
}
