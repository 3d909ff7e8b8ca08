//! The symbols of a file, in one pass with little work for each: there may be half a million of them, and few are
//! needed.
//!
//! The ELF class of a file is checked once for a table, not for each field of each symbol; and a name is not read
//! before it is requested.

use memchr::{memchr, memrchr};
use object::elf::{STT_FILE, STT_NOTYPE, STT_OBJECT, STT_SECTION, STT_TLS, SymbolBind, SymbolType};
use object::read::elf::{ElfFile, FileHeader, SectionHeader, Sym, SymbolTable};
use object::{File, SymbolIndex};

/// One of a file's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// `.symtab`
    All,
    /// `.dynsym`
    Dynamic,
}

/// A symbol as its table has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawSymbol<'data> {
    pub(crate) index: u32,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) kind: SymbolType,
    pub(crate) bind: SymbolBind,
    /// The section it is in, if it is in one.
    pub(crate) section: Option<usize>,
    /// Whether it is in none because it is in another file.
    pub(crate) is_undefined: bool,
    /// The start of its name in `names`.
    name: u32,
    names: &'data [u8],
}

impl<'data> RawSymbol<'data> {
    /// The first byte of its name; `None` if that is empty or broken.
    #[inline]
    pub(crate) fn initial(&self) -> Option<u8> {
        self.names.get(self.name as usize).copied().filter(|byte| *byte != 0)
    }

    /// Its name; `None` if that is broken.
    pub(crate) fn name_bytes(&self) -> Option<&'data [u8]> {
        let from = self.names.get(self.name as usize..)?;
        from.get(..memchr(0, from)?)
    }

    /// As [`RawSymbol::name_bytes`]; one that is not UTF-8 counts as broken.
    pub(crate) fn name(&self) -> Option<&'data str> {
        std::str::from_utf8(self.name_bytes()?).ok()
    }

    /// Whether it is one of `nm`'s.
    pub(crate) fn is_listed(&self) -> bool {
        !matches!(self.kind, STT_FILE | STT_SECTION)
            && !self.is_undefined
            && (self.kind != STT_NOTYPE || self.initial().is_some())
    }

    /// The section of a symbol that may be a function.
    pub(crate) fn function_section(&self) -> Option<usize> {
        self.section.filter(|_| !matches!(self.kind, STT_SECTION | STT_OBJECT | STT_TLS | STT_FILE))
    }
}

/// The symbol with that number.
pub(crate) fn at<'data>(file: &File<'data>, table: Table, index: u32) -> Option<RawSymbol<'data>> {
    match file {
        File::Elf64(elf) => at_of(elf, table, index),
        File::Elf32(elf) => at_of(elf, table, index),
        _ => None,
    }
}

/// Calls the function with the symbols of a table in its order.
#[inline]
pub(crate) fn each<'data>(file: &File<'data>, table: Table, mut visit: impl FnMut(&RawSymbol<'data>)) {
    any(file, table, |symbol| {
        visit(symbol);
        false
    });
}

/// Whether there is such a symbol in a table.
#[inline]
pub(crate) fn any<'data>(file: &File<'data>, table: Table, is_such: impl FnMut(&RawSymbol<'data>) -> bool) -> bool {
    match file {
        File::Elf64(elf) => any_of(elf, table, is_such),
        File::Elf32(elf) => any_of(elf, table, is_such),
        _ => false,
    }
}

/// Their number.
pub(crate) fn count(file: &File<'_>, table: Table) -> usize {
    match file {
        File::Elf64(elf) => of_elf(elf, table).len(),
        File::Elf32(elf) => of_elf(elf, table).len(),
        _ => 0,
    }
}

fn of_elf<'e, 'data, Elf: FileHeader>(elf: &'e ElfFile<'data, Elf>, table: Table) -> &'e SymbolTable<'data, Elf> {
    match table {
        Table::All => elf.elf_symbol_table(),
        Table::Dynamic => elf.elf_dynamic_symbol_table(),
    }
}

