//! `disasm`: machine code of functions, each instruction with its flat and cum, in the shape of
//! `go tool pprof -disasm`.
//!
//! ```text
//! Total: 8.73s
//! ROUTINE ======================== hot_70
//!      6.11s      6.11s (flat, cum) 69.99% of Total
//!          .          .       1139: push   %rbp                             ;hot_70 main.c:30
//!      6.11s      6.11s       113a: add    $0x1,%rax
//! ```
//! Functions inlined into others are charged to those, as everything is by address. The caller reads the code around
//! the addresses that [`wanted`] returns.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use foldhash::HashMap;
use procprof_profile::{Addr, MappingId, Profile, StringId};

use crate::display::measure::percentage;
use crate::display::place::base_name;
use crate::display::text::one_line;
use crate::graph::{Graph, Node, Weight};
use crate::header::subject::{Drawing, Subject};
use crate::listing::code::{Code, Instruction, Routine, Syntax};
use crate::listing::sources::CodeWanted;
use crate::output::Output;
use crate::selection::view::View;
use crate::{Error, Granularity, Options, Result, Sources};

/// Column of the source after a short instruction.
const INSTRUCTION_WIDTH: usize = 40;
const DRAWING: Drawing = Drawing {
    granularity: Granularity::Addresses,
    trims: false,
    nodes: 0,
    picture: false,
    call_tree: false,
    objects: true,
};

pub(crate) fn render(view: &View<'_>, options: &Options, sources: &Sources, out: &mut Output<'_>) -> Result<()> {
    let options = &without_inlined(options);
    let subject = Subject::new(view, options)?;
    let shown = subject.graph(DRAWING)?;
    let mut routines = sampled(sources, &shown.graph, &subject, DRAWING)?;
    routines.sort_by(|a, b| (a.name(), a.routine.start).cmp(&(b.name(), b.routine.start)));
    let to = options.unit.as_str();
    let _ = writeln!(out.text, "Total: {}", subject.amount(subject.total, to));
    if routines.is_empty() {
        let why = nothing_found(&view.profile, options, sources);
        if let Some(symbol) = &options.symbol {
            return Err(Error::no_match(symbol, why));
        }
        let _ = writeln!(out.text, "{}", one_line(&why));
    }
    for sampled in &routines {
        push_routine(out, &subject, sampled)?;
    }
    Ok(())
}

/// The addresses with samples in the mappings of functions that match, or of the address in `symbol`.
pub(crate) fn wanted(profile: &Profile, options: &Options) -> Result<Vec<CodeWanted>> {
    let options = &without_inlined(options);
    let view = View::new(Cow::Borrowed(profile), options)?;
    let subject = Subject::new(&view, options)?;
    let shown = subject.graph(DRAWING)?;
    let matches = |node: &Node<'_>| options.symbol.as_ref().is_none_or(|symbol| symbol.is_match(&node.name));
    let mapping_of = MappingOf::new(&view.profile);
    let names = if address(options).is_some() { None } else { options.symbol.clone() };
    let mut wanted: BTreeMap<MappingId, Vec<Addr>> = BTreeMap::new();
    if let Some(address) = address(options) {
        let near = shown
            .graph
            .shown_nodes()
            .filter(|node| node.place.address == address)
            .find_map(|node| mapping_of.node(node));
        if let Some(mapping) = near.or_else(|| mapping_of.address(address)) {
            wanted.insert(mapping, vec![Addr(address)]);
        }
    } else {
        let files: BTreeSet<&str> =
            shown.graph.shown_nodes().filter(|node| matches(node)).map(|node| node.place.mapping).collect();
        for node in shown.graph.shown_nodes() {
            if let Some(mapping) = mapping_of.node(node)
                && files.contains(view.profile.string(view.profile.mapping(mapping).filename))
            {
                wanted.entry(mapping).or_default().push(Addr(node.place.address));
            }
        }
    }
    let sorted = |(mapping, mut addresses): (MappingId, Vec<Addr>)| {
        addresses.sort_unstable();
        addresses.dedup();
        CodeWanted { mapping, addresses, names: names.clone() }
    };
    Ok(wanted.into_iter().map(sorted).collect())
}

/// The mapping of an address: one, however many overlap there, so that samples are not counted twice.
struct MappingOf<'p> {
    profile: &'p Profile,
    /// By location: the first of the mappings with the same name.
    by_location: HashMap<(u64, &'p str), MappingId>,
    /// Those that are not empty, by their starts.
    by_start: Vec<MappingId>,
}

