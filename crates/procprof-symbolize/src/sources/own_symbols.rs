//! Symbols in a file without debug information: Go's own table, and ELF symbols.

use super::Sources;
use super::inquiry::{Inquiries, Memory};
use crate::Image;
use crate::Source;
use crate::elf::{GoTable, parse_elf};

/// Queries the files with Go's table; their symbols are read with it.
pub(super) fn ask_go_table(inquiries: &mut Inquiries<'_>, _: &mut Sources<'_>) {
    ask(inquiries, Source::GoTable, has_go_table);
}

/// Queries the symbol tables of files without debug information.
pub(super) fn ask_symbol_table(inquiries: &mut Inquiries<'_>, _: &mut Sources<'_>) {
    ask(inquiries, Source::SymbolTable, |image| !has_go_table(image));
}

fn ask(inquiries: &mut Inquiries<'_>, source: Source, is_asked: fn(&Image) -> bool) {
    let profile = inquiries.profile;
    for inquiry in inquiries.unknown_in(Memory::File) {
        let Some(found) = inquiry.found.take_if(|found| !found.image.has_debug_info() && is_asked(&found.image)) else {
            continue;
        };
        inquiry.ask_image(profile, source, &found.image);
        inquiry.use_image(source, &found.image, found.proof);
        inquiry.found = Some(found);
    }
}

fn has_go_table(image: &Image) -> bool {
    parse_elf(&image.bytes, image.path()).is_ok_and(|object| GoTable::read(&object).is_some())
}
