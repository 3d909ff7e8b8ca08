//! Known hosts and services as nodes of the registry, and how they fare.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use procprof_profile::ProfileType;
use tokio::time::Instant;

use super::bounded::HOST_LABEL;
use super::known::KnownService;
use super::{GONE, Host, Hosts, LATE};
use crate::clock::now;
use crate::config::NodeConfig;
use crate::nodes::{FailedAttempt, Health, Kind, Node, Planned, PushedBy};

/// Seconds of a capture, unless others are asked for.
const SECONDS: u64 = 10;
/// Seconds after which agents cut what they record all the time.
const CUT_EVERY: u64 = 60;
/// Rest after a listing, in its own lengths.
const REST: u32 = 4;
/// Shortest time between two counts of the services of a host that are gone.
const COUNTED_EVERY: Duration = Duration::from_secs(1);
/// Begins the reason of the failure of a type whose host is late.
const SILENT: &str = "no heartbeat of ";

/// Listings of all hosts in the registry.
#[derive(Default)]
pub(super) struct ListingSchedule {
    /// Counts changes.
    changes: AtomicU64,
    turn: tokio::sync::Mutex<ListingTurn>,
}

/// The turn of a listing.
#[derive(Default)]
struct ListingTurn {
    /// Changes before the latest listing.
    listed: u64,
    /// The earliest begin of the next one.
    next: Option<Instant>,
}

impl Host {
    /// Makes its nodes anew, unless they are as they were listed.
    fn list(&mut self, name: &str, cluster: &str) {
        if !self.is_stale && self.is_listed(name, cluster) {
            return;
        }
        let services = &self.known.services;
        let services = services.iter().map(|(service, known)| service_node(self, name, (service, known), cluster));
        let nodes = std::iter::once(host_node(self, name, cluster)).chain(services);
        (self.listed, self.is_stale) = (nodes.map(Arc::new).collect(), false);
    }

    /// Whether its nodes are listed under this name, those that are gone as gone.
    fn is_listed(&self, name: &str, cluster: &str) -> bool {
        let Some((own, services)) = self.listed.split_first() else { return false };
        let is_listed = |(node, service): (&Arc<Node>, &KnownService)| {
            node.id == service.node && node.past == self.is_gone(service)
        };
        (own.name(), own.cluster.as_str(), own.past) == (name, cluster, self.is_silent())
            && services.len() == self.known.services.len()
            && services.iter().zip(self.known.services.values()).all(is_listed)
    }

    /// Services that are gone, counted at most once a second.
    pub(super) fn count_gone(&mut self) -> usize {
        if let Some((counted, gone)) = self.gone
            && counted.elapsed() < COUNTED_EVERY
        {
            return gone;
        }
        let gone = self.known.services.values().filter(|service| self.is_gone(service)).count();
        self.gone = Some((Instant::now(), gone));
        gone
    }

    /// Whether nothing has been heard of it for so long that it is not expected any more.
    pub(super) fn is_silent(&self) -> bool {
        let nanos = now().0.saturating_sub(self.known.heartbeat_nanos);
        self.heard.elapsed() >= LATE && nanos >= i64::try_from(GONE.as_nanos()).unwrap_or(i64::MAX)
    }

    /// Whether a service is gone: its host is, or has not had it in heartbeats for a while.
    pub(super) fn is_gone(&self, service: &KnownService) -> bool {
        let is_left_out = service.seen_nanos < self.known.heartbeat_nanos;
        let nanos = now().0.saturating_sub(service.seen_nanos);
        self.is_silent() || (is_left_out && nanos >= i64::try_from(LATE.as_nanos()).unwrap_or(i64::MAX))
    }

    /// Its node and those of its services.
    fn nodes<'a>(&'a self) -> impl Iterator<Item = (u64, Vec<Planned>)> + 'a {
        let own = std::iter::once((self.known.node, host_schedule(self)));
        own.chain(self.known.services.values().map(|service| (service.node, schedule(service))))
    }
}

impl Hosts {
    /// Lists what is known in the registry. Changes that come while it is listed are listed together by the next
    /// listing, which waits so that all of them take at most a fifth of a CPU.
    pub(super) async fn list(&self) {
        let change = self.listing.changes.fetch_add(1, Ordering::Relaxed);
        let mut turn = self.listing.turn.lock().await;
        if turn.listed > change {
            return;
        }
        if let Some(next) = turn.next {
            tokio::time::sleep_until(next).await;
        }
        turn.listed = self.listing.changes.load(Ordering::Relaxed);
        let begun = Instant::now();
        self.list_now();
        turn.next = Some(Instant::now() + begun.elapsed() * REST);
    }

    /// The same at once; only one at a time, so that no older list is set after a newer one.
    pub(super) fn list_now(&self) {
        let registry = &self.ingest.registry;
        let (mut taken, cluster) = (registry.own_names(), registry.cluster());
        let mut table = self.table();
        let mut hosts: Vec<&mut Host> = table.hosts.values_mut().collect();
        hosts.sort_by(|a, b| (&a.known.facts.name, a.known.node).cmp(&(&b.known.facts.name, b.known.node)));
        let mut nodes = Vec::new();
        for host in hosts {
            let name = free_name(&mut taken, host);
            host.list(&name, &cluster);
            nodes.extend(host.listed.iter().map(Arc::clone));
        }
        drop(table);
        registry.set_pushed(nodes);
    }

