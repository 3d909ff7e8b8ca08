//! Heap profiles of jemalloc: `heap_v2/524288`, then `@ STACK` lines, each with counts of all threads and of each.
//!
//! Such a profile can be cut between two stacks, and its pieces read in parallel: [`HeapDump`] sums their results.

use std::collections::BTreeMap;

use procprof_profile::format::StackLines;

use super::line::{Counts, counts_of, read_stack};
use super::sampling::Sampling;
use super::source::Source;
use super::{ReadError, Reading};
use crate::stacks::{PcId, Pcs, Stacks};
use crate::{HeapIndex, ProfileKind, Settings};

/// A profile of jemalloc that is read in pieces.
#[derive(Debug)]
pub struct HeapDump {
    sampling: Sampling,
    index: HeapIndex,
    by_thread: bool,
    messages: Vec<String>,
    stacks: Stacks,
    threads: BTreeMap<u64, Stacks>,
    /// By reader: the ids of its addresses.
    ids: Vec<Vec<PcId>>,
}

/// Reads pieces of one profile, several readers at once.
#[derive(Debug)]
pub struct PieceReader {
    number: usize,
    sampling: Sampling,
    index: HeapIndex,
    by_thread: bool,
    pcs: Pcs,
}

/// The result of a piece.
#[derive(Debug)]
pub struct Piece {
    reader: usize,
    /// Addresses that the reader had not met before.
    addresses: Vec<u64>,
    /// Frames of stacks, back to back, by the reader's ids.
    frames: Vec<PcId>,
    /// The end of each stack in `frames`.
    ends: Vec<usize>,
    /// For each line of counts: its stack's position, its thread, its value.
    counts: Vec<(u32, Option<u64>, f64)>,
    /// The start of the memory map, if it is in this piece; the profile ends with it.
    pub map: Option<usize>,
}

impl HeapDump {
    /// The profile that begins like this, if it is jemalloc's; `None` also where its first line does not end in `head`.
    ///
    /// # Errors
    /// [`ReadError::NoRate`].
    pub fn open(head: &[u8], settings: &Settings) -> Result<Option<HeapDump>, ReadError> {
        let mut source = Source { rest: head, messages: Vec::new() };
        let Some(header) =
            source.header().filter(|header| header.starts_with("heap") && !header.starts_with("heap profile:"))
        else {
            return Ok(None);
        };
        if source.rest.is_empty() {
            return Ok(None);
        }
        HeapDump::new(&header, source.messages, settings).map(Some)
    }

    fn new(header: &str, messages: Vec<String>, settings: &Settings) -> Result<HeapDump, ReadError> {
        let digits = header.strip_prefix("heap_v2/").ok_or(ReadError::NoRate)?;
        let digits = &digits[..digits.len() - digits.trim_start_matches(|digit: char| digit.is_ascii_digit()).len()];
        let rate: f64 = digits.parse().map_err(|_| ReadError::NoRate)?;
        let sampling = if rate == 0.0 { Sampling::Exact } else { Sampling::Poisson(rate) };
        let Settings { index, by_thread, .. } = *settings;
        let (stacks, threads, ids) = (Stacks::default(), BTreeMap::new(), Vec::new());
        Ok(HeapDump { sampling, index, by_thread, messages, stacks, threads, ids })
    }

    /// The first place at or behind `from` where a piece can begin.
    pub fn border(text: &[u8], from: usize) -> Option<usize> {
        let before = from.saturating_sub(1);
        memchr::memmem::find(text.get(before..)?, b"\n@").map(|at| before + at + 1)
    }

    /// Another reader.
    pub fn reader(&mut self) -> PieceReader {
        self.ids.push(Vec::new());
        let HeapDump { sampling, index, by_thread, .. } = *self;
        PieceReader { number: self.ids.len() - 1, sampling, index, by_thread, pcs: Pcs::default() }
    }

    /// Makes room for the whole profile, `parts` times the piece.
    pub fn reserve(&mut self, piece: &Piece, parts: usize) {
        self.stacks.reserve(piece.ends.len() * parts, piece.frames.len() * parts);
    }

    /// Adds a piece, the first of the profile first, by a reader of this profile's.
    pub fn add(&mut self, piece: &Piece, pcs: &mut Pcs) {
        let ids = &mut self.ids[piece.reader];
        ids.extend(piece.addresses.iter().map(|address| pcs.id(*address)));
        for (stack, thread, value) in &piece.counts {
            let stack = *stack as usize;
            let start = stack.checked_sub(1).map_or(0, |before| piece.ends[before]);
            let frames = piece.frames[start..piece.ends[stack]].iter().map(|frame| ids[frame.index()]);
            match thread {
                None => self.stacks.add_frames(frames, *value),
                Some(thread) => self.threads.entry(*thread).or_default().add_frames(frames, *value),
            }
        }
    }

    /// The whole, with the memory map's text.
    pub fn finish(self, map: &[u8]) -> Reading {
        let mut reading = Reading::new(ProfileKind::Heap, self.messages);
        reading.stacks = self.stacks;
        reading.threads = Some(self.threads);
        reading.map = String::from_utf8_lossy(map).replace('\r', "");
        reading
    }
}

impl PieceReader {
    /// Reads a piece that begins with a stack, or with the profile.
    pub fn read(&mut self, text: &[u8]) -> Piece {
        let known = self.pcs.addresses().len();
        let (reader, map) = (self.number, None);
        let mut piece =
            Piece { reader, addresses: Vec::new(), frames: Vec::new(), ends: Vec::new(), counts: Vec::new(), map };
        let mut source = Source { rest: text, messages: Vec::new() };
        let mut lines = StackLines::default();
        while let Some(line) = source.line() {
            if Source::is_map_heading(line) {
                piece.map = Some(text.len() - source.rest.len());
                break;
            }
            let line = line.trim_ascii();
            if let Some(addresses) = line.strip_prefix(b"@") {
                piece.frames.extend_from_slice(read_stack(addresses, &mut self.pcs, &mut lines));
                piece.ends.push(piece.frames.len());
            } else if let (Some(stack), Some((thread, counts))) = (piece.ends.len().checked_sub(1), thread_counts(line))
                && (thread.is_none() || self.by_thread)
            {
                piece.counts.push((stack as u32, thread, self.sampling.estimate(counts, self.index)));
            }
        }
        piece.addresses = self.pcs.addresses()[known..].to_vec();
        piece
    }
}

/// `heap_v2/RATE`, then `@ STACK`, each with `t*: N: S [N: S]` and a line for each thread.
pub(super) fn read(source: Source<'_>, header: &str, settings: &Settings, pcs: &mut Pcs) -> Result<Reading, ReadError> {
    let mut dump = HeapDump::new(header, source.messages, settings)?;
    let piece = dump.reader().read(source.rest);
    dump.add(&piece, pcs);
    Ok(dump.finish(piece.map.map_or(&[], |map| &source.rest[map..])))
}

/// Reads `t*: …` or `tN: …`.
fn thread_counts(line: &[u8]) -> Option<(Option<u64>, Counts)> {
    let rest = line.strip_prefix(b"t")?;
    let colon = memchr::memchr(b':', rest)?;
    let thread = match &rest[..colon] {
        b"*" => None,
        digits => Some(std::str::from_utf8(digits).ok()?.parse().ok()?),
    };
    Some((thread, counts_of(&rest[colon + 1..])?))
}

#[cfg(test)]
mod tests;
