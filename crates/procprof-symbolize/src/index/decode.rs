//! Reads a part of an index. Layout: see [`super`].

use std::sync::Arc;

use crate::leb::{Malformed, Read};
use crate::lookup::{Node, RawFrame, Record, Records, Row};
use crate::ranges::Span;

/// A part, decompressed.
pub(super) struct Part<'a> {
    strings: Vec<&'a [u8]>,
    files: Vec<u32>,
    functions: Vec<RawFunction>,
    directory: Vec<Entry>,
    bodies: &'a [u8],
}

struct RawFunction {
    system_name: u32,
    /// One more than the text's number; 0 if it is to be demangled.
    name: u32,
    start_line: u32,
}

struct Entry {
    begin: u64,
    end: u64,
    /// The place of its body.
    body: usize,
    length: usize,
}

/// A function of a part.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) system_name: Arc<str>,
    /// `None` if it is to be demangled.
    pub(super) name: Option<Arc<str>>,
    /// 0 if unknown.
    pub(super) start_line: u32,
}

impl<'a> Part<'a> {
    /// Reads the tables of a part that begins at `begin`.
    pub(super) fn read(bytes: &'a [u8], begin: u64) -> Result<Self, Malformed> {
        let mut read = Read(bytes);
        let (string_count, mut string_lengths) = table(&mut read)?;
        let (file_count, mut file_table) = table(&mut read)?;
        let (function_count, mut function_table) = table(&mut read)?;
        let (record_count, directory) = table(&mut read)?;
        let mut texts = Read(read.bytes()?);
        let mut strings = Vec::with_capacity(string_count);
        for _ in 0..string_count {
            strings.push(texts.take(string_lengths.count_of(texts.0.len())?)?);
        }
        let files = (0..file_count).map(|_| file_table.below(string_count)).collect::<Result<Vec<_>, _>>()?;
        let mut functions = Vec::with_capacity(function_count);
        for _ in 0..function_count {
            let system_name = function_table.below(string_count)?;
            let name = function_table.below(string_count + 1)?;
            functions.push(RawFunction { system_name, name, start_line: function_table.small()? });
        }
        let directory = entries(directory, record_count, begin, read.0.len())?;
        Ok(Self { strings, files, functions, directory, bodies: read.0 })
    }

    /// Looks up addresses, which ascend, and calls the function with the frames of those that are covered.
    pub(super) fn look_up(&self, addresses: &[u64], mut each: impl FnMut(usize, &[RawFrame])) -> Result<(), Malformed> {
        let mut records = Records::default();
        let mut frames = Vec::new();
        let mut open: Option<(usize, Record)> = None;
        for (position, address) in addresses.iter().enumerate() {
            let number = self.directory.partition_point(|entry| entry.end <= *address);
            let Some(entry) = self.directory.get(number).filter(|entry| entry.begin <= *address) else {
                continue;
            };
            if open.as_ref().is_none_or(|(open, _)| *open != number) {
                open = Some((number, self.record(entry, &mut records)?));
            }
            let Some((_, record)) = &open else { continue };
            frames.clear();
            records.add_frames(record, *address, &mut frames);
            each(position, &frames);
        }
        Ok(())
    }

    fn record(&self, entry: &Entry, records: &mut Records) -> Result<Record, Malformed> {
        records.nodes.clear();
        records.ranges.clear();
        records.rows.clear();
        let body = self.bodies.get(entry.body..).and_then(|rest| rest.get(..entry.length)).ok_or(Malformed)?;
        let mut read = Read(body);
        let function = read.below(self.functions.len())?;
        self.nodes(&mut read, entry.begin, records)?;
        self.rows(&mut read, entry.begin, records)?;
        let (nodes, rows) = (0..records.nodes.len() as u32, 0..records.rows.len() as u32);
        Ok(Record { begin: entry.begin, end: entry.end, function: Some(function), nodes, rows })
    }

