//! The symbols around addresses, without the half a million others.

use crate::elf::{Entry, Order};

/// The numbers of the symbols of `nm` that decide which one each address is behind, ascending: the last one before it
/// whose address no other symbol has, and the next such one; all that share their address with others; and the last
/// symbol.
pub(super) fn symbols_around(order: &Order<'_>, mut addresses: Vec<u64>) -> Vec<u32> {
    addresses.sort_unstable();
    let mut around = Around { kept: Vec::new(), addresses: addresses.into_iter().peekable(), alone: None };
    let mut group: Vec<Entry> = Vec::new();
    for entry in order.entries().filter(|entry| entry.is_listed) {
        if group.first().is_some_and(|first| first.address != entry.address) {
            around.add(&group);
            group.clear();
        }
        group.push(entry);
    }
    around.add(&group);
    around.kept.extend(around.alone);
    let mut kept = around.kept;
    // One may be before an address and behind another.
    kept.sort_unstable();
    kept.dedup();
    kept
}

struct Around<A: Iterator<Item = u64>> {
    kept: Vec<u32>,
    /// Those that the next symbol may be behind.
    addresses: std::iter::Peekable<A>,
    /// The last symbol whose address no other symbol has.
    alone: Option<u32>,
}

impl<A: Iterator<Item = u64>> Around<A> {
    /// Adds the symbols of one address.
    fn add(&mut self, group: &[Entry]) {
        let [alone] = group else {
            self.kept.extend(group.iter().map(|entry| entry.index));
            return;
        };
        let mut is_behind = false;
        while self.addresses.next_if(|address| *address < alone.address).is_some() {
            is_behind = true;
        }
        if is_behind {
            self.kept.extend(self.alone);
            self.kept.push(alone.index);
        }
        self.alone = Some(alone.index);
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
        let addresses: Vec<u64> = all
            .iter()
            .step_by(97)
            .flat_map(|symbol| [symbol.address, symbol.address + 1])
            .chain([0, u64::MAX])
            .collect();
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
