//! Memory a walk may read.

/// A thread's stack, or a copy of it.
pub trait Stack {
    /// The word at an address; `None` where it is not all within the stack.
    fn read(&self, address: u64) -> Option<u64>;

    /// The word at an address and the next one above it.
    #[inline(always)]
    fn read_pair(&self, address: u64) -> Option<(u64, u64)> {
        Some((self.read(address)?, self.read(address.checked_add(8)?)?))
    }

    /// A signal handler's stack ended here; the interrupted frame's stack pointer is `sp`. False if that stack can't be
    /// read.
    fn switch(&mut self, sp: u64) -> bool;
}

/// Bytes copied from a stack, lowest address first.
#[derive(Clone, Copy, Debug)]
pub struct StackCopy<'a> {
    /// The address of the first byte.
    pub start: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl Stack for StackCopy<'_> {
    #[inline]
    fn read(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.wrapping_sub(self.start)).ok()?;
        self.bytes.get(offset..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    fn switch(&mut self, sp: u64) -> bool {
        sp.wrapping_sub(self.start) <= self.bytes.len() as u64
    }
}
