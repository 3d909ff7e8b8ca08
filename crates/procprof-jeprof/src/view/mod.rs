//! A profile cut and reduced for printing.

pub(crate) mod number;
pub(crate) mod trim;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use foldhash::HashMap;

use self::number::Unit;
use self::trim::{Trimmed, address_text, trimmed};
use crate::stacks::{PcId, Pcs, Stacks};
use crate::symbols::{Symbol, Symbols};
use crate::{Granularity, ProfileKind, Settings};

/// Addresses above are no code.
const CODE_MAX: u64 = 0x7fff_ffff_ffff_ffff;

/// A profile ready to be printed in any shape.
pub struct View<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) symbols: &'a Symbols,
    pub(crate) pcs: &'a Pcs,
    pub(crate) unit: Unit,
    /// The sum before anything was cut.
    pub(crate) total: f64,
    /// The remaining stacks.
    trimmed: Trimmed<'a>,
    names: Names,
    /// By address.
    entries: Vec<Entries>,
    /// The entries of addresses, back to back, callees first.
    fixed: Vec<NameId>,
}

/// The entries of one address.
enum Entries {
    /// A range of the fixed ones.
    Fixed(Range<u32>),
    /// Has a callback's `Run`, which is named after the frame it calls.
    ByCallee,
}

/// The number of a row's or node's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NameId(u32);

impl NameId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names of rows and nodes, each once.
#[derive(Default)]
struct Names {
    all: Vec<String>,
    ids: HashMap<String, NameId>,
    /// Numbers of callbacks by the address they call.
    callbacks: BTreeMap<u64, usize>,
}

impl Names {
    fn id(&mut self, name: String) -> NameId {
        if let Some(id) = self.ids.get(&name) {
            return *id;
        }
        let id = NameId(self.all.len() as u32);
        self.all.push(name.clone());
        self.ids.insert(name, id);
        id
    }
}

/// A row or node with its own value and that of all it calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) name: NameId,
    pub(crate) flat: f64,
    pub(crate) cumulative: f64,
}

impl<'a> View<'a> {
    /// Cuts and reduces `stacks`, whose addresses are in `pcs` and named by `symbols`.
    pub fn new(
        stacks: &'a Stacks,
        pcs: &'a Pcs,
        symbols: &'a Symbols,
        kind: ProfileKind,
        settings: &'a Settings,
    ) -> View<'a> {
        let total = stacks.total();
        let trimmed = trimmed(stacks, pcs, symbols, kind, settings);
        let unit = Unit::from_settings(kind, settings);
        let names = Names::default();
        let mut view =
            View { settings, symbols, pcs, unit, total, trimmed, names, entries: Vec::new(), fixed: Vec::new() };
        view.name_entries();
        view
    }

    /// Lines for standard error, to be printed before the report.
    pub fn messages(&self) -> &[String] {
        &self.trimmed.messages
    }

    /// The remaining stacks, with values.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = (&[PcId], f64)> {
        self.trimmed.cuts.iter(&self.trimmed.stacks)
    }

    /// The sum of the remaining stacks.
    pub(crate) fn total_left(&self) -> f64 {
        self.trimmed.cuts.total()
    }

    fn name_entries(&mut self) {
        let distinct = self.symbols.distinct_names();
        let namer = Namer { granularity: self.settings.granularity, distinct: &distinct };
        for (index, address) in self.pcs.addresses().iter().enumerate() {
            let text = address_text(*address);
            let symbols = self.symbols.at(PcId(index as u32));
            let first = self.fixed.len() as u32;
            let entries = if *address > CODE_MAX {
                Entries::Fixed(first..first)
            } else if symbols.is_some_and(|symbols| symbols.iter().any(|symbol| is_callback(namer.function(symbol)))) {
                Entries::ByCallee
            } else {
                self.fixed.extend(namer.entries(&text, symbols, None).map(|name| self.names.id(name)));
                Entries::Fixed(first..self.fixed.len() as u32)
            };
            self.entries.push(entries);
        }
        self.name_callbacks(&namer);
    }

    /// Names the callbacks in the stacks, one after the other, so that the rest needs no change.
    fn name_callbacks(&mut self, namer: &Namer<'_>) {
        if !self.entries.iter().any(|entries| matches!(entries, Entries::ByCallee)) {
            return;
        }
        let mut found = Vec::new();
        for (stack, _) in self.stacks() {
            for (position, pc) in stack.iter().enumerate() {
                if matches!(self.entries[pc.index()], Entries::ByCallee) {
                    let callee =
                        position.checked_sub(1).map_or(0, |callee| self.pcs.addresses()[stack[callee].index()]);
                    found.push((*pc, callee));
                }
            }
        }
        for (pc, callee) in found {
            for name in self.callback_names(namer, pc, callee) {
                self.names.id(name);
            }
        }
    }

    fn callback_names(&mut self, namer: &Namer<'_>, pc: PcId, callee: u64) -> Vec<String> {
        let next = self.names.callbacks.len() + 1;
        let number = *self.names.callbacks.entry(callee).or_insert(next);
        let text = address_text(self.pcs.addresses()[pc.index()]);
        namer.entries(&text, self.symbols.at(pc), Some(number)).collect()
    }

    /// The entries of a stack, callees first; calls of themselves included.
    pub(crate) fn translate(&self, stack: &[PcId], into: &mut Vec<NameId>) {
        into.clear();
        for (position, pc) in stack.iter().enumerate() {
            match &self.entries[pc.index()] {
                Entries::Fixed(names) => into.extend_from_slice(&self.fixed[names.start as usize..names.end as usize]),
                Entries::ByCallee => {
                    let callee =
                        position.checked_sub(1).map_or(0, |callee| self.pcs.addresses()[stack[callee].index()]);
                    let number = self.names.callbacks.get(&callee).copied();
                    let distinct = HashMap::default();
                    let namer = Namer { granularity: self.settings.granularity, distinct: &distinct };
                    let text = address_text(self.pcs.addresses()[pc.index()]);
                    into.extend(
                        namer.entries(&text, self.symbols.at(*pc), number).filter_map(|name| self.names.ids.get(&name)),
                    );
                }
            }
        }
    }

    pub(crate) fn name(&self, id: NameId) -> &str {
        &self.names.all[id.index()]
    }

    /// The number of names there may be rows of.
    pub(crate) fn name_count(&self) -> usize {
        self.names.all.len()
    }

    /// A row for each entry of any stack, in no order, and the sum of their own values.
    pub(crate) fn rows(&self) -> (Vec<Row>, f64) {
        let mut rows: Vec<Option<Row>> = vec![None; self.name_count()];
        // The last stack each name was in, counted from 1; no row is for the empty name, which counts as seen in all.
        let mut last_seen: Vec<usize> =
            self.names.all.iter().map(|name| if name.is_empty() { usize::MAX } else { 0 }).collect();
        let mut entries = Vec::new();
        let mut total = 0.0;
        for (number, (stack, value)) in (1..).zip(self.stacks()) {
            self.translate(stack, &mut entries);
            let mut is_leaf = true;
            for name in &entries {
                if last_seen[name.index()] >= number {
                    continue;
                }
                last_seen[name.index()] = number;
                let row = rows[name.index()].get_or_insert(Row { name: *name, flat: 0.0, cumulative: 0.0 });
                row.cumulative += value;
                if is_leaf {
                    row.flat += value;
                    total += value;
                }
                is_leaf = false;
            }
        }
        (rows.into_iter().flatten().collect(), total)
    }
}

