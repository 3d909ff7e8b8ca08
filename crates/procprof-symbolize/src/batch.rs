//! Looking up a batch of addresses in one image: DWARF first, then the symbol tables.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use addr2line::{Context, FrameIter, FunctionName, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{AbbreviationsCacheStrategy, DwLang, Dwarf, DwarfPackage, DwarfSections, EndianSlice, RunTimeEndian};
use object::Object;
use procprof_profile::SymbolAddr;

use crate::image::{Image, has_dwarf, parse_elf};
use crate::symbols::SymbolTable;
use crate::{Frame, Reason, Resolved, demangle, sections};

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;
type Sections<'a> = DwarfSections<Cow<'a, [u8]>>;

/// Most frames given for one address, the outermost of them left out. Real ones have some tens.
const FRAMES_MAX: usize = 256;

/// Resolves addresses in the order of their value, and answers in the order they are given.
pub(crate) fn resolve(image: &Image, addresses: &[SymbolAddr]) -> Vec<Resolved> {
    let mut answers = vec![Resolved::Unknown(Reason::NotCovered); addresses.len()];
    let Ok(main) = parse_elf(&image.bytes, image.path()) else {
        answers.fill(Resolved::Unknown(Reason::Damaged));
        return answers;
    };
    let debug = image.debug.as_ref().and_then(|debug| parse_elf(&debug.bytes, &debug.file.path).ok());
    let shared = image.shared.as_ref().and_then(|shared| parse_elf(&shared.bytes, &shared.file).ok());
    let with_dwarf = debug.as_ref().filter(|debug| has_dwarf(debug)).or(has_dwarf(&main).then_some(&main));
    let files: Vec<&object::File<'_>> = debug.iter().chain([&main]).collect();

    let sections = with_dwarf.map(|file| sections::load(file, image.decompressed_bytes_max));
    let shared_sections = shared.as_ref().and_then(|file| sections::load(file, image.decompressed_bytes_max).ok());
    let context = match &sections {
        Some(Ok(sections)) => Some(context(sections, shared_sections.as_ref(), main.is_little_endian())),
        Some(Err(_)) => Some(None),
        None => None,
    };
    let package = image.package.as_ref().and_then(|package| parse_elf(&package.bytes, &package.file).ok());
    let package_sections = package.as_ref().and_then(|file| sections::load_package(file, image.decompressed_bytes_max).ok());
    let batch = Batch {
        damaged: matches!(context, Some(None)),
        context: context.flatten(),
        package: package_sections.as_ref().and_then(|sections| {
            let endian = endian(main.is_little_endian());
            sections.borrow(|section| EndianSlice::new(section, endian), EndianSlice::new(&[], endian)).ok()
        }),
        files: &files,
        symbols: OnceCell::new(),
    };

    let mut order: Vec<usize> = (0..addresses.len()).collect();
    order.sort_unstable_by_key(|index| addresses[*index]);
    for index in order {
        answers[index] = batch.resolve(addresses[index]);
    }
    answers
}

fn endian(little: bool) -> RunTimeEndian {
    if little { RunTimeEndian::Little } else { RunTimeEndian::Big }
}

/// `None` if the debug information is broken as a whole.
fn context<'a>(sections: &'a Sections<'a>, shared: Option<&'a Sections<'a>>, little_endian: bool) -> Option<Context<Reader<'a>>> {
    let endian = endian(little_endian);
    let reader = |section: &'a Cow<'a, [u8]>| EndianSlice::new(section, endian);
    let mut dwarf: Dwarf<Reader<'a>> = sections.borrow(reader);
    if let Some(shared) = shared {
        dwarf.set_sup(shared.borrow(reader));
    }
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    Context::from_dwarf(dwarf).ok()
}

struct Batch<'a, 'data> {
    context: Option<Context<Reader<'a>>>,
    /// The parts of the debug information that were split off.
    package: Option<DwarfPackage<Reader<'a>>>,
    /// Whether there is debug information, but none of it can be read.
    damaged: bool,
    files: &'a [&'a object::File<'data>],
    /// Read only if an address needs them.
    symbols: OnceCell<SymbolTable<'data>>,
}

