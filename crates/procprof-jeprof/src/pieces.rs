//! Reads large dumps in pieces, with a thread for each core: memory has some pieces, not the file.

use std::fs::File;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Length of a piece in bytes, up to the next border, which a core has in memory.
const PIECE_BYTES: u64 = 256 << 10;
/// Bytes that are read at once to find a border.
const BORDER_BYTES: usize = 16 << 10;
/// Most threads that read.
const THREADS_MAX: usize = 8;

/// Finds where a text can be cut: the first place at or behind one, but not at the text's own beginning.
pub type Border = fn(&[u8], usize) -> Option<usize>;

/// A reader's result for a piece, and the piece's place.
type Read<P> = io::Result<(P, Range<u64>)>;

/// A text in a file, cut into pieces.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    file: &'a File,
    /// The text's length in bytes.
    len: u64,
    piece: u64,
    border: Border,
}

impl<'a> Pieces<'a> {
    /// The first `len` bytes of a file.
    pub fn new(file: &'a File, len: u64, border: Border) -> Self {
        Pieces { file, len, piece: PIECE_BYTES, border }
    }

    fn count(&self) -> u64 {
        self.len.div_ceil(self.piece)
    }

    /// The number of reading threads.
    pub fn threads(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        cores.min(THREADS_MAX).min(usize::try_from(self.count()).unwrap_or(usize::MAX)).max(1)
    }

    /// The bytes of the text from `start` on.
    ///
    /// # Errors
    /// The file's.
    pub fn rest(&self, start: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.len.saturating_sub(start) as usize];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    }

    /// Lets each reader, in a thread of its own, read pieces, and passes their results to `take` in the order of the
    /// text, with the place of the piece, until it breaks.
    ///
    /// # Errors
    /// The file's; also when a reader panics.
    pub fn read<R: Send, P: Send>(
        self,
        readers: Vec<R>,
        read: impl Fn(&mut R, &[u8]) -> P + Sync,
        mut take: impl FnMut(P, Range<u64>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        let (count, threads) = (self.count(), readers.len());
        thread::scope(|scope| {
            let start = |(first, mut reader): (usize, R)| {
                let (sender, receiver) = sync_channel(1);
                let read = &read;
                scope.spawn(move || {
                    let mut window = Window::default();
                    for number in (first as u64..count).step_by(threads) {
                        let piece = window.piece(self, number).map(|place| {
                            let text = window.text(&place);
                            (read(&mut reader, text), place)
                        });
                        // Without a receiver, reading stops.
                        if sender.send(piece).is_err() {
                            return;
                        }
                    }
                });
                receiver
            };
            let receivers: Vec<Receiver<Read<P>>> = readers.into_iter().enumerate().map(start).collect();
            for receiver in receivers.iter().cycle().take(usize::try_from(count).unwrap_or(usize::MAX)) {
                let (piece, place) =
                    receiver.recv().map_err(|_| io::Error::other("a thread that read ended early"))??;
                if take(piece, place).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }
}

/// A part of the text that is in memory.
#[derive(Debug, Default)]
struct Window {
    start: u64,
    /// The number of bytes of the text; the others are left of a piece before.
    len: usize,
    bytes: Vec<u8>,
}

impl Window {
    /// Reads the piece of that number; it begins at a border in its share of the text, and is empty if there is none.
    fn piece(&mut self, text: Pieces<'_>, number: u64) -> io::Result<Range<u64>> {
        let (first, behind) = (number * text.piece, ((number + 1) * text.piece).min(text.len));
        self.start = first.saturating_sub(1);
        self.len = 0;
        self.extend(text, (behind - self.start) as usize)?;
        let start = if number == 0 { 0 } else { self.border(text, first, behind)?.unwrap_or(behind) };
        if start >= behind {
            return Ok(behind..behind);
        }
        self.extend(text, BORDER_BYTES)?;
        let end = self.border(text, behind, text.len)?.unwrap_or(text.len);
        Ok(start..end)
    }

    fn text(&self, place: &Range<u64>) -> &[u8] {
        let within = |place: u64| place.saturating_sub(self.start) as usize;
        if place.is_empty() { &[] } else { &self.bytes[within(place.start)..within(place.end)] }
    }

    /// The first border at or behind `from`, for which the text is read up to `limit`.
    fn border(&mut self, text: Pieces<'_>, mut from: u64, limit: u64) -> io::Result<Option<u64>> {
        loop {
            if let Some(at) = (text.border)(&self.bytes[..self.len], (from - self.start) as usize) {
                return Ok(Some(self.start + at as u64));
            }
            let end = self.start + self.len as u64;
            if end >= limit {
                return Ok(None);
            }
            // The byte before may be the first of a border.
            from = from.max(end);
            self.extend(text, self.len.max(BORDER_BYTES))?;
        }
    }

    /// Reads more, up to the end of the text.
    fn extend(&mut self, text: Pieces<'_>, bytes: usize) -> io::Result<()> {
        let at = self.start + self.len as u64;
        let len = self.len + (text.len - at).min(bytes as u64) as usize;
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
        text.file.read_exact_at(&mut self.bytes[self.len..len], at)?;
        self.len = len;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn border(text: &[u8], from: usize) -> Option<usize> {
        let before = from.saturating_sub(1);
        text.get(before..)?.windows(2).position(|pair| pair == b"\n@").map(|at| before + at + 1)
    }

    fn pieces(text: &str, piece: u64, threads: usize) -> Vec<String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let pieces = Pieces { file: &file, len: text.len() as u64, piece, border };
        let mut taken = Vec::new();
        let read = |(): &mut (), text: &[u8]| String::from_utf8(text.to_vec()).unwrap();
        let take = |piece: String, place: Range<u64>| {
            assert_eq!(piece, text[place.start as usize..place.end as usize]);
            taken.push(piece);
            ControlFlow::Continue(())
        };
        pieces.read(vec![(); threads], read, take).unwrap();
        taken
    }

    #[test]
    fn a_text_is_cut_at_borders_alone() {
        for text in ["head\n@a\nb\n@c\n@d\nlong long long long\n@e", "no border", "@\n@\n@\n", "\n\n@", "a\n@"] {
            for piece in 1..=text.len() as u64 + 1 {
                for threads in 1..4 {
                    let taken = pieces(text, piece, threads);
                    assert_eq!(taken.concat(), text, "{piece} {threads}");
                    let starts = taken.iter().filter(|piece| !piece.is_empty()).skip(1);
                    assert!(starts.clone().all(|piece| piece.starts_with('@')), "{taken:?}");
                }
            }
        }
        assert_eq!(pieces("", 4, 2), [""; 0]);
        assert_eq!(pieces("head\n@a\nb\n@c", 6, 2), ["head\n@a\nb\n", "@c"]);
    }

    #[test]
    fn reading_ends_when_cancelled() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&b"\n@".repeat(1000)).unwrap();
        let pieces = Pieces { file: &file, len: 2000, piece: 2, border };
        let mut taken = 0;
        let take = |(), _| {
            taken += 1;
            if taken == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        pieces.read(vec![(), ()], |_, _| (), take).unwrap();
        assert_eq!(taken, 3);
        assert_eq!(pieces.rest(1998).unwrap(), b"\n@");
        let cut = Pieces { len: 3000, ..pieces };
        assert!(cut.read(vec![()], |_, _| (), |(), _| ControlFlow::Continue(())).is_err());
    }
}
