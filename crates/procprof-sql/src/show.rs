//! The `SHOW` statements. Columns as StarRocks has them (`SHOW BACKENDS` with 30); what cannot be known of a node is
//! NULL.

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use procprof_core::nodes::{Health, Node, Role};

use super::DATABASE;
use super::engine::databases;
use super::names::{CHARSETS, COLLATIONS, ENGINE, is_default};
use super::processlist::{self, ClientConnections};
use super::statement::Show;
use super::variables::Variables;
use crate::Sql;
use crate::mysql::{Caller, Column, ColumnType, SqlError, SqlErrorKind, StatementResult, Value};

/// `SHOW BACKENDS`.
const BACKENDS: &[&str] = &[
    "BackendId",
    "IP",
    "HeartbeatPort",
    "BePort",
    "HttpPort",
    "BrpcPort",
    "LastStartTime",
    "LastHeartbeat",
    "Alive",
    "SystemDecommissioned",
    "ClusterDecommissioned",
    "TabletNum",
    "DataUsedCapacity",
    "AvailCapacity",
    "TotalCapacity",
    "UsedPct",
    "MaxDiskUsedPct",
    "ErrMsg",
    "Version",
    "Status",
    "DataTotalCapacity",
    "DataUsedPct",
    "CpuCores",
    "MemLimit",
    "NumRunningQueries",
    "MemUsedPct",
    "CpuUsedPct",
    "DataCacheMetrics",
    "Location",
    "StatusCode",
];

/// `SHOW COMPUTE NODES`.
const COMPUTE_NODES: &[&str] = &[
    "ComputeNodeId",
    "IP",
    "HeartbeatPort",
    "BePort",
    "HttpPort",
    "BrpcPort",
    "LastStartTime",
    "LastHeartbeat",
    "Alive",
    "SystemDecommissioned",
    "ClusterDecommissioned",
    "ErrMsg",
    "Version",
    "CpuCores",
    "NumRunningQueries",
    "MemUsedPct",
    "CpuUsedPct",
    "HasStoragePath",
];

/// `SHOW FRONTENDS`.
const FRONTENDS: &[&str] = &[
    "Name",
    "IP",
    "EditLogPort",
    "HttpPort",
    "QueryPort",
    "RpcPort",
    "Role",
    "ClusterId",
    "Join",
    "Alive",
    "ReplayedJournalId",
    "LastHeartbeat",
    "IsHelper",
    "ErrMsg",
    "StartTime",
    "Version",
];

/// The data of `SHOW`, and the user who sees it.
pub(super) struct Facts<'a> {
    pub(super) sql: &'a Arc<Sql>,
    pub(super) clients: &'a ClientConnections,
    pub(super) caller: &'a Caller,
    /// Of the statement before this one.
    pub(super) failure: Option<&'a SqlError>,
    /// Also of that one.
    pub(super) warnings: &'a [String],
    pub(super) variables: &'a Variables,
    /// When statements were first answered.
    pub(super) since: Instant,
}

