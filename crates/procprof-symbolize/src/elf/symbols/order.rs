//! The symbols of a table by address, in a compact form for the cache: half a million take 3 MB.
//!
//! Numbers are LEB128, those marked ± zigzag:
//!
//! ```text
//! order     symbols in the table, first one that is no source file, source files (count, then: further), entries
//! entry     address further, ± number further << 3 | moved << 2 | function << 1 | listed, [section, if moved]
//! ```

use std::borrow::Cow;

use object::File;
use object::elf::STT_FILE;

use super::table::{self, RawSymbol, Table};
use crate::leb::{Malformed, Read, Write};

/// In an entry: `nm` lists the symbol.
const LISTED: u64 = 1;
/// It may be a function.
const FUNCTION: u64 = 2;
/// It is in another section than the one before.
const MOVED: u64 = 4;

/// The symbols of a table by address, those of one address by number.
#[derive(Debug)]
pub(crate) struct Order<'b> {
    pub(crate) bytes: Cow<'b, [u8]>,
    /// The start of the entries.
    entries: usize,
    /// The numbers of source files, which ascend.
    files: Vec<u32>,
    /// The first source file behind another symbol.
    file_behind: u32,
}

/// One symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) address: u64,
    pub(crate) index: u32,
    /// If it is a function, its section.
    pub(crate) section: Option<usize>,
    /// Whether it is one of `nm`'s.
    pub(crate) is_listed: bool,
}

impl<'b> Order<'b> {
    /// Makes the order of a table.
    pub(crate) fn new(file: &File<'_>, table: Table) -> Order<'static> {
        let bytes = Writer::default().write(file, table);
        Order::read(bytes.into(), file, table).unwrap_or_else(|Malformed| Order {
            bytes: Cow::Borrowed(&[]),
            entries: 0,
            files: Vec::new(),
            file_behind: u32::MAX,
        })
    }

    /// Reads the cached order of a table. Errs if it can't be that table's.
    pub(crate) fn read(bytes: Cow<'b, [u8]>, file: &File<'_>, table: Table) -> Result<Self, Malformed> {
        let mut read = Read(&bytes);
        if read.number()? != table::count(file, table) as u64 {
            return Err(Malformed);
        }
        let first = read.small()?;
        let mut files = Vec::new();
        let mut last = 0u32;
        for _ in 0..read.count()? {
            last = last.checked_add(read.small()?).ok_or(Malformed)?;
            files.push(last);
        }
        let file_behind = files.get(files.partition_point(|file| *file <= first)).copied().unwrap_or(u32::MAX);
        let entries = bytes.len() - read.0.len();
        let order = Self { bytes, entries, files, file_behind };
        Ok(order)
    }

    /// The entries; a broken one ends them.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        let mut entries = Entries { read: Read(&self.bytes[self.entries..]), address: 0, index: 0, section: 0 };
        std::iter::from_fn(move || if entries.read.0.is_empty() { None } else { entries.next().ok() })
    }

    /// The source file named before a symbol.
    pub(crate) fn file_before(&self, index: u32) -> Option<u32> {
        let after = self.files.partition_point(|file| *file < index);
        self.files.get(after.checked_sub(1)?).copied()
    }

    /// Whether a source file is named between other symbols before this one.
    pub(crate) fn is_behind_files(&self, index: u32) -> bool {
        self.file_behind < index
    }
}

/// Checks a cached order.
pub(crate) fn check(bytes: &[u8]) -> Result<(), Malformed> {
    let mut read = Read(bytes);
    read.number()?;
    read.small()?;
    for _ in 0..read.count()? {
        read.small()?;
    }
    let mut entries = Entries { read, address: 0, index: 0, section: 0 };
    while !entries.read.0.is_empty() {
        entries.next()?;
    }
    Ok(())
}

struct Entries<'b> {
    read: Read<'b>,
    address: u64,
    index: u32,
    section: usize,
}

impl Entries<'_> {
    #[inline]
    fn next(&mut self) -> Result<Entry, Malformed> {
        self.address = self.address.checked_add(self.read.number()?).ok_or(Malformed)?;
        let packed = self.read.number()?;
        let further = (packed >> 4) as i64 ^ -((packed >> 3 & 1) as i64);
        self.index = u32::try_from(i64::from(self.index) + further).map_err(|_| Malformed)?;
        if packed & MOVED != 0 {
            self.section = self.read.small()? as usize;
        }
        let section = (packed & FUNCTION != 0).then_some(self.section);
        Ok(Entry { address: self.address, index: self.index, section, is_listed: packed & LISTED != 0 })
    }
}

/// Gathers the symbols of a table.
#[derive(Default)]
struct Writer {
    /// By number: section << 2 and what it is.
    symbols: Vec<u64>,
    /// Address and number.
    places: Vec<(u64, u32)>,
    files: Vec<u32>,
    first: Option<u32>,
}

impl Writer {
    fn write(mut self, file: &File<'_>, table: Table) -> Vec<u8> {
        let count = table::count(file, table);
        self.symbols = vec![0; count];
        self.places.reserve(count);
        table::each(file, table, |symbol| self.add(symbol));
        self.places.sort_unstable();
        // Numbers further and addresses further take three bytes each, mostly.
        let mut bytes = Vec::with_capacity(count * 6);
        bytes.number(count as u64);
        bytes.number(u64::from(self.first.unwrap_or(u32::MAX)));
        bytes.number(self.files.len() as u64);
        let mut before = 0;
        for file in &self.files {
            bytes.number(u64::from(file - before));
            before = *file;
        }
        let (mut address, mut index, mut section) = (0, 0, 0);
        for (own_address, own_index) in &self.places {
            let symbol = self.symbols[*own_index as usize];
            let is_moved = symbol & FUNCTION != 0 && symbol >> 2 != section;
            let further = i64::from(*own_index) - i64::from(index);
            let zigzag = ((further << 1) ^ (further >> 63)) as u64;
            bytes.number(own_address - address);
            bytes.number(zigzag << 3 | if is_moved { MOVED } else { 0 } | symbol & (LISTED | FUNCTION));
            if is_moved {
                section = symbol >> 2;
                bytes.number(section);
            }
            (address, index) = (*own_address, *own_index);
        }
        bytes
    }

    fn add(&mut self, symbol: &RawSymbol<'_>) {
        if symbol.kind == STT_FILE {
            self.files.push(symbol.index);
        } else {
            self.first.get_or_insert(symbol.index);
        }
        let section = symbol.function_section();
        let what = if symbol.is_listed() { LISTED } else { 0 } | if section.is_some() { FUNCTION } else { 0 };
        if what != 0
            && let Some(place) = self.symbols.get_mut(symbol.index as usize)
        {
            *place = (section.unwrap_or(0) as u64) << 2 | what;
            self.places.push((symbol.address, symbol.index));
        }
    }
}
