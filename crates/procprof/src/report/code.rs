//! Machine code for reports that show it, from the binaries given and from those of this machine that the profile
//! names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use procprof_profile::{Mapping, Profile, SymbolAddr};
use procprof_report::code::{Architecture, Code, CodePlace, ROUTINE_BYTES_MAX, Routine};
use procprof_report::{CodeWanted, Options, Report, Sources};
use procprof_symbolize::{CodeSymbol, Image, ImageOptions, Machine, Resolved};

/// Most bytes of code that are read for one report.
const BYTES_MAX: usize = 64 << 20;

/// Reads the code of the report; in the place of a missing binary is the reason.
pub(super) fn read(
    report: &Report,
    profile: &Profile,
    options: &Options,
    binaries: &[PathBuf],
    sources: &mut Sources,
) -> procprof_report::Result<()> {
    let mut left = BYTES_MAX;
    // A profile can have any number of mappings of one file.
    let mut images: BTreeMap<(&str, &str, bool), Result<Rc<Binary>, String>> = BTreeMap::new();
    for wanted in report.wanted_code(profile, options)? {
        let mapping = profile.mapping(wanted.mapping);
        let filename = profile.string(mapping.filename);
        let key = (filename, profile.string(mapping.build_id), wanted.mapping.index() == 0);
        let binary = images
            .entry(key)
            .or_insert_with(|| image(profile, &wanted, binaries).and_then(Binary::from_image).map(Rc::new));
        match binary.clone().and_then(|binary| code(&binary, mapping, &wanted, &mut left)) {
            Ok(code) => sources.code.push(code),
            Err(why) => {
                sources.missing.insert(filename.to_owned(), why);
            }
        }
    }
    Ok(())
}

/// The file of a mapping: one of those given if its build id or name fits, or the only one given for the first mapping,
/// else the one of its path.
fn image(profile: &Profile, wanted: &CodeWanted, binaries: &[PathBuf]) -> Result<Image, String> {
    let mapping = profile.mapping(wanted.mapping);
    let (filename, build_id) = (profile.string(mapping.filename), profile.string(mapping.build_id));
    let mut refused = Vec::new();
    let given = binaries.iter().map(|path| (path.as_path(), path.file_name() == Path::new(filename).file_name()));
    let candidates = given.chain([(Path::new(filename), true)]);
    for (path, is_named_so) in candidates {
        let image = match Image::open(path, &ImageOptions::default()) {
            Ok(image) => image,
            Err(error) => {
                refused.push(error.to_string());
                continue;
            }
        };
        let own = image.build_id().map(ToString::to_string).unwrap_or_default();
        let is_known = !own.is_empty() && !build_id.is_empty();
        let fits = if is_known { own == build_id } else { is_named_so || wanted.mapping.index() == 0 };
        if fits {
            return Ok(image);
        }
        refused.push(format!("{}: not the file that was profiled: its build id is {own:?}", path.display()));
    }
    Err(refused.join(", "))
}

/// A file with machine code, and where its functions are.
struct Binary {
    image: Image,
    architecture: Architecture,
    symbols: Vec<CodeSymbol>,
    /// Names of functions by their first address.
    targets: Arc<BTreeMap<u64, String>>,
}

impl Binary {
    fn from_image(image: Image) -> Result<Binary, String> {
        let architecture = match image.machine() {
            Some(Machine::X86_64) => Architecture::X86_64,
            Some(Machine::X86) => Architecture::X86,
            Some(Machine::Aarch64) => Architecture::Aarch64,
            None => return Err("machine code of its processor is not shown".to_owned()),
        };
        let symbols = image.code_symbols();
        if symbols.is_empty() {
            return Err("it has no symbols, by which functions are found".to_owned());
        }
        let targets =
            symbols.iter().filter_map(|symbol| Some((symbol.start.0, symbol.names.first()?.clone()))).collect();
        Ok(Binary { image, architecture, symbols, targets: Arc::new(targets) })
    }
}

