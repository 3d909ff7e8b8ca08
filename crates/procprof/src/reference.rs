//! The reference page `docs/report-options.md`, generated from the tables of reports, options and flags.

use std::fmt::Write;
use std::path::Path;

use clap::{Args, Command};
use procprof_jeprof::{ELSEWHERE, USAGE};
use procprof_report::{OPTIONS, REPORTS};

use crate::report::{ReportArgs, spelling};

fn page() -> String {
    let mut page = String::from(
        "# Reports and options\n\nThis page is generated from the tables of `procprof report` and `procprof jeprof`; a test keeps\n\
         them the same. [report.md](report.md) describes how profiles of running processes are read, the session, the\n\
         browser and the exit codes.\n\n\
         One dash or two before a name mean the same, and so do `_` and `-` within it. `KEY` alone switches on an option\n\
         whose default is `false`. In the web pages, the same reports and options are `?format=REPORT&KEY=VALUE`.\n\n\
         ## Reports\n\n| report | file | what it shows |\n|---|---|---|\n",
    );
    for report in REPORTS {
        let alias = spelling::alias(report.name).map_or_else(String::new, |alias| format!(", `-{alias}`"));
        let symbol = if report.takes_symbol() { "=REGEX" } else { "" };
        let _ =
            writeln!(page, "| `-{}{symbol}`{alias} | `.{}` | {} |", report.name, report.extension, cell(report.help));
    }
    page.push_str("\nNot supported:\n\n| typed | use instead |\n|---|---|\n");
    for name in spelling::elsewhere() {
        let _ = writeln!(page, "| `-{name}` | {} |", cell(spelling::instead(name).unwrap_or_default()));
    }
    page.push_str("\n## Options of reports\n\n| option | default | what it does |\n|---|---|---|\n");
    for row in OPTIONS {
        let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
        let _ = writeln!(page, "| `{}` | {default} | {} |", row.key, cell(row.help));
    }
    page.push_str("\n## Flags of `procprof report`\n\n| flag | what it does |\n|---|---|\n");
    push_flags(&mut page);
    let _ = write!(page, "\n## `procprof jeprof`\n\n```text\n{}```\n\n| option | instead |\n|---|---|\n", USAGE);
    for (name, instead) in ELSEWHERE {
        let _ = writeln!(page, "| `--{name}` | {} |", cell(instead));
    }
    page
}

/// The flags of the command line that are in neither table.
fn push_flags(page: &mut String) {
    let command = ReportArgs::augment_args(Command::new("report"));
    let is_own =
        |name: &str| !OPTIONS.iter().any(|row| row.key == name) && !REPORTS.iter().any(|report| report.name == name);
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let Some(name) = arg.get_long().filter(|name| is_own(name)) else { continue };
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let takes = arg.get_action().takes_values();
        let value = arg
            .get_value_names()
            .and_then(|names| names.first())
            .filter(|_| takes)
            .map_or_else(String::new, |value| format!(" {value}"));
        let short = arg.get_short().map_or_else(String::new, |short| format!("`-{short}`, "));
        let _ = writeln!(page, "| {short}`--{name}{value}` | {} |", cell(&help));
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[test]
fn the_reference_page_is_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report-options.md");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page(), "docs/report-options.md differs from the tables; UPDATE_EXPECT=1 cargo test rewrites it");
}
