//! From a node's source to its stored recordings.

use std::sync::Arc;

use bytes::Bytes;
use procprof_collect::frontend::MakeTarget;
use procprof_collect::{HttpSource, Recording, RecordingData, Recordings, Request, Source};
use procprof_profile::{Meta, Nanos, ProfileType};
use procprof_store::{Entry, content_id};

use super::run::Arrived;
use super::{CaptureFailure, Captures};
use crate::clock::now;
use crate::ingest::{IncomingData, IncomingProfile, IngestError, Reserved, SymbolHints, accept};
use crate::kinds::{KindSource, SourceContext, keeps_recordings};
use crate::nodes::Node;
use crate::remote::{Remote, process, target};

/// The result of a capture: at least one profile.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// The stored profiles, in the order of the answer.
    pub(crate) stored: Vec<Arc<Entry>>,
    /// The other recordings of the answer, which could not be stored.
    pub(crate) failed: Vec<(ProfileType, Arc<CaptureFailure>)>,
}

impl Recorded {
    /// The profile of a type, or why there is none; the first one where the answer has nothing of that type.
    pub(crate) fn outcome_for(&self, profile_type: &ProfileType) -> Result<Arc<Entry>, Arc<CaptureFailure>> {
        if let Some(entry) = self.stored.iter().find(|entry| entry.profile_type == *profile_type) {
            return Ok(Arc::clone(entry));
        }
        let failure = self
            .failed
            .iter()
            .find(|(failed, _)| failed == profile_type)
            .or(self.failed.first())
            .map(|(_, failure)| failure);
        match (failure, self.stored.first()) {
            (Some(failure), _) => Err(Arc::clone(failure)),
            (None, Some(entry)) => Ok(Arc::clone(entry)),
            (None, None) => Err(Arc::new(CaptureFailure::capture("no_recording", "the source gave no recording"))),
        }
    }

    /// Adds what was stored, or could not be.
    fn note(&mut self, profile_type: ProfileType, outcome: Result<Entry, CaptureFailure>) {
        match outcome {
            Ok(entry) => self.stored.push(Arc::new(entry)),
            Err(failure) => self.failed.push((profile_type, Arc::new(failure))),
        }
    }

    /// Adds a failure for every type of a request for several that the answer left out. A request for one type takes
    /// what comes.
    pub(super) fn note_missing(&mut self, request: &Request, origin: &str) {
        let wanted: Vec<&ProfileType> = request.types().collect();
        for wanted in wanted.iter().copied().filter(|_| wanted.len() > 1) {
            let is_stored = self.stored.iter().any(|entry| entry.profile_type == *wanted);
            if !is_stored && !self.failed.iter().any(|(failed, _)| failed == wanted) {
                let failure = CaptureFailure::capture(
                    "no_recording",
                    format!("{origin}: no {} among what was recorded", wanted.name()),
                );
                self.failed.push((wanted.clone(), Arc::new(failure)));
            }
        }
    }
}

/// The source of a node's recordings. That of a kind with an engine of its own is kept for as long as the node's
/// configuration does not change.
pub(super) async fn source_of_node(captures: &Captures, node: &Node) -> Result<Arc<dyn Source>, CaptureFailure> {
    let make = match node.kind().source {
        KindSource::Http(_) => {
            // Secrets are read anew for each capture.
            let target = target(node, &captures.config()).await?;
            return Ok(Arc::new(HttpSource::new(captures.in_flight.client(), target)));
        }
        KindSource::Custom { make: source, .. } => source,
        KindSource::Pushed(_) => return Err(CaptureFailure::capture("pushed", "the host agent of the node records")),
    };
    let stack_depth = u32::try_from(captures.config().proc_profile_jstack_depth).unwrap_or(u32::MAX);
    let (made_for, settings) = (node.clone(), Arc::clone(&captures.settings));
    let target: MakeTarget = Arc::new(move || {
        let (node, config) = (made_for.clone(), settings.config());
        Box::pin(async move { target(&node, &config).await })
    });
    let context = SourceContext { node: &node.config, stack_depth, agent: &captures.agent, target: &target };
    captures.in_flight.kept_source(node, stack_depth, || Ok(make(&context)?))
}