/// Names the entries of one address.
struct Namer<'n> {
    granularity: Granularity,
    distinct: &'n HashMap<Arc<str>, Arc<str>>,
}

impl Namer<'_> {
    /// The function's name, distinct from others of the same name.
    fn function<'s>(&'s self, symbol: &'s Symbol) -> &'s str {
        self.distinct.get(&symbol.full).unwrap_or(&symbol.short)
    }

    /// Names of an address's functions, callees first.
    fn entries<'s>(
        &'s self,
        address: &'s str,
        symbols: Option<&'s [Symbol]>,
        callback: Option<usize>,
    ) -> impl Iterator<Item = String> + 's {
        let unknown = symbols.is_none().then(|| self.entry(address, address.to_owned(), ""));
        let known = symbols.unwrap_or_default().iter().enumerate().rev();
        let known = known.map(move |(position, symbol)| {
            let mut function = self.function(symbol).to_owned();
            if position > 0 {
                function.push_str(" (inline)");
            }
            if let Some(number) = callback.filter(|_| is_callback(&function)) {
                function = format!("Run#{number}");
            }
            self.entry(address, function, &symbol.place)
        });
        unknown.into_iter().chain(known)
    }

    fn entry(&self, address: &str, function: String, place: &str) -> String {
        let is_unknown = function == "??";
        match self.granularity {
            Granularity::Addresses => format!("{address} {function} {place}"),
            Granularity::Lines if is_unknown && place == "??:0" => address.to_owned(),
            Granularity::Lines => format!("{function} {place}"),
            Granularity::Functions if is_unknown => address.to_owned(),
            Granularity::Functions => function,
            Granularity::Files if place == "??:0" || place.is_empty() => address.to_owned(),
            Granularity::Files => without_line(place).to_owned(),
        }
    }
}

/// `FILE:LINE` without `:LINE`; anything else stays.
fn without_line(place: &str) -> &str {
    match place.rsplit_once(':') {
        Some((file, line)) if !line.is_empty() && line.bytes().all(|digit| digit.is_ascii_digit()) => file,
        _ => place,
    }
}

fn is_callback(function: &str) -> bool {
    function.strip_suffix("::Run").is_some_and(|before| before.contains("Callback"))
}
