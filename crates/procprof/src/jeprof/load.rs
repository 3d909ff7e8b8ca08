//! Everything read, added up and named, before anything is printed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use procprof_report::jeprof::{self, HeapDump, Kind, Negative, Pcs, PieceReader, Reading, Settings, Stacks, Symbols, libraries};
use regex::Regex;

use super::names::{self, Places};
use super::remote::{self, Address, SymbolPage};
use super::request::Request;
use crate::allocator;
use crate::fetch::Fetcher;
use crate::pieces::Pieces;

/// Largest profile that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// As much of a file as tells what it is, in bytes.
const HEAD_BYTES: u64 = 64 << 10;

/// What reports are made of.
pub(super) struct Loaded {
    /// The program's name, for headings.
    pub(super) program: String,
    pub(super) kind: Kind,
    pub(super) stacks: Stacks,
    /// The stacks of each thread of the first profile.
    pub(super) threads: Vec<(u64, Stacks)>,
    pub(super) pcs: Pcs,
    pub(super) symbols: Symbols,
    /// The memory map of the first profile.
    pub(super) map: String,
    /// Program, if one was named, and profiles as files.
    pub(super) files: Files,
    /// Profiles that were fetched just now.
    pub(super) fetched: Vec<String>,
}

/// The files a report is made of.
pub(super) struct Files {
    /// As typed; `None` if names come with the profile or from the process.
    pub(super) program: Option<String>,
    pub(super) profiles: Vec<String>,
}

/// Loads what was asked for, or says what is wrong with the words.
pub(super) fn load(request: &Request) -> Result<std::result::Result<Loaded, &'static str>> {
    let words = remote::expanded(&request.words)?;
    let Some(first) = words.first() else { return Ok(Err("Did not specify program")) };
    let by_process = if Path::new(first).is_file() { None } else { Address::parse(first) };
    let is_lines = request.settings.granularity == jeprof::Granularity::Lines;
    let brings_names = by_process.is_none() && jeprof::symbolized_header(&head(first)?);
    if (by_process.is_some() || brings_names) && is_lines {
        return Ok(Err("--lines cannot be used without a binary"));
    }
    let (program, profiles) =
        if by_process.is_some() || brings_names { (None, words) } else { (Some(words[0].clone()), words[1..].to_vec()) };
    if profiles.is_empty() {
        return Ok(Err("Did not specify profile file"));
    }
    if by_process.is_some() {
        return from_processes(request, &profiles).map(Ok);
    }
    let (profiles, fetched) = gathered(request, profiles, program.as_deref())?;
    let files = Files { program, profiles };
    let read = read_all(request, &files)?;
    let binary = read.first.names.as_ref().and_then(|names| names.binary.clone());
    let name = files.program.clone().or(binary).unwrap_or_else(|| "(unknown)".into());
    let symbols = match (&read.first.names, &files.program) {
        (Some(names), None) => named(names, &read.pcs),
        (_, program) => from_files(request, program.as_deref().unwrap_or_default(), &read)?,
    };
    Ok(Ok(read.loaded(name, symbols, files, fetched)))
}

/// Profiles that are files or get to be: those of processes are fetched and saved.
fn gathered(request: &Request, words: Vec<String>, program: Option<&str>) -> Result<(Vec<String>, Vec<String>)> {
    let addresses: Vec<Option<Address>> =
        words.iter().map(|word| if Path::new(word).is_file() { None } else { Address::parse(word) }).collect();
    if addresses.iter().all(Option::is_none) {
        return Ok((words, Vec::new()));
    }
    let asked: Vec<Address> =
        words.iter().zip(&addresses).filter(|(_, address)| address.is_some()).filter_map(|(word, _)| Address::parse(word)).collect();
    let fetched = remote::gather(&Fetcher::new()?, &asked, program.unwrap_or("(unknown)"), request.seconds)?;
    let mut saved = fetched.iter();
    let place = |(word, address): (String, Option<Address>)| match address {
        Some(_) => saved.next().cloned().unwrap_or(word),
        None => word,
    };
    Ok((words.into_iter().zip(addresses).map(place).collect(), fetched))
}

