//! One at a time, and the others are told who it is and until when.

use crate::error::{Error, Result};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Whose turn it is to measure growth.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<Option<(String, SystemTime)>>);

/// A turn; it ends when this is dropped.
#[derive(Debug)]
#[must_use = "a turn ends when it is dropped"]
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Takes the turn.
    ///
    /// # Errors
    /// [`Error::GrowthBusy`] when it is another's.
    pub(crate) fn take(&self, owner: &str, until: SystemTime) -> Result<Turn<'_>> {
        let mut turn = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((owner, until)) = &*turn {
            return Err(Error::GrowthBusy { owner: owner.clone(), until: *until });
        }
        *turn = Some((owner.to_owned(), until));
        Ok(Turn(self))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_turn_and_the_other_is_told() {
        let turns = Turns::default();
        let first = turns.take("10.0.0.7", SystemTime::UNIX_EPOCH).unwrap();
        let told = turns.take("10.0.0.8", SystemTime::UNIX_EPOCH).unwrap_err().to_string();
        assert_eq!(told, "growth is being measured by 10.0.0.7 until 1970-01-01T00:00:00Z");
        drop(first);
        assert!(turns.take("10.0.0.8", SystemTime::UNIX_EPOCH).is_ok());
    }
}
