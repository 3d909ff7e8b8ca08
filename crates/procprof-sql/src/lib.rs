//! The server over the MySQL protocol: the statements of SQL clients, and their execution.
//!
//! [`serve`] accepts clients and runs their statements on the parts of `procprof-core` that [`Sql`] holds. `mysql`
//! implements the protocol and treats statements as text; all other modules handle statements and no packets. Errors
//! get the codes of MySQL here. Nothing here uses HTTP.
//!
//! | file | what |
//! |---|---|
//! | `mysql` | the protocol: packets, logins, result sets |
//! | `serve` | the listener, its limits and its logins |
//! | `token` | a statement's words, numbers, strings and variables |
//! | `statement` | the statements, parsed |
//! | `session`, `session_info` | one client: its database, warnings, and the audit line of each statement |
//! | `processlist` | connections and their statements, for `SHOW PROCESSLIST` and `KILL` |
//! | `variables`, `set` | `@@…`, `@…` and `SHOW VARIABLES`; `SET` |
//! | `admin`, `script` | `ADMIN EXECUTE`: its nodes and rows, its script |
//! | `heap`, `heap_graph` | operations of scripts on the heap of a node, and its dumps as graphs |
//! | `starrocks` | the client of StarRocks frontends: their nodes, and statements run there |
//! | `collect` | `COLLECT` |
//! | `show`, `names` | the `SHOW` statements, and names in them |
//! | `like`, `show_filter` | `LIKE` and `WHERE` of `SHOW` statements |
//! | `engine` | `SELECT`, its tables, and `DESCRIBE` and `SHOW` of these |
//! | `absent` | what takes the place of `engine` without the feature `select` |

#![cfg_attr(not(feature = "select"), allow(dead_code, reason = "only `SELECT` uses it"))]

#[cfg(any(test, not(feature = "select")))]
#[cfg_attr(feature = "select", allow(dead_code, reason = "only its tests use it"))]
mod absent;
mod accounts;
mod admin;
mod collect;
#[cfg(feature = "select")]
mod engine;
#[cfg(not(feature = "select"))]
use absent as engine;
#[doc(hidden)]
pub mod fuzz;
mod heap;
mod heap_graph;
mod like;
mod mysql;
mod names;
mod processlist;
mod script;
mod serve;
mod session;
mod session_info;
mod set;
mod show;
mod show_filter;
mod starrocks;
mod statement;
#[cfg(all(test, feature = "select"))]
mod tests;
mod token;
mod variables;

use std::sync::Arc;

use procprof_core::auth::Authenticator;
use procprof_core::captures::Captures;
use procprof_core::children::Children;
use procprof_core::config::Config;
use procprof_core::hosts::Hosts;
use procprof_core::metrics::Metrics;
use procprof_core::nodes::Registry;
use procprof_core::render::Renderer;
use procprof_core::settings::Settings;
use procprof_store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use serve::{SqlLogin, serve};
pub use starrocks::Clusters;

/// The parts of the server that execute statements.
pub struct Sql {
    /// Configuration, folders and address.
    pub settings: Arc<Settings>,
    /// The nodes and how they are.
    pub registry: Arc<Registry>,
    /// The stored profiles and errors.
    pub store: Arc<Store>,
    /// Figures for Prometheus.
    pub metrics: Arc<Metrics>,
    /// The users.
    pub authenticator: Arc<Authenticator>,
    /// Draws heap dumps.
    pub children: Arc<Children>,
    /// Hosts with a host agent.
    pub hosts: Arc<Hosts>,
    /// Captures on request.
    pub captures: Arc<Captures>,
    /// Reports.
    pub renderer: Arc<Renderer>,
    /// StarRocks clusters and their frontends.
    pub clusters: Clusters,
    /// Tasks that must have ended when the server has.
    pub tasks: TaskTracker,
    /// Ends everything.
    pub stop: CancellationToken,
}

impl Sql {
    /// The configuration at this moment.
    fn config(&self) -> Arc<Config> {
        self.settings.config()
    }

    /// Looks at the nodes of all configured clusters until [`Sql::stop`].
    pub async fn run_discovery(self: Arc<Self>) {
        let stop = self.stop.clone();
        starrocks::discover::run(self, stop).await;
    }
}

/// The one database there is.
pub(crate) const DATABASE: &str = "procprof";
