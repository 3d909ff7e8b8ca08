//! Machine code of an image, function by function.

use foldhash::HashMap;
use object::{Architecture, Object, ObjectSymbol};
use procprof_profile::SymbolAddr;

use crate::binutils::nm;
use crate::elf::{Segment, parse_elf};
use crate::{Image, ImageOptions, demangle};

/// The processor of an image, of those whose code can be disassembled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// AMD and Intel, 64 bits.
    X86_64,
    /// AMD and Intel, 32 bits.
    X86,
    /// ARM, 64 bits.
    Aarch64,
}

/// A function of the symbol table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeSymbol {
    /// Its names in the symbol table; functions may share their code.
    pub system_names: Vec<String>,
    /// Those names demangled, in the same order.
    pub names: Vec<String>,
    /// Its first address.
    pub start: SymbolAddr,
    /// The first address behind it: by its size, or that of the next symbol.
    pub end: SymbolAddr,
}

impl Image {
    /// The processor; `None` if it is not supported.
    pub fn machine(&self) -> Option<Machine> {
        match parse_elf(&self.bytes, self.path()).ok()?.architecture() {
            Architecture::X86_64 => Some(Machine::X86_64),
            Architecture::I386 => Some(Machine::X86),
            Architecture::Aarch64 => Some(Machine::Aarch64),
            _ => None,
        }
    }

    /// The functions of its symbol table, or of its debug file's if it has none, by address.
    pub fn code_symbols(&self) -> Vec<CodeSymbol> {
        let own = code_symbols(self, self);
        let Some(debug) = self.debug_file().filter(|_| !self.has_symbol_table()) else { return own };
        let Ok(debug) = Image::open(&debug.path, &ImageOptions::default()) else { return own };
        let others = code_symbols(self, &debug);
        if others.is_empty() { own } else { others }
    }

    /// The bytes from `start` up to `end`, as far as they are in one segment of the file; `None` if `start` is in none.
    pub fn code(&self, start: SymbolAddr, end: SymbolAddr) -> Option<&[u8]> {
        let segment = self.code_segment(start)?;
        let from = start.0 - segment.address;
        let to = end.0.saturating_sub(segment.address).clamp(from, segment.file_bytes);
        let from = usize::try_from(segment.offset.checked_add(from)?).ok()?;
        let to = usize::try_from(segment.offset.checked_add(to)?).ok()?;
        self.bytes.get(from..to)
    }

    fn code_segment(&self, address: SymbolAddr) -> Option<&Segment> {
        let holds =
            |segment: &&Segment| address.0 >= segment.address && address.0 - segment.address < segment.file_bytes;
        self.segments().iter().filter(|segment| segment.executable).find(holds)
    }

    fn has_symbol_table(&self) -> bool {
        parse_elf(&self.bytes, self.path()).is_ok_and(|object| object.symbols().next().is_some())
    }
}

/// Symbols of an image's code in a file; each has its size, and without one reaches to the next symbol of any kind, or
/// to the end of its segment.
fn code_symbols(image: &Image, file: &Image) -> Vec<CodeSymbol> {
    let (all, sizes) = (nm(file), sizes(file));
    let mut found: Vec<CodeSymbol> = Vec::new();
    let mut groups = all.chunk_by(|a, b| a.address == b.address).peekable();
    while let Some(group) = groups.next() {
        let start = SymbolAddr(group[0].address);
        let next = groups.peek().map_or(u64::MAX, |next| next[0].address);
        let end = SymbolAddr(sizes.get(&start.0).map_or(next, |size| next.min(start.0.saturating_add(*size))));
        if image.code_segment(start).is_none() {
            continue;
        }
        let system_names: Vec<String> =
            group.iter().map(|symbol| symbol.name.split('@').next().unwrap_or_default().to_owned()).collect();
        let names = system_names.iter().map(|name| demangle(name)).collect();
        found.push(CodeSymbol { system_names, names, start, end });
    }
    found
}

/// The largest size of the symbols at an address, of those that have one.
fn sizes(file: &Image) -> HashMap<u64, u64> {
    let mut sizes = HashMap::default();
    if let Ok(object) = parse_elf(&file.bytes, file.path()) {
        for symbol in object.symbols().chain(object.dynamic_symbols()).filter(|symbol| symbol.size() > 0) {
            let size: &mut u64 = sizes.entry(symbol.address()).or_default();
            *size = symbol.size().max(*size);
        }
    }
    sizes
}
