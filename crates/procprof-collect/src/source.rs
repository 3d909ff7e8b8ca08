//! Sources of recordings: anything that records profiles of one process on request.
//!
//! A request names one or several profile types; an answer has one or several recordings, each with its own type,
//! window and facts, whether or not it is the requested type. A failed one is an error among the others, which are
//! kept.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use procprof_process::Pid;
use procprof_profile::format::Decoded;
use procprof_profile::{Nanos, ProfileType};

use crate::{CollectError, HttpClient, Instance, Request, Result, Target, Watch};

/// The running operation of a source.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Something that records profiles of one process.
pub trait Source: Send + Sync {
    /// Records the requested types. An error means that there is no recording at all.
    fn record<'a>(&'a self, request: &'a Request, watch: &'a Watch) -> Pending<'a, Recordings>;

    /// Begins to record without gaps, where it can: types whose offer is continuous.
    fn begin<'a>(&'a self, request: &'a Request, by: &'a str) -> Pending<'a, Box<dyn ContinuousRecording>> {
        let unsupported = CollectError::Request {
            profile_type: request.profile_type.clone(),
            why: format!("cannot be recorded without gaps for {by}"),
        };
        Box::pin(std::future::ready(Err(unsupported)))
    }

    /// Facts about the process beyond those in its recordings and errors.
    fn state(&self) -> Option<SourceState> {
        None
    }

    /// The page at which the process names its own addresses, where it has one.
    fn symbol_page(&self) -> Option<(Arc<HttpClient>, Arc<Target>)> {
        None
    }
}

/// The facts that a source has found out about its process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceState {
    /// The process, as found last.
    pub pid: Option<Pid>,
    /// The engine: `JDK Flight Recorder`, `async-profiler 4.5`.
    pub engine: String,
    /// The runtime: `JDK 17.0.15`; empty where that is not known.
    pub runtime: String,
    /// Parts that are not recorded, and why: a sentence each.
    pub limits: Vec<String>,
}

/// A recording that goes on until it is dropped.
pub trait ContinuousRecording: Send {
    /// The recordings since the last cut or the beginning; the next recording begins where this one ends.
    fn cut(&mut self) -> Pending<'_, Recordings>;
}

/// The result of a source.
#[derive(Debug)]
pub struct Recordings {
    /// The recordings, and the failed ones; at least one.
    pub recordings: Vec<Recording>,
    /// The requested address, as errors name it.
    pub origin: String,
    /// The process, as far as known.
    pub instance: Instance,
}

/// One profile of an answer, not yet looked at.
#[derive(Debug)]
pub struct Recording {
    /// Its type.
    pub profile_type: ProfileType,
    /// The profile, or why there is none.
    pub content: Result<RecordingData>,
    /// When it began (UTC).
    pub started: Nanos,
    /// Its length; 0 for a moment.
    pub length: Nanos,
    /// When it was complete (UTC).
    pub finished: Nanos,
    /// Labels that are kept with it beside those of its node.
    pub labels: BTreeMap<String, String>,
    /// Further facts that are kept with it.
    pub facts: BTreeMap<String, String>,
    /// Whether it lay there already and may have been given before, so that it is kept once only.
    pub is_found: bool,
}

/// A profile as its source has it.
#[derive(Clone, Debug)]
pub enum RecordingData {
    /// Bytes in any format, also one that holds several profiles.
    Encoded(Bytes),
    /// Made in this process, and how many bytes it was read from; 0 where it was not read.
    Decoded(Box<Decoded>, u64),
}

impl Recording {
    /// A recording of `profile_type` that began at `started` and is complete now, without labels and further facts.
    pub fn new(profile_type: ProfileType, content: Result<RecordingData>, started: Nanos, length: Nanos) -> Recording {
        let (labels, facts) = (BTreeMap::new(), BTreeMap::new());
        Recording {
            profile_type,
            content,
            started,
            length,
            finished: crate::clock::now(),
            labels,
            facts,
            is_found: false,
        }
    }
}
