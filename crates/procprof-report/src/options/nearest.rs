//! Finds the known name that is nearest to an unknown one.

/// The candidate with the fewest edits from `name`, when that is at most a third of its length (and at least 1 is
/// allowed).
pub(crate) fn nearest(name: &str, candidates: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    let name: Vec<char> = name.chars().take(64).flat_map(char::to_lowercase).collect();
    let scored = candidates.into_iter().map(|candidate| (edits(&name, candidate), candidate));
    let (distance, candidate) = scored.min()?;
    (distance <= (candidate.len() / 3).max(1)).then_some(candidate)
}

/// Levenshtein distance.
fn edits(name: &[char], candidate: &str) -> usize {
    let candidate: Vec<char> = candidate.chars().collect();
    let mut row: Vec<usize> = (0..=candidate.len()).collect();
    for (i, a) in name.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in candidate.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[candidate.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let known = ["focus", "ignore", "nodecount", "sample_index"];
        assert_eq!(nearest("fokus", known), Some("focus"));
        assert_eq!(nearest("node_count", known), Some("nodecount"));
        assert_eq!(nearest("sampleindex", known), Some("sample_index"));
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(nearest("", known), None);
    }
}
