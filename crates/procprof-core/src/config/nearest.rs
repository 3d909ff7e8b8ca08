//! The known name nearest to a mistyped one.

/// The name with the smallest edit distance to `typed`, if at most a third of the letters (at least two) differ.
pub(crate) fn nearest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let typed: Vec<char> = typed.chars().take(100).collect();
    let limit = (typed.len() / 3).max(2);
    known
        .map(|name| (distance(&typed, &name.chars().collect::<Vec<char>>()), name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name.to_owned())
}

fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
