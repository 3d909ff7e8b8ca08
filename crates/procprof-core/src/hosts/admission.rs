//! The hosts that a request may speak for, and the registration of hosts and services as nodes.
//!
//! A token speaks for the host that it first spoke for. The host's file has the user's name and a mark of the secret:
//! a user who gets a new token may speak for any host again, and a host takes another token once the former one is not
//! in the users file any more. Operators speak for every host.

use std::collections::HashMap;
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

/// Room for services that are about to be registered, given back unless they are.
struct ServiceRoom<'a> {
    hosts: &'a Hosts,
    services: usize,
}

impl Drop for ServiceRoom<'_> {
    fn drop(&mut self) {
        if self.services > 0 {
            self.hosts.table().services -= self.services;
        }
    }
}

impl Table {
    /// Services for which a host has room.
    fn room(&self, id: &str) -> usize {
        let Some(host) = self.hosts.get(id) else { return 0 };
        let own = KNOWN_SERVICES_MAX.saturating_sub(host.known.services.len());
        own.min(ALL_SERVICES_MAX.saturating_sub(self.services))
    }
}

impl Hosts {
    /// Lets a user speak for a host, which is registered if it is not known, and listed by the next listing; binds a
    /// token that is not bound.
    pub(super) async fn admit(&self, principal: &Principal, id: &str) -> Admission {
        if !is_host_id(id) {
            return Err(AdmissionError::HostId);
        }
        let token = bound_token(principal);
        let speaks = |host: &Host| token.is_none() || host.known.token == token;
        if self.table().hosts.get(id).is_some_and(speaks) {
            return Ok(());
        }
        let mut known = self.admissible(&self.table(), token.as_ref(), id)?;
        if known.facts.id.is_empty() {
            known.facts = HostFacts { id: id.to_owned(), ..HostFacts::default() };
            super::bounded::host(&mut known.facts);
            known.node = self.node_ids(vec![PushedBy { host: id.to_owned(), service: None }]).await?[0];
        }
        let (before, is_new) = {
            let mut table = self.table();
            // Others may have been admitted meanwhile.
            self.admissible(&table, token.as_ref(), id)?;
            let is_new = !table.hosts.contains_key(id);
            let host = table.hosts.entry(id.to_owned()).or_insert_with(|| Host::new(known));
            let bound = token.or_else(|| host.known.token.clone());
            (std::mem::replace(&mut host.known.token, bound), is_new)
        };
        if let Err(error) = self.write(id).await {
            // What is not kept does not hold.
            let mut table = self.table();
            match table.hosts.get_mut(id) {
                Some(host) if !is_new || !host.known.services.is_empty() => host.known.token = before,
                _ => drop(table.hosts.remove(id)),
            }
            return Err(error.into());
        }
        Ok(())
    }

    /// The knowledge of a host that a token may speak for; nothing yet of one for which there is room.
    fn admissible(
        &self,
        table: &Table,
        token: Option<&BoundToken>,
        id: &str,
    ) -> std::result::Result<KnownHost, AdmissionError> {
        if let Some(token) = token {
            self.check_token(table, token, id)?;
        }
        match table.hosts.get(id) {
            Some(host) => Ok(host.known.clone()),
            None if table.hosts.len() >= HOSTS_MAX => Err(AdmissionError::TooManyHosts),
            None => Ok(KnownHost::default()),
        }
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

    /// Registers services of a host that are not known, which the next listing lists; how many have no room.
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
        let _registering = self.registering.read().await;
        let own = self.table().hosts.get(id).map(|host| Arc::clone(&host.registering));
        let Some(own) = own else { return Ok(0) };
        let _own = own.lock().await;
        let mut names = unknown(&self.table());
        let wanted = names.len();
        let mut room = self.make_room(id, wanted).await?;
        names.truncate(room.services);
        let refused = (wanted - names.len()) as u64;
        if names.is_empty() {
            return Ok(refused);
        }
        let pushed = names.iter().map(|name| PushedBy { host: id.to_owned(), service: Some(name.clone()) });
        let ids = self.node_ids(pushed.collect()).await?;
        let seen_nanos = now().0;
        let facts: HashMap<&str, &ServiceFacts> =
            services.iter().rev().map(|service| (service.name.as_str(), service)).collect();
        {
            let mut table = self.table();
            let Some(host) = table.hosts.get_mut(id) else { return Ok(refused) };
            for (name, node) in names.into_iter().zip(ids) {
                let facts = facts.get(name.as_str()).copied().cloned().unwrap_or_default();
                host.known.services.insert(name, KnownService { node, facts, seen_nanos });
            }
            host.is_stale = true;
            room.services = 0;
        }
        self.write(id).await?;
        Ok(refused)
    }

    /// Makes room for services of a host: those that are gone the longest and have no profiles are forgotten.
    async fn make_room(&self, id: &str, wanted: usize) -> Result<ServiceRoom<'_>> {
        let gone = {
            let mut table = self.table();
            let room = table.room(id);
            if room >= wanted {
                return Ok(self.take_room(&mut table, wanted));
            }
            let Some(host) = table.hosts.get(id) else { return Ok(self.take_room(&mut table, 0)) };
            let gone = host.known.services.iter().filter(|(_, service)| host.is_gone(service));
            let mut gone: Vec<(i64, String, u64)> =
                gone.map(|(name, service)| (service.seen_nanos, name.clone(), service.node)).collect();
            gone.sort();
            drop(table);
            self.without_profiles(gone, wanted - room, |(_, _, node)| *node)
        };
        let forgotten: Vec<String> = gone.await.into_iter().map(|(_, name, _)| name).collect();
        if !forgotten.is_empty() {
            self.forget_services(&[(id.to_owned(), forgotten)]).await?;
        }
        let mut table = self.table();
        let room = table.room(id).min(wanted);
        Ok(self.take_room(&mut table, room))
    }

    fn take_room(&self, table: &mut Table, services: usize) -> ServiceRoom<'_> {
        table.services += services;
        ServiceRoom { hosts: self, services }
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