impl<'a> Batch<'a, '_> {
    fn resolve(&self, address: SymbolAddr) -> Resolved {
        let (frames, damaged) = match self.dwarf_frames(address) {
            Ok(frames) => (frames, self.damaged),
            // What one unit has wrong does not concern the others.
            Err(_) => (Vec::new(), true),
        };
        if !frames.is_empty() {
            return Resolved::Frames(frames);
        }
        match self.symbol_name(address) {
            Some(name) => Resolved::Frames(vec![frame(&name, Place::default())]),
            None if damaged => Resolved::Unknown(Reason::Damaged),
            None if self.context.is_none() && self.symbols().is_empty() => Resolved::Unknown(Reason::NoSymbols),
            None => Resolved::Unknown(Reason::NotCovered),
        }
    }

    /// The frames in the debug information; none if it does not cover the address.
    fn dwarf_frames(&self, address: SymbolAddr) -> Result<Vec<Frame>, gimli::Error> {
        let mut frames = Vec::new();
        let (mut found_frames, mut language) = (0, None);
        // The last address of all has no end that could be compared with, so addr2line can't take it.
        let Some(context) = self.context.as_ref().filter(|_| address.0 != u64::MAX) else {
            return Ok(frames);
        };
        let mut lookup = context.find_frames(address.0);
        let mut found: FrameIter<'_, Reader<'_>> = loop {
            lookup = match lookup {
                LookupResult::Output(found) => break found?,
                LookupResult::Load { load, continuation } => continuation.resume(self.split_off(&load)),
            };
        };
        while let Some(next) = found.next()? {
            let name = match &next.function {
                Some(function) => raw_name(function)?,
                // Lines without a function: assembly, or a unit without function entries.
                None => match self.symbol_name(address) {
                    Some(name) => name,
                    None => continue,
                },
            };
            language = next.function.as_ref().and_then(|function| function.language);
            found_frames += 1;
            if found_frames <= FRAMES_MAX {
                frames.push(frame(&name, Place::of(next.location.as_ref())));
            }
        }
        if let Some(outermost) = frames.last_mut().filter(|_| found_frames <= FRAMES_MAX) {
            self.qualify(outermost, language, address);
        }
        Ok(frames)
    }

    /// A unit that was split off; `None` if there is no package with it, or a broken one: lines and
    /// symbols do not need it.
    fn split_off(&self, load: &SplitDwarfLoad<Reader<'a>>) -> Option<Arc<Dwarf<Reader<'a>>>> {
        let unit = self.package.as_ref()?.find_cu(load.dwo_id, &load.parent);
        unit.ok().flatten().map(Arc::new)
    }

    /// Gives the outermost function the linker's name where the debug information has a bare one
    /// only: `operator()` of a lambda, a C++ function local to its file.
    fn qualify(&self, outermost: &mut Frame, language: Option<DwLang>, address: SymbolAddr) {
        if !language.is_some_and(is_mangling) || is_mangled(&outermost.system_name) {
            return;
        }
        if let Some(name) = self.symbol_name(address).filter(|name| is_mangled(name)) {
            outermost.name = demangle(&name);
            outermost.system_name = name.into_owned();
        }
    }

    fn symbols(&self) -> &SymbolTable<'_> {
        self.symbols.get_or_init(|| SymbolTable::of(self.files))
    }

    fn symbol_name(&self, address: SymbolAddr) -> Option<Cow<'_, str>> {
        self.symbols().find(address).map(String::from_utf8_lossy)
    }
}

fn raw_name<'a>(function: &FunctionName<Reader<'a>>) -> Result<Cow<'a, str>, gimli::Error> {
    Ok(function.name.to_string_lossy())
}

/// Whether compilers of the language mangle names.
fn is_mangling(language: DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
            | gimli::DW_LANG_C_plus_plus_17
            | gimli::DW_LANG_C_plus_plus_20
            | gimli::DW_LANG_Rust
    )
}

fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

#[derive(Default)]
struct Place {
    file: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
}

impl Place {
    fn of(location: Option<&addr2line::Location<'_>>) -> Self {
        let Some(location) = location else {
            return Self::default();
        };
        Self {
            file: location.file.map(str::to_owned),
            line: location.line.filter(|line| *line != 0),
            column: location.column.filter(|column| *column != 0),
        }
    }
}

fn frame(name: &str, place: Place) -> Frame {
    Frame { name: demangle(name), system_name: name.to_owned(), file: place.file, line: place.line, column: place.column }
}