impl<'p> MappingOf<'p> {
    fn new(profile: &'p Profile) -> MappingOf<'p> {
        // Mappings with the same place of code are one.
        let mut alike: HashMap<(u64, u64, u64, StringId, StringId), MappingId> = HashMap::default();
        let mut first = |id: MappingId| {
            let mapping = profile.mapping(id);
            let range = (mapping.start.0, mapping.limit.0, mapping.file_offset.0);
            *alike.entry((range.0, range.1, range.2, mapping.filename, mapping.build_id)).or_insert(id)
        };
        let mut by_location = HashMap::default();
        for location in profile.locations() {
            if let Some(mapping) = location.mapping {
                let name = profile.string(profile.mapping(mapping).filename);
                by_location.entry((location.address.0, name)).or_insert_with(|| first(mapping));
            }
        }
        let holding = |id: &MappingId| profile.mapping(*id).start < profile.mapping(*id).limit;
        let mut by_start: Vec<MappingId> =
            (0..profile.mappings().len() as u32).map(MappingId).filter(holding).collect();
        by_start.sort_by_key(|id| profile.mapping(*id).start);
        MappingOf { profile, by_location, by_start }
    }

    fn node(&self, node: &Node<'_>) -> Option<MappingId> {
        let known = self.by_location.get(&(node.place.address, node.place.mapping)).copied();
        known.or_else(|| self.address(node.place.address))
    }

    /// The last mapping that begins before an address, if it contains it.
    fn address(&self, address: u64) -> Option<MappingId> {
        let after = self.by_start.partition_point(|id| self.profile.mapping(*id).start.0 <= address);
        let id = self.by_start[after.checked_sub(1)?];
        (address < self.profile.mapping(id).limit.0).then_some(id)
    }
}

/// The address in `symbol`, if it is one.
fn address(options: &Options) -> Option<u64> {
    let text = options.symbol.as_ref()?.as_str();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

pub(crate) fn without_inlined(options: &Options) -> Options {
    Options { noinlines: true, ..options.clone() }
}

/// Why there is nothing to show.
fn nothing_found(profile: &Profile, options: &Options, sources: &Sources) -> String {
    let reasons: Vec<String> = sources.missing.iter().map(|(path, why)| format!("{path}: {why}")).collect();
    let is_wanted = self::wanted(profile, options).is_ok_and(|wanted| !wanted.is_empty());
    match reasons.as_slice() {
        [] if is_wanted && sources.code.is_empty() => "no machine code was read".to_owned(),
        [] => "the binaries have none with samples in it".to_owned(),
        reasons => format!("no machine code was read; {}", reasons.join("; ")),
    }
}

/// A routine with samples in it.
pub(crate) struct Sampled<'a> {
    pub(crate) code: &'a Code,
    pub(crate) routine: &'a Routine,
    /// Its nodes by address in the file.
    nodes: Vec<(u64, &'a Node<'a>)>,
    /// The samples that pass any of the nodes.
    cum: i64,
    /// By address, the samples that pass any of the several nodes of an instruction.
    shared: HashMap<u64, i64>,
}

/// The routines with samples in them, code by code.
pub(crate) fn sampled<'a>(
    sources: &'a Sources,
    graph: &'a Graph<'a>,
    subject: &Subject<'_>,
    drawing: Drawing,
) -> Result<Vec<Sampled<'a>>> {
    if sources.code.is_empty() {
        return Ok(Vec::new());
    }
    let mapping_of = MappingOf::new(subject.whole);
    let mut by_mapping: BTreeMap<MappingId, Vec<&Node<'_>>> = BTreeMap::new();
    for node in graph.shown_nodes() {
        if let Some(mapping) = mapping_of.node(node) {
            by_mapping.entry(mapping).or_default().push(node);
        }
    }
    let nodes = |code: &Code| by_mapping.get(&code.mapping).map_or(&[][..], Vec::as_slice);
    let mut routines: Vec<Sampled<'_>> =
        sources.code.iter().flat_map(|code| Sampled::in_code(code, nodes(code))).collect();
    count_once(&mut routines, subject, drawing)?;
    Ok(routines)
}

