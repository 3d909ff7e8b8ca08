//! Lock contention as text: of brpc, of gperftools' `contentionz`, and of Go's `mutex` and `block` profiles.
//!
//! ```text
//! --- contentionz 1 ---            or `--- contention` (brpc), `--- mutex:`, `--- contention:` (Go),
//!                                  `--- Stacks:` (old)
//! cycles/second = 3201000000
//! sampling period = 100
//! ms since reset = 16502830
//! discarded samples = 0
//!   19490304       27 @ 0xbccc97 0xc61202          cycles, contentions, return addresses leaf first
//! --- Memory map: ---              brpc: the kernel's map follows without a heading
//!   00400000-00fcb000: prog
//! ```
//! Lines with `#` are comments, in which Go writes the names of the addresses above. Format: google/pprof,
//! `profile/legacy_profile.go`; jeprof, `ReadSynchProfile`.
//!
//! Values are `contentions` and `delay` in nanoseconds, estimated while decoding as pprof does: contentions times the
//! sampling period, delay times the period over the clock rate, cut to an integer. Without a clock rate delays are
//! taken as nanoseconds, also as pprof does, with a warning (jeprof would take 2.8 GHz). A sampling period of 0 or less
//! scales nothing. Unknown attributes are warnings. Discarded samples become the profile's `lost` fact, and a warning.

use super::detect::{any, begins};
use super::raw_stacks::RawStacks;
use super::{Detect, Format, Limits, legacy_frames};
use crate::text::{Cursor, Line, Lines, is_map_heading};
use crate::{Addresses, Meta, Nanos, Profile, ProfileType, Result, maps};

/// Name of the format.
pub const NAME: &str = "contention";

/// The row of the format table.
pub(super) const FORMAT: Format = Format {
    name: NAME,
    help: "lock contention as text: brpc, gperftools, Go with debug=1",
    detect,
    decode,
    events: None,
    encode: None,
};

const HEADINGS: [&[u8]; 5] =
    [b"--- contentionz", b"--- contention:", b"--- contention\n", b"--- mutex:", b"--- Stacks:"];

/// Whether the bytes are a contention profile of native code; Java's `contentionz` is another format.
pub fn detect(bytes: &[u8]) -> Detect {
    any([&b"--- contention\r"[..], b"--- contention "].iter().chain(&HEADINGS).map(|heading| begins(bytes, heading)))
}

/// Decodes a contention profile.
///
/// # Errors
/// [`crate::Error::Malformed`] or [`crate::Error::Truncated`] with the line, [`crate::Error::TooLarge`] past the depth
/// limit.
pub fn decode(bytes: &[u8], limits: &Limits, warnings: &mut Vec<String>) -> Result<Profile> {
    let stacks = RawStacks::new(
        NAME,
        ProfileType::Contention.sample_types(),
        Addresses::RawReturn,
        &legacy_frames::CONTENTION,
        limits,
    );
    let mut reader = Reader { stacks, attributes: Attributes { period: 1, ..Attributes::default() } };
    let (map, lines) = reader.read(bytes)?;
    reader.finish(map, lines, warnings)
}

/// The attributes before the samples.
#[derive(Default)]
struct Attributes {
    cycles_per_second: i64,
    period: i64,
    millis_since_reset: i64,
    discarded: u64,
}

struct Reader {
    stacks: RawStacks,
    attributes: Attributes,
}

