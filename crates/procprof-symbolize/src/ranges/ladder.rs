//! Finds the place of an address among ascending ones, about as fast as one look-up in a table, where a binary search
//! needs a dozen.

/// Rungs for each address, about: more make the search on a rung shorter, and the ladder larger.
const RUNGS_EACH: usize = 4;

/// The first place at or behind an address.
#[derive(Debug)]
pub(crate) struct Ladder<'n> {
    addresses: &'n [u64],
    /// By the distance from the first address, shifted: how many addresses are before that.
    rungs: Vec<u32>,
    shift: u32,
}

impl<'n> Ladder<'n> {
    /// Makes one of at most `u32::MAX` addresses, which ascend.
    pub(crate) fn new(addresses: &'n [u64]) -> Self {
        let (Some(first), Some(last)) = (addresses.first(), addresses.last()) else {
            return Self { addresses, rungs: Vec::new(), shift: 0 };
        };
        let distance = last - first;
        let wished = (addresses.len() * RUNGS_EACH) as u64;
        let shift = (0..u64::BITS).find(|shift| distance >> shift < wished).unwrap_or(0);
        let mut rungs = vec![0; (distance >> shift) as usize + 2];
        for address in addresses {
            rungs[((address - first) >> shift) as usize + 1] += 1;
        }
        let mut before = 0;
        for rung in &mut rungs {
            before += *rung;
            *rung = before;
        }
        Self { addresses, rungs, shift }
    }

    pub(crate) fn addresses(&self) -> &'n [u64] {
        self.addresses
    }

    /// The number of addresses below `address`, which is the place of the first that is not.
    #[inline]
    pub(crate) fn place(&self, address: u64) -> usize {
        let (Some(first), Some(last)) = (self.addresses.first(), self.addresses.last()) else {
            return 0;
        };
        if address <= *first {
            return 0;
        }
        if address > *last {
            return self.addresses.len();
        }
        let rung = ((address - first) >> self.shift) as usize;
        let (from, to) = (self.rungs[rung] as usize, self.rungs[rung + 1] as usize);
        from + self.addresses[from..to].partition_point(|own| *own < address)
    }

    /// Whether an address is in `begin..end`.
    pub(crate) fn has_in(&self, begin: u64, end: u64) -> bool {
        self.addresses.get(self.place(begin)).is_some_and(|address| *address < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_search_finds() {
        for mut addresses in [
            vec![],
            vec![7],
            vec![0, u64::MAX],
            vec![5, 5, 3],
            (0..1000).map(|number| number * number * 7 + 0x1000).collect(),
            vec![1, 2, 3, 1 << 60],
        ] {
            addresses.sort_unstable();
            let ladder = Ladder::new(&addresses);
            let near =
                addresses.iter().flat_map(|address| [address.wrapping_sub(1), *address, address.wrapping_add(1)]);
            for address in near.chain([0, 1, 0x1234, u64::MAX]) {
                assert_eq!(
                    ladder.place(address),
                    addresses.partition_point(|own| *own < address),
                    "{address:#x} of {addresses:?}"
                );
                let end = address.saturating_add(2);
                assert_eq!(ladder.has_in(address, end), addresses.iter().any(|own| (address..end).contains(own)));
            }
        }
    }
}
