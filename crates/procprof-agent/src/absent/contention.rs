//! Substitute for `contention` on systems other than Linux, where nothing is captured: the same interface, which
//! returns an error.

use crate::error::{Error, Result};
use procprof_profile::Profile;

/// The process's record of waits for locks: never on on this system.
#[derive(Clone, Copy, Debug)]
pub struct Contention;

impl Contention {
    /// Refuses.
    ///
    /// # Errors
    /// Always [`Error::Unsupported`].
    pub fn enable() -> Result<()> {
        Err(Error::Unsupported { what: "lock contention" })
    }

    /// Nothing is recorded.
    pub fn disable() {}

    /// Whether waits are recorded now: no.
    pub fn is_active() -> bool {
        false
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always [`Error::Unsupported`].
    pub fn waits() -> Result<Profile> {
        Err(Error::Unsupported { what: "lock contention" })
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always [`Error::Unsupported`].
    pub fn holders() -> Result<Profile> {
        Err(Error::Unsupported { what: "lock contention" })
    }
}
