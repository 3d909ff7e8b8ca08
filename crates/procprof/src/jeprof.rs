//! `procprof jeprof`, and the command by the name `jeprof`: reads and prints as jeprof does.

mod grammar;
mod names;
mod request;
mod usage;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use procprof_report::jeprof::{self, Kind, Negative, Pcs, Reading, Settings, Stacks, Symbols, View, libraries};

use self::names::Places;
use self::request::{Output, Refusal, Request, Threads};

/// Largest profile that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 30;

/// The words for jeprof, if the command was called by that name or with that word first.
pub(crate) fn arguments(mut words: impl Iterator<Item = OsString>) -> Option<Vec<OsString>> {
    let command = words.next()?;
    if Path::new(&command).file_name().is_some_and(|name| name == "jeprof") {
        return Some(words.collect());
    }
    words.next().filter(|first| first == "jeprof").map(|_| words.collect())
}

/// Runs jeprof's grammar to the end.
pub(crate) fn run(words: Vec<OsString>) -> ExitCode {
    let words = words.into_iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match answer(words) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("jeprof: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn answer(words: Vec<String>) -> Result<ExitCode> {
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
    match request::meant(typed) {
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

/// The files a report is made of.
struct Files {
    /// As typed; `None` if the profile brings its names along.
    program: Option<String>,
    profiles: Vec<String>,
}

/// Program and profiles, or what is wrong with the words.
fn files(request: &Request) -> Result<std::result::Result<Files, &'static str>> {
    let mut words = request.words.iter().cloned();
    let Some(first) = words.next() else { return Ok(Err("Did not specify program")) };
    let bytes = head(&first)?;
    if jeprof::symbolized_header(&bytes) {
        if request.settings.granularity == jeprof::Granularity::Lines {
            return Ok(Err("--lines cannot be used without a binary"));
        }
        return Ok(Ok(Files { program: None, profiles: request.words.clone() }));
    }
    let profiles: Vec<String> = words.collect();
    if profiles.is_empty() {
        return Ok(Err("Did not specify profile file"));
    }
    Ok(Ok(Files { program: Some(first), profiles }))
}

/// The first bytes of a file.
fn head(path: &str) -> Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    open(path)?.take(64 << 10).read_to_end(&mut bytes).with_context(|| format!("read {path}"))?;
    Ok(bytes)
}

fn open(path: &str) -> Result<std::fs::File> {
    let file = Path::new(path);
    if !file.is_file() {
        bail!("{path}: no such file; fetch profiles of a running process first, for example by `curl -o h.heap http://{path}/pprof/heap`");
    }
    eprintln!("Using local file {path}.");
    std::fs::File::open(file).with_context(|| format!("open {path}"))
}

/// Everything read, before anything is named.
struct Read {
    first: Reading,
    stacks: Stacks,
    pcs: Pcs,
}

fn read_all(request: &Request, files: &Files) -> Result<Read> {
    let mut pcs = Pcs::default();
    let mut read = |path: &str| -> Result<Reading> {
        let size = std::fs::metadata(path).with_context(|| path.to_owned())?.len();
        if size > FILE_BYTES_MAX {
            bail!("{path}: {size} bytes, at most {FILE_BYTES_MAX} are read");
        }
        let bytes = std::fs::read(path).with_context(|| path.to_owned())?;
        let reading = jeprof::read(&bytes, &request.settings, &mut pcs).with_context(|| path.to_owned())?;
        reading.messages.iter().for_each(|message| eprintln!("{message}"));
        if reading.names.is_some() && files.program.is_some() {
            bail!("{path}: a symbolized profile cannot be used with a program; try again without it");
        }
        Ok(reading)
    };
    let (first_path, others) = files.profiles.split_first().context("no profile was named")?;
    for path in files.profiles.iter().rev() {
        open(path)?;
    }
    let mut first = read(first_path)?;
    let mut stacks = first.stacks.clone();
    for path in others.iter().rev() {
        let other = read(path)?;
        first.kind = other.kind;
        stacks.add_all(&other.stacks);
        join_names(&mut first, other);
    }
    if let Some(path) = &request.base {
        let base = read(path)?;
        first.kind = base.kind;
        let negative = if request.drop_negative { Negative::Drop } else { Negative::Keep };
        stacks = stacks.without(&base.stacks, negative);
        join_names(&mut first, base);
    }
    Ok(Read { first, stacks, pcs })
}

fn join_names(first: &mut Reading, other: Reading) {
    match (&mut first.names, other.names) {
        (Some(names), Some(others)) => names.add(others),
        (none @ None, others) => *none = others,
        (Some(_), None) => {}
    }
}

fn report(mut request: Request) -> Result<ExitCode> {
    let files = match files(&request)? {
        Ok(files) => files,
        Err(message) => return Ok(misused(message)),
    };
    if request.output == Output::Raw {
        bail!("--raw/http: jeprof can only dump remote profiles for --raw");
    }
    let read = read_all(&request, &files)?;
    let binary = read.first.names.as_ref().and_then(|names| names.binary.clone());
    request.settings.program = files.program.clone().or(binary).unwrap_or_else(|| "(unknown)".into());
    let symbols = match (&read.first.names, &files.program) {
        (Some(names), None) => {
            let named = read.pcs.addresses().iter().map(|address| (*address, names.symbols(*address)));
            Symbols::new(&read.pcs, named.collect())
        }
        (_, program) => {
            let program = absolute(program.as_deref().unwrap_or_default())?;
            let libraries = libraries::parse(&read.first.map, &program.to_string_lossy());
            let places = Places { program: &program, add_lib: request.add_lib.as_deref(), prefixes: &request.prefixes };
            Symbols::new(&read.pcs, names::of_addresses(&libraries, &places, read.pcs.addresses()))
        }
    };
    let Some(threads) = request.threads else {
        return print_report(request.output, &read.stacks, &read.pcs, &symbols, read.first.kind, &request.settings);
    };
    for (thread, stacks) in read.first.threads.iter().flatten() {
        if threads == Threads::All || threads == Threads::One(*thread) {
            let settings = Settings { thread: Some(*thread), ..request.settings.clone() };
            let code = print_report(request.output, stacks, &read.pcs, &symbols, read.first.kind, &settings)?;
            if code != ExitCode::SUCCESS {
                return Ok(code);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print_report(output: Output, stacks: &Stacks, pcs: &Pcs, symbols: &Symbols, kind: Kind, settings: &Settings) -> Result<ExitCode> {
    let view = View::new(stacks, pcs, symbols, kind, settings);
    view.messages().iter().for_each(|message| eprintln!("{message}"));
    match output {
        Output::Text => print(&view.text())?,
        Output::Collapsed => print(&view.collapsed())?,
        Output::Callgrind => print(&view.callgrind())?,
        Output::Dot => {
            let Some(graph) = view.dot() else {
                eprintln!("No nodes to print");
                return Ok(ExitCode::FAILURE);
            };
            graph.message.iter().for_each(|message| eprintln!("{message}"));
            print(&graph.dot)?;
        }
        Output::Raw | Output::Symbols => bail!("--raw and --symbols are no reports"),
    }
    Ok(ExitCode::SUCCESS)
}

/// `--symbols PROGRAM`: a memory map and addresses on standard input, a short name a line.
fn symbols(request: &Request) -> Result<ExitCode> {
    let Some(program) = request.words.first() else { return Ok(misused("Did not specify program")) };
    let program = absolute(program)?;
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
    let places = Places { program: &program, add_lib: request.add_lib.as_deref(), prefixes: &request.prefixes };
    let named: std::collections::BTreeMap<u64, Vec<jeprof::Symbol>> = names::of_addresses(&libraries, &places, &addresses);
    let name = |address: &u64| named.get(address).and_then(|symbols| symbols.first()).map_or("??", |symbol| &symbol.short);
    let lines: String = addresses.iter().flat_map(|address| [name(address), "\n"]).collect();
    print(&lines).map(|()| ExitCode::SUCCESS)
}

fn absolute(path: &str) -> Result<PathBuf> {
    Path::new(path).canonicalize().with_context(|| format!("open {path}"))
}

/// Writes to standard output; a reader that has enough is no error.
fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write to standard output"),
    }
}
