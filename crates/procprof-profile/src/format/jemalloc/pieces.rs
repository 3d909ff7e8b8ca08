//! Reading a dump in pieces, which can be read one beside the other: a [`Dump`] adds up what its readers gave.

use foldhash::HashMap;

use super::{Counts, NAME, Owner, Wanted, counts};
use crate::format::raw_stacks::RawStacks;
use crate::format::{Limits, StackLines, legacy_frames};
use crate::text::{Cursor, Line, Lines, OddLines, is_map_heading};
use crate::{Addresses, Error, Label, LocationId, Place, Profile, ProfileType, Result, Sampling};

/// A dump of which pieces are read.
pub struct Dump {
    stacks: RawStacks,
    wanted: Wanted,
    depth: usize,
    /// Length of the whole text in bytes.
    len: u64,
    /// How many lines the pieces so far have.
    lines: usize,
    /// The line of the last stack, while no counts have followed it.
    pending: Option<usize>,
    names: HashMap<i64, String>,
    has_allocations: bool,
    /// By reader: the locations of its addresses.
    ids: Vec<Vec<LocationId>>,
}

/// Reads pieces of one dump, several readers at once.
pub struct PieceReader {
    number: usize,
    wanted: Wanted,
    depth: usize,
    ids: HashMap<u64, u32>,
    /// Addresses that were not met before this piece.
    new: Vec<u64>,
}

/// The decoded content of a piece.
pub struct Piece {
    reader: usize,
    /// Its length in bytes.
    len: usize,
    addresses: Vec<u64>,
    /// Frames of stacks, back to back, by the reader's ids.
    frames: Vec<u32>,
    /// The end of each stack in `frames`.
    ends: Vec<usize>,
    counts: Vec<(u32, Owner, Counts)>,
    names: Vec<(i64, String)>,
    lines: usize,
    /// The beginning of its first line, where that is a stack.
    first: Option<String>,
    pending: Option<usize>,
    odd: OddLines,
    map: Option<usize>,
}

impl Dump {
    /// The dump of `len` bytes that begins like this, its first line whole, with its counts over all threads.
    ///
    /// # Errors
    /// [`Error::Malformed`] or [`Error::Truncated`] for the first line, [`Error::Empty`] without one.
    pub fn open(head: &[u8], len: u64, limits: &Limits) -> Result<Dump> {
        Dump::open_for(head, len, limits, Wanted::Totals)
    }

    pub(super) fn open_for(head: &[u8], len: u64, limits: &Limits, wanted: Wanted) -> Result<Dump> {
        let Some(line) = Lines::new(head).next() else { return Err(Error::Empty) };
        let mut cursor = Cursor::new(line.text);
        let rate = cursor.eat_text(b"heap_v2/").and_then(|()| cursor.integer());
        let rate = rate.filter(|_| cursor.is_done() && !line.is_cut).ok_or_else(|| line.error(NAME, "heap_v2/RATE"))?;
        let mut stacks =
            RawStacks::new(NAME, ProfileType::Heap.sample_types(), Addresses::RawReturn, &legacy_frames::HEAP, limits);
        stacks.builder.period("space", "bytes", rate);
        stacks.builder.default_sample_type("inuse_space");
        stacks.builder.parts_mut().sampling = if rate > 1 { Sampling::Poisson(rate) } else { Sampling::Exact };
        let (names, ids) = (HashMap::default(), Vec::new());
        let depth = limits.depth;
        Ok(Dump { stacks, wanted, depth, len, lines: 0, pending: None, names, has_allocations: false, ids })
    }

    /// The earliest start of a piece at or behind `from`.
    pub fn border(text: &[u8], from: usize) -> Option<usize> {
        let before = from.saturating_sub(1);
        memchr::memmem::find(text.get(before..)?, b"\n@").map(|at| before + at + 1)
    }

    /// Another reader.
    pub fn reader(&mut self) -> PieceReader {
        self.ids.push(Vec::new());
        let Dump { wanted, depth, .. } = *self;
        PieceReader { number: self.ids.len() - 1, wanted, depth, ids: HashMap::default(), new: Vec::new() }
    }

