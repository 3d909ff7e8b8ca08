//! The standing of a user for the symbols of a file.

use procprof_store::{Filter, PAGE_MAX, PageRequest};

use super::Hosts;
use super::admission::bound_token;
use crate::auth::Principal;
use crate::symbols::{Owner, SymbolKey, UPLOADS, WantedSymbols};

impl Hosts {
    /// The standing of a user for the symbols of a key; `None` for the token of a host whose newest profiles, some
    /// thousand, neither lack nor use them. Reads the store.
    pub fn symbol_owner(&self, principal: &Principal, key: &SymbolKey) -> Option<Owner> {
        let Some(token) = bound_token(principal) else { return Some(Owner::Operator) };
        let nodes: Option<Vec<u64>> = {
            let table = self.table();
            let host = table.hosts.values().find(|host| host.known.token.as_ref() == Some(&token));
            host.map(|host| {
                let services = host.known.services.values().map(|service| service.node);
                std::iter::once(host.known.node).chain(services).collect()
            })
        };
        match nodes {
            None => Some(Owner::Other),
            Some(nodes) => self.run_file(&nodes, key).then_some(Owner::Host),
        }
    }

    /// Whether a host that runs the file of a build id may have better symbols than are stored.
    pub(super) fn lacks_symbols(&self, build_id: &str) -> bool {
        // The key of a file without a build id tells its host nothing.
        let Some(key) = build_id.parse::<SymbolKey>().ok().filter(|key| !key.is_layout()) else { return false };
        self.ingest.symbols.get(&key).is_none_or(|stored| stored.owner < Owner::Host)
    }

    /// Whether profiles of these nodes lack or use the symbols of a key.
    fn run_file(&self, nodes: &[u64], key: &SymbolKey) -> bool {
        nodes.chunks(Filter::VALUES_MAX).any(|nodes| {
            let filter = Filter { nodes: nodes.to_vec(), ..Filter::default() };
            let page = self.ingest.store.list(&filter, &PageRequest::first(PAGE_MAX));
            page.is_ok_and(|page| {
                page.rows.iter().any(|entry| {
                    let used = entry
                        .meta
                        .more
                        .get(UPLOADS)
                        .is_some_and(|keys| keys.split(',').any(|used| used == key.as_str()));
                    used || WantedSymbols::from_facts(&entry.meta).iter().any(|wanted| wanted.build_id == key.as_str())
                })
            })
        })
    }
}
