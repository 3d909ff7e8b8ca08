use super::*;
use crate::ProfileBuilder;

fn sampled(sampling: Sampling, values: &[[i64; 2]]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("objects", "count"), ("space", "bytes")]);
    for pair in values {
        builder.sample(&[], pair, &[]);
    }
    builder.parts_mut().sampling = sampling;
    builder.finish().unwrap()
}

fn stacks(addresses: Addresses, stacks: &[&[u64]]) -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    for stack in stacks {
        let stack: Vec<_> = stack.iter().map(|address| builder.address(None, Addr(*address))).collect();
        builder.sample(&stack, &[1], &[]);
    }
    builder.parts_mut().addresses = addresses;
    builder.finish().unwrap()
}

fn addresses(profile: &Profile) -> Vec<Vec<u64>> {
    profile.samples().map(|sample| sample.stack.iter().map(|id| profile.location(*id).address.0).collect()).collect()
}

#[test]
fn estimates_follow_each_grammar() {
    use Grammar::{Jeprof, Pprof};
    let rate = 524_288;
    let cases = [
        (Pprof, Sampling::Poisson(rate), [3, 3072], [1537, 1_574_400]),
        (Jeprof, Sampling::Poisson(rate), [3, 3072], [1538, 1_574_401]),
        (Pprof, Sampling::Poisson(1), [3, 3072], [3, 3072]),
        (Pprof, Sampling::Poisson(0), [3, 3072], [3, 3072]),
        (Jeprof, Sampling::Poisson(0), [3, 3072], [3, 3072]),
        (Pprof, Sampling::Poisson(rate), [3, 0], [0, 0]),
        (Pprof, Sampling::Poisson(rate), [0, 0], [0, 0]),
        (Pprof, Sampling::Poisson(rate), [-3, -3072], [-1537, -1_574_400]),
        (Jeprof, Sampling::Linear(4096), [2, 2048], [8, 8192]),
        (Jeprof, Sampling::Linear(4096), [2, 20480], [2, 20480]),
        (Pprof, Sampling::Exact, [2, 2048], [2, 2048]),
    ];
    for (grammar, sampling, measured, expected) in cases {
        let adjusted = sampled(sampling, &[measured]).adjusted(grammar).unwrap();
        assert_eq!(adjusted.sample(0).values, expected, "{grammar:?} {sampling:?} {measured:?}");
        if sampling != Sampling::Exact {
            assert_eq!(adjusted.sample(0).raw_values, measured);
        }
    }
}

#[test]
fn only_pairs_of_objects_and_bytes_are_scaled() {
    let mut builder = ProfileBuilder::new(&[("x", "count"), ("a", "count"), ("b", "bytes"), ("t", "nanoseconds")]);
    builder.sample(&[], &[5, 3, 3072, 9], &[]);
    builder.parts_mut().sampling = Sampling::Poisson(524_288);
    let adjusted = builder.finish().unwrap().adjusted(Grammar::Pprof).unwrap();
    assert_eq!(adjusted.sample(0).values, [5, 1537, 1_574_400, 9]);
}

#[test]
fn addresses_follow_each_grammar() {
    use Grammar::{Jeprof, Pprof};
    let captured: &[&[u64]] = &[&[0x10, 0x20], &[0x20, 0x30], &[0], &[]];
    let all = vec![vec![0xf, 0x1f], vec![0x1f, 0x2f], vec![0], vec![]];
    let callers = vec![vec![0x10, 0x1f], vec![0x20, 0x2f], vec![0], vec![]];
    let cases = [
        (Addresses::RawReturn, Pprof, &all),
        (Addresses::RawReturn, Jeprof, &callers),
        (Addresses::RawCpu, Pprof, &callers),
        (Addresses::RawCpu, Jeprof, &all),
    ];
    for (kind, grammar, expected) in cases {
        let raw = stacks(kind, captured);
        let adjusted = raw.clone().adjusted(grammar).unwrap();
        assert_eq!(&addresses(&adjusted), expected, "{kind:?} {grammar:?}");
        assert_eq!((adjusted.addresses(), adjusted.parts().captured), (Addresses::CallSite, kind));
        assert_eq!(adjusted.clone().adjusted(Jeprof).unwrap(), adjusted, "adjusting twice changes nothing");
        assert_eq!(adjusted.unadjusted().unwrap(), raw);
    }
}

#[test]
fn a_leaf_next_to_a_return_address_stays_apart() {
    let raw = stacks(Addresses::RawCpu, &[&[0x1f, 0x20]]);
    let adjusted = raw.clone().adjusted(Grammar::Pprof).unwrap();
    assert_eq!(addresses(&adjusted), [[0x1f, 0x1f]]);
    assert_eq!(adjusted.locations().iter().map(|location| location.is_return).collect::<Vec<_>>(), [false, true]);
    assert_eq!(adjusted.unadjusted().unwrap(), raw);
}
