//! What is gone is forgotten a while later, once it has no profiles: these would have no node.

use std::collections::BTreeMap;
use std::sync::Arc;

use procprof_store::{Filter, PageRequest};
use tokio::time::Instant;

use super::{FORGET_EVERY, FORGOTTEN, Host, Hosts};
use crate::clock::now;
use crate::error::Result;
use crate::nodes::PushedBy;

/// A host or service that may be forgotten.
struct Gone {
    host: String,
    /// The host itself if there is none.
    service: Option<String>,
    node: u64,
}

impl Hosts {
    /// Forgets services and hosts that have been gone for [`FORGOTTEN`] and have no profiles; looks for them once in a
    /// while.
    pub(super) async fn forget_gone(&self) -> Result<()> {
        let gone = {
            let mut table = self.table();
            if table.looked.is_some_and(|looked| looked.elapsed() < FORGET_EVERY) {
                return Ok(());
            }
            table.looked = Some(Instant::now());
            table.hosts.values().flat_map(gone).collect::<Vec<Gone>>()
        };
        let most = gone.len();
        let without = self.without_profiles(gone, most, |gone| gone.node).await;
        let _registering = self.registering.write().await;
        let mut services: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for gone in without.iter() {
            if let Some(service) = &gone.service {
                services.entry(gone.host.clone()).or_default().push(service.clone());
            }
        }
        {
            // One that has been heard of meanwhile stays.
            let table = self.table();
            services.retain(|host, names| {
                let Some(host) = table.hosts.get(host) else { return false };
                names.retain(|name| host.known.services.get(name).is_some_and(|known| host.is_gone(known)));
                !names.is_empty()
            });
        }
        let services: Vec<(String, Vec<String>)> = services.into_iter().collect();
        self.forget_services(&services).await?;
        for (host, _) in &services {
            self.write(host).await?;
        }
        let hosts: Vec<String> = {
            let table = self.table();
            let is_empty = |host: &Host| host.is_silent() && host.known.services.is_empty();
            let hosts = without.iter().filter(|gone| gone.service.is_none()).map(|gone| &gone.host);
            hosts.filter(|host| table.hosts.get(*host).is_some_and(is_empty)).cloned().collect()
        };
        self.forget_hosts(hosts).await
    }

    /// Those of them that have no profiles, at most so many.
    pub(super) async fn without_profiles<T: Send + 'static>(
        &self,
        gone: Vec<T>,
        most: usize,
        node: impl Fn(&T) -> u64 + Send + 'static,
    ) -> Vec<T> {
        let store = Arc::clone(&self.ingest.store);
        let found = tokio::task::spawn_blocking(move || {
            let has_profiles = |node| {
                let filter = Filter { nodes: vec![node], ..Filter::default() };
                store.list(&filter, &PageRequest::first(1)).map_or(true, |page| !page.rows.is_empty())
            };
            gone.into_iter().filter(|gone| !has_profiles(node(gone))).take(most).collect()
        });
        found.await.unwrap_or_default()
    }

    /// Forgets services of hosts.
    pub(super) async fn forget_services(&self, services: &[(String, Vec<String>)]) -> Result<()> {
        if services.is_empty() {
            return Ok(());
        }
        let of_host = |(host, names): &(String, Vec<String>)| -> Vec<PushedBy> {
            names.iter().map(|name| PushedBy { host: host.clone(), service: Some(name.clone()) }).collect()
        };
        let nodes: Vec<PushedBy> = services.iter().flat_map(of_host).collect();
        let registry = Arc::clone(&self.ingest.registry);
        self.blocking(move || registry.forget_pushed(&nodes)).await?;
        let mut table = self.table();
        for (host, names) in services {
            let Some(host) = table.hosts.get_mut(host) else { continue };
            let removed = names.iter().filter(|name| host.known.services.remove(*name).is_some()).count();
            (host.gone, host.is_stale) = (None, true);
            table.services -= removed;
        }
        Ok(())
    }

    async fn forget_hosts(&self, hosts: Vec<String>) -> Result<()> {
        if hosts.is_empty() {
            return Ok(());
        }
        let (folder, registry, ids) = (self.folder.clone(), Arc::clone(&self.ingest.registry), hosts.clone());
        self.blocking(move || {
            ids.iter().try_for_each(|host| folder.remove(host))?;
            registry.forget_pushed(&ids.into_iter().map(|host| PushedBy { host, service: None }).collect::<Vec<_>>())
        })
        .await?;
        for id in &hosts {
            self.table().hosts.remove(id);
            tracing::info!("host {id} is forgotten: nothing was heard of it for {} days", FORGOTTEN.as_secs() / 86400);
        }
        Ok(())
    }
}

/// The services of a host that are gone for so long, and the host if it is.
fn gone(host: &Host) -> impl Iterator<Item = Gone> + '_ {
    let before = now().0.saturating_sub(i64::try_from(FORGOTTEN.as_nanos()).unwrap_or(i64::MAX));
    let known = &host.known;
    let id = || known.facts.id.clone();
    let services =
        known.services.iter().filter(move |(_, service)| service.seen_nanos < before && host.is_gone(service));
    let services =
        services.map(move |(name, service)| Gone { host: id(), service: Some(name.clone()), node: service.node });
    let is_gone = host.is_silent() && known.heartbeat_nanos < before;
    services.chain(is_gone.then(|| Gone { host: known.facts.id.clone(), service: None, node: known.node }))
}