/// Profiles of processes that name their addresses themselves: the last one does for all.
fn from_processes(request: &Request, profiles: &[String]) -> Result<Loaded> {
    let fetcher = Fetcher::new()?;
    let last = profiles.last().filter(|last| !Path::new(last).is_file()).and_then(|last| Address::parse(last));
    let last = last.context("the last profile must be one of a process, which is asked for names")?;
    let page = SymbolPage::open(&fetcher, &last)?;
    let (profiles, fetched) = gathered(request, profiles.to_vec(), Some(&page.program))?;
    let files = Files { program: None, profiles };
    let read = read_all(request, &files)?;
    let filter = |key, pattern: &'_ Option<Regex>| pattern.clone().map(|pattern| (key, pattern));
    let filters = [filter("retain", &request.settings.retain), filter("exclude", &request.settings.exclude)];
    let filters: Vec<(&str, &Regex)> = filters.iter().flatten().map(|(key, pattern)| (*key, pattern)).collect();
    let names = page.names(&fetcher, read.pcs.addresses(), &filters)?;
    let symbols = named(&names, &read.pcs);
    Ok(read.loaded(page.program, symbols, files, fetched))
}

fn named(names: &jeprof::Names, pcs: &Pcs) -> Symbols {
    Symbols::new(pcs, pcs.addresses().iter().map(|address| (*address, names.symbols(*address))).collect())
}

fn from_files(request: &Request, program: &str, read: &Read) -> Result<Symbols> {
    let program = absolute(program)?;
    let libraries = libraries::parse(&read.first.map, &program.to_string_lossy());
    gone(&read.first.map, read.pcs.addresses()).iter().for_each(|line| eprintln!("jeprof: {line}"));
    let places = Places {
        program: &program,
        add_lib: request.add_lib.as_deref(),
        prefixes: &request.prefixes,
        copies: request.copies,
        detail: request.detail(),
        cache: request.cache.as_ref(),
    };
    Ok(Symbols::new(&read.pcs, names::of_addresses(&libraries, &places, read.pcs.addresses())))
}

/// What is to be said of addresses in files that were removed or replaced while they were mapped.
fn gone(map: &str, addresses: &[u64]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for library in libraries::deleted(map) {
        let inside = addresses.iter().filter(|address| (library.start..=library.finish).contains(*address)).count();
        *counts.entry(library.path).or_default() += inside;
    }
    let told = counts.into_iter().filter(|(_, count)| *count > 0);
    let line = |(path, count): (String, usize)| {
        format!(
            "{count} addresses have no name: {path} was removed or replaced while it ran, and the profile does not say what is \
             that file now; `procprof report FILE PROFILE` takes the one that ran, wherever it is"
        )
    };
    told.map(line).collect()
}

/// The path of a program, without links.
pub(super) fn absolute(path: &str) -> Result<PathBuf> {
    Path::new(path).canonicalize().with_context(|| format!("open {path}"))
}

/// The first bytes of a file.
fn head(path: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(HEAD_BYTES).read_to_end(&mut bytes).with_context(|| format!("read {path}"))?;
    Ok(bytes)
}

fn open(path: &str) -> Result<File> {
    let file = Path::new(path);
    if !file.is_file() {
        bail!("{path}: no such file, and no address of a process such as host:port or http://host:port/pprof/heap");
    }
    eprintln!("Using local file {path}.");
    File::open(file).with_context(|| format!("open {path}"))
}

/// Everything read, before anything is named.
struct Read {
    first: Reading,
    stacks: Stacks,
    pcs: Pcs,
}

