//! The limits of one report, and whether it is still needed.
//!
//! A profile of a few hundred bytes can have stacks of 65,000 frames with names of 60,000 bytes, so the cost of a
//! report does not follow from the profile's size. Every table that can grow faster than the profile is counted by a
//! [`Meter`], every loop over samples keeps a [`Pace`].

use std::fmt;
use std::sync::Arc;

use crate::{Error, Result};

/// Steps of a loop between two checks whether to stop: about a millisecond.
const STEPS: usize = 1 << 16;

/// The limits of one report. The default is no limit.
#[derive(Clone)]
pub struct Budget {
    /// Most bytes of the report itself.
    pub output_bytes: u64,
    /// Most bytes of any one table made for it: a call tree, a graph, names.
    pub memory_bytes: u64,
    stop: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { output_bytes: u64::MAX, memory_bytes: u64::MAX, stop: None }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Budget { output_bytes, memory_bytes, stop } = self;
        let mut shown = f.debug_struct("Budget");
        shown
            .field("output_bytes", output_bytes)
            .field("memory_bytes", memory_bytes)
            .field("can_stop", &stop.is_some())
            .finish()
    }
}

impl Budget {
    /// Limits the bytes of output, and of any one table.
    pub fn new(output_bytes: u64, memory_bytes: u64) -> Budget {
        Budget { output_bytes, memory_bytes, stop: None }
    }

    /// The same limits, and the report ends with [`Error::Stopped`] soon after `stop` returns true. It is called every
    /// few milliseconds.
    #[must_use]
    pub fn until(self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Budget {
        Budget { stop: Some(Arc::new(stop)), ..self }
    }

    /// Errs if the report is no longer needed.
    pub(crate) fn go_on(&self) -> Result<()> {
        if self.stop.as_ref().is_some_and(|stop| stop()) { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Counts the bytes of one table.
    pub(crate) fn meter(&self, table: &'static str) -> Meter {
        Meter { table, left: self.memory_bytes, most: self.memory_bytes }
    }

    /// For one loop.
    pub(crate) fn pace(&self) -> Pace<'_> {
        Pace { budget: self, left: STEPS }
    }
}

/// The bytes that one table may still take.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    table: &'static str,
    left: u64,
    most: u64,
}

impl Meter {
    /// Takes some of the remaining bytes.
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> Result<()> {
        match self.left.checked_sub(bytes as u64) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Error::MemoryLimit { table: self.table, most: self.most }),
        }
    }

    /// Takes the bytes of some values of a type.
    #[inline]
    pub(crate) fn take_values<T>(&mut self, count: usize) -> Result<()> {
        self.take(count.saturating_mul(size_of::<T>()))
    }
}

/// Checks at intervals whether to stop.
pub(crate) struct Pace<'a> {
    budget: &'a Budget,
    left: usize,
}

impl Pace<'_> {
    /// Counts steps of the loop.
    #[inline]
    pub(crate) fn steps(&mut self, count: usize) -> Result<()> {
        if count < self.left {
            self.left -= count;
            return Ok(());
        }
        self.left = STEPS;
        self.budget.go_on()
    }
}
