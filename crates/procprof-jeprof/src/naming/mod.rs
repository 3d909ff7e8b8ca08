//! Names for addresses, from the files of the memory map and by the rules of jeprof.
//!
//! A file's symbols cut it into procedures, each up to the next; `addr2line` names the functions.
//! A name it shares with the procedure is replaced by the procedure's, which ends in its address.
//! Inlined functions are shown only if the file has a symbol `_fini`.

mod code;
mod procedures;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use procprof_process::{BuildId, open_regular};
use procprof_profile::SymbolAddr;
use procprof_symbolize::binutils::{self, Answers, Detail, Frame};
use procprof_symbolize::{Image, ImageOptions};

pub(crate) use code::disassemble_matching;

use self::procedures::{ProcedureName, Procedures};
use crate::command_line::Request;
use crate::environment::Environment;
use crate::read::libraries::Library;
use crate::settings::DebugCopies;
use crate::symbols::{Symbol, short_function_name};

/// Most files that are read at once.
const THREADS_MAX: usize = 8;

/// A part of the address space that a file was mapped to.
#[derive(Debug, Clone)]
struct Part {
    path: PathBuf,
    start: u64,
    finish: u64,
    origin: Origin,
}

/// The conversion of an address of the process to one of the file.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// The offset in the file that the part begins at.
    Mapped { offset: u64 },
    /// They are the same.
    Unmoved,
}

/// The files of names: those of the memory map, and those that the request adds.
pub(crate) struct Binaries<'a> {
    /// The program; addresses in no library count as its own.
    program: &'a Path,
    request: &'a Request,
    environment: &'a Environment,
}

