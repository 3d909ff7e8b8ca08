//! The events of a chunk, counted by the numbers of their stacks, threads and classes, which are looked up afterwards.

use foldhash::HashMap;

use super::chunk::{Chunk, HEADER};
use super::cursor::Cursor;
use super::history::Allocations;
use super::plan::SLOTS;
use super::schema::{ADDRESS, CLASS, EventPlan, Kind, OTHER, STACK, Schema, THREAD, VALUE};
use crate::Result;

/// Numbers of a stack, a thread, and a class or state.
pub(super) type Key = (u64, u64, u64);

/// A block that `malloc` gave and nothing has freed so far in its chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) key: Key,
    pub(super) size: u64,
}

/// What a chunk's events add up to.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// For each of the schema's events how often, and the sum of its value.
    pub(super) by_event: Vec<HashMap<Key, [u64; 2]>>,
    /// Where checkpoints begin and end.
    pub(super) checkpoints: Vec<(u32, u32)>,
    /// Settings and the like: the position of the event's plan, and the values.
    pub(super) notes: Vec<(usize, [u64; SLOTS])>,
    pub(super) blocks: HashMap<u64, Block>,
    /// Addresses of blocks of former chunks that were freed.
    pub(super) freed: Vec<u64>,
    pub(super) lost: u64,
    /// By the number of a thread; only where the recording has a baseline.
    pub(super) allocations: Option<Allocations>,
    /// What each thread has allocated since it started, by its number: when that was counted, and the bytes.
    pub(super) allocated: HashMap<u64, (u64, u64)>,
}

impl Counts {
    /// Reads all events of a chunk; the allocations of each thread for themselves, too, if `by_thread`.
    ///
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) for an event that passes the end of the chunk, or has less than
    /// its type.
    pub(super) fn read(chunk: &Chunk<'_>, schema: &Schema, by_thread: bool) -> Result<Counts> {
        let mut counts = Counts {
            by_event: schema.events.iter().map(|_| HashMap::default()).collect(),
            allocations: by_thread.then(Allocations::default),
            ..Counts::default()
        };
        let (mut at, mut last) = (HEADER, 0);
        while at < chunk.bytes.len() {
            let mut cursor = Cursor::new(chunk.bytes, at);
            let (Some(size), Some(class)) = (cursor.number(), cursor.number()) else {
                return Err(chunk.malformed(at, "an event that passes the end of its chunk"));
            };
            let end = usize::try_from(size).ok().filter(|size| *size <= chunk.bytes.len() - at).map(|size| at + size);
            let Some(end) = end.filter(|end| *end >= cursor.at()) else {
                return Err(chunk.malformed(at, format!("an event of {size} bytes")));
            };
            // Events come in runs of one type.
            if schema.events.get(last).is_none_or(|event| event.id != class) {
                last = schema.events.iter().position(|event| event.id == class).unwrap_or(usize::MAX);
            }
            if let Some(event) = schema.events.get(last) {
                let mut values = [0; SLOTS];
                let mut cursor = Cursor::new(&chunk.bytes[..end], cursor.at());
                event
                    .plan
                    .read(&mut cursor, &mut values)
                    .ok_or_else(|| chunk.malformed(at, "an event with less than its type has"))?;
                counts.add(event, last, &values);
            } else if class == 1 {
                counts.checkpoints.push((at as u32, end as u32));
            }
            at = end;
        }
        Ok(counts)
    }

    #[inline]
    fn add(&mut self, event: &EventPlan, index: usize, values: &[u64; SLOTS]) {
        let key = (values[STACK], values[THREAD], values[CLASS]);
        let (count, value) = match event.kind {
            Kind::Execution | Kind::NativeMethod => (1, 0),
            Kind::CpuTime | Kind::LiveObject | Kind::Monitor | Kind::Park | Kind::NativeLock | Kind::MethodTrace => {
                (1, values[VALUE])
            }
            Kind::AllocationSample => {
                if let Some(allocations) = &mut self.allocations {
                    allocations.add(key, values[OTHER], values[VALUE]);
                }
                (1, values[VALUE])
            }
            Kind::Wall => (values[VALUE], 0),
            Kind::AllocationBuffer if values[VALUE] == 0 => (1, values[OTHER]),
            Kind::AllocationBuffer => (1, values[VALUE]),
            Kind::Malloc => {
                self.blocks.insert(values[ADDRESS], Block { key, size: values[VALUE] });
                (1, values[VALUE])
            }
            Kind::Free => {
                if self.blocks.remove(&values[ADDRESS]).is_none() {
                    self.freed.push(values[ADDRESS]);
                }
                return;
            }
            Kind::Allocated => {
                let latest = self.allocated.entry(values[THREAD]).or_default();
                return *latest = (*latest).max((values[OTHER], values[VALUE]));
            }
            Kind::Setting | Kind::Jvm | Kind::Name => return self.notes.push((index, *values)),
            Kind::Lost => return self.lost = self.lost.saturating_add(values[VALUE]),
        };
        let sums = self.by_event[index].entry(key).or_default();
        sums[0] = sums[0].saturating_add(count);
        sums[1] = sums[1].saturating_add(value);
    }
}
