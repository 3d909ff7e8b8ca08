//! `disasm`: machine code of functions, each instruction with its flat and cum, in the shape of `go tool pprof -disasm`.
//!
//! ```text
//! Total: 8.73s
//! ROUTINE ======================== hot_70
//!      6.11s      6.11s (flat, cum) 69.99% of Total
//!          .          .       1139: push   %rbp                             ;hot_70 main.c:30
//!      6.11s      6.11s       113a: add    $0x1,%rax
//! ```
//! Functions inlined into others are charged to those, as everything is by address. The code is the caller's to read: [`wanted`] says around which
//! addresses.

use std::borrow::Cow;
use std::fmt::Write;

use procprof_profile::{Addr, MappingId, Profile};

use crate::code::{Code, Instruction, Routine, Syntax};
use crate::graph::{Graph, Node, Weight};
use crate::measure::percentage;
use crate::place::base_name;
use crate::report::CodeWanted;
use crate::subject::{Drawing, Subject};
use crate::text::one_line;
use crate::view::View;
use crate::{Error, Granularity, Options, Result, Sources};

/// Column in which the source stands behind a short instruction.
const INSTRUCTION_WIDTH: usize = 40;
const DRAWING: Drawing =
    Drawing { granularity: Granularity::Addresses, trims: false, nodes: 0, picture: false, call_tree: false, objects: true };

pub(crate) fn render(view: &View<'_>, options: &Options, sources: &Sources) -> Result<Vec<u8>> {
    let options = &without_inlined(options);
    let subject = Subject::new(&view.profile, options)?;
    let shown = subject.graph(DRAWING);
    let mut routines: Vec<Sampled<'_>> =
        sources.code.iter().flat_map(|code| Sampled::of(code, &shown.graph, view.profile.as_ref())).collect();
    routines.sort_by(|a, b| (a.name(), a.routine.start).cmp(&(b.name(), b.routine.start)));
    let to = options.unit.as_str();
    let mut out = format!("Total: {}\n", subject.amount(subject.total, to));
    if routines.is_empty() {
        let why = nothing_found(&view.profile, options, sources);
        let Some(symbol) = &options.symbol else { return Ok(format!("{out}{}\n", one_line(&why)).into_bytes()) };
        return Err(Error::value("symbol", symbol.as_str(), why));
    }
    for sampled in &routines {
        push_routine(&mut out, &subject, sampled);
    }
    Ok(out.into_bytes())
}

/// The addresses with samples in the mappings of functions that match, or of the address that `symbol` is.
pub(crate) fn wanted(profile: &Profile, options: &Options) -> Result<Vec<CodeWanted>> {
    let options = &without_inlined(options);
    let view = View::new(Cow::Borrowed(profile), options)?;
    let subject = Subject::new(&view.profile, options)?;
    let shown = subject.graph(DRAWING);
    let matches = |node: &Node<'_>| options.symbol.as_ref().is_none_or(|symbol| symbol.is_match(&node.name));
    let files: std::collections::BTreeSet<&str> =
        shown.graph.shown_nodes().filter(|node| matches(node)).map(|node| node.place.mapping).collect();
    let address = address(options);
    let mut wanted = Vec::new();
    for (index, mapping) in view.profile.mappings().iter().enumerate() {
        let holds = |address: &u64| mapping.start.0 <= *address && *address < mapping.limit.0;
        let mut addresses: Vec<Addr> = match address {
            Some(address) => Some(address).into_iter().filter(holds).map(Addr).collect(),
            None if !files.contains(view.profile.string(mapping.filename)) => Vec::new(),
            None => shown.graph.shown_nodes().map(|node| node.place.address).filter(holds).map(Addr).collect(),
        };
        addresses.sort_unstable();
        addresses.dedup();
        let names = if address.is_some() { None } else { options.symbol.clone() };
        if !addresses.is_empty() {
            wanted.push(CodeWanted { mapping: MappingId(index as u32), addresses, names });
        }
    }
    Ok(wanted)
}

/// The address that `symbol` is, if it is one.
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
        [] => "no function of the binaries with samples in it matches".to_owned(),
        reasons => format!("no machine code was read; {}", reasons.join("; ")),
    }
}

/// A routine with samples in it.
pub(crate) struct Sampled<'a> {
    pub(crate) code: &'a Code,
    pub(crate) routine: &'a Routine,
    /// Its nodes by address, as the file has it.
    pub(crate) nodes: Vec<(u64, &'a Node<'a>)>,
}

