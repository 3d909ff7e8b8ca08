//! Heartbeats: what an agent reports is noted, and the request is held until there is something for the agent to do.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::admission::AdmissionError;
use super::known::AskedRate;
use super::protocol::{Command, Heartbeat, HeartbeatAnswer, WAIT_SECONDS_MAX};
use super::{Host, Hosts, bounded};
use crate::auth::Principal;
use crate::clock::now;
use crate::file_limit::{self, http_connections};

/// Time until the next heartbeat where one could not be held.
const NEXT_SECONDS: u32 = 10;
/// Most commands that wait for a heartbeat of a host.
const COMMANDS_MAX: usize = 64;
/// Most build ids that are remembered as wanted of a host.
const WANTED_MAX: usize = 64;

/// Why a heartbeat is not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeartbeatError {
    /// The user may not speak for the host.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// The user was removed, or has another token or role now.
    #[error("the token was revoked")]
    Revoked,
}

/// The place at which an agent waits for commands.
#[derive(Default)]
pub(super) struct Seat {
    /// The heartbeat that gets the commands: the newest.
    turn: u64,
    commands: VecDeque<Command>,
    wanted: BTreeSet<String>,
    /// Sees each command, and each new turn.
    changes: watch::Sender<u64>,
}

impl Seat {
    /// Adds a command; false if too many wait already.
    pub(super) fn add(&mut self, command: Command) -> bool {
        let has_room = self.commands.len() < COMMANDS_MAX;
        if has_room {
            self.commands.push_back(command);
            self.changes.send_modify(|count| *count += 1);
        }
        has_room
    }

    /// Takes the command of a capture back; whether it was still there.
    pub(super) fn take_back(&mut self, id: &str) -> bool {
        let before = self.commands.len();
        self.commands.retain(|command| !matches!(command, Command::Capture { capture, .. } if capture == id));
        self.commands.len() < before
    }

    /// Remembers files whose symbols are wanted.
    pub(super) fn want(&mut self, build_ids: &[String]) {
        for build_id in build_ids {
            if self.wanted.len() < WANTED_MAX {
                self.wanted.insert(build_id.clone());
            }
        }
    }
}

/// A heartbeat that is held; counted as long as it lives.
struct Held<'a>(&'a Hosts);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.table().held -= 1;
    }
}

impl Hosts {
    /// Notes what an agent reports, and answers when there is a command, at the latest after `wait_seconds`. Of several
    /// heartbeats of a host the newest is held, and as many of all hosts together as half of `http_connections_max`.
    ///
    /// # Errors
    /// The [`HeartbeatError`], also of a heartbeat that is held when its token is revoked.
    pub async fn heartbeat(
        &self,
        principal: &Principal,
        heartbeat: Heartbeat,
    ) -> Result<HeartbeatAnswer, HeartbeatError> {
        let mut users = self.authenticator.changes();
        let (id, wait_seconds) = (heartbeat.host.id.clone(), heartbeat.wait_seconds.min(WAIT_SECONDS_MAX));
        self.admit(principal, &id).await?;
        let (own, mut changes) = self.note(heartbeat).await.map_err(AdmissionError::from)?;
        let until = Instant::now() + Duration::from_secs(u64::from(wait_seconds));
        let Some(_held) = self.hold() else {
            return Ok(HeartbeatAnswer { next_seconds: NEXT_SECONDS, ..self.answer(&id, own) });
        };
        loop {
            let answer = self.answer(&id, own);
            if !answer.commands.is_empty() || !self.is_newest(&id, own) {
                return Ok(answer);
            }
            if !self.authenticator.still_holds(principal) {
                return Err(HeartbeatError::Revoked);
            }
            tokio::select! {
                _ = changes.changed() => {}
                _ = users.changed() => {}
                // Anew: the answer has the server's clock.
                () = tokio::time::sleep_until(until) => return Ok(self.answer(&id, own)),
                () = self.stop.cancelled() => return Ok(answer),
            }
        }
    }

