//! The constants of a chunk: stacks, methods, names, threads. Kept is where each one lies; it is read when something
//! needs it.
//!
//! ```text
//! checkpoint  size, 1, start, duration, distance of the one before, flags (a byte), count of pools
//! pool        class, count, (number of the constant, its fields) each
//! ```
//! Checkpoints are events among others, found where they lie and not by the chain of their distances: a chunk that was
//! copied in pieces has all that it holds.

use foldhash::HashMap;

use super::chunk::Chunk;
use super::cursor::Cursor;
use super::plan::SLOTS;
use super::schema::{POOLS, Pool, Schema};
use super::text::{self, Text};
use crate::Result;

/// Where the kept constants of a chunk lie, by pool and number.
#[derive(Debug, Default)]
pub(super) struct Constants {
    pools: [HashMap<u64, u32>; POOLS],
}

impl Constants {
    /// Notes the constants of the checkpoint that begins at `at` and ends before `end`.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) with the place.
    pub(super) fn add(&mut self, chunk: &Chunk<'_>, schema: &mut Schema, at: usize, end: usize) -> Result<()> {
        let mut cursor = Cursor::new(&chunk.bytes[..end], at);
        let cut = |cursor: &Cursor<'_>| chunk.malformed(cursor.at(), "constants that pass the end of their checkpoint");
        let header = cursor.skip_numbers(5).and_then(|()| cursor.byte()).and_then(|_| cursor.number());
        for _ in 0..header.ok_or_else(|| cut(&cursor))? {
            let place = cursor.at();
            let (Some(class), Some(count)) = (cursor.number(), cursor.number()) else { return Err(cut(&cursor)) };
            match schema.pool(class) {
                Some(pool) => self.keep(&mut cursor, schema, pool, count).ok_or_else(|| cut(&cursor))?,
                None => {
                    let plan = schema.skipping(class);
                    let plan = plan.ok_or_else(|| {
                        chunk.malformed(place, format!("constants of class {class}, which cannot be read"))
                    })?;
                    let mut slots = [0; SLOTS];
                    let skip = |_| cursor.skip_numbers(1).and_then(|()| plan.read(&mut cursor, &mut slots));
                    (0..count).try_for_each(skip).ok_or_else(|| cut(&cursor))?;
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, cursor: &mut Cursor<'_>, schema: &Schema, pool: Pool, count: u64) -> Option<()> {
        let (plan, places, mut slots) = (schema.plan(pool), &mut self.pools[pool as usize], [0; SLOTS]);
        for _ in 0..count {
            let number = cursor.number()?;
            let place = cursor.at();
            plan.read(cursor, &mut slots)?;
            places.insert(number, place as u32);
        }
        Some(())
    }

    /// The values of a constant, in the slots of its pool.
    pub(super) fn get(&self, chunk: &Chunk<'_>, schema: &Schema, pool: Pool, number: u64) -> Option<[u64; SLOTS]> {
        let place = *self.pools[pool as usize].get(&number)?;
        let mut slots = [0; SLOTS];
        schema.plan(pool).read(&mut Cursor::new(chunk.bytes, place as usize), &mut slots)?;
        Some(slots)
    }

    /// The text at a place, or the constant that it is; `None` for null.
    pub(super) fn text(&self, chunk: &Chunk<'_>, schema: &Schema, place: u64) -> Option<String> {
        match text::read(&mut Cursor::new(chunk.bytes, usize::try_from(place).ok()?))? {
            Text::Is(text) => Some(text),
            Text::Null => None,
            Text::Constant(number) => {
                let place = self.get(chunk, schema, Pool::Text, number)?[0];
                match text::read(&mut Cursor::new(chunk.bytes, place as usize))? {
                    Text::Is(text) => Some(text),
                    Text::Null | Text::Constant(_) => None,
                }
            }
        }
    }

    /// The first text of a constant, such as a symbol's.
    pub(super) fn text_of(&self, chunk: &Chunk<'_>, schema: &Schema, pool: Pool, number: u64) -> Option<String> {
        let slots = self.get(chunk, schema, pool, number)?;
        self.text(chunk, schema, slots[0])
    }
}
