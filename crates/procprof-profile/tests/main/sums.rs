//! Sums and differences.

use std::collections::HashMap;

use procprof_profile::diff::diff;
use procprof_profile::format::{Limits, decode};
use procprof_profile::merge::merge;
use procprof_profile::{Grammar, LocationId, Profile};
use proptest::prelude::*;

use crate::{fixtures, random};

fn totals(profile: &Profile) -> Vec<i64> {
    (0..profile.sample_types().len()).map(|index| profile.total(index)).collect()
}

fn adjusted(profile: &Profile) -> Profile {
    profile.clone().adjusted(Grammar::Pprof).unwrap()
}

fn check_sums(one: &Profile, two: &Profile) {
    let sum = merge(&[one, two]).unwrap();
    assert!(merge(&[two, one]).unwrap() == sum, "{one:?}\n{two:?}");
    let normal = merge(&[one]).unwrap();
    assert!(merge(&[&normal]).unwrap() == normal, "{one:?}");
    let expected =
        totals(&adjusted(one)).into_iter().zip(totals(&adjusted(two))).map(|(one, two)| one.checked_add(two));
    // Estimates can be so large that no profile can hold the sum.
    let Some(expected) = expected.collect::<Option<Vec<i64>>>() else { return };
    assert_eq!(totals(&sum), expected);
    assert_eq!(diff(one, one).unwrap().sample_count(), 0);
    let difference = diff(one, &sum).unwrap();
    assert_eq!(totals(&difference), totals(&adjusted(two)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn random_profiles_add_up(one in random::profile(), two in random::profile()) {
        check_sums(&one, &two);
    }

    #[test]
    fn grouping_does_not_matter(one in random::profile(), two in random::profile(), three in random::profile()) {
        let left = merge(&[&merge(&[&one, &two]).unwrap(), &three]).unwrap();
        prop_assert_eq!(totals(&left), totals(&merge(&[&one, &two, &three]).unwrap()));
    }

    #[test]
    fn flat_values_add_up_to_the_total(profile in random::profile()) {
        let mut flat: HashMap<Option<LocationId>, i64> = HashMap::new();
        for sample in profile.samples() {
            *flat.entry(sample.stack.first().copied()).or_default() += sample.values[1];
        }
        prop_assert_eq!(flat.values().sum::<i64>(), profile.total(1));
    }
}

#[test]
fn every_fixture_adds_up_with_itself() {
    for (name, bytes) in fixtures::all() {
        if let Ok(decoded) = decode(&bytes, &Limits::default()) {
            println!("{name}");
            check_sums(&decoded.profile, &decoded.profile);
        }
    }
}
