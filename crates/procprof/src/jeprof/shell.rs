//! The interactive session, in jeprof's own few commands.
//!
//! ```text
//! top30 --cum Query -malloc     rows; words are focus, -words are ignore
//! list Query                    source lines
//! dot Query >query.dot          any picture or list that an option prints, into a file
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use procprof_jeprof::{
    ELSEWHERE, Environment, Granularity, Loaded, MODES, Output, Request, Settings, View, print_view,
};
use regex::Regex;

use super::print;
use crate::shell::{Lines, Sink, Words};

/// Default number of rows.
const ROWS: usize = 10;

const HELP: &str = "\
Commands:
  top[N] [--cum] [--lines] [focus]* [-ignore]*   The N (10) functions that use the most; text is the same
  list REGEXP [focus]* [-ignore]*                Source lines of the functions that match
  disasm REGEXP [focus]* [-ignore]*              Their machine code
  callgrind [FILE]                               Calls in callgrind's format
  dot, collapsed, svg, pdf [focus]* [-ignore]*   What the option of that name prints
  help, quit or ^D

Focus keeps stacks with a function that matches any of the words, ignore leaves out those with one. What a command
prints goes into a file with `>FILE` at the end of the line, to another program with `| COMMAND`.
";

/// Reads and answers lines until the end.
pub(super) fn run(
    request: &Request,
    loaded: &Loaded,
    settings: &Settings,
    environment: &Environment,
) -> Result<ExitCode> {
    eprintln!("Welcome to jeprof!  For help, type 'help'.");
    let session = Session { request, loaded, settings, environment };
    let mut lines = Lines::new("jeprof", session.words())?;
    while let Some(line) = lines.next()? {
        match session.answer(&line) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => eprintln!("{error:#}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

struct Session<'a> {
    request: &'a Request,
    loaded: &'a Loaded,
    settings: &'a Settings,
    environment: &'a Environment,
}

/// The arguments of a command.
struct Arguments {
    focus: Vec<String>,
    ignore: Vec<String>,
    cumulative: bool,
    lines: bool,
}

impl Arguments {
    fn read<'w>(words: impl Iterator<Item = &'w str>) -> Arguments {
        let mut arguments = Arguments { focus: Vec::new(), ignore: Vec::new(), cumulative: false, lines: false };
        for word in words {
            match word {
                "-lines" | "--lines" => arguments.lines = true,
                "-cum" | "--cum" => arguments.cumulative = true,
                _ => match word.strip_prefix('-').filter(|word| !word.is_empty()) {
                    Some(word) => arguments.ignore.push(word.to_owned()),
                    None => arguments.focus.push(word.to_owned()),
                },
            }
        }
        arguments
    }
}

impl Session<'_> {
    fn words(&self) -> Words {
        let names = self.loaded.symbols.by_address(&self.loaded.pcs);
        let mut functions: Vec<String> = names.into_values().flatten().map(str::to_owned).collect();
        functions.sort();
        functions.dedup();
        let commands = MODES.iter().map(|(name, _)| *name).chain(["top", "list", "disasm", "help", "quit"]);
        Words { commands: commands.map(str::to_owned).collect(), functions }
    }

    /// Executes the line; `false` is the end of the session.
    fn answer(&self, line: &str) -> Result<bool> {
        let (line, sink) = Sink::split(line.trim()).map_err(|error| anyhow!(error))?;
        let mut words = line.split_whitespace();
        let Some(command) = words.next() else { return Ok(true) };
        let name = command.trim_end_matches(|c: char| c.is_ascii_digit());
        match name {
            "quit" | "exit" | "q" => return Ok(false),
            "help" => print(HELP)?,
            "top" | "text" => {
                let limit = command[name.len()..].parse().unwrap_or(ROWS);
                sink.put(self.top(limit, &Arguments::read(words))?.as_bytes())?;
            }
            "list" | "disasm" | "weblist" => {
                let symbol = words.next().with_context(|| format!("{name} needs a regular expression of functions"))?;
                sink.put(&self.source(name, symbol, &Arguments::read(words))?)?;
            }
            "callgrind" => {
                let sink = match words.next() {
                    Some(file) => Sink::File(file.to_owned()),
                    None => sink,
                };
                self.picture(Output::Callgrind, &Arguments::read(words), &sink)?;
            }
            other => {
                match (MODES.iter().find(|(name, _)| *name == other), ELSEWHERE.iter().find(|(name, _)| *name == other))
                {
                    (Some((_, output)), _) => self.picture(*output, &Arguments::read(words), &sink)?,
                    (None, Some((_, instead))) => bail!("{other} is not done here; {instead}"),
                    (None, None) => bail!("Unknown command: try 'help'."),
                }
            }
        }
        Ok(true)
    }

    /// The settings of the command line, as the words behind a command change them; words for focus take the place of
    /// `--focus`.
    fn settings(&self, arguments: &Arguments) -> Result<Settings> {
        let mut settings = Settings { cumulative: arguments.cumulative, ..self.settings.clone() };
        if arguments.lines {
            settings.granularity = Granularity::Lines;
        }
        if !arguments.focus.is_empty() {
            settings.focus = Some(pattern(&arguments.focus)?);
        }
        if !arguments.ignore.is_empty() {
            let given = settings.ignore.iter().map(|ignore| ignore.as_str().to_owned());
            settings.ignore = Some(pattern(&given.chain(arguments.ignore.iter().cloned()).collect::<Vec<_>>())?);
        }
        Ok(settings)
    }

    fn view<'s>(&'s self, settings: &'s Settings) -> View<'s> {
        let loaded = self.loaded;
        View::new(&loaded.stacks, &loaded.pcs, &loaded.symbols, loaded.kind, settings)
    }

    fn top(&self, limit: usize, arguments: &Arguments) -> Result<String> {
        let settings = self.settings(arguments)?;
        let view = self.view(&settings);
        let mut text = format!("Total: {}\n", view.total_text());
        if !arguments.focus.is_empty() {
            let focused = Settings { ignore: self.settings.ignore.clone(), ..settings.clone() };
            text.push_str(&format!(
                "After focusing on '{}': {}\n",
                arguments.focus.join("|"),
                self.view(&focused).left_text()
            ));
        }
        if !arguments.ignore.is_empty() {
            eprintln!("Ignoring samples in call stacks that match '{}'", arguments.ignore.join("|"));
            text.push_str(&format!("After ignoring '{}': {}\n", arguments.ignore.join("|"), view.left_text()));
        }
        text.push_str(&view.rows_text(limit));
        Ok(text)
    }

    fn picture(&self, output: Output, arguments: &Arguments, sink: &Sink) -> Result<()> {
        let settings = self.settings(arguments)?;
        match print_view(output, &self.view(&settings), self.loaded, self.environment)? {
            Some(bytes) => sink.put(&bytes),
            None => bail!("No nodes to print"),
        }
    }

    /// Source lines or machine code, in pprof's shape.
    fn source(&self, kind: &str, symbol: &str, arguments: &Arguments) -> Result<Vec<u8>> {
        let mut pairs = vec![("symbol", symbol.to_owned())];
        pairs.extend((!arguments.focus.is_empty()).then(|| ("focus", arguments.focus.join("|"))));
        pairs.extend((!arguments.ignore.is_empty()).then(|| ("ignore", arguments.ignore.join("|"))));
        source(kind, pairs, self.request, self.loaded)
    }
}

/// Any of the words, each as written.
fn pattern(words: &[String]) -> Result<Regex> {
    let joined = words.join("|");
    Regex::new(&joined).with_context(|| joined.clone())
}

/// `list`, `disasm` or `weblist` of the profiles' files, as `procprof report` shows them.
pub(super) fn source(
    kind: &str,
    mut pairs: Vec<(&'static str, String)>,
    request: &Request,
    loaded: &Loaded,
) -> Result<Vec<u8>> {
    pairs.push(("sample_index", request.sample_index().to_owned()));
    pairs.retain(|(_, value)| !value.is_empty());
    let program = loaded.files.program.clone().map(PathBuf::from);
    let base = request.base.clone().map(PathBuf::from);
    crate::report::of_files(
        kind,
        &pairs,
        program.as_deref(),
        loaded.files.profiles.iter().map(PathBuf::from).collect(),
        base,
    )
}
