//! `--collapsed`: one line per stack, root first, whole names.

use crate::stacks::PcId;
use crate::view::View;
use crate::view::number::integer;
use crate::view::trim::address_text;

impl View<'_> {
    /// A line for each stack, by its text.
    pub fn collapsed(&self) -> String {
        let mut lines: Vec<String> =
            self.stacks().map(|(stack, value)| format!("{} {}\n", self.path(stack), integer(value))).collect();
        lines.sort_unstable();
        lines.concat()
    }

    fn path(&self, stack: &[PcId]) -> String {
        let names: Vec<String> = stack.iter().rev().flat_map(|pc| self.full_names(*pc)).collect();
        names.join(";")
    }

    /// Callers first.
    fn full_names(&self, pc: PcId) -> Vec<String> {
        let Some(symbols) = self.symbols.at(pc) else {
            return vec![address_text(self.pcs.addresses()[pc.index()])];
        };
        let names = symbols.iter().enumerate().map(|(position, symbol)| {
            let place = if matches!(&*symbol.place, "?" | ":0") { "??:0" } else { &symbol.place };
            let name = if &*symbol.full == "??" { place } else { &symbol.full };
            if position == 0 { name.to_owned() } else { format!("{name}[inline]") }
        });
        names.collect()
    }
}