    fn nodes(&self, read: &mut Read<'_>, begin: u64, records: &mut Records) -> Result<(), Malformed> {
        let count = read.count()?;
        // The ends of the enclosing calls.
        let mut ends: Vec<usize> = Vec::new();
        for at in 0..count {
            while ends.last().is_some_and(|end| *end <= at) {
                ends.pop();
            }
            let function = read.below(self.functions.len())?;
            let behind = at + 1 + read.below(count - at)? as usize;
            if ends.last().is_some_and(|end| behind > *end) {
                return Err(Malformed);
            }
            ends.push(behind);
            let file = read.below(self.files.len() + 1)?.checked_sub(1);
            let call = Row { file, line: read.small()?, column: read.small()? };
            let first = records.ranges.len() as u32;
            let mut before = begin;
            for _ in 0..read.count()? {
                let range_begin = before.wrapping_add(read.signed()? as u64);
                let range_end = range_begin.checked_add(read.number()?).ok_or(Malformed)?;
                records.ranges.push((range_begin, range_end));
                before = range_end;
            }
            let ranges = first..records.ranges.len() as u32;
            records.nodes.push(Node { function, call, ranges, behind: behind as u32 });
        }
        Ok(())
    }

    fn rows(&self, read: &mut Read<'_>, begin: u64, records: &mut Records) -> Result<(), Malformed> {
        let (mut at, mut row) = (begin, Row::default());
        for _ in 0..read.count()? {
            let tag = read.number()?;
            if tag & 2 != 0 {
                at = at.checked_add(read.number()?).ok_or(Malformed)?;
            }
            if tag & 1 != 0 {
                row.file = read.below(self.files.len() + 1)?.checked_sub(1);
            }
            let line = i64::from(row.line).checked_add(read.signed()?).ok_or(Malformed)?;
            row.line = u32::try_from(line).map_err(|_| Malformed)?;
            row.column = read.small()?;
            let end = at.checked_add(tag >> 2).ok_or(Malformed)?;
            records.rows.push(Span { begin: at, end, value: row });
            at = end;
        }
        Ok(())
    }

    pub(super) fn function(&self, number: u32) -> Function {
        let RawFunction { system_name, name, start_line } = self.functions[number as usize];
        Function {
            system_name: self.text(system_name),
            name: name.checked_sub(1).map(|name| self.text(name)),
            start_line,
        }
    }

    /// The name of a file.
    pub(super) fn file(&self, number: u32) -> Arc<str> {
        self.text(self.files[number as usize])
    }

    fn text(&self, number: u32) -> Arc<str> {
        String::from_utf8_lossy(self.strings[number as usize]).into()
    }

    pub(super) fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// Functions and symbols with code of their own.
    pub(super) fn record_count(&self) -> usize {
        self.directory.len()
    }

    pub(super) fn file_count(&self) -> usize {
        self.files.len()
    }
}

/// A count, and the bytes of that many things.
fn table<'a>(read: &mut Read<'a>) -> Result<(usize, Read<'a>), Malformed> {
    let count = read.count()?;
    let bytes = Read(read.bytes()?);
    if count > bytes.0.len() { Err(Malformed) } else { Ok((count, bytes)) }
}

fn entries(mut read: Read<'_>, count: usize, begin: u64, bytes: usize) -> Result<Vec<Entry>, Malformed> {
    let mut entries = Vec::with_capacity(count);
    let (mut at, mut body) = (begin, 0usize);
    for _ in 0..count {
        let begin = at.checked_add(read.number()?).ok_or(Malformed)?;
        let end = begin.checked_add(read.number()?).ok_or(Malformed)?;
        let length = read.count_of(bytes)?;
        entries.push(Entry { begin, end, body, length });
        (at, body) = (end, body.checked_add(length).ok_or(Malformed)?);
    }
    Ok(entries)
}

impl Read<'_> {
    /// A number below `limit`.
    #[inline]
    fn below(&mut self, limit: usize) -> Result<u32, Malformed> {
        let number = self.small()?;
        if (number as usize) < limit { Ok(number) } else { Err(Malformed) }
    }

    /// A length of at most `limit`.
    fn count_of(&mut self, limit: usize) -> Result<usize, Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if length > limit { Err(Malformed) } else { Ok(length) }
    }
}