    /// Adds a piece, the first of the dump first, by a reader of this dump's; gives where in it the memory map begins,
    /// which ends the dump.
    ///
    /// # Errors
    /// What reading the piece gave.
    pub fn add(&mut self, piece: Result<Piece>) -> Result<Option<usize>> {
        let piece = piece.map_err(|error| error.shifted(self.lines, 0))?;
        if self.lines == 0 {
            self.reserve(&piece);
        }
        let ids = &mut self.ids[piece.reader];
        ids.extend(piece.addresses.iter().map(|address| self.stacks.location(*address)));
        self.names.extend(piece.names);
        if let (Some(_), Some(first)) = (self.pending, piece.first) {
            self.stacks.odd.add(self.lines + 1, first);
        }
        for (stack, owner, Counts { inuse, allocated }) in &piece.counts {
            let stack = *stack as usize;
            let start = stack.checked_sub(1).map_or(0, |before| piece.ends[before]);
            let ids = &self.ids[piece.reader];
            self.stacks.set(piece.frames[start..piece.ends[stack]].iter().map(|frame| ids[*frame as usize]));
            self.has_allocations |= *allocated != (0, 0);
            let labels = match owner {
                Owner::All => [None, None],
                Owner::Thread(thread) => self.thread_labels(*thread),
            };
            let values = [allocated.0, allocated.1, inuse.0, inuse.1];
            match labels {
                [Some(number), Some(name)] => self.stacks.sample(&values, &[number, name]),
                [Some(number), None] => self.stacks.sample(&values, &[number]),
                [None, _] => self.stacks.sample(&values, &[]),
            }
        }
        if piece.lines > 0 {
            self.pending = piece.pending.map(|line| line + self.lines);
        }
        self.stacks.odd.append(piece.odd, self.lines);
        self.lines += piece.lines;
        Ok(piece.map)
    }

    /// Makes room for the whole dump, which is taken to be like its first piece; one part in eight more, because that
    /// is not quite so.
    fn reserve(&mut self, piece: &Piece) {
        let parts = self.len / piece.len.max(1) as u64;
        let parts = (parts + parts / 8) as usize;
        self.stacks.reserve(piece.counts.len() * parts, piece.frames.len() * parts);
    }

    fn thread_labels(&mut self, thread: i64) -> [Option<Label>; 2] {
        let builder = &mut self.stacks.builder;
        let number = builder.number_label("thread", thread, "");
        let name = self.names.get(&thread).map(|name| builder.text_label("thread_name", name));
        [Some(number), name]
    }

    /// The whole, with the text of its memory map if there is one.
    ///
    /// # Errors
    /// [`Error::Truncated`] when it ends in a stack without counts.
    pub fn finish(mut self, map: Option<&[u8]>, warnings: &mut Vec<String>) -> Result<Profile> {
        match (self.pending, map) {
            (Some(line), None) => {
                return Err(Error::Truncated {
                    format: NAME,
                    place: Place::Line(line),
                    what: "a stack without counts",
                });
            }
            (None, None) => {
                warnings
                    .push(format!("{NAME}: line {}: no memory map at the end; the dump may be cut off", self.lines));
            }
            (_, Some(_)) => {}
        }
        if !self.has_allocations {
            self.stacks
                .builder
                .comment("alloc_objects and alloc_space are 0: jemalloc kept no totals (prof_accum:false)");
        }
        self.stacks.finish(map.unwrap_or_default(), self.lines, warnings)
    }
}

