//! CPU capture: who spends the CPU time of this process.
//!
//! A timer per thread on the thread's own CPU clock, or a perf counter where ticks miss it (`source`), sends SIGPROF;
//! the [`handler`] writes raw addresses and the thread's labels into the thread's [`ring`]; the [`sampler`] drains the
//! rings ten times a second, or when `births` need it, into the open [`window`]s, of which each capture has one.
//! Captures of the same rate share the samples, so a profile taken on request and a continuous one do not disturb each
//! other. [`wall`] uses the same handler for wall-clock time.

pub mod birth;
mod births;
mod blocked;
mod build;
#[cfg(target_arch = "x86_64")]
mod call;
mod engine;
mod handler;
mod label;
mod life;
mod newborns;
pub(crate) mod own_stack;
mod perf;
pub(crate) mod regions;
mod registers;
mod ring;
#[cfg(test)]
mod safety;
mod sampler;
mod sandbox;
mod scan;
pub mod sigprof;
mod slab;
mod slot;
mod snapshots;
mod source;
mod stock;
pub(crate) mod tables;
mod thread_stack;
mod timer;
mod walk;
mod wall;
mod window;

pub use label::{Label, LabelValue, label};

use crate::error::{Error, Result};
use crate::options::{CpuOptions, MAX_HZ};
pub(crate) use build::UNSAMPLED;
use engine::Engine;
pub(crate) use engine::MAX_CAPTURES;
use procprof_profile::Profile;
use std::time::Duration;
pub(crate) use wall::{DEFAULT_WALL_HZ, MAX_WALL_HZ};

/// A running capture of this process's CPU time; dropping it ends it.
///
/// ```
/// use procprof_agent::{CpuCapture, CpuOptions};
///
/// let mut capture = CpuCapture::start(&CpuOptions::default())?;
/// let first_minute = capture.cut()?;
/// let the_rest = capture.finish()?;
/// assert_eq!(first_minute.sample_type(1), ("cpu", "nanoseconds"));
/// # drop(the_rest);
/// # Ok::<(), procprof_agent::Error>(())
/// ```
#[derive(Debug)]
pub struct CpuCapture {
    engine: &'static Engine,
    window: u64,
}

impl CpuCapture {
    /// Starts to sample all threads, or joins the sampling that runs at the same rate.
    ///
    /// # Errors
    /// [`Error::Frequency`] for an illegal rate, [`Error::Busy`] while another rate or by another engine is sampled,
    /// [`Error::PerfRefused`], [`Error::TooManyCaptures`], [`Error::System`] when the handler or the thread can't be
    /// set up.
    pub fn start(options: &CpuOptions) -> Result<Self> {
        if !(1..=MAX_HZ).contains(&options.hz) {
            return Err(Error::Frequency { hz: options.hz });
        }
        let engine = Engine::of_this_process();
        let window = engine.open(options)?;
        Ok(Self { engine, window })
    }

    /// The profile since the start or the last cut; the next one begins at the same moment.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child of the process that started the capture.
    pub fn cut(&mut self) -> Result<Profile> {
        build::profile(self.engine.cut(self.window)?)
    }

    /// The profile since the start or the last cut, ending the capture.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child of the process that started the capture.
    pub fn finish(self) -> Result<Profile> {
        build::profile(self.engine.end(self.window)?)
    }
}

impl Drop for CpuCapture {
    fn drop(&mut self) {
        self.engine.release(self.window);
    }
}

/// Watches where all threads but the calling one are for `length`; `wait` sleeps, and answers true when the capture is
/// to be given up.
pub(crate) fn wall_profile(
    hz: u32,
    length: Duration,
    owner: &str,
    wait: impl FnMut(Duration) -> Result<bool>,
) -> Result<Profile> {
    build::wall(wall::capture(hz, length, owner, wait)?)
}