impl<'a> Binaries<'a> {
    pub(crate) fn new(program: &'a Path, request: &'a Request, environment: &'a Environment) -> Binaries<'a> {
        Binaries { program, request, environment }
    }

    /// Opens a file with the caller's cache.
    fn open(&self, path: &Path) -> Option<Image> {
        self.open_by(path, ImageOptions { cache: self.environment.cache.clone(), ..ImageOptions::default() })
    }

    /// Opens a file without a cache.
    fn open_once(&self, path: &Path) -> Option<Image> {
        self.open_by(path, ImageOptions::default())
    }

    fn open_by(&self, path: &Path, options: ImageOptions) -> Option<Image> {
        let image = Image::open(path, &options);
        image.inspect_err(|error| (self.environment.log)(&format!("jeprof: {error}"))).ok()
    }

    /// All files that were mapped, and the program, which is assumed to cover everything up to the last address.
    fn parts(&self, libraries: &[Library], last: u64) -> Vec<Part> {
        let mut parts: Vec<Part> = libraries.iter().map(|library| self.part(library)).collect();
        parts.extend(self.request.add_lib.as_deref().and_then(|path| self.unlisted(Path::new(path))));
        parts.push(Part { path: self.program.to_owned(), start: 0, finish: last, origin: Origin::Unmoved });
        parts
    }

    fn part(&self, library: &Library) -> Part {
        let path = below_prefix(&library.path, &self.request.prefixes);
        let origin = Origin::Mapped { offset: library.offset };
        Part { path, start: library.start, finish: library.finish, origin }
    }

    fn unlisted(&self, path: &Path) -> Option<Part> {
        let text = binutils::text_section(&self.open_once(path)?)?;
        let finish = text.address.wrapping_add(text.size);
        Some(Part { path: path.to_owned(), start: text.address, finish, origin: Origin::Unmoved })
    }
}

/// The functions at each address, outermost first. Each file is read by a thread of its own.
pub(crate) fn name_addresses<M>(libraries: &[Library], binaries: &Binaries<'_>, addresses: &[u64]) -> M
where
    M: Extend<(u64, Vec<Symbol>)> + Default,
{
    let mut parts = binaries.parts(libraries, addresses.iter().copied().max().unwrap_or(0));
    // Libraries before the program, which is assumed to cover everything.
    parts.sort_by_key(|part| std::cmp::Reverse(part.start));
    let mut left = addresses.to_vec();
    left.sort_unstable();
    let mut wanted: Vec<(Part, Vec<u64>)> = Vec::new();
    for part in parts {
        let from = left.partition_point(|address| *address < part.start);
        let to = left.partition_point(|address| *address <= part.finish).max(from);
        let own: Vec<u64> = left.drain(from..to).collect();
        if !own.is_empty() {
            wanted.push((part, own));
        }
    }
    let mut names = M::default();
    for group in wanted.chunks(THREADS_MAX) {
        std::thread::scope(|scope| {
            let Some(((part, own), others)) = group.split_last() else { return };
            let threads: Vec<_> =
                others.iter().map(|(part, own)| scope.spawn(|| in_part(part, own, binaries))).collect();
            names.extend(in_part(part, own, binaries));
            for thread in threads {
                // A thread that panicked has printed why; its addresses stay unnamed.
                names.extend(thread.join().unwrap_or_default());
            }
        });
    }
    names
}

fn in_part(part: &Part, addresses: &[u64], binaries: &Binaries<'_>) -> Vec<(u64, Vec<Symbol>)> {
    let copy = debug_copy(&part.path, binaries.request.copies);
    let Some(image) = binaries.open(copy.as_deref().unwrap_or(&part.path)) else { return Vec::new() };
    let named = in_image(&image, bias(part, &image, copy.is_some()), addresses, binaries.request.detail());
    // The kernel takes a while to unmap a gigabyte; the report does not wait for that.
    let _ = std::thread::Builder::new().name("unmap".to_owned()).spawn(move || drop(image));
    named
}

/// The difference of an address of the process and the same one in the file.
fn bias(part: &Part, image: &Image, is_copy: bool) -> u64 {
    match part.origin {
        Origin::Unmoved => 0,
        Origin::Mapped { offset } => {
            // A copy with debug information is used as it is; else code may be elsewhere than in the file.
            let text = if is_copy { None } else { binutils::text_section(image) };
            let moved = text.map_or(0, |text| text.address.wrapping_sub(text.offset));
            part.start.wrapping_sub(offset.wrapping_add(moved))
        }
    }
}

/// The file below one of the folders, with as much of its own path as there is; else its own path.
fn below_prefix(path: &str, prefixes: &[String]) -> PathBuf {
    let mut suffix = path;
    loop {
        let found = prefixes.iter().map(|prefix| PathBuf::from(format!("{prefix}{suffix}"))).find(|path| path.exists());
        if let Some(found) = found {
            return found;
        }
        match suffix.strip_prefix('/').and_then(|rest| rest.find('/')) {
            Some(at) => suffix = &suffix[at + 1..],
            None => return PathBuf::from(path),
        }
    }
}

/// The copy below `/usr/lib/debug`, where there is one.
fn debug_copy(path: &Path, copies: DebugCopies) -> Option<PathBuf> {
    const DEBUG_FOLDER: &str = "/usr/lib/debug";
    let text = path.to_str().filter(|path| path.starts_with('/'))?;
    let mut places = vec![format!("{DEBUG_FOLDER}{text}"), format!("{DEBUG_FOLDER}{text}.debug")];
    if copies == DebugCopies::ByPathOrBuildId {
        places.extend(build_id(path).map(|(first, rest)| format!("{DEBUG_FOLDER}/.build-id/{first}/{rest}.debug")));
    }
    places.into_iter().map(PathBuf::from).find(|copy| copy.is_file())
}

/// A file's build id, its first byte apart.
fn build_id(path: &Path) -> Option<(String, String)> {
    let build_id = BuildId::of_file(&open_regular(path).ok()?).ok()??.to_string();
    let (first, rest) = build_id.split_at_checked(2)?;
    Some((first.to_owned(), rest.to_owned()))
}

fn in_image(image: &Image, bias: u64, addresses: &[u64], detail: Detail) -> Vec<(u64, Vec<Symbol>)> {
    let own: Vec<SymbolAddr> = addresses.iter().map(|address| SymbolAddr(address.wrapping_sub(bias))).collect();
    let Answers { frames, demangled, symbols } = binutils::look_up(image, &own, detail);
    let procedures = Procedures::new(&symbols, &demangled);
    let mut short_names = ShortNames::default();
    let named = addresses.iter().zip(own).zip(frames).map(|((address, own), frames)| {
        let count = if procedures.has_separator { frames.len() } else { 1 };
        let procedure = procedures.name(own.0, *address);
        let functions = frames[..count].iter().rev().map(|frame| symbol(frame, procedure.as_ref(), &mut short_names));
        (*address, functions.collect())
    });
    named.collect()
}

/// Short names by the addresses of the whole ones, each of which exists once.
#[derive(Default)]
struct ShortNames(HashMap<*const u8, Arc<str>>);

impl ShortNames {
    fn shorten(&mut self, name: &Arc<str>) -> Arc<str> {
        Arc::clone(self.0.entry(name.as_ptr()).or_insert_with(|| short_function_name(name).into()))
    }
}

fn symbol(frame: &Frame, procedure: Option<&ProcedureName>, short_names: &mut ShortNames) -> Symbol {
    let short = short_names.shorten(&frame.name);
    let place =
        if frame.place.contains('\\') { frame.place.replace('\\', "/").into() } else { Arc::clone(&frame.place) };
    match procedure {
        Some(ProcedureName { short: name, full }) if *frame.name == *"??" || full.starts_with(&*short) => {
            Symbol { short: Arc::clone(name), place, full: Arc::clone(full) }
        }
        _ => Symbol { short, place, full: Arc::clone(&frame.name) },
    }
}
