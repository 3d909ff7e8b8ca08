//! Functions, what they used, and what they passed on; and the stacks that are made of it.

use foldhash::HashMap;

use super::{Event, NAME};
use crate::format::Limits;
use crate::format::call_tree::{self, CallTree, Frame, NodeId, UNLABELLED};
use crate::{Error, LocationId, Profile, Result, StringId, StringIndex, StringTable};

/// A call is followed if it is worth this part of the whole.
const SMALLEST_PART: f64 = 1e-6;
/// Deepest stack that is made.
const DEPTH_MAX: usize = 200;

#[derive(Default)]
struct FunctionCosts {
    /// Name, file and object.
    names: [StringId; 3],
    /// The line it begins with; 0 if unknown.
    start_line: i64,
    /// Its own costs, of each event.
    own: Vec<i64>,
    /// The functions it called, and what that cost of the first event.
    calls: HashMap<u32, i64>,
}

/// All functions.
#[derive(Default)]
pub(in crate::format) struct Graph {
    functions: Vec<FunctionCosts>,
    known: HashMap<([StringId; 3], i64), u32>,
    strings: StringTable,
    index: StringIndex,
}

impl Graph {
    /// Whether it has no costs.
    pub(in crate::format) fn is_empty(&self) -> bool {
        self.functions.iter().all(|function| function.own.is_empty() && function.calls.is_empty())
    }

    /// The number of a text.
    pub(in crate::format) fn text(&mut self, text: &str) -> Result<StringId> {
        self.index.intern(&mut self.strings, text).ok_or_else(|| Error::invalid("more than 4 GiB of strings"))
    }

    /// The number of the function with this name, file and object.
    pub(super) fn function(&mut self, names: [StringId; 3]) -> Result<u32> {
        self.function_at(names, 0)
    }

    /// The number of the function with this name, file and object that begins with this line.
    pub(in crate::format) fn function_at(&mut self, names: [StringId; 3], start_line: i64) -> Result<u32> {
        if let Some(number) = self.known.get(&(names, start_line)) {
            return Ok(*number);
        }
        let number = crate::parts::narrow(self.functions.len(), "functions")?;
        self.functions.push(FunctionCosts { names, start_line, ..FunctionCosts::default() });
        self.known.insert((names, start_line), number);
        Ok(number)
    }

    /// Adds to what a function used itself.
    pub(in crate::format) fn add(&mut self, function: u32, costs: &[i64]) {
        let own = &mut self.functions[function as usize].own;
        own.reserve_exact(costs.len().saturating_sub(own.len()));
        own.resize(own.len().max(costs.len()), 0);
        own.iter_mut().zip(costs).for_each(|(sum, cost)| *sum = sum.saturating_add(*cost));
    }

    /// Adds to what a function passed on.
    pub(in crate::format) fn add_call(&mut self, caller: u32, callee: u32, costs: &[i64]) {
        let cost = costs.first().copied().unwrap_or(0);
        let sum = self.functions[caller as usize].calls.entry(callee).or_default();
        *sum = sum.saturating_add(cost.max(0));
    }

    /// Makes stacks.
    pub(super) fn build(mut self, events: &[Event], input_bytes: usize, limits: &Limits) -> Result<Profile> {
        for function in &mut self.functions {
            function.own.iter_mut().zip(events).for_each(|(cost, event)| *cost = cost.saturating_mul(event.factor));
            // Calls have their first cost alone.
            let factor = events.first().map_or(1, |event| event.factor);
            function.calls.values_mut().for_each(|cost| *cost = cost.saturating_mul(factor));
        }
        let types: Vec<(&str, &str)> = events.iter().map(|event| (event.name.as_str(), event.unit)).collect();
        self.build_as(NAME, &types, input_bytes, limits)
    }

