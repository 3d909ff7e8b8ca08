//! Addresses that ascend, and the place of another among them without a search through all.

/// Rungs for each address, about: more make the search on a rung shorter, and the ladder larger.
const RUNGS_EACH: usize = 4;

/// The first place at or behind an address.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    /// Each once.
    addresses: Vec<u64>,
    /// By the distance from the first address, shifted: how many addresses are before that.
    rungs: Vec<u32>,
    shift: u32,
}

impl Ladder {
    /// Of addresses in any order.
    pub(super) fn new(mut addresses: Vec<u64>) -> Self {
        addresses.sort_unstable();
        addresses.dedup();
        let (Some(first), Some(last)) = (addresses.first(), addresses.last()) else {
            return Self::default();
        };
        let distance = last - first;
        let wished = (addresses.len() * RUNGS_EACH) as u64;
        let shift = (0..u64::BITS).find(|shift| distance >> shift < wished).unwrap_or(0);
        let mut rungs = vec![0; (distance >> shift) as usize + 2];
        for address in &addresses {
            rungs[((address - first) >> shift) as usize + 1] += 1;
        }
        let mut before = 0;
        for rung in &mut rungs {
            before += *rung;
            *rung = before;
        }
        Self { addresses, rungs, shift }
    }

    pub(super) fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// How many addresses are below `address`, which is the place of the first that is not.
    pub(super) fn place(&self, address: u64) -> usize {
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
        from + self.addresses[from..to].iter().take_while(|own| **own < address).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_search_finds() {
        for addresses in [
            vec![],
            vec![7],
            vec![0, u64::MAX],
            vec![5, 5, 3],
            (0..1000).map(|number| number * number * 7 + 0x1000).collect(),
            vec![1, 2, 3, 1 << 60],
        ] {
            let ladder = Ladder::new(addresses.clone());
            let sorted = ladder.addresses();
            let near = addresses.iter().flat_map(|address| [address.wrapping_sub(1), *address, address.wrapping_add(1)]);
            for address in near.chain([0, 1, 0x1234, u64::MAX]) {
                assert_eq!(ladder.place(address), sorted.partition_point(|own| *own < address), "{address:#x} of {addresses:?}");
            }
        }
    }
}
