//! Writes records as a part of an index. Layout: see [`super`].

use foldhash::HashMap;

use crate::leb::Write;
use crate::lookup::{Node, Records, Row};
use crate::ranges::Span;

/// A function as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FunctionNames<'n> {
    /// The linker's name, or the bare one.
    pub(super) system_name: &'n str,
    /// The readable name; `None` if demangling returns it.
    pub(super) name: Option<&'n str>,
    /// 0 if unknown.
    pub(super) start_line: u32,
}

/// Bytes of a part at which the next one is begun.
const PART_BYTES: usize = 2 << 20;

/// A part before it is compressed.
#[derive(Debug, Default)]
pub(crate) struct RawPart {
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Its bytes, one piece after the other: they are megabytes, and need not be joined to be written.
    pub(super) pieces: Vec<Vec<u8>>,
}

/// Writes records, given by ascending address, into parts of limited size.
#[derive(Default)]
pub(super) struct PartWriter<'n> {
    strings: HashMap<&'n str, u32>,
    string_lengths: Vec<u8>,
    string_bytes: Vec<u8>,
    files: HashMap<&'n str, u32>,
    file_table: Vec<u8>,
    functions: HashMap<FunctionNames<'n>, u32>,
    /// The new numbers of the records' functions and files.
    function_numbers: HashMap<u32, u32>,
    file_numbers: HashMap<u32, u32>,
    function_table: Vec<u8>,
    directory: Vec<u8>,
    count: u64,
    bodies: Vec<u8>,
    begin: u64,
    end: u64,
    done: Vec<RawPart>,
}

impl<'n> PartWriter<'n> {
    /// Adds the part of a record in `begin..end`. `functions` and `files` are by the records' numbers;
    /// `function` replaces the record's own.
    ///
    /// Nothing is added for a record without a name.
    pub(super) fn add(
        &mut self,
        records: &Records,
        piece: &Piece<'n>,
        functions: impl Fn(u32) -> Option<FunctionNames<'n>>,
        files: impl Fn(u32) -> &'n str,
    ) {
        let Some(outermost) = piece.function else { return };
        if self.count > 0 && (piece.begin < self.end || self.size() > PART_BYTES) {
            self.finish_part();
        }
        if self.count == 0 {
            (self.begin, self.end) = (piece.begin, piece.begin);
        }
        let start = self.bodies.len();
        let outermost = self.function(outermost);
        self.bodies.number(u64::from(outermost));
        self.nodes(records, piece, &functions, &files);
        self.rows(records, piece, &files);
        self.directory.number(piece.begin - self.end);
        self.directory.number(piece.end - piece.begin);
        self.directory.number((self.bodies.len() - start) as u64);
        self.end = piece.end;
        self.count += 1;
    }

    fn nodes(
        &mut self,
        records: &Records,
        piece: &Piece<'n>,
        functions: impl Fn(u32) -> Option<FunctionNames<'n>>,
        files: impl Fn(u32) -> &'n str,
    ) {
        let nodes = &records.nodes[piece.nodes.start as usize..piece.nodes.end as usize];
        // Calls with code in the piece are written. Their callers have code in it, too.
        let first = piece.nodes.start;
        let clipped = |node: &Node| {
            let ranges = &records.ranges[node.ranges.start as usize..node.ranges.end as usize];
            let clip = move |(begin, end): &(u64, u64)| {
                Span { begin: *begin, end: *end, value: () }.clipped(piece.begin, piece.end)
            };
            ranges.iter().filter_map(clip)
        };
        let mut written = Vec::new();
        let mut at = 0;
        while let Some(node) = nodes.get(at) {
            if clipped(node).next().is_some() {
                written.push(at);
                at += 1;
            } else {
                at = (node.behind - first) as usize;
            }
        }
        self.bodies.number(written.len() as u64);
        for (position, at) in written.iter().enumerate() {
            let node = &nodes[*at];
            let function = match self.function_numbers.get(&node.function) {
                Some(function) => *function,
                None => {
                    let names = functions(node.function).unwrap_or(FunctionNames {
                        system_name: "",
                        name: None,
                        start_line: 0,
                    });
                    let function = self.function(names);
                    self.function_numbers.insert(node.function, function);
                    function
                }
            };
            let inside = written[position + 1..].partition_point(|other| (*other as u32) < node.behind - first);
            self.bodies.number(u64::from(function));
            self.bodies.number(inside as u64);
            let file = node.call.file.map_or(0, |file| self.numbered_file(file, &files) + 1);
            for number in [file, node.call.line, node.call.column] {
                self.bodies.number(u64::from(number));
            }
            self.bodies.number(clipped(node).count() as u64);
            let mut before = piece.begin;
            for range in clipped(node) {
                self.bodies.signed(range.begin.wrapping_sub(before) as i64);
                self.bodies.number(range.end - range.begin);
                before = range.end;
            }
        }
    }

