//! The hosts that a request may speak for, and the registration of hosts and services as nodes.
//!
//! A token speaks for the host that it first spoke for. The host's file has the user's name and a mark of the secret:
//! a user who gets a new token may speak for any host again, and a host takes another token once the former one is not
//! in the users file any more. Operators speak for every host.

use std::sync::Arc;

use super::known::{BoundToken, KnownHost, KnownService};
use super::protocol::{HostFacts, ServiceFacts};
use super::{ALL_SERVICES_MAX, HOSTS_MAX, Host, Hosts, KNOWN_SERVICES_MAX, Table};
use crate::auth::Principal;
use crate::clock::now;
use crate::error::{Error, Result};

/// Result of an admission.
type Admission = std::result::Result<(), AdmissionError>;
use crate::nodes::PushedBy;

/// Why a user may not speak for a host.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// It is no id.
    #[error("host.id: expected 32 hexadecimal digits in lower case")]
    HostId,
    /// The token is another host's.
    #[error(
        "the token of {user} speaks for host {host}; a token speaks for one host, and `procprof user add --role push` \
         makes another"
    )]
    OtherHost {
        /// The user.
        user: String,
        /// The host that it speaks for.
        host: String,
    },
    /// The host is another token's.
    #[error("host {host} has the token of {user}; it takes another one when that user is removed or has a new token")]
    OtherToken {
        /// The host's name.
        host: String,
        /// The user whose token it is.
        user: String,
    },
    /// There is no room for one more.
    #[error("{HOSTS_MAX} hosts are known, and no further one is taken")]
    TooManyHosts,
    /// What is known cannot be kept.
    #[error(transparent)]
    NotKept(#[from] Error),
}