/// Keeps a recording as it was recorded.
async fn keep_recording(
    captures: &Captures,
    node: &Node,
    started: Nanos,
    bytes: Bytes,
) -> Result<Entry, CaptureFailure> {
    let (store, id) = (Arc::clone(&captures.ingest.store), node.id);
    let stored = tokio::task::spawn_blocking(move || store.put_recording(id, started, &bytes)).await;
    match stored {
        Ok(stored) => stored.map_err(|error| IngestError::Store(error).into()),
        Err(error) => Err(CaptureFailure::capture("recording_not_kept", format!("keep the recording: {error}"))),
    }
}

/// Facts about an answer beside the answer.
#[derive(Default)]
pub(super) struct RecordingContext {
    /// The node's page of symbols, where it may be queried.
    pub(super) remote: Option<Remote>,
    /// The memory that the answer took from the budget while it arrived.
    pub(super) reserved: Option<Arc<Reserved>>,
}

/// Stores every recording of an answer; one that cannot be stored does not keep the others from it.
pub(super) async fn store_recordings(
    captures: &Captures,
    node: &Node,
    trigger: &str,
    arrived: Option<&Arrived>,
    answer: Recordings,
    found: RecordingContext,
) -> Recorded {
    let Recordings { recordings, origin, instance } = answer;
    let hints = SymbolHints {
        process: process(node, instance.local),
        binary: node.config.binary.clone(),
        remote: found.remote,
    };
    let mut recorded = Recorded::default();
    for recording in recordings {
        let Recording { profile_type, content, started, length, finished, labels, mut facts, is_found } = recording;
        let (content, sent) = match content {
            Ok(RecordingData::Encoded(bytes)) => {
                if let Some(arrived) = arrived {
                    arrived(&bytes);
                }
                (IncomingData::Encoded(bytes.clone(), Some(profile_type.clone())), bytes)
            }
            Ok(RecordingData::Decoded(decoded, length)) => (IncomingData::Decoded(decoded, length), Bytes::new()),
            Err(error) => {
                recorded.failed.push((profile_type, Arc::new(error.into())));
                continue;
            }
        };
        // What was stored by an earlier run of the server is not stored twice.
        let id = is_found.then(|| content_id(&sent));
        if let Some(id) = id {
            let store = Arc::clone(&captures.ingest.store);
            if let Ok(Ok(known)) = tokio::task::spawn_blocking(move || store.get(id)).await {
                recorded.stored.push(Arc::new(known));
                continue;
            }
        }
        let mut meta = Meta {
            id,
            profile_type: Some(profile_type.clone()),
            trigger: trigger.to_owned(),
            end: Some(if finished.0 > 0 { finished } else { now() }),
            instance_start: instance.start_time(),
            engine: facts.remove("engine").unwrap_or_default(),
            ..node.meta()
        };
        meta.labels.extend(labels);
        meta.more.extend(facts);
        if keeps_recordings(&node.config) {
            recorded.note(
                ProfileType::Other("recording".to_owned()),
                keep_recording(captures, node, started, sent.clone()).await,
            );
        }
        let (hints, reserved) = (hints.clone(), found.reserved.clone());
        let incoming = IncomingProfile { meta, data: content, window: (started, length), hints, reserved };
        match accept(&captures.ingest, incoming).await {
            Ok(entries) => recorded.stored.extend(entries.into_iter().map(Arc::new)),
            Err(error) => {
                let failure = match error {
                    IngestError::Refused(refusal) => refusal.unfit().error(&origin, &sent).into(),
                    error => CaptureFailure::from(error),
                };
                recorded.failed.push((profile_type, Arc::new(failure)));
            }
        }
    }
    recorded
}
