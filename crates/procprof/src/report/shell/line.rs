//! One line of the session: as typed to as meant.

use anyhow::{Result, anyhow, bail};
use procprof_report::{OPTIONS, OptionRow, REPORTS, Report};

use super::{Pairs, spelling};
use crate::shell::Sink;

/// The comment behind a value in the list of options, ignored when it is typed again.
pub(super) const COMMENT: &str = "//:";

/// Options that `:` takes back.
const REFINEMENTS: [&str; 5] = ["focus", "ignore", "hide", "tagfocus", "tagignore"];

/// The meaning of a line.
pub(super) enum Meant {
    Nothing,
    Quit,
    ShowOptions,
    Help(String),
    /// Options from now on; an empty value is the default.
    Set(Pairs),
    /// A report with options for this once.
    Report {
        report: &'static Report,
        options: Pairs,
        sink: Sink,
    },
}

/// Reads a line of a session over a profile with these sample types.
pub(super) fn meant(typed: &str, sample_types: &[String]) -> Result<Meant> {
    let typed = typed.trim();
    if let Some(pairs) = shortcut(typed, sample_types).map(Ok).or_else(|| assignment(typed).transpose()).transpose()? {
        return Ok(Meant::Set(pairs));
    }
    let (command, sink) = Sink::split(typed).map_err(|error| anyhow!(error))?;
    let mut words = command.split_whitespace();
    let Some(first) = words.next() else { return Ok(Meant::Nothing) };
    match first {
        "o" | "options" => return Ok(Meant::ShowOptions),
        "exit" | "quit" | "q" => return Ok(Meant::Quit),
        "help" => return Ok(Meant::Help(words.collect::<Vec<_>>().join(" "))),
        _ => {}
    }
    let (report, count) = report(first, words.clone().next())?;
    let mut options = Pairs::new();
    if report.takes_symbol() {
        let symbol = words.next().ok_or_else(|| anyhow!("command {first} requires an argument"))?;
        options.push(("symbol", symbol.to_owned()));
    }
    options.extend(count.map(|count| ("nodecount", count)));
    arguments(words, report, &mut options)?;
    Ok(Meant::Report { report, options, sink })
}

/// `:`, and a sample type by its name, alone or after `total_` or `mean_`.
fn shortcut(typed: &str, sample_types: &[String]) -> Option<Pairs> {
    if typed == ":" {
        return Some(REFINEMENTS.iter().map(|key| (*key, String::new())).collect());
    }
    let is_type = |name: &str| sample_types.iter().any(|known| known == name);
    if is_type(typed) {
        return Some(vec![("sample_index", typed.to_owned())]);
    }
    let (how, name) = typed.split_once('_')?;
    let mean = match how {
        "total" => "false",
        "mean" => "true",
        _ => return None,
    };
    is_type(name).then(|| vec![("mean", mean.to_owned()), ("sample_index", name.to_owned())])
}

/// `key=value`, a switch alone, or a short name such as `lines`.
fn assignment(typed: &str) -> Result<Option<Pairs>> {
    let (key, value) = match typed.split_once('=') {
        Some((key, value)) => (key.trim(), Some(value.split(COMMENT).next().unwrap_or_default().trim())),
        None => (typed, None),
    };
    let pair = |row: &'static OptionRow, value: &str| Some(vec![(row.key, value.trim_matches('"').to_owned())]);
    match (OPTIONS.iter().find(|row| row.key == key), value) {
        (Some(row), Some(value)) => Ok(pair(row, plain(row, value))),
        (Some(row), None) if is_switch(row) => Ok(pair(row, "true")),
        (Some(row), None) => bail!("please specify a value, e.g. {}=<val>", row.key),
        (None, None) => {
            Ok(spelling::long_options(key).filter(|pairs| pairs.iter().all(|(key, _)| *key != "sample_index")))
        }
        (None, Some(_)) if is_word(key) => bail!("there is no option {key}; o lists them"),
        (None, Some(_)) => Ok(None),
    }
}

fn is_word(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_switch(row: &OptionRow) -> bool {
    ["true", "false"].contains(&row.default)
}

/// The value in our spelling: pprof has others of a switch, and a number for the report's default number.
fn plain<'a>(row: &OptionRow, value: &'a str) -> &'a str {
    match value {
        "-1" if row.key == "nodecount" => "",
        "1" | "t" | "yes" | "y" if is_switch(row) => "true",
        "0" | "f" | "no" | "n" if is_switch(row) => "false",
        other => other,
    }
}

