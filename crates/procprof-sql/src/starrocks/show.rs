//! `SHOW BACKENDS`, `SHOW COMPUTE NODES` and `SHOW FRONTENDS` where frontends are configured.
//!
//! A frontend's list is passed through: its columns in its order, whatever they are. Nodes that no frontend named
//! follow, in the columns of those names; so do those of a cluster whose frontend gives no list, with the reason as
//! their `ErrMsg`. With several clusters, later ones' ids are ours.

use std::sync::Arc;

use futures_util::future::join_all;
use procprof_core::nodes::{Node, Role};

use super::{FeError, Frontend, LISTS, Table};
use crate::Sql;
use crate::mysql::{Column, SqlError, StatementResult, Value};
use crate::show;
use crate::statement::Show;

/// A list of nodes.
#[derive(Clone, Copy)]
struct List {
    statement: &'static str,
    role: Role,
    id: &'static str,
}

const LISTED: [(&str, &str, List); 3] = [
    ("backends", "/backends", List { statement: "SHOW BACKENDS", role: Role::Be, id: "BackendId" }),
    ("compute nodes", "/compute_nodes", List { statement: "SHOW COMPUTE NODES", role: Role::Cn, id: "ComputeNodeId" }),
    ("frontends", "/frontends", List { statement: "SHOW FRONTENDS", role: Role::Fe, id: "Id" }),
];

/// Answers a list of nodes; `None` for other statements, and where no frontend is configured.
pub(crate) async fn answer(sql: &Arc<Sql>, what: &Show) -> Option<Result<StatementResult, SqlError>> {
    let path = what.of.as_deref().unwrap_or_default().trim_end_matches('/');
    let is_asked = |(name, proc, _): &&(&str, &str, List)| what.what == *name || (what.what == "proc" && path == *proc);
    let (_, _, list) = LISTED.iter().find(is_asked)?;
    let frontends = sql.clusters.frontends.all(&sql.config());
    if frontends.is_empty() {
        return None;
    }
    let asked = frontends.iter().map(|frontend| frontend.ask(list.statement, LISTS));
    let asked = join_all(asked).await;
    Some(merged(sql, *list, &frontends, asked).map_err(SqlError::from))
}

/// All lists as one. It fails when all frontends do.
fn merged(
    sql: &Sql,
    list: List,
    frontends: &[Arc<Frontend>],
    asked: Vec<Result<Table, FeError>>,
) -> Result<StatementResult, FeError> {
    let nodes = sql.registry.all();
    let mut whole = Table::default();
    let mut failed = Vec::new();
    for (index, (frontend, table)) in frontends.iter().zip(asked).enumerate() {
        match table {
            Ok(mut table) => {
                if index > 0 {
                    rename(&mut table, list.id, &nodes, &frontend.cluster);
                }
                append(&mut whole, table);
            }
            Err(error) => failed.push((frontend.cluster.as_str(), error)),
        }
    }
    if failed.len() == frontends.len()
        && let Some((_, error)) = failed.pop()
    {
        return Err(error);
    }
    let ours = ours(sql, list, &nodes, &failed, &whole);
    append(&mut whole, ours);
    Ok(StatementResult::rows(whole.names.iter().map(Column::text).collect(), whole.rows))
}

/// Nodes that no list names, with why their frontend gives none; in the columns of those lists, which older versions
/// have fewer of.
fn ours(sql: &Sql, list: List, nodes: &[Arc<Node>], failed: &[(&str, FeError)], listed: &Table) -> Table {
    let why = |node: &Node| failed.iter().find(|(cluster, _)| node.fe_id.is_some() && *cluster == node.cluster);
    let unnamed =
        |node: &&Arc<Node>| node.role() == list.role && !node.past && (node.fe_id.is_none() || why(node).is_some());
    let is_shown = |name: &str| listed.names.is_empty() || name == "ErrMsg" || listed.column(name).is_some();
    let names: Vec<&'static str> = show::columns(list.role).iter().copied().filter(|name| is_shown(name)).collect();
    let mut table = Table { names: names.iter().map(|name| (*name).to_owned()).collect(), rows: Vec::new() };
    let message = table.column("ErrMsg");
    for node in nodes.iter().filter(unnamed) {
        let mut row = show::row(sql, node, &names);
        if let (Some((_, error)), Some(column)) = (why(node), message) {
            row[column] = error.to_string().into();
        }
        table.rows.push(row);
    }
    table
}

/// Gives the nodes of a later cluster the ids they have here.
fn rename(table: &mut Table, id: &str, nodes: &[Arc<Node>], cluster: &str) {
    let Some(column) = table.column(id) else { return };
    for row in &mut table.rows {
        let Value::Text(told) = &row[column] else { continue };
        let told: Option<u64> = told.parse().ok();
        if let Some(node) =
            nodes.iter().find(|node| node.cluster == cluster && node.fe_id.is_some() && node.fe_id == told)
        {
            row[column] = node.id.to_string().into();
        }
    }
}

/// Appends rows by the names of their columns; names that are new become further columns, if there are rows to have
/// them.
pub(super) fn append(whole: &mut Table, table: Table) {
    if whole.names.is_empty() {
        *whole = table;
        return;
    }
    if table.rows.is_empty() {
        return;
    }
    let places: Vec<usize> = table
        .names
        .iter()
        .map(|name| {
            whole.column(name).unwrap_or_else(|| {
                whole.names.push(name.clone());
                whole.names.len() - 1
            })
        })
        .collect();
    let width = whole.names.len();
    whole.rows.iter_mut().for_each(|row| row.resize(width, Value::Null));
    for row in table.rows {
        let mut placed = vec![Value::Null; width];
        for (place, value) in places.iter().zip(row) {
            placed[*place] = value;
        }
        whole.rows.push(placed);
    }
}
