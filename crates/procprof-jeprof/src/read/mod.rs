//! Reading profile files as jeprof does: by the first line, skipping lines that are not understood.
//!
//! ```text
//! heap_v2/524288                                              jemalloc: `@ STACK` and `t*: N: S [N: S]` lines
//! heap profile: 3: 786432 [3: 786432] @ heap_v2/524288        tcmalloc: `N: S [N: S] @ STACK` lines
//! --- contention                                              `CYCLES COUNT @ STACK` lines
//! --- symbol                                                  names first, then one of the others
//! ```
//! Anything else is a profile of the CPU profiler, which is binary. These are not the decoders of
//! `procprof-profile`: those refuse what they cannot read, and round estimates to whole numbers.

mod contention;
mod cpu;
mod heap;
pub(crate) mod libraries;
mod line;
mod names;
mod sampling;
mod source;
mod threaded_heap;

use std::collections::BTreeMap;

use self::source::Source;
use crate::settings::{ProfileKind, Settings};
use crate::stacks::{Pcs, Stacks};

pub use names::Names;
pub use threaded_heap::{HeapDump, Piece, PieceReader};

/// Why a profile can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// There is no line in it.
    #[error("profile is empty")]
    Empty,
    /// The first line announces a profile of threads, but has no rate.
    #[error("threaded heap profiles require v2 sampling with a sample rate")]
    NoRate,
    /// Names are followed by something that is no profile.
    #[error("cannot recognize profile section after symbols")]
    NoSection,
    /// It is not a profile of the CPU profiler either.
    #[error("not a profile file, or old format profile file")]
    NotAProfile,
    /// A stack is deeper than possible.
    #[error("stack of {depth} frames at word {word}, at most {} are read", cpu::DEPTH_MAX)]
    TooDeep {
        /// Its depth.
        depth: u64,
        /// The place of its depth, in words.
        word: usize,
    },
}

/// A profile as it was read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Its kind.
    pub kind: ProfileKind,
    /// Its stacks.
    pub stacks: Stacks,
    /// The stacks of each thread, if they are requested; `None` if the format has no threads.
    pub threads: Option<BTreeMap<u64, Stacks>>,
    /// The memory map, as text.
    pub map: String,
    /// Names in it, by address without leading zeros.
    pub names: Option<Names>,
    /// Lines for standard error.
    pub messages: Vec<String>,
}

/// Whether the file begins with names, so that no program is needed.
pub fn symbolized_header(bytes: &[u8]) -> bool {
    let mut source = Source { rest: bytes, messages: Vec::new() };
    source.header().is_some_and(|line| is_section(&line, "symbol"))
}

/// Reads a profile; its addresses are added to `pcs`.
///
/// # Errors
/// [`ReadError`] if it is not a profile.
pub fn read(bytes: &[u8], settings: &Settings, pcs: &mut Pcs) -> Result<Reading, ReadError> {
    let mut source = Source { rest: bytes, messages: Vec::new() };
    let mut header = source.header().ok_or(ReadError::Empty)?;
    let mut names = None;
    if is_section(&header, "symbol") {
        names = Some(Names::read(&mut source));
        header = source.header().unwrap_or_default();
    }
    if is_section(&header, "heap") || is_section(&header, "growth") {
        header = source.header().unwrap_or_default();
    }
    let mut reading = if header.starts_with("heap profile:") {
        heap::read(source, &header, settings, pcs)
    } else if header.starts_with("heap") {
        threaded_heap::read(source, &header, settings, pcs)?
    } else if is_section(&header, "contention") {
        contention::read(source, settings, pcs)
    } else if header.starts_with("---") && header.trim_start_matches('-').trim_start_matches(' ').starts_with("Stacks:")
    {
        let note = "Old format contention profile: mistakenly reports condition variable signals as lock contentions.";
        source.messages.push(note.into());
        contention::read(source, settings, pcs)
    } else if is_section(&header, "profile") {
        cpu_profile(source.rest, source.messages, pcs)?
    } else if names.is_some() {
        return Err(ReadError::NoSection);
    } else {
        cpu_profile(bytes, source.messages, pcs)?
    };
    reading.names = names;
    Ok(reading)
}

/// Whether a line is `--- NAME`.
fn is_section(line: &str, name: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.trim_start_matches(' ').starts_with(name))
}

impl Reading {
    fn new(kind: ProfileKind, messages: Vec<String>) -> Reading {
        Reading { kind, stacks: Stacks::default(), threads: None, map: String::new(), names: None, messages }
    }
}

fn cpu_profile(bytes: &[u8], messages: Vec<String>, pcs: &mut Pcs) -> Result<Reading, ReadError> {
    let mut reading = Reading::new(ProfileKind::Cpu, messages);
    reading.map = cpu::read(bytes, &mut reading.stacks, pcs)?;
    Ok(reading)
}