    /// Makes stacks of costs of these types, of which there is one at least.
    pub(in crate::format) fn build_as(
        mut self,
        format: &'static str,
        types: &[(&str, &str)],
        input_bytes: usize,
        limits: &Limits,
    ) -> Result<Profile> {
        self.known = HashMap::default();
        let mut tree = CallTree::new(format, types, input_bytes, limits);
        // The first event is what the others are computed from.
        tree.builder.default_sample_type(types[0].0);
        let mut frames: Vec<LocationId> = Vec::with_capacity(self.functions.len());
        for function in &self.functions {
            let [name, file, module] = function.names.map(|id| self.strings.get(id).unwrap_or_default());
            let [file, module] = [file, module].map(|text| if text == "???" { "" } else { text });
            let start_line = function.start_line;
            frames.push(tree.frame(&Frame { name, file, module, start_line, ..Frame::default() }));
        }
        let paths = Paths::new(&self.functions, frames, limits.depth.min(DEPTH_MAX), input_bytes / 8 + 100);
        let (paths, frames) = paths.walk(&mut tree)?;
        let mut values = vec![0; types.len()];
        for (index, function) in self.functions.iter().enumerate() {
            if function.own.iter().all(|cost| *cost == 0) {
                continue;
            }
            let alone = [(tree.child(call_tree::ROOT, frames[index])?, 1.0)];
            let ways: &[(NodeId, f64)] = if paths[index].is_empty() { &alone } else { &paths[index] };
            let whole: f64 = ways.iter().map(|(_, part)| part).sum();
            let mut left = function.own.clone();
            for (node, part) in &ways[1..] {
                for ((value, own), left) in values.iter_mut().zip(&function.own).zip(&mut left) {
                    *value = (*own as f64 * (part / whole)) as i64;
                    *left = left.saturating_sub(*value);
                }
                tree.add(*node, UNLABELLED, &values);
            }
            left.resize(types.len(), 0);
            tree.add(ways[0].0, UNLABELLED, &left);
        }
        tree.finish()
    }
}

/// Stacks of a function, and which part of its cost is of each.
type Ways = Vec<(NodeId, f64)>;

/// The ways from the outermost functions to all others.
struct Paths<'g> {
    functions: &'g [FunctionCosts],
    frames: Vec<LocationId>,
    /// The costs of each function with all below it, of the first event.
    whole: Vec<f64>,
    /// Of each function.
    ways: Vec<Ways>,
    /// Which functions are in the stack.
    is_open: Vec<bool>,
    smallest: f64,
    depth_max: usize,
    nodes_left: usize,
}

impl<'g> Paths<'g> {
    fn new(functions: &'g [FunctionCosts], frames: Vec<LocationId>, depth_max: usize, nodes_left: usize) -> Paths<'g> {
        let own = |function: &FunctionCosts| function.own.first().copied().unwrap_or(0).max(0) as f64;
        let passed = |index: usize, function: &FunctionCosts| -> f64 {
            function.calls.iter().filter(|(callee, _)| **callee as usize != index).map(|(_, cost)| *cost as f64).sum()
        };
        let whole: Vec<f64> =
            functions.iter().enumerate().map(|(index, function)| own(function) + passed(index, function)).collect();
        let total: f64 = functions.iter().map(own).sum();
        let (ways, is_open) = (vec![Vec::new(); functions.len()], vec![false; functions.len()]);
        Paths { functions, frames, whole, ways, is_open, smallest: total * SMALLEST_PART, depth_max, nodes_left }
    }

    /// Follows the calls from each function that used more than it was called for.
    fn walk(mut self, tree: &mut CallTree) -> Result<(Vec<Ways>, Vec<LocationId>)> {
        let mut called = vec![0.0; self.functions.len()];
        for (caller, function) in self.functions.iter().enumerate() {
            for (callee, cost) in function.calls.iter().filter(|(callee, _)| **callee as usize != caller) {
                called[*callee as usize] += *cost as f64;
            }
        }
        for (function, called) in called.into_iter().enumerate() {
            let amount = self.whole[function] - called;
            if amount > 0.0 && amount >= self.smallest {
                self.follow(function, amount, call_tree::ROOT, 1, tree)?;
            }
        }
        Ok((self.ways, self.frames))
    }

    /// Follows a call of a function that cost so much. Its depth is bounded.
    fn follow(
        &mut self,
        function: usize,
        amount: f64,
        caller: NodeId,
        depth: usize,
        tree: &mut CallTree,
    ) -> Result<()> {
        if depth > self.depth_max || self.nodes_left == 0 || self.is_open[function] || self.whole[function] <= 0.0 {
            return Ok(());
        }
        self.nodes_left -= 1;
        let node = tree.child(caller, self.frames[function])?;
        let part = amount / self.whole[function];
        self.ways[function].push((node, part));
        self.is_open[function] = true;
        let functions = self.functions;
        let mut calls: Vec<(u32, i64)> =
            functions[function].calls.iter().map(|(callee, cost)| (*callee, *cost)).collect();
        // The dearest first, in an order that does not depend on the keys of the table.
        calls.sort_by_key(|(callee, cost)| (std::cmp::Reverse(*cost), *callee));
        for (callee, cost) in calls {
            let amount = cost as f64 * part;
            if amount < self.smallest || amount <= 0.0 {
                break;
            }
            self.follow(callee as usize, amount, node, depth + 1, tree)?;
        }
        self.is_open[function] = false;
        Ok(())
    }
}
