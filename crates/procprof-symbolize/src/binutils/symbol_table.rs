//! The symbols of a file, looked at one after the other without more than a glance at each: there may be
//! half a million of them, and few are wanted.

use object::elf::{STT_FILE, STT_NOTYPE, STT_OBJECT, STT_SECTION, STT_TLS, SymbolBind, SymbolType};
use object::read::elf::{ElfFile, FileHeader, Sym, SymbolTable};
use object::{File, SymbolIndex};

/// Which of a file's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// `.symtab`
    All,
    /// `.dynsym`
    Dynamic,
}

/// What a symbol is, but for its name.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawSymbol {
    pub(super) index: u32,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) kind: SymbolType,
    pub(super) bind: SymbolBind,
    /// The section it is in, if it is in one.
    pub(super) section: Option<usize>,
    /// Whether it is in none because it is in another file.
    pub(super) is_undefined: bool,
    is_named: bool,
}

impl RawSymbol {
    /// Whether it is one of `nm`'s.
    pub(super) fn is_listed(&self) -> bool {
        !matches!(self.kind, STT_FILE | STT_SECTION) && !self.is_undefined && (self.kind != STT_NOTYPE || self.is_named)
    }
}

impl RawSymbol {
    /// The section of a symbol that may be a function.
    pub(super) fn function_section(&self) -> Option<usize> {
        self.section.filter(|_| !matches!(self.kind, STT_SECTION | STT_OBJECT | STT_TLS | STT_FILE))
    }
}

/// The symbol with that number.
pub(super) fn at(file: &File<'_>, table: Table, index: u32) -> Option<RawSymbol> {
    match file {
        File::Elf64(elf) => at_of(elf, of_elf(elf, table), index),
        File::Elf32(elf) => at_of(elf, of_elf(elf, table), index),
        _ => None,
    }
}

/// Hands over the symbols of a table in its order.
pub(super) fn each(file: &File<'_>, table: Table, visit: impl FnMut(RawSymbol)) {
    match file {
        File::Elf64(elf) => each_of(elf, of_elf(elf, table), visit),
        File::Elf32(elf) => each_of(elf, of_elf(elf, table), visit),
        _ => {}
    }
}

/// How many there are.
pub(super) fn count(file: &File<'_>, table: Table) -> usize {
    match file {
        File::Elf64(elf) => of_elf(elf, table).len(),
        File::Elf32(elf) => of_elf(elf, table).len(),
        _ => 0,
    }
}

/// The name of a symbol; `None` if it is broken.
pub(super) fn name<'data>(file: &File<'data>, table: Table, index: u32) -> Option<&'data str> {
    match file {
        File::Elf64(elf) => name_of(elf, of_elf(elf, table), index),
        File::Elf32(elf) => name_of(elf, of_elf(elf, table), index),
        _ => None,
    }
}

fn of_elf<'e, 'data, Elf: FileHeader>(elf: &'e ElfFile<'data, Elf>, table: Table) -> &'e SymbolTable<'data, Elf> {
    match table {
        Table::All => elf.elf_symbol_table(),
        Table::Dynamic => elf.elf_dynamic_symbol_table(),
    }
}

fn each_of<Elf: FileHeader>(elf: &ElfFile<'_, Elf>, table: &SymbolTable<'_, Elf>, mut visit: impl FnMut(RawSymbol)) {
    let endian = elf.endian();
    // The first one stands for none.
    for (index, symbol) in table.symbols().iter().enumerate().skip(1) {
        visit(raw(endian, table, index, symbol));
    }
}

fn at_of<Elf: FileHeader>(elf: &ElfFile<'_, Elf>, table: &SymbolTable<'_, Elf>, index: u32) -> Option<RawSymbol> {
    let symbol = table.symbol(SymbolIndex(index as usize)).ok()?;
    Some(raw(elf.endian(), table, index as usize, symbol))
}

#[inline]
fn raw<Elf: FileHeader>(endian: Elf::Endian, table: &SymbolTable<'_, Elf>, index: usize, symbol: &Elf::Sym) -> RawSymbol {
    let section = table.symbol_section(endian, symbol, SymbolIndex(index)).ok().flatten();
    let kind = symbol.st_type();
    RawSymbol {
        index: index as u32,
        address: symbol.st_value(endian).into(),
        size: symbol.st_size(endian).into(),
        kind,
        bind: symbol.st_bind(),
        section: section.map(|section| section.0),
        is_undefined: symbol.is_undefined(endian),
        is_named: kind != STT_NOTYPE || symbol.name(endian, table.strings()).is_ok_and(|name| !name.is_empty()),
    }
}

fn name_of<'data, Elf: FileHeader>(elf: &ElfFile<'data, Elf>, table: &SymbolTable<'data, Elf>, index: u32) -> Option<&'data str> {
    let endian = elf.endian();
    let symbol = table.symbol(SymbolIndex(index as usize)).ok()?;
    std::str::from_utf8(symbol.name(endian, table.strings()).ok()?).ok()
}
