//! Names for addresses, from the files of the memory map and by the rules of jeprof.
//!
//! A file's symbols cut it into procedures, each up to the next; `addr2line` names the functions.
//! A name it shares with the procedure is replaced by the procedure's, which ends in its address.
//! Inlined functions are given only where the file has a symbol `_fini`.

mod code;

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use code::procedures;

use procprof_process::{BuildId, open_regular};
use procprof_profile::SymbolAddr;
use procprof_report::jeprof::libraries::Library;
use procprof_report::jeprof::{Symbol, short_function_name};
use procprof_symbolize::binutils::{self, Answers, Demangled, Detail, Frame, NmSymbol};
use procprof_symbolize::{Image, ImageOptions, IndexFolder};

/// The symbol that must be there for inlined functions to be told.
const SEPARATOR: &str = "_fini";
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

/// What takes an address of the process to the file's own.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// The offset in the file that the part begins at.
    Mapped { offset: u64 },
    /// They are the same.
    Unmoved,
}

fn open(path: &Path, cache: Option<&IndexFolder>) -> Option<Image> {
    let image = Image::open(path, &ImageOptions { cache: cache.cloned(), ..ImageOptions::default() });
    image.inspect_err(|error| eprintln!("jeprof: {error}")).ok()
}

/// Which copies with debug information, below `/usr/lib/debug`, are used in place of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Copies {
    /// Those of the file's path.
    #[default]
    ByPath,
    /// Those of its path, else those of its build id.
    ByPathOrBuildId,
}

/// Where addresses come from, besides the memory map.
pub(super) struct Places<'a> {
    /// The program; addresses in no library are taken for its own.
    pub(super) program: &'a Path,
    /// A library that was not in the memory map.
    pub(super) add_lib: Option<&'a str>,
    /// Folders that the libraries' own are looked for below.
    pub(super) prefixes: &'a [String],
    /// Which copies with debug information are used in place of files.
    pub(super) copies: Copies,
    /// Whether places are asked for, too.
    pub(super) detail: Detail,
    /// Where what is read of files is kept for the next time.
    pub(super) cache: Option<&'a IndexFolder>,
}

/// The functions at each address, outermost first. Each file is read by a thread of its own.
pub(super) fn of_addresses<M: Extend<(u64, Vec<Symbol>)> + Default>(libraries: &[Library], places: &Places<'_>, addresses: &[u64]) -> M {
    let mut parts = parts(libraries, places, addresses.iter().copied().max().unwrap_or(0));
    // Libraries before the program, which is taken to be everywhere.
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
            let threads: Vec<_> = others.iter().map(|(part, own)| scope.spawn(|| in_part(part, own, places))).collect();
            names.extend(in_part(part, own, places));
            for thread in threads {
                // A thread that panicked has said so; what it was to name stays unnamed.
                names.extend(thread.join().unwrap_or_default());
            }
        });
    }
    names
}

/// All files that were mapped, and the program, which is taken to be everywhere up to the last address.
fn parts(libraries: &[Library], places: &Places<'_>, last: u64) -> Vec<Part> {
    let mut parts: Vec<Part> = libraries.iter().map(|library| part(library, places)).collect();
    parts.extend(places.add_lib.and_then(|path| unlisted(Path::new(path))));
    parts.push(Part { path: places.program.to_owned(), start: 0, finish: last, origin: Origin::Unmoved });
    parts
}

fn part(library: &Library, places: &Places<'_>) -> Part {
    let path = below_prefix(&library.path, places.prefixes);
    Part { path, start: library.start, finish: library.finish, origin: Origin::Mapped { offset: library.offset } }
}

fn unlisted(path: &Path) -> Option<Part> {
    let text = binutils::text_section(&open(path, None)?)?;
    Some(Part { path: path.to_owned(), start: text.address, finish: text.address.wrapping_add(text.size), origin: Origin::Unmoved })
}

fn in_part(part: &Part, addresses: &[u64], places: &Places<'_>) -> Vec<(u64, Vec<Symbol>)> {
    let copy = debug_copy(&part.path, places.copies);
    let Some(image) = open(copy.as_deref().unwrap_or(&part.path), places.cache) else { return Vec::new() };
    let named = in_image(&image, bias(part, &image, copy.is_some()), addresses, places.detail);
    // The kernel takes a while to unmap what was read of a gigabyte; the report need not wait for that.
    let _ = std::thread::Builder::new().name("unmap".to_owned()).spawn(move || drop(image));
    named
}

/// What an address of the process has more than the same one in the file.
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
fn debug_copy(path: &Path, copies: Copies) -> Option<PathBuf> {
    const DEBUG_FOLDER: &str = "/usr/lib/debug";
    let text = path.to_str().filter(|path| path.starts_with('/'))?;
    let mut places = vec![format!("{DEBUG_FOLDER}{text}"), format!("{DEBUG_FOLDER}{text}.debug")];
    if copies == Copies::ByPathOrBuildId {
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
    let procedures = Procedures::of(&symbols, &demangled);
    let mut short_names = ShortNames::default();
    let named = addresses.iter().zip(own).zip(frames).map(|((address, own), frames)| {
        let count = if procedures.has_separator { frames.len() } else { 1 };
        let procedure = procedures.name(own.0, *address);
        let functions = frames[..count].iter().rev().map(|frame| symbol(frame, procedure.as_ref(), &mut short_names));
        (*address, functions.collect())
    });
    named.collect()
}

/// Short names by where the whole ones are, each of which is there once.
#[derive(Default)]
struct ShortNames(HashMap<*const u8, Arc<str>>);

impl ShortNames {
    fn of(&mut self, name: &Arc<str>) -> Arc<str> {
        Arc::clone(self.0.entry(name.as_ptr()).or_insert_with(|| short_function_name(name).into()))
    }
}

fn symbol(frame: &Frame, procedure: Option<&ProcedureName>, short_names: &mut ShortNames) -> Symbol {
    let short = short_names.of(&frame.name);
    let place = if frame.place.contains('\\') { frame.place.replace('\\', "/").into() } else { Arc::clone(&frame.place) };
    match procedure {
        Some(ProcedureName { short: name, full }) if *frame.name == *"??" || full.starts_with(&*short) => {
            Symbol { short: Arc::clone(name), place, full: Arc::clone(full) }
        }
        _ => Symbol { short, place, full: Arc::clone(&frame.name) },
    }
}

/// A file's symbols as ranges, each up to the next.
struct Procedures<'a> {
    all: Vec<Procedure<'a>>,
    has_separator: bool,
    demangled: &'a Demangled,
}