/// The report a command names, and the number at its end: `top30`.
fn report(command: &str, next: Option<&str>) -> Result<(&'static Report, Option<String>)> {
    if let Some(report) = named(command) {
        return Ok((report, None));
    }
    let name = command.trim_end_matches(|c: char| c.is_ascii_digit());
    if let (Some(report), true) = (named(name), name.len() < command.len()) {
        return Ok((report, Some(command[name.len()..].to_owned())));
    }
    if OPTIONS.iter().any(|row| row.key == command) {
        bail!("did you mean: {command}={}", next.unwrap_or("<val>"));
    }
    match spelling::instead(command) {
        Some(instead) => bail!("{command} starts another program, which is not done here; {instead}"),
        None => bail!("unrecognized command: {command:?}"),
    }
}

fn named(command: &str) -> Option<&'static Report> {
    REPORTS.iter().find(|report| report.name == command || spelling::alias(report.name) == Some(command))
}

/// Numbers, `-cum`, and words for focus and ignore, of labels for `tags`.
fn arguments<'a>(words: impl Iterator<Item = &'a str>, report: &Report, options: &mut Pairs) -> Result<()> {
    let (mut focus, mut ignore) = (Vec::new(), Vec::new());
    for word in words {
        if word.parse::<u32>().is_ok() {
            options.retain(|(key, _)| *key != "nodecount");
            options.push(("nodecount", word.to_owned()));
        } else if word == "-cum" || word == "--cum" {
            options.push(("sort", "cum".to_owned()));
        } else if let Some(file) = word.strip_prefix('>') {
            bail!("write >{file} after a blank, as the last word");
        } else if let Some(word) = word.strip_prefix('-').filter(|word| !word.is_empty()) {
            ignore.push(word);
        } else {
            focus.push(word);
        }
    }
    let (focus_key, ignore_key) = if report.name == "tags" { ("tagfocus", "tagignore") } else { ("focus", "ignore") };
    for (key, words) in [(focus_key, focus), (ignore_key, ignore)] {
        options.extend((!words.is_empty()).then(|| (key, words.join("|"))));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(typed: &str) -> String {
        match meant(typed, &["samples".to_owned(), "cpu".to_owned()]) {
            Err(error) => format!("error: {error}"),
            Ok(Meant::Set(pairs)) => format!("set {pairs:?}"),
            Ok(Meant::Report { report, options, sink }) => format!("{} {options:?} {sink:?}", report.name),
            Ok(Meant::Help(about)) => format!("help {about}"),
            Ok(Meant::Nothing) => "nothing".to_owned(),
            Ok(Meant::Quit) => "quit".to_owned(),
            Ok(Meant::ShowOptions) => "options".to_owned(),
        }
    }

    #[test]
    fn lines_mean_what_they_mean_to_pprof() {
        for (typed, meant) in [
            ("", "nothing"),
            ("top", "top [] Screen"),
            ("text 5", r#"top [("nodecount", "5")] Screen"#),
            (
                "top30 -cum main -run time",
                r#"top [("nodecount", "30"), ("sort", "cum"), ("focus", "main|time"), ("ignore", "run")] Screen"#,
            ),
            ("peek a b", r#"peek [("symbol", "a"), ("focus", "b")] Screen"#),
            ("peek", "error: command peek requires an argument"),
            ("tags host", r#"tags [("tagfocus", "host")] Screen"#),
            ("dot main > x.dot", r#"dot [("focus", "main")] File("x.dot")"#),
            ("tree | head", r#"tree [] Command("head")"#),
            ("focus=ma in //: x", r#"set [("focus", "ma in")]"#),
            ("focus = \"\"", r#"set [("focus", "")]"#),
            ("call_tree", r#"set [("call_tree", "true")]"#),
            ("mean=0", r#"set [("mean", "false")]"#),
            ("lines", r#"set [("granularity", "lines")]"#),
            ("cum", r#"set [("sort", "cum")]"#),
            ("cpu", r#"set [("sample_index", "cpu")]"#),
            ("mean_cpu", r#"set [("mean", "true"), ("sample_index", "cpu")]"#),
            ("nodecount=-1", r#"set [("nodecount", "")]"#),
            ("unit", "error: please specify a value, e.g. unit=<val>"),
            ("focus main", "error: did you mean: focus=main"),
            ("bogus", "error: unrecognized command: \"bogus\""),
            ("bogus=1", "error: there is no option bogus; o lists them"),
            ("help top", "help top"),
            ("q", "quit"),
            ("o", "options"),
        ] {
            assert_eq!(read(typed), meant, "{typed}");
        }
        assert!(read(":").starts_with("set [(\"focus\", \"\")"), "{}", read(":"));
    }
}