/// Whether a text is the id of a host: 32 hexadecimal digits.
pub(super) fn is_host_id(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The token by which a user speaks for a host; `None` for operators, who speak for all.
pub(super) fn bound_token(principal: &Principal) -> Option<BoundToken> {
    let token = || BoundToken { user: principal.name.clone(), mark: principal.password_mark() };
    (!principal.operates()).then(token)
}

impl Hosts {
    /// Lets a user speak for a host, which is registered if it is not known; binds a token that is not bound.
    pub(super) async fn admit(&self, principal: &Principal, id: &str) -> Admission {
        if !is_host_id(id) {
            return Err(AdmissionError::HostId);
        }
        let token = bound_token(principal);
        let speaks = |host: &Host| token.is_none() || host.known.token == token;
        if self.table().hosts.get(id).is_some_and(speaks) {
            return Ok(());
        }
        let _registering = self.registering.lock().await;
        let mut known = {
            let table = self.table();
            if let Some(token) = &token {
                self.check_token(&table, token, id)?;
            }
            match table.hosts.get(id) {
                Some(host) => host.known.clone(),
                None if table.hosts.len() >= HOSTS_MAX => return Err(AdmissionError::TooManyHosts),
                None => KnownHost::default(),
            }
        };
        if known.facts.id.is_empty() {
            known.facts = HostFacts { id: id.to_owned(), ..HostFacts::default() };
            super::bounded::host(&mut known.facts);
            known.node = self.node_ids(vec![PushedBy { host: id.to_owned(), service: None }]).await?[0];
        }
        let before = known.token.clone();
        known.token = token.or(known.token);
        let is_new = {
            let mut table = self.table();
            let is_new = !table.hosts.contains_key(id);
            let bound = known.token.clone();
            table.hosts.entry(id.to_owned()).or_insert_with(|| Host::new(known)).known.token = bound;
            is_new
        };
        if let Err(error) = self.write(id).await {
            // What is not kept does not hold.
            let mut table = self.table();
            match table.hosts.get_mut(id) {
                Some(host) if !is_new => host.known.token = before,
                _ => drop(table.hosts.remove(id)),
            }
            return Err(error.into());
        }
        self.list();
        Ok(())
    }

    fn check_token(&self, table: &Table, token: &BoundToken, id: &str) -> Admission {
        let bound = |host: &&Host| host.known.token.as_ref() == Some(token) && host.known.facts.id != id;
        if let Some(host) = table.hosts.values().find(bound) {
            let host = format!("{} ({})", host.known.facts.name, host.known.facts.id);
            return Err(AdmissionError::OtherHost { user: token.user.clone(), host });
        }
        match table.hosts.get(id).and_then(|host| Some((host, host.known.token.as_ref()?))) {
            Some((host, other)) if other != token && self.authenticator.has_token(&other.user, &other.mark) => {
                Err(AdmissionError::OtherToken { host: host.known.facts.name.clone(), user: other.user.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Registers services of a host that are not known; how many have no room.
    pub(super) async fn register(&self, id: &str, services: &[ServiceFacts]) -> Result<u64> {
        let unknown = |table: &Table| -> Vec<String> {
            let Some(host) = table.hosts.get(id) else { return Vec::new() };
            let mut names: Vec<String> = services.iter().map(|service| service.name.clone()).collect();
            names.retain(|name| !host.known.services.contains_key(name));
            names.sort();
            names.dedup();
            names
        };
        if unknown(&self.table()).is_empty() {
            return Ok(0);
        }
        let _registering = self.registering.lock().await;
        let mut names = unknown(&self.table());
        let wanted = names.len();
        let room = self.make_room(id, wanted).await?;
        names.truncate(room);
        let refused = (wanted - names.len()) as u64;
        if names.is_empty() {
            return Ok(refused);
        }
        let pushed = names.iter().map(|name| PushedBy { host: id.to_owned(), service: Some(name.clone()) });
        let ids = self.node_ids(pushed.collect()).await?;
        let seen_nanos = now().0;
        {
            let mut table = self.table();
            let Some(host) = table.hosts.get_mut(id) else { return Ok(refused) };
            for (name, node) in names.into_iter().zip(ids) {
                let facts = services.iter().find(|service| service.name == name).cloned().unwrap_or_default();
                host.known.services.insert(name, KnownService { node, facts, seen_nanos });
            }
        }
        self.write(id).await?;
        self.list();
        Ok(refused)
    }

    /// Makes room for services of a host: those that are gone the longest and have no profiles are forgotten. How many
    /// have room now.
    async fn make_room(&self, id: &str, wanted: usize) -> Result<usize> {
        let (room, gone) = {
            let table = self.table();
            let all: usize = table.hosts.values().map(|host| host.known.services.len()).sum();
            let Some(host) = table.hosts.get(id) else { return Ok(0) };
            let own = host.known.services.len();
            let room = KNOWN_SERVICES_MAX.saturating_sub(own).min(ALL_SERVICES_MAX.saturating_sub(all));
            let gone = host.known.services.iter().filter(|(_, service)| host.is_gone(service));
            let mut gone: Vec<(i64, String, u64)> =
                gone.map(|(name, service)| (service.seen_nanos, name.clone(), service.node)).collect();
            gone.sort();
            (room, gone)
        };
        if room >= wanted {
            return Ok(room);
        }
        let forgotten = self.without_profiles(gone, wanted - room, |(_, _, node)| *node).await;
        let forgotten: Vec<String> = forgotten.into_iter().map(|(_, name, _)| name).collect();
        if forgotten.is_empty() {
            return Ok(room);
        }
        self.forget_services(id, &forgotten).await?;
        Ok(room + forgotten.len())
    }

    async fn node_ids(&self, nodes: Vec<PushedBy>) -> Result<Vec<u64>> {
        let registry = Arc::clone(&self.ingest.registry);
        self.blocking(move || registry.pushed_ids(&nodes)).await
    }

    /// Writes what is known of a host.
    pub(super) async fn write(&self, id: &str) -> Result<()> {
        // So that no older state is written over a newer one.
        let _writing = self.writing.lock().await;
        let known = self.table().hosts.get_mut(id).map(|host| {
            (host.changed, host.written) = (false, tokio::time::Instant::now());
            host.known.clone()
        });
        let Some(known) = known else { return Ok(()) };
        let folder = self.folder.clone();
        let written = self.blocking(move || folder.write(&known)).await;
        if let (Err(_), Some(host)) = (&written, self.table().hosts.get_mut(id)) {
            host.changed = true;
        }
        written
    }

    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let ended = tokio::task::spawn_blocking(work).await;
        ended.unwrap_or_else(|error| Err(Error::Setup { what: "hosts", why: error.to_string() }))
    }
}
