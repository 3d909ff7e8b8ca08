//! Profiles read from files and summed, before and after their addresses are named.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::command_line::Request;
use crate::naming::{self, Binaries};
use crate::pieces::Pieces;
use crate::read::libraries;
use crate::{
    Environment, Error, HeapDump, Names, Negative, Pcs, PieceReader, ProfileKind, Reading, Result, Settings, Stacks,
    Symbols, read, symbolized_header,
};

/// Largest profile that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Bytes at the beginning of a file that identify its format.
const HEAD_BYTES: u64 = 64 << 10;

/// The input files of a report.
#[derive(Clone, Debug)]
pub struct Files {
    /// The program as typed; `None` if names come with the profile or from the process.
    pub program: Option<String>,
    /// The profiles.
    pub profiles: Vec<String>,
    /// Those of them that were fetched.
    pub fetched: Vec<String>,
}

/// The input of a report.
#[derive(Debug)]
pub struct Loaded {
    /// The program's name, for headings.
    pub program: String,
    /// The kind of the profiles.
    pub kind: ProfileKind,
    /// The sum of the profiles, minus the base.
    pub stacks: Stacks,
    /// The stacks of each thread of the first profile.
    pub threads: Vec<(u64, Stacks)>,
    /// The addresses in the stacks.
    pub pcs: Pcs,
    /// Their names.
    pub symbols: Symbols,
    /// The memory map of the first profile.
    pub map: String,
    /// The files it was read from.
    pub files: Files,
}

/// Profiles that were read and summed; their addresses have no names yet.
#[derive(Debug)]
pub struct Unnamed {
    first: Reading,
    stacks: Stacks,
    pcs: Pcs,
    files: Files,
}

impl Unnamed {
    /// Reads the profiles of `files` and the base of the request.
    ///
    /// # Errors
    /// A file that cannot be read, or is no profile.
    pub fn read(request: &Request, files: Files, environment: &Environment) -> Result<Unnamed> {
        let mut pcs = Pcs::default();
        let settings = Settings { by_thread: false, ..request.settings.clone() };
        let first_settings = Settings { by_thread: request.threads.is_some(), ..settings.clone() };
        let mut read = |path: &str, settings: &Settings| read_profile(path, settings, &files, environment, &mut pcs);
        let (first_path, others) = files.profiles.split_first().ok_or(Error::NoProfile)?;
        for path in files.profiles.iter().rev() {
            open(path, environment)?;
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
        Ok(Unnamed { first, stacks, pcs, files })
    }

    /// The addresses to be named.
    pub fn addresses(&self) -> &[u64] {
        self.pcs.addresses()
    }

    /// Names the addresses by the profiles themselves if no program was given, otherwise by the files of the memory
    /// map.
    ///
    /// # Errors
    /// A program that cannot be opened.
    pub fn named(self, request: &Request, environment: &Environment) -> Result<Loaded> {
        let binary = self.first.names.as_ref().and_then(|names| names.binary.clone());
        let program = self.files.program.clone().or(binary).unwrap_or_else(|| "(unknown)".into());
        let symbols = match (&self.first.names, &self.files.program) {
            (Some(names), None) => self.symbols(names),
            (_, program) => self.symbols_of_files(request, program.as_deref().unwrap_or_default(), environment)?,
        };
        Ok(self.loaded(program, symbols))
    }

    /// Names the addresses by these names from the process.
    pub fn named_by(self, names: &Names, program: String) -> Loaded {
        let symbols = self.symbols(names);
        self.loaded(program, symbols)
    }

    fn loaded(self, program: String, symbols: Symbols) -> Loaded {
        let Unnamed { first, stacks, pcs, files } = self;
        let threads = first.threads.into_iter().flatten().collect();
        Loaded { program, kind: first.kind, stacks, threads, pcs, symbols, map: first.map, files }
    }

    fn symbols(&self, names: &Names) -> Symbols {
        let named = self.addresses().iter().map(|address| (*address, names.symbols(*address)));
        Symbols::new(&self.pcs, named.collect())
    }

    fn symbols_of_files(&self, request: &Request, program: &str, environment: &Environment) -> Result<Symbols> {
        let program = resolve_path(program)?;
        let libraries = libraries::parse(&self.first.map, &program.to_string_lossy());
        for line in without_file(&self.first.map, self.addresses()) {
            (environment.log)(&format!("jeprof: {line}"));
        }
        let binaries = Binaries::new(&program, request, environment);
        Ok(Symbols::new(&self.pcs, naming::name_addresses(&libraries, &binaries, self.addresses())))
    }
}

/// Whether a profile contains its names, so that no program is needed.
///
/// # Errors
/// A file that cannot be read.
pub fn brings_names(path: &str, environment: &Environment) -> Result<bool> {
    let mut bytes = Vec::new();
    let read = open(path, environment)?.take(HEAD_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| Error::Read { path: path.to_owned(), error })?;
    Ok(symbolized_header(&bytes))
}

/// A line for each file that was removed or replaced while it was mapped, if it has any of the addresses.
fn without_file(map: &str, addresses: &[u64]) -> Vec<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for library in libraries::deleted(map) {
        let inside = addresses.iter().filter(|address| (library.start..=library.finish).contains(*address)).count();
        *counts.entry(library.path).or_default() += inside;
    }
    let missing = counts.into_iter().filter(|(_, count)| *count > 0);
    let line = |(path, count): (String, usize)| {
        format!(
            "{count} addresses have no name: {path} was removed or replaced while it ran, and the profile does not say what is \
             that file now; `procprof report FILE PROFILE` takes the one that ran, wherever it is"
        )
    };
    missing.map(line).collect()
}

