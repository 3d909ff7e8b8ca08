//! Reads the metadata of a gzip'd pprof file, in one bounded pass that keeps nothing else.
//!
//! Of `profile.proto` (google/pprof) these top-level fields matter: `string_table` (6), `time_nanos` (9),
//! `duration_nanos` (10) and `comment` (13, positions in the string table). A fact is a comment `#procprof:key=value`
//! (once `procprof:key=value`); only strings that begin so are kept on the way.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use foldhash::HashMap;
use procprof_profile::{Meta, Nanos};

/// Largest length of one fact, and of all together; longer ones are an error.
const FACT_MAX: u64 = 64 << 10;
const FACTS_MAX: u64 = 1 << 20;
/// Most comments that are read.
const COMMENTS_MAX: usize = 65_536;

/// The metadata of a profile.
#[derive(Debug, Default)]
pub(crate) struct CommentedFacts {
    pub(crate) meta: Meta,
    pub(crate) start: Nanos,
    pub(crate) duration: Nanos,
}

/// Reads gzip'd pprof to its end, so that its checksum is checked too. `unpacked_max` bounds what is unpacked.
pub(crate) fn read(gzip: impl BufRead, unpacked_max: u64) -> io::Result<CommentedFacts> {
    let unpacked = MultiGzDecoder::new(gzip).take(unpacked_max.saturating_add(1));
    let mut wire = Wire { input: BufReader::with_capacity(64 << 10, unpacked), read: 0, max: unpacked_max };
    let mut found = CommentedFacts::default();
    let mut facts: HashMap<u64, String> = HashMap::default();
    let mut comments: Vec<u64> = Vec::new();
    let mut string_count = 0;
    let mut facts_bytes = 0;
    while let Some(key) = wire.varint_or_end()? {
        match (key >> 3, key & 7) {
            (6, 2) => {
                if let Some(fact) = wire.fact()? {
                    facts_bytes += fact.len() as u64;
                    facts.insert(string_count, fact);
                }
                string_count += 1;
            }
            (9, 0) => found.start = Nanos(wire.varint()? as i64),
            (10, 0) => found.duration = Nanos(wire.varint()? as i64),
            (13, 0) => comments.push(wire.varint()?),
            (13, 2) => {
                let end = wire.varint()?.saturating_add(wire.read);
                while wire.read < end && comments.len() <= COMMENTS_MAX {
                    comments.push(wire.varint()?);
                }
            }
            (_, kind) => wire.skip_field(kind)?,
        }
        if comments.len() > COMMENTS_MAX || facts_bytes > FACTS_MAX {
            return Err(wrong("too many comments"));
        }
    }
    found.meta = Meta::from_comments(comments.iter().filter_map(|at| facts.get(at)).map(String::as_str));
    Ok(found)
}

struct Wire<R> {
    input: R,
    read: u64,
    max: u64,
}

impl<R: BufRead> Wire<R> {
    fn varint_or_end(&mut self) -> io::Result<Option<u64>> {
        if self.input.fill_buf()?.is_empty() {
            return Ok(None);
        }
        self.varint().map(Some)
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.fill(&mut byte)?;
            value |= u64::from(byte[0] & 0x7f) << shift;
            if byte[0] < 0x80 {
                return Ok(value);
            }
        }
        Err(wrong("a number has more than ten bytes"))
    }

    /// Reads a string, and keeps it when it is a fact.
    fn fact(&mut self) -> io::Result<Option<String>> {
        const PREFIX: &[u8] = b"#procprof:";
        // As older versions wrote it.
        const FORMER: &[u8] = b"procprof:";
        let len = self.varint()?;
        let mut start = [0; PREFIX.len()];
        let first = &mut start[..PREFIX.len().min(len as usize)];
        self.fill(first)?;
        let rest = len - first.len() as u64;
        let Some(begun) = first.strip_prefix(PREFIX).or_else(|| first.strip_prefix(FORMER)) else {
            self.skip(rest)?;
            return Ok(None);
        };
        if rest > FACT_MAX {
            return Err(wrong("a fact is longer than 64 KiB"));
        }
        let mut text = begun.to_vec();
        text.resize(begun.len() + rest as usize, 0);
        let end = begun.len();
        self.fill(&mut text[end..])?;
        Ok(Some(format!("#procprof:{}", String::from_utf8_lossy(&text))))
    }

    fn skip_field(&mut self, kind: u64) -> io::Result<()> {
        match kind {
            0 => self.varint().map(drop),
            1 => self.skip(8),
            2 => {
                let len = self.varint()?;
                self.skip(len)
            }
            5 => self.skip(4),
            _ => Err(wrong("not pprof: unknown wire type")),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.input.read_exact(bytes)?;
        self.count(bytes.len() as u64)
    }

    fn skip(&mut self, mut len: u64) -> io::Result<()> {
        while len > 0 {
            let here = self.input.fill_buf()?.len() as u64;
            if here == 0 {
                return Err(wrong("ends inside a field"));
            }
            let step = here.min(len);
            self.input.consume(step as usize);
            self.count(step)?;
            len -= step;
        }
        Ok(())
    }

    fn count(&mut self, bytes: u64) -> io::Result<()> {
        self.read += bytes;
        if self.read > self.max { Err(wrong(&format!("unpacks to more than {} bytes", self.max))) } else { Ok(()) }
    }
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests;