fn code(binary: &Binary, mapping: &Mapping, wanted: &CodeWanted, left: &mut usize) -> Result<Code, String> {
    let Binary { image, architecture, symbols, targets } = binary;
    let bias = bias(image, mapping, wanted).ok_or("the addresses are not in the code of this file")?;
    let mut code = Code {
        mapping: wanted.mapping,
        architecture: *architecture,
        bias,
        routines: Vec::new(),
        targets: Arc::clone(targets),
    };
    let around: BTreeSet<usize> =
        wanted.addresses.iter().filter_map(|address| symbol_at(symbols, address.0.wrapping_sub(bias))).collect();
    for symbol in around.into_iter().map(|index| &symbols[index]).filter(|symbol| is_wanted(symbol, wanted)) {
        if let Some(routine) = routine(image, symbol, wanted, left) {
            code.routines.push(routine);
        }
    }
    place(image, &mut code);
    Ok(code)
}

/// What is added to an address in the file for the one in the process. An address of the code tells it, not the
/// mapping's start: a mapping may begin at the start of the file, before the code, and linkers that keep the pages of
/// code apart add to the distance between the two (LLD, for one: `p_vaddr` is greater than `p_offset`).
fn bias(image: &Image, mapping: &Mapping, wanted: &CodeWanted) -> Option<u64> {
    wanted.addresses.iter().find_map(|address| {
        let distance = address.0.checked_sub(mapping.start.0)?;
        let in_file = image.symbol_addr_in(mapping.file_offset, distance)?;
        Some(address.0.wrapping_sub(in_file.0))
    })
}

fn symbol_at(symbols: &[CodeSymbol], address: u64) -> Option<usize> {
    let index = symbols.partition_point(|symbol| symbol.start.0 <= address).checked_sub(1)?;
    (address < symbols[index].end.0).then_some(index)
}

fn is_wanted(symbol: &CodeSymbol, wanted: &CodeWanted) -> bool {
    let Some(names) = &wanted.names else { return true };
    symbol.system_names.iter().chain(&symbol.names).any(|name| names.is_match(name))
}

/// The function with its bytes, under the first of its names that was requested.
fn routine(image: &Image, symbol: &CodeSymbol, wanted: &CodeWanted, left: &mut usize) -> Option<Routine> {
    let bytes = image.code(symbol.start, symbol.end)?;
    let shown = &bytes[..bytes.len().min(ROUTINE_BYTES_MAX).min(*left)];
    *left -= shown.len();
    let mut names = symbol.names.clone();
    if let Some(pattern) = &wanted.names {
        names.sort_by_key(|name| !pattern.is_match(name));
    }
    names.dedup();
    Some(Routine {
        names,
        start: symbol.start.0,
        bytes: shown.to_vec(),
        bytes_left_out: (bytes.len() - shown.len()) as u64,
        places: Vec::new(),
    })
}

/// Finds the sources of all instructions at once.
fn place(image: &Image, code: &mut Code) {
    let architecture = code.architecture;
    let addresses: Vec<Vec<SymbolAddr>> =
        code.routines.iter().map(|routine| routine.instruction_addresses(architecture)).collect();
    let mut resolved = image.resolve(&addresses.concat()).into_iter();
    for (routine, own) in code.routines.iter_mut().zip(&addresses) {
        routine.places = resolved.by_ref().take(own.len()).map(places).collect();
    }
}

fn places(resolved: Resolved) -> Vec<CodePlace> {
    let Resolved::Frames(frames) = resolved else { return Vec::new() };
    let place = |frame: &procprof_symbolize::Frame| CodePlace {
        function: frame.name.to_string(),
        file: frame.file.as_deref().unwrap_or_default().to_owned(),
        line: frame.line.map_or(0, i64::from),
    };
    frames.iter().map(place).collect()
}
