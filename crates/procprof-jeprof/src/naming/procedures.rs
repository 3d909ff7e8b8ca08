//! A file's symbols as procedures, each up to the next, and jeprof's names for them.

use std::cell::OnceCell;
use std::sync::Arc;

use procprof_symbolize::binutils::{Demangled, NmSymbol};

use crate::symbols::short_function_name;

/// The symbol of files whose inlined functions are given.
const SEPARATOR: &str = "_fini";

/// A file's symbols as ranges, each up to the next.
pub(super) struct Procedures<'a> {
    pub(super) all: Vec<Procedure<'a>>,
    pub(super) has_separator: bool,
    demangled: &'a Demangled,
}

pub(super) struct Procedure<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) name: &'a str,
    /// Whether its address is appended to its name: not if it replaced another symbol.
    is_tagged: bool,
    /// Its names, once they are requested.
    names: OnceCell<ProcedureName>,
}

/// The names of a procedure.
#[derive(Debug, Clone)]
pub(super) struct ProcedureName {
    pub(super) short: Arc<str>,
    pub(super) full: Arc<str>,
}

impl<'a> Procedures<'a> {
    pub(super) fn new(symbols: &'a [NmSymbol<'_>], demangled: &'a Demangled) -> Self {
        let mut all: Vec<Procedure<'a>> = Vec::new();
        let mut has_separator = false;
        for symbol in symbols {
            let name = symbol.name.as_ref();
            match all.last_mut() {
                Some(last) if last.start == symbol.address => {
                    if symbol.is_text {
                        (last.name, last.is_tagged) = (name, false);
                    }
                }
                before => {
                    if let Some(before) = before {
                        before.end = symbol.address;
                    }
                    has_separator |= name == SEPARATOR;
                    all.push(Procedure {
                        start: symbol.address,
                        end: symbol.address,
                        name,
                        is_tagged: true,
                        names: OnceCell::new(),
                    });
                }
            }
        }
        leave_last_of_each_name(&mut all, demangled);
        Self { all, has_separator, demangled }
    }

    /// Short and whole name of the procedure at an address of the file, or, behind the last one, the
    /// address of the process; `None` if the file has no symbols.
    pub(super) fn name(&self, own: u64, address: u64) -> Option<ProcedureName> {
        let position = self.all.partition_point(|procedure| procedure.end <= own);
        match self.all.get(position) {
            Some(procedure) => Some(procedure.names.get_or_init(|| procedure.names(self.demangled)).clone()),
            None if self.all.is_empty() => None,
            None => {
                let text: Arc<str> = format!("0x{address:016x}").into();
                Some(ProcedureName { short: Arc::clone(&text), full: text })
            }
        }
    }
}

impl Procedure<'_> {
    fn names(&self, demangled: &Demangled) -> ProcedureName {
        let full = self.full_name(demangled);
        ProcedureName { short: short_function_name(&full).into(), full: full.into() }
    }

    pub(super) fn full_name(&self, demangled: &Demangled) -> String {
        let name = demangled.name(self.name);
        if self.is_tagged { format!("{name}<{:016x}>", self.start) } else { name.into_owned() }
    }
}

/// Of procedures without an address in their names the last of each name is known; where another
/// was, the one behind it begins earlier.
fn leave_last_of_each_name(all: &mut Vec<Procedure<'_>>, demangled: &Demangled) {
    let mut seen = std::collections::BTreeSet::new();
    let repeated: Vec<bool> = all
        .iter()
        .rev()
        .map(|procedure| !procedure.is_tagged && !seen.insert(demangled.name(procedure.name).into_owned()))
        .collect();
    let mut repeated = repeated.into_iter().rev();
    all.retain(|_| !repeated.next().unwrap_or(false));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nm(address: u64, is_text: bool, name: &'static str) -> NmSymbol<'static> {
        NmSymbol { address, is_text, name: name.into() }
    }

    #[test]
    fn procedures_reach_to_the_next() {
        let symbols = [
            nm(0x10, true, "a"),
            nm(0x20, false, "weak"),
            nm(0x20, true, "b"),
            nm(0x20, false, "c"),
            nm(0x30, true, "_fini"),
        ];
        let demangled = Demangled::default();
        let procedures = Procedures::new(&symbols, &demangled);
        assert!(procedures.has_separator);
        let name = |own| procedures.name(own, 0xfff).map(|name| name.full);
        assert_eq!(name(0x8).as_deref(), Some("a<0000000000000010>"));
        assert_eq!(name(0x1f).as_deref(), Some("a<0000000000000010>"));
        assert_eq!(name(0x20).as_deref(), Some("b"));
        assert_eq!(name(0x30).as_deref(), Some("0x0000000000000fff"));
        assert!(Procedures::new(&[], &demangled).name(1, 1).is_none());
    }

    #[test]
    fn of_equal_names_without_address_the_last_is_left() {
        let symbols = [
            nm(0x10, true, "a"),
            nm(0x10, true, "x"),
            nm(0x20, true, "b"),
            nm(0x30, true, "c"),
            nm(0x30, true, "x"),
            nm(0x40, true, "d"),
        ];
        let demangled = Demangled::default();
        let procedures = Procedures::new(&symbols, &demangled);
        assert_eq!(procedures.name(0x11, 0).map(|name| name.full).as_deref(), Some("b<0000000000000020>"));
        assert_eq!(procedures.name(0x31, 0).map(|name| name.full).as_deref(), Some("x"));
    }
}
