//! The output of `help` and `o` in a session.

use std::fmt::Write;

use anyhow::{Result, bail};
use procprof_profile::Profile;
use procprof_report::{OPTIONS, OptionRow, REPORTS, Report};

use super::line::COMMENT;
use super::{Pairs, spelling};

/// The help on `about`; on everything if it is empty.
pub(super) fn help(about: &str) -> Result<String> {
    if about.is_empty() {
        return Ok(overview());
    }
    if let Some(report) =
        REPORTS.iter().find(|report| report.name == about || spelling::alias(report.name) == Some(about))
    {
        return Ok(of_report(report));
    }
    if let Some(row) = OPTIONS.iter().find(|row| row.key == about) {
        return Ok(of_option(row));
    }
    bail!("Unknown command: {about}")
}

fn overview() -> String {
    let mut text = "  Commands:\n".to_owned();
    let mut row = |name: &str, help: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    {name:<20} {help}");
    };
    REPORTS.iter().for_each(|report| row(report.name, report.help));
    row("o/options", "List options and their values");
    row("q/quit/exit/^D", "Leave");
    text.push_str("\n  Options (key=value; key= for the default):\n");
    for option in OPTIONS {
        let _ = writeln!(text, "    {:<20} {}", option.key, option.help);
    }
    text.push_str(
        "\n  A name of a sample type chooses it; total_NAME and mean_NAME do, too.\n  \
         :   Clear focus, ignore, hide, tagfocus and tagignore\n\n  \
         Type \"help <command or option>\" for more.\n",
    );
    text
}

fn of_report(report: &Report) -> String {
    let name = report.name;
    let usage = match (name, report.takes_symbol()) {
        ("top", _) => "[n] [focus_regex]* [-ignore_regex]* [-cum]",
        ("tags", _) => "[tag_regex]* [-ignore_regex]*",
        (_, true) => "<function_regex> [focus_regex]* [-ignore_regex]*",
        (_, false) => "[n] [focus_regex]* [-ignore_regex]*",
    };
    let mut text = format!("{}\n  Usage:\n    {name} {usage} [>file | '|' command]\n", report.help);
    if name == "top" {
        text.push_str("    top30 is top 30; without a number, 10 rows\n");
    }
    text
}

fn of_option(row: &OptionRow) -> String {
    let default = if row.default.is_empty() { String::new() } else { format!("  Default: {}\n", row.default) };
    format!("{}\n{default}  Usage:\n    {}=<val>\n", row.help, row.key)
}

/// All options as they can be typed, with what they may be behind them.
pub(super) fn options(pairs: &Pairs, profile: &Profile) -> String {
    let mut lines: Vec<String> =
        OPTIONS.iter().filter(|row| row.key != "symbol").map(|row| line(row, pairs, profile)).collect();
    lines.sort();
    lines.concat()
}

fn line(row: &OptionRow, pairs: &Pairs, profile: &Profile) -> String {
    let given = pairs.iter().find(|(key, _)| *key == row.key).map(|(_, value)| value.as_str());
    let types: Vec<&str> = (0..profile.sample_types().len()).map(|index| profile.sample_type(index).0).collect();
    let (default, choices) = match row.key {
        "sample_index" => (types.get(profile.default_sample_type()).copied().unwrap_or_default(), types),
        key => (row.default, spelling::choices(key)),
    };
    let value = match given.unwrap_or(default) {
        "" if row.key == "nodecount" => "-1",
        "" => "\"\"",
        value => value,
    };
    let comment = match (choices.as_slice(), value) {
        ([], "-1") => format!("{COMMENT} default"),
        ([], _) => String::new(),
        (choices, _) => format!("{COMMENT} [{}]", choices.join(" | ")),
    };
    format!("  {:<25} = {value:<20} {comment}", row.key).trim_end().to_owned() + "\n"
}