    /// Notes the facts of a heartbeat; its turn, and what tells of commands.
    async fn note(&self, mut heartbeat: Heartbeat) -> crate::error::Result<(u64, watch::Receiver<u64>)> {
        let received = now().0;
        bounded::host(&mut heartbeat.host);
        let left_out = bounded::services(&mut heartbeat.services);
        let refused = left_out + self.register(&heartbeat.host.id, &heartbeat.services).await?;
        let Some((noted, is_listed_otherwise)) = self.note_facts(heartbeat, refused, received) else {
            return Ok((0, watch::Sender::new(0).subscribe()));
        };
        if is_listed_otherwise {
            self.list().await;
        }
        Ok(noted)
    }

    /// Notes what a heartbeat that was received at this moment says, and `refused` services; also whether this changes
    /// the list of nodes. `None` if the host was forgotten meanwhile.
    fn note_facts(
        &self,
        heartbeat: Heartbeat,
        refused: u64,
        received: i64,
    ) -> Option<((u64, watch::Receiver<u64>), bool)> {
        let mut table = self.table();
        let host = table.hosts.get_mut(&heartbeat.host.id)?;
        self.note_heard(host);
        let known = &mut host.known;
        let is_listed_otherwise = known.heartbeat_nanos == 0
            || (&known.facts.name, &known.facts.labels) != (&heartbeat.host.name, &heartbeat.host.labels)
            || heartbeat.services.iter().any(|service| {
                let before = known.services.get(&service.name);
                before
                    .is_some_and(|known| (&known.facts.types, &known.facts.labels) != (&service.types, &service.labels))
            });
        known.facts = heartbeat.host;
        (known.heartbeat_nanos, known.skew_nanos) = (received, heartbeat.sent_nanos.saturating_sub(received));
        known.services_refused = refused;
        for service in heartbeat.services {
            if let Some(own) = known.services.get_mut(&service.name) {
                if own.facts.in_host || service.in_host {
                    self.ingest.registry.note(own.node, |health| health.in_host = service.in_host);
                }
                (own.facts, own.seen_nanos) = (service, received);
            }
        }
        (host.changed, host.gone) = (true, None);
        // Also where services were registered, or forgotten for them.
        host.is_stale |= is_listed_otherwise;
        let is_listed_otherwise = host.is_stale;
        ask_rate(host);
        let seat = &mut host.seat;
        seat.turn += 1;
        seat.changes.send_modify(|count| *count += 1);
        Some(((seat.turn, seat.changes.subscribe()), is_listed_otherwise))
    }

    fn hold(&self) -> Option<Held<'_>> {
        let connections = http_connections(self.ingest.settings.config().http_connections_max, file_limit::limit());
        let most = usize::try_from(connections / 2).unwrap_or(usize::MAX);
        let mut table = self.table();
        if table.held >= most {
            return None;
        }
        table.held += 1;
        Some(Held(self))
    }

    fn is_newest(&self, id: &str, turn: u64) -> bool {
        self.table().hosts.get(id).is_some_and(|host| host.seat.turn == turn)
    }

    /// The answer at this moment; commands are taken by the newest heartbeat alone.
    fn answer(&self, id: &str, turn: u64) -> HeartbeatAnswer {
        let mut table = self.table();
        let mut answer = HeartbeatAnswer { server_nanos: now().0, ..HeartbeatAnswer::default() };
        let Some(host) = table.hosts.get_mut(id) else { return answer };
        host.seat.wanted.retain(|build_id| self.lacks_symbols(build_id));
        answer.wanted_symbols = host.seat.wanted.iter().cloned().collect();
        if host.seat.turn == turn {
            answer.commands = host.seat.commands.drain(..).collect();
        }
        drop(table);
        for command in &answer.commands {
            if let Command::Capture { capture, .. } = command {
                self.delivered(capture);
            }
        }
        answer
    }
}

/// Asks an agent that has been started since for the rate that a user wants.
fn ask_rate(host: &mut Host) {
    let started = host.known.facts.started_nanos;
    let Some(AskedRate { hz, told }) = host.known.rate else { return };
    if told != started && host.seat.add(Command::Rate { hz: Some(hz) }) {
        host.known.rate = Some(AskedRate { hz, told: started });
    }
}
