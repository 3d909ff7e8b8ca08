use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn ids(stack: &[u32]) -> Vec<PcId> {
    stack.iter().map(|id| PcId(*id)).collect()
}

fn listed<'a>(stacks: impl Iterator<Item = (&'a [PcId], f64)>) -> Vec<(Vec<u32>, f64)> {
    stacks.map(|(stack, value)| (stack.iter().map(|id| id.0).collect(), value)).collect()
}

#[test]
fn what_is_the_same_when_cut_is_added_up() {
    let mut stacks = Stacks::default();
    for (stack, value) in
        [(&[1, 7, 2][..], 1.0), (&[1, 3], 2.0), (&[4, 7, 2], 4.0), (&[7], 8.0), (&[1, 3], 16.0), (&[9], 32.0)]
    {
        stacks.add(&ids(stack), value);
    }
    assert_eq!(listed(stacks.iter()).len(), 5);
    let cuts = Cuts::new(&stacks, |stack| match stack.iter().rposition(|id| id.0 == 7) {
        _ if stack == ids(&[9]) => None,
        last => Some(last.map_or(0, |last| last + 1)),
    });
    assert_eq!(listed(cuts.iter(&stacks)), [(vec![2], 5.0), (vec![1, 3], 18.0), (vec![], 8.0)]);
    assert_eq!(cuts.total(), 31.0);
}

proptest! {
    #[test]
    fn each_stack_is_there_once(added in prop::collection::vec((prop::collection::vec(0u32..4, 0..5), 0u32..9), 0..2000)) {
        let mut stacks = Stacks::default();
        let mut sums: BTreeMap<&[u32], f64> = BTreeMap::new();
        for (stack, value) in &added {
            stacks.add(&ids(stack), f64::from(*value));
            *sums.entry(stack).or_default() += f64::from(*value);
        }
        prop_assert_eq!(stacks.len(), sums.len());
        for (stack, sum) in &sums {
            prop_assert_eq!(stacks.value(&ids(stack)), Some(*sum));
        }
        prop_assert_eq!(stacks.value(&ids(&[9])), None);
        prop_assert_eq!(listed(stacks.iter()).len(), sums.len());
    }
}
