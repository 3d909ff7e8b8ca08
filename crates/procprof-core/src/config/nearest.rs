//! What a name that is not known probably means.

/// Keys of other programs, and what has their place here.
const MEANINGS: [(&str, &str); 9] = [
    ("pid", "pid_lookup finds a process by its id"),
    ("host", "http is its address, \"HOST:PORT\""),
    ("port", "http is its address, \"HOST:PORT\""),
    ("address", "http is its address, \"HOST:PORT\""),
    ("url", "http is its address, and urls has one by profile type"),
    ("interval", "schedule.TYPE = { every = SECONDS } sets it"),
    ("password", "auth = { basic = \"USER\", password_file = \"FILE\" } reads it from a file"),
    ("token", "auth = { bearer_file = \"FILE\" } reads it from a file"),
    ("tags", "labels are stored with every profile"),
];

/// The sentence about an unknown key of a table with these: what its word means here, else the nearest known one.
pub(super) fn hint<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let known: Vec<&str> = known.collect();
    let first_word = |text: &str| text.split([' ', '.']).next().unwrap_or_default().to_owned();
    let mut meanings = MEANINGS.iter().filter(|(name, _)| *name == typed).map(|(_, meaning)| *meaning);
    meanings
        .find(|meaning| known.contains(&first_word(meaning).as_str()))
        .map(str::to_owned)
        .or_else(|| nearest(typed, known.into_iter()).map(|name| format!("the nearest known key is {name:?}")))
}

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
