//! The output of a report, piece by piece: counted against the budget, so that no more than one piece is in memory.

pub(crate) mod budget;

use std::io::Write;

use crate::{Budget, Error, Result};

/// Bytes that are written at a time.
const PIECE: usize = 64 << 10;

/// A report on its way to the caller.
pub(crate) struct Output<'a> {
    /// The part that is not written yet. Callers that add to it in a loop call [`Output::drain`] there.
    pub(crate) text: String,
    written: u64,
    budget: &'a Budget,
    to: &'a mut dyn Write,
}

impl<'a> Output<'a> {
    pub(crate) fn new(budget: &'a Budget, to: &'a mut dyn Write) -> Output<'a> {
        Output { text: String::new(), written: 0, budget, to }
    }

    /// Writes the text once there is a piece of it.
    ///
    /// # Errors
    /// [`Error::OutputLimit`], [`Error::Stopped`], [`Error::Write`].
    #[inline]
    pub(crate) fn drain(&mut self) -> Result<()> {
        if self.text.len() < PIECE { Ok(()) } else { self.flush() }
    }

    /// Appends bytes that are not text, or much text at once.
    ///
    /// # Errors
    /// As [`Output::drain`].
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.flush()?;
        self.hand_on(bytes)
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// As [`Output::drain`].
    pub(crate) fn flush(&mut self) -> Result<()> {
        let mut text = std::mem::take(&mut self.text);
        self.hand_on(text.as_bytes())?;
        text.clear();
        self.text = text;
        Ok(())
    }

    fn hand_on(&mut self, bytes: &[u8]) -> Result<()> {
        self.budget.go_on()?;
        self.written = self.written.saturating_add(bytes.len() as u64);
        if self.written > self.budget.output_bytes {
            return Err(Error::OutputLimit { most: self.budget.output_bytes });
        }
        self.to.write_all(bytes).map_err(|error| Error::Write { kind: error.kind(), why: error.to_string() })
    }
}
