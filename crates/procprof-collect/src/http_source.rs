//! A process that is profiled over HTTP, as a source of recordings: one answer for each type.

use std::sync::Arc;

use procprof_profile::{Nanos, ProfileType};

use crate::source::{Pending, Recording, RecordingData, Recordings, Source};
use crate::{CollectError, HttpClient, Instance, Received, Request, Result, Target, Watch, receive};

/// Go's answer for a profile that the program does not have.
const GO_UNKNOWN: &str = "Unknown profile";
const NO_LEAKS: &str =
    "the program has no profile of leaked goroutines, for which Go 1.26 needs GOEXPERIMENT=goroutineleakprofile";

/// A process that serves profiles over HTTP.
#[derive(Clone, Debug)]
pub struct HttpSource {
    client: Arc<HttpClient>,
    target: Arc<Target>,
}

impl HttpSource {
    /// The process described by `target`.
    pub fn new(client: Arc<HttpClient>, target: Target) -> HttpSource {
        HttpSource { client, target: Arc::new(target) }
    }

    /// Types are recorded one after the other: profilers of one process disturb each other.
    async fn record_all(&self, request: &Request, watch: &Watch) -> Result<Recordings> {
        let (mut recordings, mut first_error) = (Vec::new(), None);
        let (mut origin, mut instance) = (String::new(), Instance::default());
        for profile_type in request.types() {
            let one = Request { profile_type: profile_type.clone(), also: Vec::new(), ..request.clone() };
            let started = crate::clock::now();
            match receive(&self.client, &self.target, &one, watch).await {
                Ok(received) => {
                    let Received { bytes, seconds, started, finished, url, instance: found, .. } = received;
                    (origin, instance) = (url, found);
                    let length = Nanos(i64::from(seconds) * 1_000_000_000);
                    let content = Ok(RecordingData::Encoded(bytes));
                    recordings
                        .push(Recording { finished, ..Recording::new(profile_type.clone(), content, started, length) });
                }
                Err(error @ CollectError::Cancelled { .. }) => return Err(error),
                Err(error) => {
                    let error = self.meant(error, profile_type);
                    first_error.get_or_insert(error.clone());
                    recordings.push(Recording::new(profile_type.clone(), Err(error), started, Nanos(0)));
                }
            }
        }
        match first_error {
            Some(error) if recordings.iter().all(|recording| recording.content.is_err()) => Err(error),
            _ => Ok(Recordings { recordings, origin, instance }),
        }
    }

    /// An agent reports itself which profiles it has not, and so does Go of those that its index does not list. Without
    /// CPU profiles it is no agent: then the address is wrong.
    fn meant(&self, error: CollectError, profile_type: &ProfileType) -> CollectError {
        match error {
            CollectError::NotFound { message, .. } | CollectError::Server { status: 501, message, .. }
                if self.target.endpoints.reports_absence
                    && *profile_type != ProfileType::Cpu
                    && !message.is_empty() =>
            {
                CollectError::Unavailable { why: message }
            }
            CollectError::NotFound { message, .. }
                if *profile_type == ProfileType::GoroutineLeak && message.starts_with(GO_UNKNOWN) =>
            {
                CollectError::Unavailable { why: NO_LEAKS.to_owned() }
            }
            error => error,
        }
    }
}

impl Source for HttpSource {
    fn record<'a>(&'a self, request: &'a Request, watch: &'a Watch) -> Pending<'a, Recordings> {
        Box::pin(self.record_all(request, watch))
    }

    fn symbol_page(&self) -> Option<(Arc<HttpClient>, Arc<Target>)> {
        Some((Arc::clone(&self.client), Arc::clone(&self.target)))
    }
}