/// The path of a program, without links; `/proc/PID/exe` stays where the file has no path here: it was replaced, or is
/// in a container.
pub(crate) fn resolve_path(path: &str) -> Result<PathBuf> {
    let file = |path: &Path| path.metadata().map(|state| (state.dev(), state.ino()));
    let own = file(Path::new(path)).map_err(|error| Error::Open { path: path.to_owned(), error })?;
    let resolved = Path::new(path).canonicalize().ok();
    let is_same = |resolved: &PathBuf| file(resolved).is_ok_and(|other| other == own);
    Ok(resolved.filter(is_same).unwrap_or_else(|| path.into()))
}

fn open(path: &str, environment: &Environment) -> Result<File> {
    if !Path::new(path).is_file() {
        return Err(Error::NoFile { path: path.to_owned() });
    }
    (environment.log)(&format!("Using local file {path}."));
    File::open(path).map_err(|error| Error::Open { path: path.to_owned(), error })
}

fn read_profile(
    path: &str,
    settings: &Settings,
    files: &Files,
    environment: &Environment,
    pcs: &mut Pcs,
) -> Result<Reading> {
    let read_error = |error| Error::Read { path: path.to_owned(), error };
    let mut file = File::open(path).map_err(|error| Error::Open { path: path.to_owned(), error })?;
    let size = file.metadata().map_err(read_error)?.len();
    if size > FILE_BYTES_MAX {
        return Err(Error::TooLarge { path: path.to_owned(), bytes: size, most: FILE_BYTES_MAX });
    }
    (environment.expect_input)(size);
    let mut bytes = Vec::new();
    file.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes).map_err(read_error)?;
    if bytes.starts_with(b"\x1f\x8b") {
        return Err(Error::Packed { path: path.to_owned() });
    }
    let profile_error = |error| Error::Profile { path: path.to_owned(), error };
    let reading = match HeapDump::open(&bytes, settings).map_err(profile_error)? {
        Some(dump) if size > HEAD_BYTES => read_in_pieces(dump, &file, size, pcs).map_err(read_error)?,
        _ => {
            file.read_to_end(&mut bytes).map_err(read_error)?;
            read(&bytes, settings, pcs).map_err(profile_error)?
        }
    };
    reading.messages.iter().for_each(|message| (environment.log)(message));
    if reading.names.is_some() && files.program.is_some() {
        return Err(Error::NamesAndProgram { path: path.to_owned() });
    }
    Ok(reading)
}

/// Reads a jemalloc dump, which can be large, on all cores.
fn read_in_pieces(mut dump: HeapDump, file: &File, size: u64, pcs: &mut Pcs) -> io::Result<Reading> {
    let pieces = Pieces::new(file, size, HeapDump::border);
    let readers = (0..pieces.threads()).map(|_| dump.reader()).collect();
    let mut map = None;
    pieces.read(readers, PieceReader::read, |piece, place| {
        if place.start == 0 {
            // One eighth more, because the first piece differs from the others.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_replaced_keeps_the_path_of_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let (program, link) = (folder.path().join("sleep"), folder.path().join("link"));
        std::fs::copy("/bin/sleep", &program).unwrap();
        std::os::unix::fs::symlink(&program, &link).unwrap();
        let mut child = std::process::Command::new(&program).arg("600").spawn().unwrap();
        let of_process = format!("/proc/{}/exe", child.id());
        let real = program.canonicalize().unwrap();
        assert_eq!(resolve_path(link.to_str().unwrap()).unwrap(), real);
        assert_eq!(resolve_path(&of_process).unwrap(), real);
        std::fs::remove_file(&program).unwrap();
        let removed = resolve_path(&of_process);
        std::fs::write(&program, "another file").unwrap();
        let replaced = resolve_path(&of_process);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(removed.unwrap(), Path::new(&of_process));
        assert_eq!(replaced.unwrap(), Path::new(&of_process));
        assert!(matches!(resolve_path("/none"), Err(Error::Open { .. })));
    }
}
