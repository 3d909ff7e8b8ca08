//! Substitute for `cpu` on systems other than Linux: the same interface, whose captures return an error.
//!
//! A program that embeds the agent builds and runs there; its labels have no effect.

#[path = "../cpu/label/value.rs"]
mod value;

pub use value::LabelValue;

use crate::error::{Error, Result};
use crate::options::{CpuOptions, MAX_HZ};
use procprof_profile::Profile;
use std::marker::PhantomData;
use std::time::Duration;

pub(crate) const DEFAULT_WALL_HZ: u32 = 19;
pub(crate) const MAX_WALL_HZ: u32 = 100;

/// A capture of this process's CPU time: never running on this system.
#[derive(Debug)]
pub struct CpuCapture(std::convert::Infallible);

impl CpuCapture {
    /// Refuses.
    ///
    /// # Errors
    /// [`Error::Frequency`] for an illegal rate, else always [`Error::Unsupported`].
    pub fn start(options: &CpuOptions) -> Result<Self> {
        if !(1..=MAX_HZ).contains(&options.hz) {
            return Err(Error::Frequency { hz: options.hz });
        }
        Err(Error::Unsupported { what: "CPU profile" })
    }

    /// The profile since the start or the last cut.
    ///
    /// # Errors
    /// None: no capture exists here.
    pub fn cut(&mut self) -> Result<Profile> {
        match self.0 {}
    }

    /// The profile since the start or the last cut, ending the capture.
    ///
    /// # Errors
    /// None: no capture exists here.
    pub fn finish(self) -> Result<Profile> {
        match self.0 {}
    }
}

/// Refuses.
pub(crate) fn wall_profile(_: u32, _: Duration, _: &str, _: impl FnMut(Duration) -> Result<bool>) -> Result<Profile> {
    Err(Error::Unsupported { what: "wall-clock profile" })
}

/// A label of this thread until this guard is dropped; on this system there are no samples to carry it.
#[must_use = "the label ends when the guard is dropped"]
#[derive(Debug)]
pub struct Label {
    /// As on Linux, so that programs that build here build there.
    _not_send: PhantomData<*const ()>,
}

/// Labels nothing on this system.
#[inline]
pub fn label<'a>(_key: &str, _value: impl Into<LabelValue<'a>>) -> Label {
    Label { _not_send: PhantomData }
}
