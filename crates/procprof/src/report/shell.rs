//! The interactive session of `report`, in the grammar of `go tool pprof`.
//!
//! ```text
//! top30 -cum main -runtime      a report; a number is the row count, words are focus, -words are ignore
//! peek main | less              peek and list take the functions they are about
//! dot main >calls.dot           into a file
//! focus=main                    an option for all that follows; focus= takes it back
//! ```

mod help;
mod line;

use std::borrow::Cow;
use std::path::PathBuf;

use anyhow::Result;
use procprof_profile::Profile;
use procprof_report::{OPTIONS, Options, REPORTS, Report, about};

use self::line::Meant;
use super::{rendered, spelling};
use crate::fetch::write_new;
use crate::shell::{Lines, Sink, Words};

/// Default number of rows of `top`.
const TOP_ROWS: &str = "10";

/// Options by key, as typed; those that are missing have their default.
type Pairs = Vec<(&'static str, String)>;

/// Reads and answers lines until the end.
pub(super) fn run(profile: &Profile, options: Pairs, binaries: Vec<PathBuf>) -> Result<()> {
    let mut session = Session { profile, options, binaries };
    session.set("compact_labels", "true");
    let mut lines = Lines::new("pprof", session.words())?;
    session.greet()?;
    while let Some(typed) = lines.next()? {
        match session.answer(&typed) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => eprintln!("{error:#}"),
        }
    }
    Ok(())
}

struct Session<'a> {
    profile: &'a Profile,
    options: Pairs,
    /// Binaries given, for machine code.
    binaries: Vec<PathBuf>,
}

impl Session<'_> {
    fn greet(&self) -> Result<()> {
        let options = parsed(&self.options)?;
        about(self.profile, &options)?.iter().for_each(|line| println!("{line}"));
        println!("Entering interactive mode (type \"help\" for commands, \"o\" for options)");
        Ok(())
    }

    fn words(&self) -> Words {
        let reports = REPORTS.iter().map(|report| report.name.to_owned());
        let aliases = REPORTS.iter().filter_map(|report| spelling::alias(report.name)).map(str::to_owned);
        let options = OPTIONS.iter().map(|row| format!("{}=", row.key));
        let own = ["help", "options", "quit", "exit"].map(str::to_owned);
        let names = self.profile.functions().iter().map(|function| self.profile.string(function.name).to_owned());
        let mut functions: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        functions.sort();
        functions.dedup();
        Words { commands: reports.chain(aliases).chain(options).chain(own).collect(), functions }
    }

    /// Executes the line; `false` is the end of the session.
    fn answer(&mut self, typed: &str) -> Result<bool> {
        match line::meant(typed, &self.sample_types())? {
            Meant::Nothing => {}
            Meant::Quit => return Ok(false),
            Meant::ShowOptions => print!("{}", help::options(&self.options, self.profile)),
            Meant::Help(about) => print!("{}", help::help(&about)?),
            Meant::Set(pairs) => {
                for (key, value) in pairs {
                    self.check(key, &value)?;
                    self.set(key, &value);
                }
            }
            Meant::Report { report, options, sink } => self.show(report, options, sink)?,
        }
        Ok(true)
    }

    fn sample_types(&self) -> Vec<String> {
        (0..self.profile.sample_types().len()).map(|index| self.profile.sample_type(index).0.to_owned()).collect()
    }

    fn check(&self, key: &'static str, value: &str) -> Result<()> {
        let options = Options::parse([(key, value)])?;
        if key == "sample_index" {
            options.sample_type(self.profile)?;
        }
        Ok(())
    }

    fn set(&mut self, key: &'static str, value: &str) {
        self.options.retain(|(known, _)| *known != key);
        if !value.is_empty() {
            self.options.push((key, value.to_owned()));
        }
    }

    /// Renders with the options of the session and, for this once, those of the line.
    fn show(&self, report: &'static Report, once: Pairs, sink: Sink) -> Result<()> {
        let mut pairs = self.options.clone();
        let is_given = |pairs: &Pairs, key: &str| pairs.iter().any(|(known, _)| *known == key);
        if report.name == "top" && !is_given(&pairs, "nodecount") && !is_given(&once, "nodecount") {
            pairs.push(("nodecount", TOP_ROWS.to_owned()));
        }
        pairs.retain(|(key, _)| !is_given(&once, key));
        pairs.extend(once);
        let bytes = rendered(report, Cow::Borrowed(self.profile), &parsed(&pairs)?, &self.binaries)?;
        if sink == Sink::Screen
            && !report.media_type.starts_with("text/plain")
            && !report.media_type.starts_with("text/vnd")
        {
            let path = write_new(std::path::Path::new("."), "profile", report.extension, &bytes)?;
            eprintln!("Generating report in {}", path.display());
            return Ok(());
        }
        sink.put(&bytes)
    }
}

fn parsed(pairs: &Pairs) -> procprof_report::Result<Options> {
    Options::parse(pairs.iter().map(|(key, value)| (*key, value.as_str())))
}
