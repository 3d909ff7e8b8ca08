//! `LIKE` of the `SHOW` statements.

/// Whether a text matches a `LIKE` pattern: `%` any text, `_` any character, `\` takes the next as it is; letters in
/// any case.
pub(super) fn like(text: &str, pattern: &str) -> bool {
    let (text, pattern): (Vec<char>, Vec<char>) =
        (text.to_lowercase().chars().collect(), pattern.to_lowercase().chars().collect());
    // The places in the pattern that the text so far may have reached: linear in both, whatever the pattern.
    let mut places = vec![false; pattern.len() + 1];
    places[0] = true;
    let skip = |places: &mut Vec<bool>| {
        for index in 0..pattern.len() {
            if places[index] && pattern[index] == '%' {
                places[index + 1] = true;
            }
        }
    };
    skip(&mut places);
    for character in text {
        let mut next = vec![false; pattern.len() + 1];
        for index in 0..pattern.len() {
            if !places[index] {
                continue;
            }
            match pattern[index] {
                '%' => next[index] = true,
                '_' => next[index + 1] = true,
                '\\' if pattern.get(index + 1).is_some() => {
                    if pattern[index + 1] == character {
                        next[index + 2] = true;
                    }
                }
                own => next[index + 1] |= own == character,
            }
        }
        places = next;
        skip(&mut places);
    }
    places[pattern.len()]
}
