//! Words of the code that are permitted in some places only: compares the list of ARCHITECTURE.md with the sources.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const PAGE: &str = "ARCHITECTURE.md";
const BLOCK: &str = "```places\n";

/// Fails with every line of the crates' sources that has a word of the page outside its places; tests, benches and
/// comments are not checked.
pub(crate) fn check() -> Result<()> {
    let page = std::fs::read_to_string(PAGE).with_context(|| format!("read {PAGE}"))?;
    let listed = page
        .split_once(BLOCK)
        .and_then(|(_, rest)| rest.split_once("```"))
        .with_context(|| format!("find the places of {PAGE}"))?
        .0;
    let rows: Vec<(&str, Vec<&str>)> = listed.lines().map(row).collect::<Result<_>>()?;
    let mut wrong = Vec::new();
    for file in sources()? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let place = in_crates(&file);
        for (word, places) in rows.iter().filter(|(_, places)| !places.iter().any(|allowed| place.starts_with(allowed)))
        {
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let lines = code
                .lines()
                .enumerate()
                .filter(|(_, line)| !line.trim_start().starts_with("//") && line.contains(word));
            wrong.extend(lines.map(|(number, _)| {
                format!("{}:{}: {word} belongs to {}", file.display(), number + 1, places.join(", "))
            }));
        }
    }
    if !wrong.is_empty() {
        bail!("words in places where they are not permitted:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// A line `word -> place, place` of the page.
fn row(line: &str) -> Result<(&str, Vec<&str>)> {
    let (word, places) =
        line.split_once("->").with_context(|| format!("{PAGE}: {line:?} is no word with its places"))?;
    Ok((word.trim(), places.split(',').map(str::trim).collect()))
}

/// A file as `CRATE/src/…`, without the prefix of the crates' names.
pub(crate) fn in_crates(file: &Path) -> String {
    let place = file.to_string_lossy();
    place.strip_prefix("crates/procprof-").or(place.strip_prefix("crates/")).unwrap_or(&place).to_owned()
}

/// All files of the crates' sources except those of tests.
pub(crate) fn sources() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders: Vec<PathBuf> =
        entries(Path::new("crates"))?.into_iter().map(|package| package.join("src")).collect();
    while let Some(folder) = folders.pop() {
        for entry in entries(&folder)? {
            let is_of_tests = entry.file_stem().is_some_and(|name| name == "tests");
            if entry.is_dir() {
                folders.push(entry);
            } else if !is_of_tests && entry.extension().is_some_and(|extension| extension == "rs") {
                files.push(entry);
            }
        }
    }
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    listed.map(|entry| Ok(entry?.path())).collect()
}
