//! What agents report, as pages, the API and SQL show it; and the rate that users ask for.

use jiff::Timestamp;

use super::known::AskedRate;
use super::protocol::{Command, HostFacts, ServiceFacts};
use super::{Hosts, LATE};
use crate::nodes::Node;

/// A host.
#[derive(Clone, Debug)]
pub struct HostState {
    /// The id of its node.
    pub node: u64,
    /// As its agent reported it last.
    pub facts: HostFacts,
    /// When the last heartbeat came; `None` if none has.
    pub heartbeat: Option<Timestamp>,
    /// Whether it is late.
    pub is_late: bool,
    /// How far its clock was ahead of the server's, in nanoseconds; negative for behind.
    pub skew_nanos: i64,
    /// The rate that a user asked for, until the agent reports it as wanted.
    pub rate_asked: Option<u32>,
    /// The user whose token speaks for it; `None` while only operators have.
    pub token: Option<String>,
    /// Services that are profiled.
    pub services: usize,
    /// Services that are gone.
    pub services_gone: usize,
    /// Services without a node, since there are too many or their names cannot be taken.
    pub services_refused: u64,
    /// The service, if the node is one.
    pub service: Option<ServiceState>,
}

/// A service of a host.
#[derive(Clone, Debug)]
pub struct ServiceState {
    /// As it was in the last heartbeat that had it.
    pub facts: ServiceFacts,
    /// When that was.
    pub seen: Timestamp,
    /// Whether it is in heartbeats no more.
    pub is_gone: bool,
}

/// Why a rate cannot be asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// The node has no host agent.
    #[error("the node is not recorded by a host agent")]
    NoAgent,
    /// Beyond what agents record at.
    #[error("hz: expected a whole number from 1 to {RATE_MAX}")]
    Range,
    /// Too many commands wait.
    #[error("too many commands wait for the next heartbeat of the host")]
    Full,
    /// It cannot be kept.
    #[error(transparent)]
    NotKept(#[from] crate::error::Error),
}

/// Highest rate, in samples for each second of CPU time.
pub const RATE_MAX: u32 = 1_000;

impl Hosts {
    /// What is known of the host of a node; `None` for nodes without a host agent.
    pub fn state(&self, node: &Node) -> Option<HostState> {
        let pushed_by = node.pushed_by.as_ref()?;
        let mut table = self.table();
        let host = table.hosts.get_mut(&pushed_by.host)?;
        let time = |nanos: i64| Timestamp::from_nanosecond(i128::from(nanos)).unwrap_or_default();
        let gone = host.count_gone();
        let (host, known) = (&*host, &host.known);
        let service = pushed_by.service.as_ref().and_then(|name| known.services.get(name));
        let asked = known.rate.map(|rate| rate.hz).filter(|hz| *hz != known.facts.hz_wanted);
        Some(HostState {
            node: known.node,
            facts: known.facts.clone(),
            heartbeat: (known.heartbeat_nanos > 0).then(|| time(known.heartbeat_nanos)),
            is_late: host.late || host.heard.elapsed() >= LATE,
            skew_nanos: known.skew_nanos,
            rate_asked: asked,
            token: known.token.as_ref().map(|token| token.user.clone()),
            services: known.services.len() - gone,
            services_gone: gone,
            services_refused: known.services_refused,
            service: service.map(|service| ServiceState {
                facts: service.facts.clone(),
                seen: time(service.seen_nanos),
                is_gone: host.is_gone(service),
            }),
        })
    }

    /// Asks the agent of a node for a rate; `None` for the configured one. An agent that is started later is asked
    /// again.
    ///
    /// # Errors
    /// The [`RateError`].
    pub async fn set_rate(&self, node: &Node, hz: Option<u32>) -> Result<(), RateError> {
        if hz.is_some_and(|hz| !(1..=RATE_MAX).contains(&hz)) {
            return Err(RateError::Range);
        }
        let pushed_by = node.pushed_by.as_ref().ok_or(RateError::NoAgent)?;
        {
            let mut table = self.table();
            let host = table.hosts.get_mut(&pushed_by.host).ok_or(RateError::NoAgent)?;
            if !host.seat.add(Command::Rate { hz }) {
                return Err(RateError::Full);
            }
            host.known.rate = hz.map(|hz| AskedRate { hz, told: host.known.facts.started_nanos });
        }
        Ok(self.write(&pushed_by.host).await?)
    }
}
