//! A CPU profile reduced to gperftools' binary form, which has only counts of a fixed period.
//!
//! A stack's count becomes its CPU time in periods, rounded so that the sum is exact to half a period. CPU time that no
//! sample represents has no address, and is left out of this form.

use crate::error::Result;
use procprof_profile::{LocationId, Parts, Profile, format, maps};

/// Encodes a CPU profile with its addresses as captured.
///
/// An empty line precedes the memory map: jeprof begins to read the map amid the 64-bit words and so loses its first
/// line, which would be the program's own.
pub(crate) fn encode(profile: &Profile) -> Result<Vec<u8>> {
    let reduced = in_periods(profile)?;
    let mut bytes = format::gperftools_cpu::encode(&reduced)?;
    let map = maps::render(&reduced).len();
    bytes.insert(bytes.len().saturating_sub(map), b'\n');
    Ok(bytes)
}

/// The profile with counts of periods in place of samples.
fn in_periods(profile: &Profile) -> Result<Profile> {
    let mut parts = Parts {
        values: Vec::new(),
        stacks: Vec::new(),
        stack_ends: Vec::new(),
        labels: Vec::new(),
        label_ends: Vec::new(),
        ..profile.parts().clone()
    };
    let period = profile.period().max(1);
    let mut carried = 0;
    let has_address = |id: &LocationId| profile.location(*id).address.0 != 0;
    for sample in profile.samples().filter(|sample| sample.stack.first().is_some_and(has_address)) {
        carried += sample.values[1];
        let count = (carried + period / 2).div_euclid(period);
        carried -= count * period;
        if count > 0 {
            // A frame that marks unknown ones has none.
            let stack: Vec<LocationId> = sample.stack.iter().copied().filter(has_address).collect();
            parts.push_sample(&stack, &[count, count * period], &[])?;
        }
    }
    Ok(parts.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procprof_profile::{Addr, ProfileBuilder};

    #[test]
    fn counts_are_times_in_periods_and_their_sum_is_kept() {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        builder.period("cpu", "nanoseconds", 10);
        let nothing = builder.frame("[unsampled CPU]");
        builder.sample(&[nothing], &[0, 1000], &[]);
        for (address, nanos) in [(1, 4), (2, 4), (3, 4), (4, 95)] {
            let place = builder.address(None, Addr(address));
            builder.sample(&[place], &[1, nanos], &[]);
        }
        let reduced = in_periods(&builder.finish().unwrap()).unwrap();
        let counts: Vec<_> =
            reduced.samples().map(|sample| (reduced.location(sample.stack[0]).address.0, sample.values[0])).collect();
        assert_eq!(counts, [(2, 1), (4, 10)]);
    }
}