    /// Notes hosts that have become late.
    pub(super) fn note_late(&self) {
        let is_late = |host: &Host| host.heard.elapsed() >= LATE;
        let late: Vec<String> =
            self.table().hosts.iter().filter(|(_, host)| is_late(host)).map(|(id, _)| id.clone()).collect();
        // Others are heard of between any two of them.
        for id in late {
            let mut table = self.table();
            let Some(host) = table.hosts.get_mut(&id).filter(|host| is_late(host)) else { continue };
            host.late = true;
            let minutes = now().0.saturating_sub(host.known.heartbeat_nanos) / 60_000_000_000;
            let reason = match (host.known.heartbeat_nanos, minutes) {
                (0, _) => format!("{SILENT}{} yet", host.known.facts.name),
                (_, minutes @ 0..120) => format!("{SILENT}{} for {minutes} min", host.known.facts.name),
                (_, minutes) => format!("{SILENT}{} for {} h", host.known.facts.name, minutes / 60),
            };
            for (node, schedule) in host.nodes() {
                let fail = |health: &mut Health| fail(health, &schedule, &reason);
                self.ingest.registry.note(node, fail);
            }
        }
    }

    /// Takes back what [`Hosts::note_late`] noted of a host.
    pub(super) fn note_heard(&self, host: &mut Host) {
        host.heard = Instant::now();
        if !std::mem::take(&mut host.late) {
            return;
        }
        for (node, _) in host.nodes() {
            self.ingest.registry.note(node, |health| {
                for own in health.types.values_mut() {
                    own.last_failure.take_if(|failure| failure.reason.starts_with(SILENT));
                }
            });
        }
    }
}

/// What is sent all the time fails now.
fn fail(health: &mut Health, schedule: &[Planned], reason: &str) {
    for planned in schedule.iter().filter(|planned| planned.on) {
        let own = health.types.entry(planned.profile_type.clone()).or_default();
        own.last_failure = Some(FailedAttempt { at: Timestamp::now(), reason: reason.to_owned() });
    }
}

/// The host's name, with its id where a node is called so already.
fn free_name(taken: &mut HashSet<String>, host: &Host) -> String {
    let facts = &host.known.facts;
    let mut name = facts.name.clone();
    if taken.contains(&name) {
        name = format!("{} #{}", facts.name, facts.id.get(..8).unwrap_or(&facts.id));
    }
    if taken.contains(&name) {
        name = format!("{} #{}", facts.name, facts.id);
    }
    taken.insert(name.clone());
    name
}

fn host_node(host: &Host, name: &str, cluster: &str) -> Node {
    let facts = &host.known.facts;
    let config = NodeConfig {
        name: name.to_owned(),
        kind: Kind::HOST,
        role: Kind::HOST.default_role,
        labels: facts.labels.clone(),
        ..NodeConfig::default()
    };
    let pushed_by = PushedBy { host: facts.id.clone(), service: None };
    node(host.known.node, config, host_schedule(host), host.is_silent(), pushed_by, cluster)
}

/// A service of a host of this name, which no other node has.
fn service_node(host: &Host, host_name: &str, (service, known): (&str, &KnownService), cluster: &str) -> Node {
    let mut labels = known.facts.labels.clone();
    labels.insert(HOST_LABEL.to_owned(), host_name.to_owned());
    let config = NodeConfig {
        name: format!("{host_name}/{service}"),
        kind: Kind::PROCESS,
        role: Kind::PROCESS.default_role,
        labels,
        ..NodeConfig::default()
    };
    let pushed_by = PushedBy { host: host.known.facts.id.clone(), service: Some(service.to_owned()) };
    node(known.node, config, schedule(known), host.is_gone(known), pushed_by, cluster)
}

fn node(id: u64, config: NodeConfig, schedule: Vec<Planned>, past: bool, pushed_by: PushedBy, cluster: &str) -> Node {
    Node {
        id,
        config,
        cluster: cluster.to_owned(),
        address: String::new(),
        schedule,
        demo: false,
        past,
        pid: None,
        fe_id: None,
        pushed_by: Some(pushed_by),
    }
}

/// The types of a service: those that are recorded all the time are on.
fn schedule(service: &KnownService) -> Vec<Planned> {
    let mut types = BTreeMap::new();
    for offered in &service.facts.types {
        let Ok(profile_type) = offered.profile_type.parse::<ProfileType>() else { continue };
        *types.entry(profile_type).or_insert(false) |= offered.continuous;
    }
    types.into_iter().map(|(profile_type, on)| planned(profile_type, on)).collect()
}

/// The types of a whole host: what its agent can record of any service; those that have come by themselves are on.
fn host_schedule(host: &Host) -> Vec<Planned> {
    let offered = host.known.services.values().filter(|service| !host.is_gone(service));
    let names = offered.flat_map(|service| service.facts.types.iter().map(|offered| &offered.profile_type));
    let of_services: BTreeMap<&String, bool> = names.map(|name| (name, false)).collect();
    let mut types = of_services;
    types.extend(host.known.sent_types.iter().map(|name| (name, true)));
    let parsed = types.into_iter().filter_map(|(name, on)| Some((name.parse::<ProfileType>().ok()?, on)));
    parsed.map(|(profile_type, on)| planned(profile_type, on)).collect()
}

fn planned(profile_type: ProfileType, on: bool) -> Planned {
    Planned { profile_type, on, seconds: SECONDS, every: CUT_EVERY }
}
