//! `procprof jeprof`, and the command by the name `jeprof`: reads and prints as jeprof does.

pub(crate) mod child;
mod grammar;
mod listing;
mod load;
mod names;
mod raw;
mod remote;
mod request;
mod shell;
mod usage;

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use procprof_report::jeprof::{self, Settings, Stacks, View, libraries};
use procprof_symbolize::IndexFolder;

#[cfg(test)]
pub(crate) use self::request::ELSEWHERE;
#[cfg(test)]
pub(crate) use self::usage::USAGE;

use self::listing::Listed;
use self::load::Loaded;
use self::names::Places;
use self::request::{Output, Refusal, Request, Threads};

/// The words for jeprof, if the command was called by that name or with that word first.
pub(crate) fn arguments(mut words: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let command = words.next()?;
    if Path::new(&command).file_name().is_some_and(|name| name == "jeprof") {
        return Some(words.collect());
    }
    words.next().filter(|first| first == "jeprof").map(|_| words.collect())
}

/// Runs jeprof's grammar to the end; what is read of binaries is kept in `cache`.
pub(crate) fn run(words: Vec<OsString>, cache: Option<IndexFolder>) -> ExitCode {
    let words = words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let code = answer(words, cache.clone()).unwrap_or_else(|error| {
        eprintln!("jeprof: {error:#}");
        ExitCode::FAILURE
    });
    // It is written behind the report.
    cache.iter().for_each(IndexFolder::wait);
    code
}

fn answer(words: Vec<String>, cache: Option<IndexFolder>) -> Result<ExitCode> {
    let typed = match grammar::parse(words) {
        Ok(typed) => typed,
        Err(wrong) => {
            wrong.iter().for_each(|line| eprintln!("{line}"));
            return Ok(misused("Invalid option(s)"));
        }
    };
    if typed.is_on("help") {
        return print(usage::USAGE).map(|()| ExitCode::SUCCESS);
    }
    if typed.is_on("version") {
        return print(&format!("procprof {}, reading and printing as jeprof 5.3.0 does\n", env!("CARGO_PKG_VERSION")))
            .map(|()| ExitCode::SUCCESS);
    }
    if let Some(tools) = typed.value("tools") {
        eprintln!("jeprof: --tools={tools} is not needed: no other tool is run");
    }
    match request::meant(typed).map(|request| Request { cache, ..request }) {
        Ok(request) if request.output == Output::Symbols => symbols(&request),
        Ok(request) => report(request),
        Err(Refusal::Usage(message)) => Ok(misused(&message)),
        Err(Refusal::NotHere(message)) => bail!(message),
    }
}

/// Shows the usage, and says twice what is wrong, as jeprof does.
fn misused(message: &str) -> ExitCode {
    eprint!("{message}\n\n{}\nFATAL ERROR: {message}\n", usage::USAGE);
    ExitCode::FAILURE
}

fn report(request: Request) -> Result<ExitCode> {
    let loaded = match load::load(&request)? {
        Ok(loaded) => loaded,
        Err(message) => return Ok(misused(message)),
    };
    let code = print_loaded(&request, &loaded)?;
    for path in &loaded.fetched {
        let program = loaded.files.program.iter().map(|program| format!(" {program}")).collect::<String>();
        eprintln!("The profile is in {path}; to see it again: jeprof{program} {path}");
    }
    Ok(code)
}