impl Read {
    fn loaded(self, program: String, symbols: Symbols, files: Files, fetched: Vec<String>) -> Loaded {
        let Read { first, stacks, pcs } = self;
        let threads = first.threads.into_iter().flatten().collect();
        Loaded { program, kind: first.kind, stacks, threads, pcs, symbols, map: first.map, files, fetched }
    }
}

fn read_all(request: &Request, files: &Files) -> Result<Read> {
    let mut pcs = Pcs::default();
    let settings = Settings { by_thread: false, ..request.settings.clone() };
    let first_settings = Settings { by_thread: request.threads.is_some(), ..settings.clone() };
    let mut read = |path: &str, settings: &Settings| read_one(path, settings, files, &mut pcs);
    let (first_path, others) = files.profiles.split_first().context("no profile was named")?;
    for path in files.profiles.iter().rev() {
        open(path)?;
    }
    let mut first = read(first_path, &first_settings)?;
    let mut stacks = std::mem::take(&mut first.stacks);
    for path in others.iter().rev() {
        let other = read(path, &settings)?;
        first.kind = other.kind;
        stacks.add_all(&other.stacks);
        join_names(&mut first, other);
    }
    if let Some(path) = &request.base {
        let base = read(path, &settings)?;
        first.kind = base.kind;
        let negative = if request.drop_negative { Negative::Drop } else { Negative::Keep };
        stacks = stacks.without(&base.stacks, negative);
        join_names(&mut first, base);
    }
    Ok(Read { first, stacks, pcs })
}

fn read_one(path: &str, settings: &Settings, files: &Files, pcs: &mut Pcs) -> Result<Reading> {
    let mut file = File::open(path).with_context(|| path.to_owned())?;
    let size = file.metadata().with_context(|| path.to_owned())?.len();
    if size > FILE_BYTES_MAX {
        bail!("{path}: {size} bytes, at most {FILE_BYTES_MAX} are read");
    }
    allocator::expect_input(size);
    let mut bytes = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes).with_context(|| path.to_owned())?;
    if bytes.starts_with(b"\x1f\x8b") {
        bail!("{path}: packed by gzip, so not a profile of gperftools or jemalloc; `procprof report` reads pprof's");
    }
    let reading = match HeapDump::open(&bytes, settings).with_context(|| path.to_owned())? {
        Some(dump) if size > HEAD_BYTES => in_pieces(dump, &file, size, pcs).with_context(|| path.to_owned())?,
        _ => {
            file.read_to_end(&mut bytes).with_context(|| path.to_owned())?;
            jeprof::read(&bytes, settings, pcs).with_context(|| path.to_owned())?
        }
    };
    reading.messages.iter().for_each(|message| eprintln!("{message}"));
    if reading.names.is_some() && files.program.is_some() {
        bail!("{path}: a symbolized profile cannot be used with a program; try again without it");
    }
    Ok(reading)
}

/// Reads a dump of jemalloc, which can be large, on all cores.
fn in_pieces(mut dump: HeapDump, file: &File, size: u64, pcs: &mut Pcs) -> std::io::Result<Reading> {
    let pieces = Pieces::of(file, size, HeapDump::border);
    let readers = (0..pieces.threads()).map(|_| dump.reader()).collect();
    let mut map = None;
    pieces.read(readers, PieceReader::read, |piece, place| {
        if place.start == 0 {
            // One part in eight more, because the first piece is not quite like the others.
            let parts = size / place.end.max(1);
            dump.reserve(&piece, (parts + parts / 8) as usize);
        }
        dump.add(&piece, pcs);
        map = piece.map.map(|map| place.start + map as u64);
        if map.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let map = map.map(|map| pieces.rest(map)).transpose()?;
    Ok(dump.finish(&map.unwrap_or_default()))
}

fn join_names(first: &mut Reading, other: Reading) {
    match (&mut first.names, other.names) {
        (Some(names), Some(others)) => names.add(others),
        (none @ None, others) => *none = others,
        (Some(_), None) => {}
    }
}
