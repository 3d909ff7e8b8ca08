//! Markup is written by the template engine or by the `MarkupWriter` of reports, which escape what is put into it: a
//! tag in a format string or in text that is appended is refused.

use anyhow::{Context, Result, bail};

/// Calls whose first text is looked at.
const CALLS: [&str; 5] = ["format!(", "write!(", "writeln!(", "format_args!(", ".push_str("];
/// Elements whose tags are looked for.
const ELEMENTS: &[&str] = &[
    "!doctype", "a", "b", "body", "button", "div", "form", "g", "h1", "h2", "head", "html", "i", "img", "input",
    "link", "main", "meta", "option", "p", "path", "pre", "rect", "script", "section", "span", "style", "svg", "table",
    "td", "text", "th", "title", "tr", "ul", "li",
];
/// Files that write markup by hand all the same, with the reason.
const EXCEPTIONS: [(&str, &str); 2] = [
    (
        "agent/src/endpoints/index.rs",
        "rows of a table of the program; a template engine would be built into each service",
    ),
    ("procprof/src/report/web.rs", "the address of this process"),
];

/// Fails with every line that puts markup together from strings.
pub(crate) fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for file in crate::places::sources()? {
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let place = crate::places::in_crates(&file);
        let is_exception = EXCEPTIONS.iter().any(|(path, _)| place == *path);
        match (found(&text).as_slice(), is_exception) {
            ([], true) => bail!("{place} is an exception of xtask/src/markup.rs and writes no markup"),
            (lines, false) => wrong.extend(lines.iter().map(|line| format!("{}:{line}", file.display()))),
            _ => {}
        }
    }
    if !wrong.is_empty() {
        bail!("markup from strings; use html!, or markup! in reports:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// The lines of calls whose text has a tag.
fn found(text: &str) -> Vec<usize> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut lines = Vec::new();
    for call in CALLS {
        for (at, _) in code.match_indices(call) {
            // `my_write!(` is another macro.
            let is_whole = call.starts_with('.')
                || !code[..at].ends_with(|before: char| before.is_ascii_alphanumeric() || before == '_');
            if is_whole && first_text(&code[at + call.len()..]).is_some_and(has_tag) {
                lines.push(code[..at].lines().count().max(1));
            }
        }
    }
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// The first string among the arguments of a call.
fn first_text(arguments: &str) -> Option<&str> {
    let (before, rest) = arguments.split_once('"')?;
    if before.contains([';', '{', '}']) {
        return None;
    }
    let mut is_escaped = false;
    let end = rest.find(|c| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    })?;
    Some(&rest[..end])
}

fn has_tag(text: &str) -> bool {
    text.split('<').skip(1).any(|after| {
        let name = after.strip_prefix('/').unwrap_or(after).to_ascii_lowercase();
        let length = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '!').unwrap_or(name.len());
        ELEMENTS.contains(&&name[..length]) && ends_a_name(&name[length..])
    })
}

/// Whether what follows a name is of a tag: its end, a blank, or a value that ends it.
fn ends_a_name(rest: &str) -> bool {
    rest.starts_with(['>', ' ', '/', '{'])
}

#[cfg(test)]
mod tests {
    use super::found;

    #[test]
    fn tags_in_strings_are_found() {
        for (code, lines) in [
            ("let a = format!(\"<b>{name}</b>\");", vec![1]),
            ("\n    out.push_str(\"<p class=\\\"x\\\">\");", vec![2]),
            ("let _ = writeln!(\n    out.text,\n    \"{}</td>\",\n    x\n);", vec![1]),
            ("write!(out, \"<!doctype html>\")", vec![1]),
            ("format!(\"<{name}>\")", vec![]),
            ("format!(\"vector<int>, a < b\")", vec![]),
            ("markup!(out, \"<b>{}</b>\", name)", vec![]),
            ("page.constant(\"<b>\")", vec![]),
            ("format!(x); let y = \"<b>\";", vec![]),
        ] {
            assert_eq!(found(code), lines, "{code}");
        }
    }
}
