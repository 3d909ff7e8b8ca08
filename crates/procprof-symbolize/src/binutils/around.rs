//! The symbols around addresses, without sorting half a million others.
//!
//! One symbol at an address is told from several by a table of two bits for each hash of an address:
//! what is in a cell for itself is alone; the few that share their cell are sorted.

use object::File;

use super::ladder::Ladder;
use super::symbol_table::{self, RawSymbol, Table};

/// Where a symbol is: its address and its number.
type Place = (u64, u32);

/// The numbers of the symbols in `.symtab` that decide which one each address is behind: the last one
/// before it that has its address for itself, and the next such one; and all that share theirs with
/// others. With them is the last one of all.
pub(super) fn symbols_around(object: &File<'_>, addresses: Vec<u64>) -> Vec<u32> {
    let mut cells = Cells::for_count(symbol_table::count(object, Table::All));
    each_listed(object, |symbol| cells.add(symbol.address));
    let mut nearest = Nearest::of(addresses);
    let mut crowded: Vec<Place> = Vec::new();
    each_listed(object, |symbol| {
        let place = (symbol.address, symbol.index);
        if cells.is_alone(symbol.address) { nearest.add(place) } else { crowded.push(place) }
    });
    crowded.sort_unstable();
    let mut kept: Vec<u32> = Vec::new();
    for group in crowded.chunk_by(|a, b| a.0 == b.0) {
        match group {
            [alone] => nearest.add(*alone),
            several => kept.extend(several.iter().map(|(_, index)| *index)),
        }
    }
    kept.extend(nearest.indexes());
    kept
}

fn each_listed(object: &File<'_>, mut visit: impl FnMut(RawSymbol)) {
    symbol_table::each(object, Table::All, |symbol| {
        if symbol.is_listed() {
            visit(symbol);
        }
    });
}

/// How many addresses have each hash: none, one or several.
struct Cells {
    /// Four a byte.
    bytes: Vec<u8>,
    shift: u32,
}

impl Cells {
    fn for_count(count: usize) -> Self {
        // Four times as many cells as symbols: most of these have one for themselves.
        let bits = (count.max(1) * 4).next_power_of_two().trailing_zeros();
        Self { bytes: vec![0; 1 << (bits - 2)], shift: u64::BITS - bits }
    }

    /// The byte and the place in it.
    fn cell(&self, address: u64) -> (usize, u32) {
        // Fibonacci hashing: addresses are multiples of 16 more often than not.
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        ((hash >> 2) as usize, (hash & 3) as u32 * 2)
    }

    fn add(&mut self, address: u64) {
        let (byte, shift) = self.cell(address);
        let count = self.bytes[byte] >> shift & 3;
        if count < 2 {
            self.bytes[byte] += 1 << shift;
        }
    }

    fn is_alone(&self, address: u64) -> bool {
        let (byte, shift) = self.cell(address);
        self.bytes[byte] >> shift & 3 == 1
    }
}

/// Of symbols that have their address for themselves those next to the addresses asked for.
struct Nearest {
    addresses: Ladder,
    /// By the number of addresses below: the last symbol that is not behind the next one.
    before: Vec<Option<Place>>,
    /// By the number of addresses below: the first symbol behind the one before.
    behind: Vec<Option<Place>>,
    last: Option<Place>,
}

impl Nearest {
    fn of(addresses: Vec<u64>) -> Self {
        let addresses = Ladder::new(addresses);
        let count = addresses.addresses().len() + 1;
        Self { addresses, before: vec![None; count], behind: vec![None; count], last: None }
    }

    fn add(&mut self, symbol: Place) {
        let below = self.addresses.place(symbol.0);
        let before = &mut self.before[below];
        *before = (*before).max(Some(symbol));
        let behind = &mut self.behind[below];
        *behind = Some(behind.map_or(symbol, |own| own.min(symbol)));
        self.last = self.last.max(Some(symbol));
    }

    /// The symbols by their numbers; some may be there more than once.
    fn indexes(self) -> Vec<u32> {
        let mut found: Vec<Place> = self.last.into_iter().collect();
        let mut before = None;
        let addresses = self.addresses.addresses().len();
        for place in &self.before[..addresses] {
            before = before.max(*place);
            found.extend(before);
        }
        let mut behind: Option<Place> = None;
        // What is at an address is not behind it: the next place has it, or a later one.
        for place in self.behind[1..].iter().rev() {
            behind = place.or(behind);
            found.extend(behind);
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|(_, index)| index).collect()
    }
}

#[cfg(test)]
mod tests {
    use procprof_profile::SymbolAddr;

    use crate::binutils::{NmSymbol, nm, nm_around};
    use crate::{Image, ImageOptions};

    /// The symbols at the last address before and at those behind, up to the first with one symbol.
    fn deciding<'s>(symbols: &'s [NmSymbol<'s>], address: u64) -> Vec<&'s NmSymbol<'s>> {
        let after = symbols.partition_point(|symbol| symbol.address <= address);
        let mut deciding: Vec<&NmSymbol<'_>> = Vec::new();
        if let Some(last) = after.checked_sub(1) {
            deciding.extend(symbols[..after].iter().filter(|symbol| symbol.address == symbols[last].address));
        }
        for group in symbols[after..].chunk_by(|a, b| a.address == b.address) {
            deciding.extend(group);
            if group.len() == 1 {
                break;
            }
        }
        deciding
    }

    #[test]
    fn leaves_out_only_what_decides_nothing() {
        let image = Image::open(&std::env::current_exe().unwrap(), &ImageOptions::default()).unwrap();
        let all = nm(&image);
        assert!(all.len() > 1000, "{} symbols", all.len());
        let addresses: Vec<u64> =
            all.iter().step_by(97).flat_map(|symbol| [symbol.address, symbol.address + 1]).chain([0, u64::MAX]).collect();
        for few in addresses.chunks(50) {
            let wanted: Vec<SymbolAddr> = few.iter().map(|address| SymbolAddr(*address)).collect();
            let around = nm_around(&image, &wanted);
            assert!(around.len() < all.len());
            for address in few {
                assert_eq!(deciding(&around, *address), deciding(&all, *address), "{address:#x}");
            }
        }
    }
}