impl Reader {
    /// Reads up to the memory map, and gives its text and the number of lines before it.
    fn read<'a>(&mut self, bytes: &'a [u8]) -> Result<(&'a [u8], usize)> {
        let mut lines = Lines::new(bytes);
        let mut at_heading = true;
        loop {
            let here = lines.rest();
            let Some(line) = lines.next() else { return Ok((&[], 0)) };
            if line.is_blank_or_comment() {
                self.stacks.read_comment(&line);
                continue;
            }
            if line.text.starts_with(b"---") {
                // A symbolized profile repeats the heading.
                if at_heading && !is_map_heading(line.text) {
                    continue;
                }
                let map = lines.behind_map_heading(&line);
                return Ok((map, lines.number()));
            }
            at_heading = false;
            if is_map_heading(line.text) {
                return Ok((lines.rest(), line.number));
            }
            if maps::parse_entry(line.text).is_some_and(|entry| entry.executable.is_some()) {
                return Ok((here, line.number - 1));
            }
            let read = self.read_line(&line);
            self.stacks.odd.keep(&line, read)?;
        }
    }

    fn read_line(&mut self, line: &Line<'_>) -> Result<()> {
        if self.read_sample(line)? || self.read_attribute(line)? {
            return Ok(());
        }
        Err(line.error(NAME, "CYCLES COUNT @ 0x…"))
    }

    /// Reads `CYCLES COUNT @ 0x…`; false when the line is something else.
    fn read_sample(&mut self, line: &Line<'_>) -> Result<bool> {
        let mut cursor = Cursor::new(line.text);
        let Some((cycles, count)) = sample_counts(&mut cursor) else { return Ok(false) };
        self.stacks.read_stack(cursor, line)?;
        let Attributes { cycles_per_second, period, .. } = self.attributes;
        let values = match (period > 0, cycles_per_second > 0) {
            (true, true) => {
                let gigahertz = cycles_per_second as f64 / 1e9;
                [count.saturating_mul(period), (cycles as f64 * period as f64 / gigahertz) as i64]
            }
            (true, false) => [count.saturating_mul(period), cycles],
            (false, _) => [count, cycles],
        };
        self.stacks.sample(&values, &[]);
        Ok(true)
    }

    /// Reads `NAME = VALUE`; false when the line is something else.
    fn read_attribute(&mut self, line: &Line<'_>) -> Result<bool> {
        let Some(equals) = memchr::memchr(b'=', line.text) else { return Ok(false) };
        let (name, value) = (line.text[..equals].trim_ascii(), line.text[equals + 1..].trim_ascii());
        let mut cursor = Cursor::new(value);
        let number = cursor.integer().filter(|_| cursor.is_done() && !line.is_cut);
        let number = || number.ok_or_else(|| line.error(NAME, "NAME = NUMBER"));
        match name {
            b"cycles/second" => self.attributes.cycles_per_second = number()?,
            b"sampling period" => self.attributes.period = number()?,
            b"ms since reset" => self.attributes.millis_since_reset = number()?,
            b"discarded samples" => self.attributes.discarded = number()?.unsigned_abs(),
            _ => self.stacks.odd.note(line),
        }
        Ok(true)
    }

    fn finish(mut self, map: &[u8], lines: usize, warnings: &mut Vec<String>) -> Result<Profile> {
        let Attributes { cycles_per_second, period, millis_since_reset, discarded } = self.attributes;
        let builder = &mut self.stacks.builder;
        builder.period("contentions", "count", period);
        builder.time(Nanos(0), Nanos(millis_since_reset.saturating_mul(1_000_000)));
        if discarded > 0 {
            warnings.push(format!("{NAME}: the process discarded {discarded} samples"));
            for comment in (Meta { lost: Some(discarded), ..Meta::default() }).to_comments() {
                builder.comment(&comment);
            }
        }
        if cycles_per_second <= 0 {
            warnings.push(format!("{NAME}: no cycles/second; delays are taken as nanoseconds"));
        }
        self.stacks.finish(map, lines, warnings)
    }
}

fn sample_counts(cursor: &mut Cursor<'_>) -> Option<(i64, i64)> {
    let cycles = cursor.integer()?;
    cursor.skip_blanks();
    let count = cursor.integer()?;
    cursor.skip_blanks();
    cursor.eat(b'@')?;
    Some((cycles, count))
}

#[cfg(test)]
mod tests;
