//! `procprof jeprof`, and the command by the name `jeprof`: the grammar of `procprof-jeprof` with network, keyboard and
//! standard output.

pub(crate) mod child;
mod load;
mod remote;
mod shell;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use procprof_jeprof::{
    Environment, Loaded, Output, Refusal, Request, Settings, Stacks, Threads, Typed, USAGE, View, print_code,
    print_symbols, print_view,
};
use procprof_symbolize::IndexFolder;

use crate::allocator;
use crate::output::print;

/// The words for jeprof, if the command was called by that name or with that word first.
pub(crate) fn arguments(mut words: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let command = words.next()?;
    if Path::new(&command).file_name().is_some_and(|name| name == "jeprof") {
        return Some(words.collect());
    }
    words.next().filter(|first| first == "jeprof").map(|_| words.collect())
}

/// Runs jeprof's grammar to the end; `cache` keeps what is read of binaries.
pub(crate) fn run(words: Vec<OsString>, cache: Option<IndexFolder>) -> ExitCode {
    let words = words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let log = |line: &str| eprintln!("{line}");
    let environment = Environment { cache, log, expect_input: allocator::expect_input };
    let code = answer(words, &environment).unwrap_or_else(|error| {
        eprintln!("jeprof: {error:#}");
        ExitCode::FAILURE
    });
    // It is written behind the report.
    environment.cache.iter().for_each(IndexFolder::wait);
    code
}

fn answer(words: Vec<String>, environment: &Environment) -> Result<ExitCode> {
    let typed = match Typed::parse(words) {
        Ok(typed) => typed,
        Err(wrong) => {
            wrong.iter().for_each(|line| eprintln!("{line}"));
            return Ok(misused("Invalid option(s)"));
        }
    };
    if typed.is_on("help") {
        return print(USAGE).map(|()| ExitCode::SUCCESS);
    }
    if typed.is_on("version") {
        return print(format!("procprof {}, reading and printing as jeprof 5.3.0 does\n", env!("CARGO_PKG_VERSION")))
            .map(|()| ExitCode::SUCCESS);
    }
    if let Some(tools) = typed.value("tools") {
        eprintln!("jeprof: --tools={tools} is not needed: no other tool is run");
    }
    let otherwise = if std::io::stdout().is_terminal() { Output::Interactive } else { Output::Text };
    match Request::from_typed(typed, otherwise) {
        Ok(request) if request.output == Output::Symbols => symbols(&request, environment),
        Ok(request) => report(&request, environment),
        Err(Refusal::Usage(message)) => Ok(misused(&message)),
        Err(Refusal::Unsupported(message)) => bail!(message),
    }
}

/// Shows the usage, and the mistake twice, as jeprof does.
fn misused(message: &str) -> ExitCode {
    eprint!("{message}\n\n{}\nFATAL ERROR: {message}\n", USAGE);
    ExitCode::FAILURE
}

fn report(request: &Request, environment: &Environment) -> Result<ExitCode> {
    let loaded = match load::load(request, environment)? {
        Ok(loaded) => loaded,
        Err(message) => return Ok(misused(message)),
    };
    let code = print_loaded(request, &loaded, environment)?;
    for path in &loaded.files.fetched {
        let program = loaded.files.program.iter().map(|program| format!(" {program}")).collect::<String>();
        eprintln!("The profile is in {path}; to see it again: jeprof{program} {path}");
    }
    Ok(code)
}

fn print_loaded(request: &Request, loaded: &Loaded, environment: &Environment) -> Result<ExitCode> {
    let settings = Settings { program: loaded.program.clone(), ..request.settings.clone() };
    match request.output {
        Output::Interactive => return shell::run(request, loaded, &settings, environment),
        Output::List | Output::Disassembly if let Some(program) = &loaded.files.program => {
            let text = print_code(program, request, loaded, &settings, environment)?;
            return print(&text).map(|()| ExitCode::SUCCESS);
        }
        Output::List | Output::Disassembly => {
            let kind = if request.output == Output::List { "list" } else { "disasm" };
            let pairs = vec![("symbol", request.symbol.clone().unwrap_or_default())];
            return print(&shell::source(kind, pairs, request, loaded)?).map(|()| ExitCode::SUCCESS);
        }
        _ => {}
    }
    let Some(threads) = request.threads else {
        return print_report(request.output, loaded, &loaded.stacks, &settings, environment);
    };
    for (thread, stacks) in &loaded.threads {
        if threads == Threads::All || threads == Threads::One(*thread) {
            let settings = Settings { thread: Some(*thread), ..settings.clone() };
            let code = print_report(request.output, loaded, stacks, &settings, environment)?;
            if code != ExitCode::SUCCESS {
                return Ok(code);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_report(
    output: Output,
    loaded: &Loaded,
    stacks: &Stacks,
    settings: &Settings,
    environment: &Environment,
) -> Result<ExitCode> {
    let view = View::new(stacks, &loaded.pcs, &loaded.symbols, loaded.kind, settings);
    view.messages().iter().for_each(|message| eprintln!("{message}"));
    match print_view(output, &view, loaded, environment)? {
        Some(bytes) => print(&bytes).map(|()| ExitCode::SUCCESS),
        None => {
            eprintln!("No nodes to print");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// `--symbols PROGRAM`: a memory map and addresses on standard input, a short name a line.
fn symbols(request: &Request, environment: &Environment) -> Result<ExitCode> {
    let Some(program) = request.words.first() else { return Ok(misused("Did not specify program")) };
    print(&print_symbols(program, &mut std::io::stdin(), request, environment)?).map(|()| ExitCode::SUCCESS)
}
