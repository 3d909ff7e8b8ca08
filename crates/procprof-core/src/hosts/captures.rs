//! Captures on request: a command that reaches the agent by its heartbeat, and the profile that it sends.

use std::time::Duration;

use procprof_profile::ProfileType;
use procprof_store::Entry;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::protocol::Command;
use super::{Hosts, KnownHost};
use crate::nodes::PushedBy;

/// Longest time until a heartbeat takes the command: agents send one a minute at least.
const DELIVERY: Duration = Duration::from_secs(90);
/// Longest time from the end of the recording to its profile.
const ANSWER: Duration = Duration::from_secs(60);

/// A capture that waits for its profile.
pub(super) struct Waiting {
    host: String,
    /// Told when a heartbeat takes the command.
    delivered: Option<oneshot::Sender<()>>,
    ended: oneshot::Sender<Result<Entry, String>>,
}

/// A capture that an agent shall make.
pub(crate) struct CaptureOrder<'a> {
    /// The node.
    pub(crate) of: &'a PushedBy,
    /// The type.
    pub(crate) profile_type: &'a ProfileType,
    /// Its length.
    pub(crate) seconds: u32,
    /// Ends it.
    pub(crate) cancel: &'a CancellationToken,
    /// Called with what it waits for, and with `None` when the agent has the command.
    pub(crate) waits: &'a (dyn Fn(Option<String>) + Send + Sync),
}

/// Why a capture gave no profile.
#[derive(Debug)]
pub(crate) enum NoCapture {
    /// It was given up.
    Cancelled,
    /// The agent cannot be reached, or did not answer in time.
    Silent(String),
    /// The agent's reason, or the server's for not taking the profile.
    Failed(String),
}

/// Ends a capture: takes its command back, or has the agent cancel it.
struct Ending<'a> {
    hosts: &'a Hosts,
    host: &'a str,
    id: &'a str,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let is_answered = self.hosts.waiting().remove(self.id).is_none();
        let mut table = self.hosts.table();
        let Some(host) = table.hosts.get_mut(self.host) else { return };
        if !is_answered && !host.seat.take_back(self.id) {
            host.seat.add(Command::Cancel { capture: self.id.to_owned() });
        }
    }
}

impl Hosts {
    /// Has an agent capture, and waits for the profile, which is stored then.
    ///
    /// # Errors
    /// The [`NoCapture`].
    pub(crate) async fn capture(&self, order: CaptureOrder<'_>) -> Result<Entry, NoCapture> {
        let CaptureOrder { of, profile_type, seconds, cancel, waits } = order;
        let id = uuid::Uuid::now_v7().to_string();
        let (delivered, is_delivered) = oneshot::channel();
        let (ended, end) = oneshot::channel();
        let waiting = Waiting { host: of.host.clone(), delivered: Some(delivered), ended };
        self.waiting().insert(id.clone(), waiting);
        let _ending = Ending { hosts: self, host: &of.host, id: &id };
        let command = Command::Capture {
            capture: id.clone(),
            service: of.service.clone(),
            profile_type: profile_type.name().to_owned(),
            seconds,
            hz: None,
        };
        let name = self.order(of, command)?;
        waits(Some(format!("waiting for the next heartbeat of {name}")));
        let stopping = || NoCapture::Silent("the server is stopping".to_owned());
        tokio::select! {
            () = cancel.cancelled() => return Err(NoCapture::Cancelled),
            taken = is_delivered => taken.map_err(|_| stopping())?,
            () = tokio::time::sleep(DELIVERY) => {
                let why = format!("no heartbeat of {name} within {} s", DELIVERY.as_secs());
                return Err(NoCapture::Silent(why));
            }
        }
        waits(None);
        let answered = Duration::from_secs(u64::from(seconds)) + ANSWER;
        tokio::select! {
            () = cancel.cancelled() => Err(NoCapture::Cancelled),
            end = end => end.map_err(|_| stopping())?.map_err(NoCapture::Failed),
            () = tokio::time::sleep(answered) => {
                let late = ANSWER.as_secs();
                Err(NoCapture::Silent(format!("the agent of {name} sent no profile within {seconds} s and {late} s")))
            }
        }
    }

    /// Puts a command where the next heartbeat takes it; the host's name.
    fn order(&self, of: &PushedBy, command: Command) -> Result<String, NoCapture> {
        let mut table = self.table();
        let unknown = || NoCapture::Failed("the host is not known".to_owned());
        let host = table.hosts.get_mut(&of.host).ok_or_else(unknown)?;
        let KnownHost { facts, heartbeat_nanos, .. } = &host.known;
        let name = facts.name.clone();
        if *heartbeat_nanos == 0 || host.late {
            return Err(NoCapture::Silent(format!("{name} sends no heartbeats, so its agent cannot be asked")));
        }
        let service = of.service.as_ref().map(|service| host.known.services.get(service));
        if service.is_some_and(|service| service.is_none_or(|service| host.is_gone(service))) {
            return Err(NoCapture::Failed(format!("the agent of {name} does not see the service any more")));
        }
        match host.seat.add(command) {
            true => Ok(name),
            false => Err(NoCapture::Silent(format!("too many commands wait for the next heartbeat of {name}"))),
        }
    }

    /// Notes that an agent has the command.
    pub(super) fn delivered(&self, id: &str) {
        let delivered = self.waiting().get_mut(id).and_then(|waiting| waiting.delivered.take());
        // Its capture may have ended meanwhile.
        let _ = delivered.map(|delivered| delivered.send(()));
    }

    /// Ends the capture that asked for a profile of this host, if it waits.
    pub(super) fn answered(&self, host: &str, id: &str, end: Result<Entry, String>) {
        let mut waiting = self.waiting();
        if waiting.get(id).is_none_or(|waiting| waiting.host != host) {
            return;
        }
        if let Some(waiting) = waiting.remove(id) {
            // Its capture may have ended meanwhile.
            let _ = waiting.ended.send(end);
        }
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, std::collections::HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
