use procprof_profile::perf_event::CONTEXT_KERNEL;

use super::*;

#[test]
fn callers_count_behind_the_part_that_was_walked() {
    // The interrupted instruction, then calls, each one before the return address.
    let walked = [1, 9, 19, 29, 39];
    for (chain, expected) in [
        (&[1, 10, 20, 30, 40, 50][..], Some(5)),
        // Functions without frames are not in the chain.
        (&[1, 20, 40, 50], Some(3)),
        (&[1, 40], Some(2)),
        // Others than those that were walked, another order, too short a chain.
        (&[1, 20, 25, 40, 50], None),
        (&[1, 30, 20, 40, 50], None),
        (&[1, 10, 20], None),
        (&[1], None),
        (&[], None),
    ] {
        assert_eq!(common_depth(chain, &walked), expected, "{chain:?}");
    }
    assert_eq!(common_depth(&[1, 2], &[]), None);
}

#[test]
fn the_chain_of_user_code_begins_behind_its_mark() {
    let chain = [CONTEXT_KERNEL, 0xffff_ffff_8100_0000, CONTEXT_USER, 1, 2].map(u64::to_le_bytes);
    let sample = Sample { callchain: &chain, ..Sample::default() };
    assert!(user_chain(&sample).eq([1, 2]));
    let sample = Sample { callchain: &chain[..2], ..Sample::default() };
    assert_eq!(user_chain(&sample).next(), None);
}