struct Procedure<'a> {
    start: u64,
    end: u64,
    name: &'a str,
    /// Whether its address is hung on its name: not if another symbol was replaced by it.
    is_tagged: bool,
    /// Its names, once they are asked for.
    names: OnceCell<ProcedureName>,
}

/// What a procedure is called.
#[derive(Debug, Clone)]
struct ProcedureName {
    short: Arc<str>,
    full: Arc<str>,
}

impl<'a> Procedures<'a> {
    fn of(symbols: &'a [NmSymbol<'_>], demangled: &'a Demangled) -> Self {
        let mut all: Vec<Procedure<'a>> = Vec::new();
        let mut has_separator = false;
        for symbol in symbols {
            let name = symbol.name.as_ref();
            match all.last_mut() {
                Some(last) if last.start == symbol.address => {
                    if symbol.is_text {
                        (last.name, last.is_tagged) = (name, false);
                    }
                }
                before => {
                    if let Some(before) = before {
                        before.end = symbol.address;
                    }
                    has_separator |= name == SEPARATOR;
                    all.push(Procedure { start: symbol.address, end: symbol.address, name, is_tagged: true, names: OnceCell::new() });
                }
            }
        }
        leave_last_of_each_name(&mut all, demangled);
        Self { all, has_separator, demangled }
    }

    /// Short and whole name of the procedure at an address of the file, or, behind the last one, the
    /// address of the process; `None` if the file has no symbols.
    fn name(&self, own: u64, address: u64) -> Option<ProcedureName> {
        let position = self.all.partition_point(|procedure| procedure.end <= own);
        match self.all.get(position) {
            Some(procedure) => Some(procedure.names.get_or_init(|| procedure.names(self.demangled)).clone()),
            None if self.all.is_empty() => None,
            None => {
                let text: Arc<str> = format!("0x{address:016x}").into();
                Some(ProcedureName { short: Arc::clone(&text), full: text })
            }
        }
    }
}

impl Procedure<'_> {
    fn names(&self, demangled: &Demangled) -> ProcedureName {
        let full = self.full_name(demangled);
        ProcedureName { short: short_function_name(&full).into(), full: full.into() }
    }

    fn full_name(&self, demangled: &Demangled) -> String {
        let name = demangled.name(self.name);
        if self.is_tagged { format!("{name}<{:016x}>", self.start) } else { name.into_owned() }
    }
}

/// Of procedures without an address in their names the last of each name is known; where another
/// was, the one behind it begins earlier.
fn leave_last_of_each_name(all: &mut Vec<Procedure<'_>>, demangled: &Demangled) {
    let mut seen = std::collections::BTreeSet::new();
    let repeated: Vec<bool> =
        all.iter().rev().map(|procedure| !procedure.is_tagged && !seen.insert(demangled.name(procedure.name).into_owned())).collect();
    let mut repeated = repeated.into_iter().rev();
    all.retain(|_| !repeated.next().unwrap_or(false));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nm(address: u64, is_text: bool, name: &'static str) -> NmSymbol<'static> {
        NmSymbol { address, is_text, name: name.into() }
    }

    #[test]
    fn procedures_reach_to_the_next() {
        let symbols = [nm(0x10, true, "a"), nm(0x20, false, "weak"), nm(0x20, true, "b"), nm(0x20, false, "c"), nm(0x30, true, "_fini")];
        let demangled = Demangled::default();
        let procedures = Procedures::of(&symbols, &demangled);
        assert!(procedures.has_separator);
        let name = |own| procedures.name(own, 0xfff).map(|name| name.full);
        assert_eq!(name(0x8).as_deref(), Some("a<0000000000000010>"));
        assert_eq!(name(0x1f).as_deref(), Some("a<0000000000000010>"));
        assert_eq!(name(0x20).as_deref(), Some("b"));
        assert_eq!(name(0x30).as_deref(), Some("0x0000000000000fff"));
        assert!(Procedures::of(&[], &demangled).name(1, 1).is_none());
    }

    #[test]
    fn of_equal_names_without_address_the_last_is_left() {
        let symbols =
            [nm(0x10, true, "a"), nm(0x10, true, "x"), nm(0x20, true, "b"), nm(0x30, true, "c"), nm(0x30, true, "x"), nm(0x40, true, "d")];
        let demangled = Demangled::default();
        let procedures = Procedures::of(&symbols, &demangled);
        assert_eq!(procedures.name(0x11, 0).map(|name| name.full).as_deref(), Some("b<0000000000000020>"));
        assert_eq!(procedures.name(0x31, 0).map(|name| name.full).as_deref(), Some("x"));
    }
}