fn print_loaded(request: &Request, loaded: &Loaded) -> Result<ExitCode> {
    let settings = Settings { program: loaded.program.clone(), ..request.settings.clone() };
    match request.output {
        Output::Interactive => return shell::run(request, loaded, &settings),
        Output::Source(kind) if let Some(program) = &loaded.files.program => {
            let listed = if kind == "disasm" { Listed::Code } else { Listed::Sources };
            return print(&listing::text(listed, program, request, loaded, &settings)?).map(|()| ExitCode::SUCCESS);
        }
        Output::Source(kind) => {
            let pairs = vec![("symbol", request.symbol.clone().unwrap_or_default())];
            return print_bytes(&shell::source(kind, pairs, request, loaded)?).map(|()| ExitCode::SUCCESS);
        }
        _ => {}
    }
    let Some(threads) = request.threads else {
        return print_report(request.output, loaded, &loaded.stacks, &settings);
    };
    for (thread, stacks) in &loaded.threads {
        if threads == Threads::All || threads == Threads::One(*thread) {
            let settings = Settings { thread: Some(*thread), ..settings.clone() };
            let code = print_report(request.output, loaded, stacks, &settings)?;
            if code != ExitCode::SUCCESS {
                return Ok(code);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_report(output: Output, loaded: &Loaded, stacks: &Stacks, settings: &Settings) -> Result<ExitCode> {
    let view = View::new(stacks, &loaded.pcs, &loaded.symbols, loaded.kind, settings);
    view.messages().iter().for_each(|message| eprintln!("{message}"));
    match bytes_of(output, &view, loaded)? {
        Some(bytes) => print_bytes(&bytes).map(|()| ExitCode::SUCCESS),
        None => {
            eprintln!("No nodes to print");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// What the option prints; `None` if nothing is left of a graph.
fn bytes_of(output: Output, view: &View<'_>, loaded: &Loaded) -> Result<Option<Vec<u8>>> {
    Ok(match output {
        Output::Text => Some(view.text().into_bytes()),
        Output::Collapsed => Some(view.collapsed().into_bytes()),
        Output::Callgrind => Some(view.callgrind().into_bytes()),
        Output::Raw => Some(raw::document(loaded)?),
        Output::Dot => view.dot().map(|graph| {
            graph.message.iter().for_each(|message| eprintln!("{message}"));
            graph.dot.into_bytes()
        }),
        Output::Svg => view.svg()?.map(drawn),
        Output::Pdf => view.pdf()?.map(drawn),
        Output::Symbols | Output::Source(_) | Output::Interactive => bail!("this option stands for no report of one profile"),
    })
}

/// The file of a drawn graph, once it is told what it lacks.
fn drawn(graph: jeprof::Drawn) -> Vec<u8> {
    graph.message.iter().for_each(|message| eprintln!("{message}"));
    graph.bytes
}

/// `--symbols PROGRAM`: a memory map and addresses on standard input, a short name a line.
fn symbols(request: &Request) -> Result<ExitCode> {
    let Some(program) = request.words.first() else { return Ok(misused("Did not specify program")) };
    let program = load::absolute(program)?;
    let text = std::io::read_to_string(std::io::stdin()).context("read standard input")?.replace('\r', "");
    let address = |line: &str| {
        let digits = line[line.find("0x")? + 2..].bytes().take_while(u8::is_ascii_hexdigit).count();
        let start = line.find("0x")? + 2;
        u64::from_str_radix(line.get(start..start + digits)?, 16).ok()
    };
    let (mut map, mut addresses) = (String::new(), Vec::new());
    for line in text.lines() {
        match address(line) {
            Some(address) => addresses.push(address),
            None => map.extend([line, "\n"]),
        }
    }
    let libraries = libraries::parse(&map, &program.to_string_lossy());
    let places = Places {
        program: &program,
        add_lib: request.add_lib.as_deref(),
        prefixes: &request.prefixes,
        copies: request.copies,
        detail: request.detail(),
        cache: request.cache.as_ref(),
    };
    let named: std::collections::BTreeMap<u64, Vec<jeprof::Symbol>> = names::of_addresses(&libraries, &places, &addresses);
    let name = |address: &u64| named.get(address).and_then(|symbols| symbols.first()).map_or("??", |symbol| &symbol.short);
    let lines: String = addresses.iter().flat_map(|address| [name(address), "\n"]).collect();
    print(&lines).map(|()| ExitCode::SUCCESS)
}

/// Writes to standard output; a reader that has enough is no error.
fn print(text: &str) -> Result<()> {
    print_bytes(text.as_bytes())
}

fn print_bytes(bytes: &[u8]) -> Result<()> {
    match std::io::stdout().write_all(bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write to standard output"),
    }
}
