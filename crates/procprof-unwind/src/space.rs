//! The code of an address space: finds the table of the module of an address.

use crate::rule::Packed;
use crate::table::Table;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Executable addresses and their table.
#[derive(Clone, Debug)]
pub struct Code {
    /// Addresses in the process.
    pub range: Range<u64>,
    /// The load bias of the module: a process address minus this is one of the table's.
    pub bias: u64,
    /// `None` for code without tables (generated, or of a foreign format), which is unwound by frame pointers only.
    pub table: Option<Arc<Table>>,
}

impl Code {
    #[inline]
    fn rule(&self, address: u64) -> Packed {
        self.table.as_ref().map_or(Packed::UNKNOWN, |table| table.rule(address.wrapping_sub(self.bias)))
    }
}

/// All code of an address space at one moment; never changed, so a signal handler can search it.
#[derive(Debug, Default)]
pub struct Space {
    code: Vec<Code>,
    mark: u64,
}

impl Space {
    /// A space; of overlapping ranges the one that begins first stays. `generation` distinguishes spaces in a
    /// [`Cache`](crate::Cache): each one of a process should have its own, from 1 on.
    pub fn new(mut code: Vec<Code>, generation: u16) -> Self {
        code.sort_by_key(|code| code.range.start);
        let mut end = 0;
        code.retain(|code| {
            let fits = code.range.start >= end && code.range.end > code.range.start;
            if fits {
                end = code.range.end;
            }
            fits
        });
        Self { code, mark: u64::from(generation) << 48 }
    }

    /// The code that contains an address.
    #[inline]
    pub fn find(&self, address: u64) -> Option<&Code> {
        self.code.get(self.position(address)?)
    }

    /// The rule at an address; `None` where there is no code. Async-signal-safe.
    #[inline]
    pub fn rule(&self, address: u64) -> Option<Packed> {
        self.find(address).map(|code| code.rule(address))
    }

    /// As [`Space::rule`], trying the code at position `recent` first and noting where the address was found.
    #[inline]
    pub(crate) fn rule_near(&self, address: u64, recent: &AtomicUsize) -> Option<Packed> {
        let near = self.code.get(recent.load(Ordering::Relaxed)).filter(|code| code.range.contains(&address));
        let code = match near {
            Some(code) => code,
            None => {
                let position = self.position(address)?;
                recent.store(position, Ordering::Relaxed);
                self.code.get(position)?
            }
        };
        Some(code.rule(address))
    }

    #[inline]
    fn position(&self, address: u64) -> Option<usize> {
        let position = self.code.partition_point(|code| code.range.start <= address).checked_sub(1)?;
        (address < self.code.get(position)?.range.end).then_some(position)
    }

    /// All code, by address.
    pub fn code(&self) -> &[Code] {
        &self.code
    }

    #[inline(always)]
    pub(crate) fn key(&self, address: u64) -> u64 {
        address ^ self.mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, Rule};

    fn code(range: Range<u64>) -> Code {
        Code { range, bias: 0, table: None }
    }

    #[test]
    fn an_address_is_found_in_its_code_only() {
        let space = Space::new(vec![code(30..40), code(10..20), code(15..35), code(20..25), code(50..50)], 1);
        let found: Vec<_> = [9, 10, 19, 20, 24, 25, 30, 39, 40, 50]
            .map(|address| space.find(address).map(|code| code.range.start))
            .into();
        assert_eq!(found, [None, Some(10), Some(10), Some(20), Some(20), None, Some(30), Some(30), None, None]);
        assert_eq!(space.rule(10).map(Packed::rule), Some(Rule::Unknown));
        assert_eq!(space.rule(9), None);
    }

    #[test]
    fn a_cache_does_not_take_one_space_for_another() {
        let cache = Cache::new();
        let old = Space::new(vec![code(10..20)], 1);
        let new = Space::new(Vec::new(), 2);
        assert!(cache.rule(&old, 12).is_some() && cache.rule(&old, 12).is_some());
        assert_eq!(cache.rule(&new, 12), None);
    }
}
