//! The functions that contain addresses of this process, by the symbol tables of its files; names are mangled.
//!
//! Used only to classify waits: a table is read once for all addresses of a look-up, and none of it is kept. Only files
//! of this machine's word size (64 bits) and byte order are read; others have no names.

use crate::modules::{Module, Modules};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of a symbol table read at once.
const PORTION: usize = 24 << 12;

/// The largest symbol table that is read: 40 million symbols.
const MAX_TABLE: u64 = 1 << 30;

const MAX_NAME: usize = 1024;

const SYMBOL_BYTES: usize = 24;

/// The names of the functions that hold the addresses; `None` where the file has no names for its code at all, an empty
/// name where it has none for this address.
pub(super) fn look_up(addresses: &[u64]) -> Vec<Option<String>> {
    let modules = Modules::of_this_process();
    let mut names = vec![None; addresses.len()];
    let mut places: Vec<(usize, usize)> =
        addresses.iter().enumerate().filter_map(|(index, address)| Some((modules.find(*address)?, index))).collect();
    places.sort_unstable();
    for same in places.chunk_by(|a, b| a.0 == b.0) {
        let module = modules.get(same[0].0);
        let Some(image) = Image::open(module) else { continue };
        let wanted: Vec<u64> = same.iter().map(|(_, index)| addresses[*index].wrapping_sub(image.bias)).collect();
        for (found, (_, index)) in image.names(&wanted).into_iter().zip(same) {
            names[*index] = found;
        }
    }
    names
}

/// A file of code with a symbol table.
struct Image {
    file: File,
    /// The displacement of its addresses.
    bias: u64,
    symbols: Section,
    strings: Section,
}

#[derive(Clone, Copy, Debug, Default)]
struct Section {
    kind: u32,
    offset: u64,
    bytes: u64,
    link: u32,
}

impl Image {
    fn open(module: &Module) -> Option<Self> {
        const SYMTAB: u32 = 2;
        let file = File::open(&module.path).ok()?;
        let head = read(&file, 0, 64)?;
        let is_elf64 = head.starts_with(b"\x7fELF\x02");
        let (headers, sections) = (number(&head, 32, 8)?, number(&head, 40, 8)?);
        let (header_count, section_count) = (number(&head, 56, 2)?, number(&head, 60, 2)?);
        if !is_elf64 {
            return None;
        }
        let headers = read(&file, headers, header_count as usize * 56)?;
        let load = headers
            .chunks_exact(56)
            .find_map(|header| Load::parse(header).filter(|load| load.holds(module.file_offset)))?;
        let bias =
            module.range.start.wrapping_sub(module.file_offset.wrapping_sub(load.offset).wrapping_add(load.address));
        let sections = read(&file, sections, section_count as usize * 64)?;
        let sections: Vec<Section> = sections.chunks_exact(64).filter_map(Section::parse).collect();
        let symbols = *sections.iter().find(|section| section.kind == SYMTAB && section.bytes <= MAX_TABLE)?;
        let strings = *sections.get(symbols.link as usize)?;
        Some(Self { file, bias, symbols, strings })
    }

    /// The names of the functions at these addresses of the file.
    fn names(&self, wanted: &[u64]) -> Vec<Option<String>> {
        let mut found: Vec<Option<u64>> = vec![None; wanted.len()];
        let mut at = 0;
        while at < self.symbols.bytes {
            let length = PORTION.min((self.symbols.bytes - at) as usize);
            let Some(portion) = read(&self.file, self.symbols.offset + at, length) else { break };
            for symbol in portion.chunks_exact(SYMBOL_BYTES) {
                let Some((name, range)) = function(symbol) else { continue };
                let holds = wanted.iter().zip(&mut found).filter(|(address, _)| range.contains(address));
                holds.for_each(|(_, found)| *found = Some(name));
            }
            at += length as u64;
        }
        found.into_iter().map(|name| Some(name.and_then(|name| self.name(name)).unwrap_or_default())).collect()
    }

    fn name(&self, offset: u64) -> Option<String> {
        let length = MAX_NAME.min(self.strings.bytes.checked_sub(offset)? as usize);
        let bytes = read(&self.file, self.strings.offset + offset, length)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

/// A loaded part of the file.
struct Load {
    offset: u64,
    address: u64,
    bytes: u64,
}

impl Load {
    /// One that holds code.
    fn parse(header: &[u8]) -> Option<Self> {
        const LOAD: u64 = 1;
        const EXECUTABLE: u64 = 1;
        let is_code = number(header, 0, 4)? == LOAD && number(header, 4, 4)? & EXECUTABLE != 0;
        let load =
            Self { offset: number(header, 8, 8)?, address: number(header, 16, 8)?, bytes: number(header, 32, 8)? };
        is_code.then_some(load)
    }

    /// Whether it is mapped from that offset, or from the beginning of its page, which may be before it.
    fn holds(&self, offset: u64) -> bool {
        const LARGEST_PAGE: u64 = 64 << 10;
        (self.offset.saturating_sub(LARGEST_PAGE - 1)..self.offset.saturating_add(self.bytes)).contains(&offset)
    }
}

impl Section {
    fn parse(header: &[u8]) -> Option<Self> {
        Some(Self {
            kind: number(header, 4, 4)? as u32,
            offset: number(header, 24, 8)?,
            bytes: number(header, 32, 8)?,
            link: number(header, 40, 4)? as u32,
        })
    }
}

/// Name and addresses of a symbol that is a function.
fn function(symbol: &[u8]) -> Option<(u64, std::ops::Range<u64>)> {
    const FUNCTION: u8 = 2;
    let (start, bytes) = (number(symbol, 8, 8)?, number(symbol, 16, 8)?);
    (symbol.get(4)? & 15 == FUNCTION).then_some((number(symbol, 0, 4)?, start..start.saturating_add(bytes)))
}

fn read(file: &File, offset: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

/// A number of that many bytes, in this machine's order.
fn number(bytes: &[u8], offset: usize, length: usize) -> Option<u64> {
    let mut number = [0; 8];
    let place = if cfg!(target_endian = "big") { 8 - length..8 } else { 0..length };
    number[place].copy_from_slice(bytes.get(offset..offset + length)?);
    Some(u64::from_ne_bytes(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_functions_have_names_and_other_addresses_have_none() {
        let own = look_up as *const () as u64;
        let found = look_up(&[own + 1, 16, libc::qsort as *const () as u64]);
        assert!(
            found[0].as_deref().is_some_and(|name| name.contains("contention") && name.contains("names")),
            "{found:?}"
        );
        assert_eq!(found[1], None);
    }
}
