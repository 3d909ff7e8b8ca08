//! One operation at a time; an error for the others contains its owner and its end.

use crate::error::{Error, Result};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The turns of measuring growth.
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
    fn an_error_names_the_owner_of_the_turn_and_its_end() {
        let turns = Turns::default();
        let first = turns.take("10.0.0.7", SystemTime::UNIX_EPOCH).unwrap();
        let error = turns.take("10.0.0.8", SystemTime::UNIX_EPOCH).unwrap_err().to_string();
        assert_eq!(error, "growth is being measured by 10.0.0.7 until 1970-01-01T00:00:00Z");
        drop(first);
        assert!(turns.take("10.0.0.8", SystemTime::UNIX_EPOCH).is_ok());
    }
}