/// The test gets a reference: it is too large to be inlined everywhere, and copies of a symbol that was just put
/// together are slow.
#[inline]
fn any_of<'data, Elf: FileHeader>(
    elf: &ElfFile<'data, Elf>,
    table: Table,
    mut is_such: impl FnMut(&RawSymbol<'data>) -> bool,
) -> bool {
    let (endian, table) = (elf.endian(), of_elf(elf, table));
    let names = names_of(elf, table);
    // The first entry means no symbol.
    for (index, symbol) in table.symbols().iter().enumerate().skip(1) {
        if is_such(&raw(endian, table, names, index, symbol)) {
            return true;
        }
    }
    false
}

fn at_of<'data, Elf: FileHeader>(elf: &ElfFile<'data, Elf>, table: Table, index: u32) -> Option<RawSymbol<'data>> {
    let table = of_elf(elf, table);
    let symbol = table.symbol(SymbolIndex(index as usize)).ok()?;
    Some(raw(elf.endian(), table, names_of(elf, table), index as usize, symbol))
}

/// The names of a table, up to the end of the last one: a name is broken exactly if it begins behind.
fn names_of<'data, Elf: FileHeader>(elf: &ElfFile<'data, Elf>, table: &SymbolTable<'data, Elf>) -> &'data [u8] {
    let section = elf.elf_section_table().section(table.string_section());
    up_to_last_end(section.and_then(|section| section.data(elf.endian(), elf.data())).unwrap_or_default())
}

fn up_to_last_end(names: &[u8]) -> &[u8] {
    memrchr(0, names).map_or(&[], |end| &names[..=end])
}

#[inline]
fn raw<'data, Elf: FileHeader>(
    endian: Elf::Endian,
    table: &SymbolTable<'data, Elf>,
    names: &'data [u8],
    index: usize,
    symbol: &Elf::Sym,
) -> RawSymbol<'data> {
    let section = table.symbol_section(endian, symbol, SymbolIndex(index)).ok().flatten();
    RawSymbol {
        index: index as u32,
        address: symbol.st_value(endian).into(),
        size: symbol.st_size(endian).into(),
        kind: symbol.st_type(),
        bind: symbol.st_bind(),
        section: section.map(|section| section.0),
        is_undefined: symbol.is_undefined(endian),
        name: symbol.st_name(endian),
        names,
    }
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSymbol};

    use super::*;

    #[test]
    fn answers_of_a_batch_equal_those_of_single_symbols() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let file = File::parse(&*bytes).unwrap();
        for (table, symbols) in [(Table::All, file.symbols()), (Table::Dynamic, file.dynamic_symbols())] {
            let mut symbols = symbols.skip_while(|symbol| symbol.index().0 == 0);
            let mut seen = 1;
            each(&file, table, |own| {
                let symbol = symbols.next().unwrap();
                assert_eq!(own.index as usize, symbol.index().0);
                assert_eq!((own.address, own.size), (symbol.address(), symbol.size()));
                assert_eq!(own.section, symbol.section_index().map(|section| section.0));
                assert_eq!(own.is_undefined, symbol.is_undefined());
                assert_eq!(own.name_bytes(), symbol.name_bytes().ok());
                assert_eq!(own.initial(), symbol.name_bytes().ok().and_then(|name| name.first()).copied());
                assert_eq!(at(&file, table, own.index).unwrap().name(), symbol.name().ok());
                seen += 1;
            });
            assert!(symbols.next().is_none());
            assert_eq!(seen, count(&file, table));
        }
    }

    #[test]
    fn names_that_do_not_end_are_broken() {
        let names = up_to_last_end(b"\0start\0end");
        let symbol = |name| RawSymbol {
            index: 1,
            address: 0,
            size: 0,
            kind: STT_NOTYPE,
            bind: SymbolBind(0),
            section: None,
            is_undefined: false,
            name,
            names,
        };
        assert_eq!((symbol(0).initial(), symbol(0).name_bytes()), (None, Some(&b""[..])));
        assert_eq!((symbol(1).initial(), symbol(1).name()), (Some(b's'), Some("start")));
        assert_eq!((symbol(6).initial(), symbol(6).name()), (None, Some("")));
        for behind in [7, 8, u32::MAX] {
            assert_eq!((symbol(behind).initial(), symbol(behind).name_bytes()), (None, None));
        }
        assert!(!symbol(7).is_listed());
    }
}
