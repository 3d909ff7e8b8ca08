//! The nodes of StarRocks clusters, discovered through their frontends.
//!
//! `SHOW BACKENDS` and `SHOW COMPUTE NODES` are read by the names of their columns, so that versions with more of them
//! are understood, too. Nodes that a frontend lists go into the registry; the schedule is recomputed only when
//! something has changed.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use procprof_core::config::{NodeConfig, is_host};
use procprof_core::nodes::{Discovered, Node, Role};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{FeError, Frontend, LISTS, Table};
use crate::Sql;
use crate::mysql::Value;
use crate::statement::Target;

/// How often it is looked whether a frontend is due; changes of the configuration take effect within it.
const TICK: Duration = Duration::from_millis(500);
/// Nodes of one cluster.
const NODES_MAX: usize = 4096;

/// Looks at the nodes of all configured clusters until `stop`.
pub(crate) async fn run(sql: Arc<Sql>, stop: CancellationToken) {
    loop {
        for frontend in sql.clusters.frontends.all(&sql.config()) {
            if is_due(&frontend) {
                let sql = Arc::clone(&sql);
                sql.clone().tasks.spawn(async move {
                    tokio::select! {
                        () = sql.stop.cancelled() => {}
                        () = look(&sql, &frontend) => {}
                    }
                });
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(TICK) => {}
        }
    }
}

/// Sees to it that the nodes of a statement are known: those of a cluster that was not looked at yet, and ids that may
/// be new.
pub(crate) async fn freshen(sql: &Arc<Sql>, target: &Target) {
    let is_unknown = |id: &u64| sql.registry.by_id(*id).is_none_or(|node| node.past);
    let asks_for_unknown = matches!(target, Target::Ids(ids) if ids.iter().any(is_unknown));
    for frontend in sql.clusters.frontends.all(&sql.config()) {
        let is_new = {
            let look = frontend.look.lock().unwrap_or_else(PoisonError::into_inner);
            !look.succeeded && look.failure.is_none()
        };
        if is_new || asks_for_unknown {
            look(sql, &frontend).await;
        }
    }
}

/// The node with this id in the first cluster, where it is configured here without one.
pub(crate) fn by_cluster_id(sql: &Sql, id: u64) -> Option<Arc<Node>> {
    let config = sql.config();
    let cluster = config.fe_queries.first()?.cluster(&config);
    sql.registry.all().iter().find(|node| node.fe_id == Some(id) && node.cluster == cluster).cloned()
}

/// Why nodes of a cluster may be missing, as the end of a sentence; empty if all frontends answered.
pub(crate) fn trouble(sql: &Sql) -> String {
    let frontends = sql.clusters.frontends.all(&sql.config());
    let failures = frontends
        .iter()
        .filter_map(|frontend| frontend.look.lock().unwrap_or_else(PoisonError::into_inner).failure.clone());
    failures.map(|why| format!("; {why}")).collect()
}

/// Whether it is time to look; it is not again before the interval is over.
fn is_due(frontend: &Frontend) -> bool {
    let mut look = frontend.look.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let due = look.due.is_none_or(|due| due <= now);
    if due {
        look.due = Some(now + Duration::from_secs(frontend.config.refresh_seconds));
    }
    due
}

/// Lists a frontend's nodes, and registers them. A failure is logged once, and kept.
pub(super) async fn look(sql: &Arc<Sql>, frontend: &Arc<Frontend>) {
    let _alone = frontend.looking.lock().await;
    let found = found(frontend).await;
    let failure = match found {
        Ok(nodes) => register(sql, frontend, nodes).err(),
        Err(error) => Some(error.to_string()),
    };
    let mut look = frontend.look.lock().unwrap_or_else(PoisonError::into_inner);
    match (&failure, &look.failure) {
        (Some(why), None) => tracing::warn!("{why}; the cluster's nodes stay as they are known"),
        (None, Some(_)) => tracing::info!("the FE of cluster {} answers again", frontend.cluster),
        _ => {}
    }
    if failure.is_none() {
        look.succeeded = true;
    }
    look.failure = failure;
}

fn register(sql: &Arc<Sql>, frontend: &Frontend, nodes: Vec<Discovered>) -> Result<(), String> {
    let count = nodes.len();
    if !sql.registry.discover(&frontend.cluster, nodes) {
        return Ok(());
    }
    sql.registry.follow(&sql.settings).map_err(|error| error.to_string())?;
    sql.registry.changed();
    tracing::info!("cluster {}: {count} nodes", frontend.cluster);
    Ok(())
}

async fn found(frontend: &Frontend) -> Result<Vec<Discovered>, FeError> {
    let backends = frontend.ask("SHOW BACKENDS", LISTS).await?;
    let compute_nodes = match frontend.ask("SHOW COMPUTE NODES", LISTS).await {
        // Versions before 2.4 have none.
        Err(error) if error.is_unknown_statement() => Table::default(),
        ended => ended?,
    };
    let mut nodes = Vec::new();
    for (table, id, role) in [(&backends, "BackendId", Role::Be), (&compute_nodes, "ComputeNodeId", Role::Cn)] {
        read(table, id, role, frontend, &mut nodes)?;
    }
    if nodes.len() > NODES_MAX {
        return Err(FeError::TooLarge {
            fe: format!("the FE of cluster {}", frontend.cluster),
            limit: format!("{NODES_MAX} nodes"),
        });
    }
    // Frontends list in no certain order.
    nodes.sort_by_key(|node: &Discovered| node.fe_id);
    nodes.dedup_by_key(|node| node.fe_id);
    Ok(nodes)
}

/// Reads the rows of a list; a row without a node that can be profiled is left out.
fn read(table: &Table, id: &str, role: Role, frontend: &Frontend, nodes: &mut Vec<Discovered>) -> Result<(), FeError> {
    if table.rows.is_empty() {
        return Ok(());
    }
    let column = |name: &str| {
        let missing = || {
            let why = format!("its list of nodes has no column {name}: {}", table.names.join(", "));
            FeError::Strange { fe: format!("the FE of cluster {}", frontend.cluster), why }
        };
        table.column(name).ok_or_else(missing)
    };
    let (id, host, http, brpc) = (column(id)?, column("IP")?, column("HttpPort")?, column("BrpcPort")?);
    let cell = |row: &[Value], column: usize| match &row[column] {
        Value::Text(text) => text.trim().to_owned(),
        _ => String::new(),
    };
    for row in &table.rows {
        let (fe_id, host) = (cell(row, id).parse::<u64>(), cell(row, host));
        let address = |column: usize| address(&host, &cell(row, column));
        let (http, brpc) = (address(http), address(brpc));
        match fe_id {
            Ok(fe_id @ 1000..) if is_host(&host) && !(http.is_empty() && brpc.is_empty()) => {
                let mut config =
                    NodeConfig { role, http, brpc, cluster: frontend.cluster.clone(), ..frontend.config.node.clone() };
                config.name = format!("{role} {}", config.address());
                nodes.push(Discovered { fe_id, config });
            }
            _ => tracing::debug!("cluster {}: a {role} without id, host or port is left out", frontend.cluster),
        }
    }
    Ok(())
}

/// `host:port`; empty where the port is none.
fn address(host: &str, port: &str) -> String {
    match port.parse::<u16>() {
        Ok(port @ 1..) if host.contains(':') => format!("[{host}]:{port}"),
        Ok(port @ 1..) => format!("{host}:{port}"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