impl<'a> Sampled<'a> {
    pub(crate) fn of(code: &'a Code, graph: &'a Graph<'a>, profile: &Profile) -> Vec<Sampled<'a>> {
        let mapping = profile.mapping(code.mapping);
        let is_here = |address: u64| mapping.start.0 <= address && address < mapping.limit.0;
        let own = graph.shown_nodes().filter(|node| is_here(node.place.address));
        let mut nodes: Vec<(u64, &Node<'_>)> = own.map(|node| (node.place.address.wrapping_sub(code.bias), node)).collect();
        nodes.sort_by_key(|(address, _)| *address);
        let sampled = code.routines.iter().map(|routine| {
            let from = nodes.partition_point(|(address, _)| *address < routine.start);
            let to = nodes.partition_point(|(address, _)| *address < routine.end()).max(from);
            Sampled { code, routine, nodes: nodes[from..to].to_vec() }
        });
        sampled.filter(|sampled| !sampled.nodes.is_empty()).collect()
    }

    fn name(&self) -> &str {
        self.routine.names.first().map_or("", String::as_str)
    }

    fn sum(&self, part: fn(&Node<'_>) -> Weight) -> i64 {
        self.nodes.iter().fold(0i64, |sum, (_, node)| sum.saturating_add(part(node).value()))
    }
}

/// An instruction with what it uses and where it is from.
pub(crate) struct Row<'r> {
    pub(crate) instruction: &'r Instruction,
    pub(crate) flat: i64,
    pub(crate) cum: i64,
    source: (String, String, i64),
}

/// Samples in the midst of an instruction are its own.
pub(crate) fn rows<'r>(sampled: &Sampled<'_>, instructions: &'r [Instruction]) -> Vec<Row<'r>> {
    let mut nodes = sampled.nodes.iter().peekable();
    let mut rows = Vec::with_capacity(instructions.len());
    for (index, instruction) in instructions.iter().enumerate() {
        let place = sampled.routine.places.get(index).and_then(|frames| frames.first()).cloned().unwrap_or_default();
        let mut source = (place.function, base_name(&place.file).to_owned(), place.line);
        let (mut flat, mut cum) = (Weight::default(), Weight::default());
        let end = instruction.address.0.wrapping_add(instruction.size as u64);
        while let Some((_, node)) = nodes.next_if(|(address, _)| *address < end) {
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
        rows.push(Row { instruction, flat: flat.value(), cum: cum.value(), source });
    }
    rows
}

fn push_routine(out: &mut String, subject: &Subject<'_>, sampled: &Sampled<'_>) {
    let options = subject.options;
    let syntax = if options.intel_syntax { Syntax::Intel } else { Syntax::Att };
    let instructions = sampled.routine.instructions(sampled.code, syntax);
    let amount = |value: i64| subject.amount(value, &options.unit);
    let or_dot = |value: i64| if value == 0 { ".".to_owned() } else { amount(value) };
    let mut names = sampled.routine.names.iter();
    let _ = writeln!(out, "ROUTINE ======================== {}", one_line(names.next().map_or("", String::as_str)));
    for name in names {
        let _ = writeln!(out, "    AKA ======================== {}", one_line(name));
    }
    let (flat, cum) = (sampled.sum(|node| node.flat), sampled.sum(|node| node.cum));
    let _ = writeln!(out, "{:>10} {:>10} (flat, cum) {} of Total", amount(flat), amount(cum), percentage(cum, subject.total));
    let mut before = (String::new(), String::new(), 0);
    for row in rows(sampled, &instructions) {
        let changed = row.source != before;
        let place = if changed { place(&row.source) } else { String::new() };
        before = row.source;
        let text = one_line(&row.instruction.text);
        let line = format!("{:>10} {:>10} {:>10x}:", or_dot(row.flat), or_dot(row.cum), row.instruction.address.0);
        let _ = match text.len() {
            _ if place.is_empty() => writeln!(out, "{line} {text}"),
            short if short < INSTRUCTION_WIDTH => writeln!(out, "{line} {text:<INSTRUCTION_WIDTH$};{place}"),
            _ => writeln!(out, "{:74};{place}\n{line} {text}", ""),
        };
    }
    if sampled.routine.bytes_left_out > 0 {
        let _ = writeln!(out, "{} bytes of the function are left out", sampled.routine.bytes_left_out);
    }
}

/// `FUNCTION FILE:LINE`, as far as it is known.
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