/// Counts each sample once in a routine and in an instruction, however many of their nodes it passes.
fn count_once(routines: &mut [Sampled<'_>], subject: &Subject<'_>, drawing: Drawing) -> Result<()> {
    let (mut groups, mut keys) = (Vec::new(), Vec::new());
    for (place, sampled) in routines.iter().enumerate().filter(|(_, sampled)| sampled.nodes.len() > 1) {
        groups.push(sampled.nodes.iter().map(|(_, node)| *node).collect());
        keys.push((place, None));
        let mut nodes = sampled.nodes.as_slice();
        for instruction in sampled.routine.instructions(sampled.code, Syntax::Att) {
            let (own, others) = nodes.split_at(nodes.partition_point(|(address, _)| *address < instruction.end()));
            nodes = others;
            if own.len() > 1 {
                groups.push(own.iter().map(|(_, node)| *node).collect());
                keys.push((place, Some(instruction.address.0)));
            }
        }
    }
    for ((place, instruction), cum) in keys.into_iter().zip(subject.cums(drawing, &groups)?) {
        let sampled = &mut routines[place];
        match instruction {
            Some(address) => drop(sampled.shared.insert(address, cum.value())),
            None => sampled.cum = cum.value(),
        }
    }
    Ok(())
}

impl<'a> Sampled<'a> {
    /// The routines of some code that these nodes are in.
    fn in_code(code: &'a Code, nodes: &[&'a Node<'a>]) -> Vec<Sampled<'a>> {
        let mut nodes: Vec<(u64, &Node<'_>)> =
            nodes.iter().map(|node| (node.place.address.wrapping_sub(code.bias), *node)).collect();
        nodes.sort_by_key(|(address, _)| *address);
        let sampled = code.routines.iter().map(|routine| {
            let from = nodes.partition_point(|(address, _)| *address < routine.start);
            let to = nodes.partition_point(|(address, _)| *address < routine.end()).max(from);
            let nodes = nodes[from..to].to_vec();
            let cum = nodes.first().map_or(0, |(_, node)| node.cum.value());
            Sampled { code, routine, nodes, cum, shared: HashMap::default() }
        });
        sampled.filter(|sampled| !sampled.nodes.is_empty()).collect()
    }

    fn name(&self) -> &str {
        self.routine.names.first().map_or("", String::as_str)
    }

    fn flat(&self) -> i64 {
        self.nodes.iter().fold(0i64, |sum, (_, node)| sum.saturating_add(node.flat.value()))
    }
}

/// An instruction with its values and its source.
pub(crate) struct Row<'r> {
    pub(crate) instruction: &'r Instruction,
    pub(crate) flat: i64,
    pub(crate) cum: i64,
    source: (String, String, i64),
}

/// Samples in the middle of an instruction belong to it.
pub(crate) fn rows<'r>(sampled: &Sampled<'_>, instructions: &'r [Instruction]) -> Vec<Row<'r>> {
    let mut nodes = sampled.nodes.iter().peekable();
    let mut rows = Vec::with_capacity(instructions.len());
    for (index, instruction) in instructions.iter().enumerate() {
        let place = sampled.routine.places.get(index).and_then(|frames| frames.first()).cloned().unwrap_or_default();
        let mut source = (place.function, base_name(&place.file).to_owned(), place.line);
        let (mut flat, mut cum) = (Weight::default(), Weight::default());
        while let Some((_, node)) = nodes.next_if(|(address, _)| *address < instruction.end()) {
            flat.add(node.flat);
            cum.add(node.cum);
            let own = &node.place;
            let missing = (source.0.is_empty(), source.1.is_empty(), source.2 == 0);
            if missing.1 {
                source.1 = base_name(&own.file).to_owned();
            }
            if missing.2 {
                source.2 = own.line;
            }
            if missing.0 {
                source.0 = own.name.to_owned();
            }
        }
        let cum = sampled.shared.get(&instruction.address.0).copied().unwrap_or(cum.value());
        rows.push(Row { instruction, flat: flat.value(), cum, source });
    }
    rows
}

fn push_routine(out: &mut Output<'_>, subject: &Subject<'_>, sampled: &Sampled<'_>) -> Result<()> {
    let options = subject.options;
    let syntax = if options.intel_syntax { Syntax::Intel } else { Syntax::Att };
    let instructions = sampled.routine.instructions(sampled.code, syntax);
    let amount = |value: i64| subject.amount(value, &options.unit);
    let or_dot = |value: i64| if value == 0 { ".".to_owned() } else { amount(value) };
    let mut names = sampled.routine.names.iter();
    let _ =
        writeln!(out.text, "ROUTINE ======================== {}", one_line(names.next().map_or("", String::as_str)));
    for name in names {
        let _ = writeln!(out.text, "    AKA ======================== {}", one_line(name));
    }
    let (flat, cum) = (sampled.flat(), sampled.cum);
    let _ = writeln!(
        out.text,
        "{:>10} {:>10} (flat, cum) {} of Total",
        amount(flat),
        amount(cum),
        percentage(cum, subject.total)
    );
    let mut before = (String::new(), String::new(), 0);
    for row in rows(sampled, &instructions) {
        let changed = row.source != before;
        let place = if changed { place(&row.source) } else { String::new() };
        before = row.source;
        let text = one_line(&row.instruction.text);
        let line = format!("{:>10} {:>10} {:>10x}:", or_dot(row.flat), or_dot(row.cum), row.instruction.address.0);
        let _ = match text.len() {
            _ if place.is_empty() => writeln!(out.text, "{line} {text}"),
            short if short < INSTRUCTION_WIDTH => writeln!(out.text, "{line} {text:<INSTRUCTION_WIDTH$};{place}"),
            _ => writeln!(out.text, "{:74};{place}\n{line} {text}", ""),
        };
        out.drain()?;
    }
    if sampled.routine.bytes_left_out > 0 {
        let _ = writeln!(out.text, "{} bytes of the function are left out", sampled.routine.bytes_left_out);
    }
    out.drain()
}

/// `FUNCTION FILE:LINE`, the known parts of it.
fn place((function, file, line): &(String, String, i64)) -> String {
    let mut text = String::new();
    if !function.is_empty() {
        text = format!("{function} ");
    }
    text.push_str(file);
    if !file.is_empty() && *line != 0 {
        let _ = write!(text, ":{line}");
    }
    one_line(&text).into_owned()
}
