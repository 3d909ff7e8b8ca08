//! `nm -n`: the symbols of a file by address.

use std::borrow::Cow;

use foldhash::HashSet;
use object::elf::{SHF_EXECINSTR, STB_GNU_UNIQUE, STB_WEAK, STT_FILE, STT_GNU_IFUNC, STT_SECTION};
use object::{
    File, Object, ObjectSection, ObjectSymbol, SectionFlags, SectionIndex, Symbol, SymbolFlags, SymbolIndex,
    SymbolSection,
};
use procprof_profile::SymbolAddr;

use super::around::symbols_around;
use crate::Image;
use crate::elf::{Order, Table, parse_elf};

/// One line of `nm -n`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NmSymbol<'a> {
    /// Its value.
    pub address: u64,
    /// Whether its letter is `T` or `t`: code that is neither weak nor found at run time.
    pub is_text: bool,
    /// Its name, mangled, with its version if it has one.
    pub name: Cow<'a, str>,
}

impl NmSymbol<'_> {
    fn bare_name(&self) -> &[u8] {
        self.name.split('@').next().unwrap_or_default().as_bytes()
    }
}

/// The defined symbols with names, by address, then name: of `.symtab`, else of `.dynsym`.
pub fn nm(image: &Image) -> Vec<NmSymbol<'_>> {
    let Ok(object) = parse_elf(&image.bytes, image.path()) else {
        return Vec::new();
    };
    let code = code_sections(&object);
    let mut symbols: Vec<NmSymbol<'_>> =
        object.symbols().filter_map(|symbol| listed(&symbol, &code, symbol.name().map(Cow::Borrowed).ok()?)).collect();
    if symbols.is_empty() {
        let versions = Versions::read(&object);
        symbols =
            object.dynamic_symbols().filter_map(|symbol| listed(&symbol, &code, versions.name(&symbol)?)).collect();
    }
    symbols.sort_by(|a, b| a.address.cmp(&b.address).then_with(|| a.bare_name().cmp(b.bare_name())));
    symbols
}

/// As [`nm`], but only the symbols that decide which one an address belongs to: for each of `addresses`, those at the
/// last address before it and those that follow, up to an address with a single symbol; all symbols that share their
/// address with others; those at the beginning of `.fini`, and the last ones.
pub fn nm_around<'a>(image: &'a Image, addresses: &[SymbolAddr]) -> Vec<NmSymbol<'a>> {
    let Ok(object) = parse_elf(&image.bytes, image.path()) else {
        return Vec::new();
    };
    around(image, &object, &Order::new(&object, Table::All), addresses)
}

/// As [`nm_around`], with the order of `.symtab`.
pub(super) fn around<'a>(
    image: &'a Image,
    object: &File<'a>,
    order: &Order<'_>,
    addresses: &[SymbolAddr],
) -> Vec<NmSymbol<'a>> {
    let Some(fini) = object.section_by_name(".fini").map(|section| section.address()) else {
        // The symbol that decides whether inlined functions are shown may be anywhere.
        return nm(image);
    };
    let around = symbols_around(order, addresses.iter().map(|address| address.0).chain([fini]).collect());
    if around.is_empty() {
        return nm(image);
    }
    let code = code_sections(object);
    let symbols = around.into_iter().filter_map(|index| object.symbol_by_index(SymbolIndex(index as usize)).ok());
    let mut symbols: Vec<NmSymbol<'_>> =
        symbols.filter_map(|symbol| listed(&symbol, &code, symbol.name().map(Cow::Borrowed).ok()?)).collect();
    symbols.sort_by(|a, b| a.address.cmp(&b.address).then_with(|| a.bare_name().cmp(b.bare_name())));
    symbols
}

fn listed<'a>(symbol: &Symbol<'a, '_>, code: &HashSet<SectionIndex>, name: Cow<'a, str>) -> Option<NmSymbol<'a>> {
    let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
        return None;
    };
    let kind = st_info.st_type();
    if name.is_empty() || matches!(kind, STT_FILE | STT_SECTION) || symbol.section() == SymbolSection::Undefined {
        return None;
    }
    let own_letter = kind == STT_GNU_IFUNC || matches!(st_info.st_bind(), STB_WEAK | STB_GNU_UNIQUE);
    let is_text = !own_letter && symbol.section_index().is_some_and(|index| code.contains(&index));
    Some(NmSymbol { address: symbol.address(), is_text, name })
}

/// Sections with code, by their flag or by their name.
fn code_sections(object: &File<'_>) -> HashSet<SectionIndex> {
    let is_code = |section: &object::Section<'_, '_>| {
        let flagged =
            matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_EXECINSTR.0 != 0);
        flagged || section.name().is_ok_and(is_code_name)
    };
    object.sections().filter(is_code).map(|section| section.index()).collect()
}

fn is_code_name(name: &str) -> bool {
    let ends = |rest: &str| {
        rest.is_empty() || rest.starts_with(|next: char| next == '.' || next == '$' || next.is_ascii_digit())
    };
    [".text", ".init", ".fini"].iter().any(|prefix| name.strip_prefix(prefix).is_some_and(ends))
}

/// Names of dynamic symbols with their versions.
struct Versions<'data> {
    by_symbol: Vec<Option<(Cow<'data, str>, bool)>>,
}

impl<'data> Versions<'data> {
    fn read(object: &File<'data>) -> Self {
        let by_symbol = match object {
            File::Elf64(elf) => elf_versions(elf),
            File::Elf32(elf) => elf_versions(elf),
            _ => Vec::new(),
        };
        Self { by_symbol }
    }

    /// The symbol's name and version: `name@@VERSION`, or `name@VERSION` if it is not the default.
    fn name(&self, symbol: &Symbol<'data, '_>) -> Option<Cow<'data, str>> {
        let name = symbol.name().ok()?;
        let version = self.by_symbol.get(symbol.index().0).and_then(Option::as_ref);
        Some(match version {
            Some((version, hidden)) if version != name => {
                let sign = if *hidden { "@" } else { "@@" };
                Cow::Owned(format!("{name}{sign}{version}"))
            }
            _ => Cow::Borrowed(name),
        })
    }
}

fn elf_versions<'data, Elf: object::read::elf::FileHeader>(
    elf: &object::read::elf::ElfFile<'data, Elf>,
) -> Vec<Option<(Cow<'data, str>, bool)>> {
    let endian = elf.endian();
    let Ok(Some(versions)) = elf.elf_section_table().versions(endian, elf.data()) else {
        return Vec::new();
    };
    let count = elf.elf_dynamic_symbol_table().len();
    let version = |index: usize| {
        let number = versions.version_index(endian, object::SymbolIndex(index));
        let version = versions.version(number.index()).ok().flatten()?;
        Some((String::from_utf8_lossy(version.name()), number.is_hidden()))
    };
    (0..count).map(version).collect()
}