/// Answers a `SHOW` statement, all its rows.
///
/// # Errors
/// It is not offered.
pub(super) fn answer(facts: &Facts<'_>, show: &Show) -> Result<StatementResult, SqlError> {
    let Facts { sql, clients, caller, failure, warnings, variables, .. } = *facts;
    match show.what.as_str() {
        "backends" => Ok(nodes(sql, Role::Be, BACKENDS)),
        "compute nodes" => Ok(nodes(sql, Role::Cn, COMPUTE_NODES)),
        "frontends" => Ok(nodes(sql, Role::Fe, FRONTENDS)),
        "proc" => proc(sql, show.of.as_deref().unwrap_or("/")),
        "databases" | "schemas" => Ok(StatementResult::rows(
            vec![Column::text("Database")],
            databases().map(|name| vec![name.into()]).collect(),
        )),
        "variables" => Ok(named(variables.list(show.global))),
        "status" => Ok(status(facts)),
        "processlist" => Ok(processes(clients, caller, show.full)),
        "warnings" => Ok(diagnostics(failure, warnings)),
        "errors" => Ok(diagnostics(failure, &[])),
        "grants" => Ok(grants(caller)),
        "privileges" => {
            Ok(table(&["Privilege", "Context", "Comment"], &PRIVILEGES.map(|row| row.map(Value::from).to_vec())))
        }
        "users" | "authentication" => Ok(table(&["User"], &[vec![account(caller).into()]])),
        "catalogs" => Ok(table(
            &["Catalog", "Type", "Comment"],
            &[["default_catalog", "Internal", "stored profiles"].map(Value::from).to_vec()],
        )),
        "count warnings" => Ok(count("@@session.warning_count", usize::from(failure.is_some()) + warnings.len())),
        "count errors" => Ok(count("@@session.error_count", usize::from(failure.is_some()))),
        "engines" => {
            let names = ["Engine", "Support", "Comment", "Transactions", "XA", "Savepoints"];
            Ok(table(&names, &[ENGINE.map(Value::from).to_vec()]))
        }
        "character set" | "charset" => {
            let row = |(name, collation, description, bytes): &(&str, &str, &str, i64)| {
                vec![(*name).into(), (*description).into(), (*collation).into(), Value::Integer(*bytes)]
            };
            Ok(table(
                &["Charset", "Description", "Default collation", "Maxlen"],
                &CHARSETS.iter().map(row).collect::<Vec<_>>(),
            ))
        }
        "collation" => {
            let row = |(name, charset, number): &(&str, &str, i64)| {
                let default = if is_default(name) { "Yes" } else { "" };
                let [compiled, padding] = ["Yes", "PAD SPACE"].map(Value::from);
                vec![
                    (*name).into(),
                    (*charset).into(),
                    Value::Integer(*number),
                    default.into(),
                    compiled,
                    Value::Integer(1),
                    padding,
                ]
            };
            let names = ["Collation", "Charset", "Id", "Default", "Compiled", "Sortlen", "Pad_attribute"];
            Ok(table(&names, &COLLATIONS.iter().map(row).collect::<Vec<_>>()))
        }
        other => {
            Err(SqlError::new(SqlErrorKind::NotSupported, format!("SHOW {} is not offered", other.to_uppercase())))
        }
    }
}

/// Rows whose columns are numbers where the first row has them.
fn table(names: &[&str], rows: &[Vec<Value>]) -> StatementResult {
    let is_number = |index: usize| matches!(rows.first().and_then(|row| row.get(index)), Some(Value::Integer(_)));
    let column = |(index, name): (usize, &&str)| {
        Column::new(*name, if is_number(index) { ColumnType::Integer } else { ColumnType::Text })
    };
    StatementResult::rows(names.iter().enumerate().map(column).collect(), rows.to_vec())
}

/// Privileges: viewers have the first, operators both.
const PRIVILEGES: [[&str; 3]; 2] =
    [["Select", "Tables", "To retrieve rows from table"], ["Operate", "System", "ADMIN EXECUTE and COLLECT"]];

fn account(caller: &Caller) -> String {
    format!("`{}`@`%`", caller.principal.name.replace('`', "``"))
}

fn grants(caller: &Caller) -> StatementResult {
    let account = account(caller);
    let mut rows = vec![vec![format!("GRANT SELECT ON *.* TO {account}").into()]];
    if caller.principal.operates() {
        rows.push(vec![format!("GRANT OPERATE ON SYSTEM TO {account}").into()]);
    }
    StatementResult::rows(vec![Column::text(format!("Grants for {}@%", caller.principal.name))], rows)
}

/// Counters that clients look at.
fn status(facts: &Facts<'_>) -> StatementResult {
    let (all, running) = facts.clients.count();
    let rows = [
        ("Threads_connected", all.to_string()),
        ("Threads_running", running.to_string()),
        ("Uptime", facts.since.elapsed().as_secs().to_string()),
    ];
    named(rows.iter().map(|(name, value)| (*name, value.as_str())))
}

fn named<'a>(values: impl Iterator<Item = (&'static str, &'a str)>) -> StatementResult {
    let columns = vec![Column::text("Variable_name"), Column::text("Value")];
    StatementResult::rows(columns, values.map(|(name, value)| vec![name.into(), value.into()]).collect())
}

/// `SHOW PROC '/backends'` and the like; other paths are StarRocks' own matters.
fn proc(sql: &Arc<Sql>, path: &str) -> Result<StatementResult, SqlError> {
    match path.trim_end_matches('/') {
        "/backends" => Ok(nodes(sql, Role::Be, BACKENDS)),
        "/compute_nodes" => Ok(nodes(sql, Role::Cn, COMPUTE_NODES)),
        "/frontends" => Ok(nodes(sql, Role::Fe, FRONTENDS)),
        "" => Ok(table(&["name"], &["backends", "compute_nodes", "frontends"].map(|name| vec![name.into()]))),
        other => {
            let text =
                format!("SHOW PROC '{other}' is not offered; there are /backends, /compute_nodes and /frontends");
            Err(SqlError::new(SqlErrorKind::NotSupported, text))
        }
    }
}

