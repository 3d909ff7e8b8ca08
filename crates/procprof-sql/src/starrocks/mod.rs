//! The client of StarRocks frontends: statements run there in SQL, and the nodes that they list.
//!
//! | file | what |
//! |---|---|
//! | `client` | connections to one cluster's frontends: statements, limits, another try after a restart |
//! | `discover` | the nodes of clusters, refreshed on a schedule |
//! | `error` | what can go wrong with them |
//! | `heap` | calls of `HeapProf` that a frontend runs |
//! | `show` | the lists of nodes as frontends give them, and our own nodes beside them |

mod client;
pub(super) mod discover;
mod error;
pub(super) mod heap;
pub(super) mod show;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use procprof_core::config::Config;

pub(super) use client::{Frontend, LISTS, Table};
pub(super) use error::FeError;
use heap::Dumps;

/// The state of StarRocks clusters: connections to their frontends, and the dumps that these made.
#[derive(Default)]
pub struct Clusters {
    pub(crate) frontends: Frontends,
    pub(crate) dumps: Dumps,
}

/// All configured clusters' frontends.
#[derive(Default)]
pub(crate) struct Frontends {
    known: Mutex<Vec<Arc<Frontend>>>,
}

impl Frontends {
    /// Those of a configuration, in its order; what is configured as before keeps its connections.
    pub(super) fn all(&self, config: &Config) -> Vec<Arc<Frontend>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = known.len() != config.fe_queries.len()
            || known.iter().zip(&config.fe_queries).any(|(frontend, fe)| !frontend.is_of(fe, fe.cluster(config)));
        if is_new {
            let of = |fe| known.iter().find(|known| known.is_of(fe, fe.cluster(config))).cloned();
            *known = config
                .fe_queries
                .iter()
                .map(|fe| of(fe).unwrap_or_else(|| Arc::new(Frontend::new(fe.clone(), fe.cluster(config).to_owned()))))
                .collect();
        }
        known.clone()
    }

    /// The frontend of a cluster.
    pub(super) fn for_cluster(&self, config: &Config, cluster: &str) -> Option<Arc<Frontend>> {
        self.all(config).into_iter().find(|frontend| frontend.cluster == cluster)
    }
}