    fn rows(&mut self, records: &Records, piece: &Piece<'n>, files: impl Fn(u32) -> &'n str) {
        let rows = &records.rows[piece.rows.start as usize..piece.rows.end as usize];
        let rows = rows.iter().filter_map(|row| row.clipped(piece.begin, piece.end));
        let (mut at, mut before) = (piece.begin, Row::default());
        self.bodies.number(rows.clone().count() as u64);
        for Span { begin, end, value } in rows {
            let (gap, moved) = (begin - at, value.file != before.file);
            self.bodies.number((end - begin) << 2 | u64::from(gap != 0) << 1 | u64::from(moved));
            if gap != 0 {
                self.bodies.number(gap);
            }
            if moved {
                let file = value.file.map_or(0, |file| self.numbered_file(file, &files) + 1);
                self.bodies.number(u64::from(file));
            }
            self.bodies.signed(i64::from(value.line) - i64::from(before.line));
            self.bodies.number(u64::from(value.column));
            (at, before) = (end, value);
        }
    }

    fn string(&mut self, text: &'n str) -> u32 {
        let next = self.strings.len() as u32;
        *self.strings.entry(text).or_insert_with(|| {
            self.string_lengths.number(text.len() as u64);
            self.string_bytes.extend_from_slice(text.as_bytes());
            next
        })
    }

    /// Forgets the new numbers: the records that follow are of another table.
    pub(super) fn forget_numbers(&mut self) {
        self.function_numbers.clear();
        self.file_numbers.clear();
    }

    fn numbered_file(&mut self, number: u32, files: impl Fn(u32) -> &'n str) -> u32 {
        if let Some(file) = self.file_numbers.get(&number) {
            return *file;
        }
        let file = self.file(files(number));
        self.file_numbers.insert(number, file);
        file
    }

    fn file(&mut self, name: &'n str) -> u32 {
        if let Some(file) = self.files.get(name) {
            return *file;
        }
        let string = self.string(name);
        self.file_table.number(u64::from(string));
        let next = self.files.len() as u32;
        self.files.insert(name, next);
        next
    }

    fn function(&mut self, names: FunctionNames<'n>) -> u32 {
        if let Some(function) = self.functions.get(&names) {
            return *function;
        }
        let system_name = self.string(names.system_name);
        let name = names.name.map_or(0, |name| self.string(name) + 1);
        for number in [system_name, name, names.start_line] {
            self.function_table.number(u64::from(number));
        }
        let next = self.functions.len() as u32;
        self.functions.insert(names, next);
        next
    }

    fn size(&self) -> usize {
        self.bodies.len() + self.directory.len() + self.string_bytes.len()
    }

    fn finish_part(&mut self) {
        let part = std::mem::take(self);
        self.done = part.done;
        let mut bytes =
            Vec::with_capacity(part.directory.len() + part.function_table.len() + part.string_lengths.len() + 64);
        let tables = [
            (part.strings.len(), &part.string_lengths),
            (part.files.len(), &part.file_table),
            (part.functions.len(), &part.function_table),
            (part.count as usize, &part.directory),
        ];
        for (count, table) in tables {
            bytes.number(count as u64);
            bytes.number(table.len() as u64);
            bytes.extend_from_slice(table);
        }
        bytes.number(part.string_bytes.len() as u64);
        self.done.push(RawPart {
            begin: part.begin,
            end: part.end,
            pieces: vec![bytes, part.string_bytes, part.bodies],
        });
    }

    /// The parts that are whole so far, each once.
    pub(super) fn done(&mut self) -> impl Iterator<Item = RawPart> {
        self.done.drain(..)
    }

    /// The other parts.
    pub(super) fn finish(mut self) -> Vec<RawPart> {
        if self.count > 0 {
            self.finish_part();
        }
        self.done
    }
}

/// The written part of a record.
#[derive(Debug, Clone)]
pub(super) struct Piece<'n> {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) function: Option<FunctionNames<'n>>,
    pub(super) nodes: std::ops::Range<u32>,
    pub(super) rows: std::ops::Range<u32>,
}