fn nodes(sql: &Arc<Sql>, role: Role, names: &[&'static str]) -> StatementResult {
    let nodes = sql.registry.all();
    let nodes = nodes.iter().filter(|node| node.role() == role && !node.past);
    let rows = nodes.map(|node| row(sql, node, names));
    StatementResult::rows(names.iter().map(|name| Column::text(*name)).collect(), rows.collect())
}

/// The columns of the list of a role's nodes.
pub(super) fn columns(role: Role) -> &'static [&'static str] {
    match role {
        Role::Be => BACKENDS,
        Role::Cn => COMPUTE_NODES,
        _ => FRONTENDS,
    }
}

/// The facts about a node, in these columns.
pub(super) fn row(sql: &Sql, node: &Node, names: &[&'static str]) -> Vec<Value> {
    let health = sql.registry.health(node.id);
    names.iter().map(|name| cell(node, &health, name)).collect()
}

/// The fact about a node under one of StarRocks' column names.
fn cell(node: &Node, health: &Health, name: &str) -> Value {
    let (host, http) = host_and_port(&node.config.http);
    let (brpc_host, brpc) = host_and_port(&node.config.brpc);
    let yes = |condition: bool| Value::from(if condition { "true" } else { "false" });
    match name {
        "BackendId" | "ComputeNodeId" => node.id.to_string().into(),
        "Name" => node.name().into(),
        "IP" if !host.is_empty() => host.into(),
        "IP" if !brpc_host.is_empty() => brpc_host.into(),
        "HttpPort" if !http.is_empty() => http.into(),
        "BrpcPort" if !brpc.is_empty() => brpc.into(),
        "LastHeartbeat" => health.last_success().map_or(Value::Null, |at| moment(at).into()),
        // A node that was not contacted yet is not known to be dead.
        "Alive" => match health.summary() {
            "unknown" | "in-host" => Value::Null,
            summary => yes(summary != "failing"),
        },
        "StatusCode" => match health.summary() {
            "unknown" | "in-host" => Value::Null,
            "failing" => "DISCONNECTED".into(),
            _ => "OK".into(),
        },
        "ErrMsg" => health.last_failure().map_or(String::new(), |(_, failure)| failure.reason.clone()).into(),
        _ => Value::Null,
    }
}

/// Host and port of `host:port` or a URL; empty where there is none.
fn host_and_port(address: &str) -> (&str, &str) {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let address = address.split('/').next().unwrap_or(address);
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    (host.trim_matches(['[', ']']), port)
}

/// A moment as StarRocks writes it, in UTC.
fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn processes(clients: &ClientConnections, caller: &Caller, full: bool) -> StatementResult {
    let names = ["Id", "User", "Host", "db", "Command", "Time", "State", "Info"];
    let integers = ["Id", "Time"];
    let columns = names
        .map(|name| Column::new(name, if integers.contains(&name) { ColumnType::Integer } else { ColumnType::Text }));
    let shown = if full { processlist::SHOWN } else { 100 };
    let rows = clients.seen_by(caller).into_iter().map(|client| {
        let statement = client.statement();
        let (command, seconds) =
            statement.as_ref().map_or(("Sleep", 0), |running| ("Query", running.since.elapsed().as_secs() as i64));
        vec![
            i64::from(client.caller.connection).into(),
            client.caller.principal.name.clone().into(),
            client.caller.peer.to_string().into(),
            DATABASE.into(),
            command.into(),
            seconds.into(),
            "".into(),
            statement.map_or(Value::Null, |running| running.text.chars().take(shown).collect::<String>().into()),
        ]
    });
    StatementResult::rows(columns.to_vec(), rows.collect())
}

/// The error and warnings of the statement before this one.
fn diagnostics(failure: Option<&SqlError>, warnings: &[String]) -> StatementResult {
    let columns = vec![Column::text("Level"), Column::new("Code", ColumnType::Integer), Column::text("Message")];
    let row = |failure: &SqlError| {
        vec!["Error".into(), Value::Integer(failure.kind.code().0.into()), failure.text.as_str().into()]
    };
    let code = i64::from(SqlErrorKind::Other.code().0);
    let warning = |text: &String| vec!["Warning".into(), Value::Integer(code), text.as_str().into()];
    StatementResult::rows(columns, failure.map(row).into_iter().chain(warnings.iter().map(warning)).collect())
}

fn count(name: &str, count: usize) -> StatementResult {
    StatementResult::rows(vec![Column::new(name, ColumnType::Integer)], vec![vec![Value::Integer(count as i64)]])
}
