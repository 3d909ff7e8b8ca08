//! One order for the tables of a sum, so that sums of the same profiles are equal whatever order they came in.
//!
//! Strings are sorted by text, functions by their names, locations by mapping, address and lines, samples by stack and
//! labels. Mappings have their order already. Entries must differ, as they do in a sum.

use super::label_key;
use crate::{Error, FunctionId, Line, LocationId, Parts, Result, StringId, StringTable};

/// Sorts all tables.
pub(super) fn sort(parts: &mut Parts) -> Result<()> {
    sort_strings(parts)?;
    sort_functions(parts);
    sort_locations(parts);
    sort_samples(parts);
    Ok(())
}

fn sort_strings(parts: &mut Parts) -> Result<()> {
    let texts: Vec<&str> = parts.strings.iter().collect();
    let (order, rank) = order(texts.len(), |index| texts[index]);
    let mut strings = StringTable::default();
    for index in order.iter().skip(1) {
        strings.push(texts[*index]).ok_or_else(|| Error::invalid("more than 4 GiB of strings"))?;
    }
    parts.strings = strings;
    parts.map_strings(|id| StringId(rank[id.index()]));
    Ok(())
}

fn sort_functions(parts: &mut Parts) {
    let (order, rank) = order(parts.functions.len(), |index| {
        let function = &parts.functions[index];
        (function.name, function.system_name, function.filename, function.start_line)
    });
    parts.functions = order.iter().map(|index| parts.functions[*index]).collect();
    for line in &mut parts.lines {
        line.function = FunctionId(rank[line.function.index()]);
    }
}

fn sort_locations(parts: &mut Parts) {
    let line_key = |line: &Line| (line.function, line.line, line.column);
    let (order, rank) = order(parts.locations.len(), |index| {
        let location = &parts.locations[index];
        let lines: Vec<_> = parts.lines[parts.line_range(LocationId(index as u32))].iter().map(line_key).collect();
        (location.mapping, location.address, location.is_return, location.is_folded, lines)
    });
    parts.locations = order.iter().map(|index| parts.locations[*index]).collect();
    for id in &mut parts.stacks {
        *id = LocationId(rank[id.index()]);
    }
}

fn sort_samples(parts: &mut Parts) {
    for index in 0..parts.stack_ends.len() {
        let labels = parts.label_range(index);
        parts.labels[labels].sort_unstable_by_key(label_key);
    }
    let mut order: Vec<usize> = (0..parts.stack_ends.len()).collect();
    order.sort_unstable_by(|one, two| {
        let stack = |index: usize| &parts.stacks[parts.stack_range(index)];
        let labels = |index: usize| parts.labels[parts.label_range(index)].iter().map(label_key);
        stack(*one).cmp(stack(*two)).then_with(|| labels(*one).cmp(labels(*two)))
    });
    parts.select_samples(order);
}

/// Positions in the order of their keys, and for each position its place in that order.
fn order<K: Ord>(len: usize, key: impl Fn(usize) -> K) -> (Vec<usize>, Vec<u32>) {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by_cached_key(|index| key(*index));
    let mut rank = vec![0; len];
    for (place, index) in order.iter().enumerate() {
        rank[*index] = place as u32;
    }
    (order, rank)
}