impl PieceReader {
    /// Reads a piece that begins with a stack, or with the dump.
    ///
    /// # Errors
    /// [`Error::Malformed`] or [`Error::Truncated`] with the line in the piece, [`Error::TooLarge`] past the depth
    /// limit.
    pub fn read(&mut self, text: &[u8]) -> Result<Piece> {
        let mut piece = Piece::new(self.number, text);
        let (mut in_header, mut is_broken) = (!text.starts_with(b"@"), false);
        let mut lines = Lines::new(text);
        let mut stacks = StackLines::default();
        if in_header {
            // It has been read.
            piece.lines = lines.next().map_or(0, |line| line.number);
        }
        while let Some(line) = lines.next() {
            piece.lines = line.number;
            match line.text.first() {
                None | Some(b'#') => {}
                Some(b't') if in_header => {
                    piece.names.extend(piece.odd.keep(&line, thread_name(&line))?.flatten());
                }
                // They are those of a broken stack.
                Some(b't') if is_broken => {}
                Some(b't') => {
                    let read = self.read_counts(&line, &mut piece);
                    piece.odd.keep(&line, read)?;
                }
                Some(b'@') => {
                    in_header = false;
                    if piece.pending.is_some() {
                        piece.odd.note(&line);
                    }
                    let stack = piece.odd.keep(&line, self.read_stack(&line, &mut stacks))?;
                    is_broken = stack.is_none();
                    piece.pending = stack.map(|stack| {
                        piece.frames.extend_from_slice(stack);
                        piece.ends.push(piece.frames.len());
                        line.number
                    });
                }
                Some(_) if is_map_heading(line.text) => {
                    piece.map = Some(text.len() - lines.rest().len());
                    break;
                }
                Some(_) if line.is_cut => return Err(line.error(NAME, "a stack, counts or a heading")),
                Some(_) => piece.odd.note(&line),
            }
        }
        piece.addresses = std::mem::take(&mut self.new);
        Ok(piece)
    }

    fn read_stack<'s, 'a>(&mut self, line: &Line<'a>, stacks: &'s mut StackLines<'a, u32>) -> Result<&'s [u32]> {
        let text = &line.text[1..];
        // Other blanks than these two are none here.
        if line.is_cut || memchr::memchr2(b'\r', b'\x0c', text).is_some() {
            return Err(line.error(NAME, if line.is_cut { "a stack of addresses" } else { ADDRESS }));
        }
        let frame = |word: &'a [u8], _| {
            let mut cursor = Cursor::new(word);
            let address = cursor.address().filter(|_| cursor.is_done()).ok_or_else(|| line.error(NAME, ADDRESS))?;
            let next = self.ids.len() as u32;
            let id = *self.ids.entry(address).or_insert_with(|| {
                self.new.push(address);
                next
            });
            Ok::<_, Error>(Some(id))
        };
        let stack = stacks.read(text, frame)?;
        if stack.len() > self.depth {
            return Err(Error::TooLarge { format: NAME, what: "frames of a stack", limit: self.depth as u64 });
        }
        Ok(stack)
    }

    fn read_counts(&self, line: &Line<'_>, piece: &mut Piece) -> Result<()> {
        let is_total = line.text.get(1) == Some(&b'*');
        if is_total {
            piece.pending = None;
        }
        if is_total != (self.wanted == Wanted::Totals) && !line.is_cut {
            return Ok(());
        }
        let (owner, counts, _) = counts(line.text).filter(|_| !line.is_cut).ok_or_else(|| line.error(NAME, COUNTS))?;
        piece.counts.push((piece.ends.len() as u32 - 1, owner, counts));
        Ok(())
    }
}

/// The element of a stack, for messages.
const ADDRESS: &str = "an address such as 0x4005d0";
/// The form of a line of counts, for messages.
const COUNTS: &str = "tTHREAD: N: S [N: S]";

/// The thread and its name of a header line, if it has one.
fn thread_name(line: &Line<'_>) -> Result<Option<(i64, String)>> {
    let read = counts(line.text).filter(|_| !line.is_cut);
    let (owner, _, name) = read.ok_or_else(|| line.error(NAME, COUNTS))?;
    Ok(match owner {
        Owner::Thread(thread) if !name.is_empty() => Some((thread, String::from_utf8_lossy(name).into_owned())),
        _ => None,
    })
}

impl Piece {
    fn new(reader: usize, text: &[u8]) -> Piece {
        let first = Lines::new(text).next().filter(|line| line.text.first() == Some(&b'@')).map(|line| line.excerpt());
        Piece {
            reader,
            len: text.len(),
            addresses: Vec::new(),
            frames: Vec::new(),
            ends: Vec::new(),
            counts: Vec::new(),
            names: Vec::new(),
            lines: 0,
            first,
            pending: None,
            odd: OddLines::default(),
            map: None,
        }
    }
}
