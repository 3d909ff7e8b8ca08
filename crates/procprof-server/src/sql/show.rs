//! The `SHOW` statements. Columns as StarRocks has them (`SHOW BACKENDS` with 29); what cannot be known of a node is NULL.

use std::sync::Arc;

use jiff::Timestamp;

use super::running::Clients;
use super::statement::Show;
use super::variables::{VARIABLES, like};
use super::{DATABASE, running};
use crate::app::App;
use crate::mysql::{Answer, Caller, Column, ColumnType, Failure, FailureKind, Value};
use crate::nodes::{Health, Node, Role};

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

/// Answers a `SHOW` statement.
pub(super) fn answer(
    app: &Arc<App>,
    clients: &Clients,
    caller: &Caller,
    failure: Option<&Failure>,
    show: &Show,
) -> Result<Answer, Failure> {
    let filter = |text: &str| show.like.as_deref().is_none_or(|pattern| like(text, pattern));
    match show.what.as_str() {
        "backends" => Ok(nodes(app, Role::Be, BACKENDS)),
        "compute nodes" => Ok(nodes(app, Role::Cn, COMPUTE_NODES)),
        "frontends" => Ok(nodes(app, Role::Fe, FRONTENDS)),
        "proc" => proc(app, show.of.as_deref().unwrap_or("/")),
        "databases" | "schemas" => {
            let names = [DATABASE, "information_schema"].into_iter().filter(|name| filter(name));
            Ok(Answer::rows(vec![Column::text("Database")], names.map(|name| vec![name.into()]).collect()))
        }
        "variables" => Ok(variables(show)),
        "status" => Ok(Answer::rows(vec![Column::text("Variable_name"), Column::text("Value")], Vec::new())),
        "processlist" => Ok(processes(clients, caller, show.full)),
        "warnings" | "errors" => Ok(told(failure)),
        "count warnings" => Ok(told_count("@@session.warning_count", failure)),
        "count errors" => Ok(told_count("@@session.error_count", failure)),
        "engines" => {
            let names = ["Engine", "Support", "Comment", "Transactions", "XA", "Savepoints"];
            let row = ["procprof", "DEFAULT", "stored profiles, read-only", "NO", "NO", "NO"];
            Ok(Answer::rows(names.map(Column::text).to_vec(), vec![row.map(Value::from).to_vec()]))
        }
        "character set" | "charset" => {
            let names = ["Charset", "Description", "Default collation", "Maxlen"];
            Ok(Answer::rows(
                names.map(Column::text).to_vec(),
                vec![["utf8mb4", "UTF-8 Unicode", "utf8mb4_general_ci", "4"].map(Value::from).to_vec()],
            ))
        }
        "collation" => {
            let names = ["Collation", "Charset", "Id", "Default", "Compiled", "Sortlen"];
            let row = ["utf8mb4_general_ci", "utf8mb4", "45", "Yes", "Yes", "1"];
            Ok(Answer::rows(names.map(Column::text).to_vec(), vec![row.map(Value::from).to_vec()]))
        }
        other => Err(Failure::new(FailureKind::NotSupported, format!("SHOW {} is not offered", other.to_uppercase()))),
    }
}

/// `SHOW PROC '/backends'` and the like; other paths are StarRocks' own matters.
fn proc(app: &Arc<App>, path: &str) -> Result<Answer, Failure> {
    match path.trim_end_matches('/') {
        "/backends" => Ok(nodes(app, Role::Be, BACKENDS)),
        "/compute_nodes" => Ok(nodes(app, Role::Cn, COMPUTE_NODES)),
        "/frontends" => Ok(nodes(app, Role::Fe, FRONTENDS)),
        other => {
            let text = format!("SHOW PROC '{other}' is not offered; there are /backends, /compute_nodes and /frontends");
            Err(Failure::new(FailureKind::NotSupported, text))
        }
    }
}

fn nodes(app: &Arc<App>, role: Role, names: &[&'static str]) -> Answer {
    let nodes = app.registry.all().into_iter().filter(|node| node.role() == role && !node.past);
    let rows = nodes.map(|node| row(app, &node, names));
    Answer::rows(names.iter().map(|name| Column::text(*name)).collect(), rows.collect())
}

/// The columns of the list of a role's nodes.
pub(super) fn columns(role: Role) -> &'static [&'static str] {
    match role {
        Role::Be => BACKENDS,
        Role::Cn => COMPUTE_NODES,
        _ => FRONTENDS,
    }
}

/// What is known of a node, in these columns.
pub(super) fn row(app: &App, node: &Node, names: &[&'static str]) -> Vec<Value> {
    let health = app.registry.health(node.id);
    names.iter().map(|name| cell(node, &health, name)).collect()
}

/// What is known of a node under one of StarRocks' column names.
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
        // A node nobody could ask yet is not known to be dead.
        "Alive" => match health.summary() {
            "unknown" => Value::Null,
            summary => yes(summary != "failing"),
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

fn variables(show: &Show) -> Answer {
    let wanted = |name: &str| {
        show.like.as_deref().is_none_or(|pattern| like(name, pattern))
            && show.equals.as_ref().is_none_or(|(_, value)| value.eq_ignore_ascii_case(name))
    };
    let rows = VARIABLES.iter().filter(|(name, _)| wanted(name)).map(|(name, value)| vec![(*name).into(), (*value).into()]);
    Answer::rows(vec![Column::text("Variable_name"), Column::text("Value")], rows.collect())
}

fn processes(clients: &Clients, caller: &Caller, full: bool) -> Answer {
    let names = ["Id", "User", "Host", "db", "Command", "Time", "State", "Info"];
    let integers = ["Id", "Time"];
    let columns = names.map(|name| Column::new(name, if integers.contains(&name) { ColumnType::Integer } else { ColumnType::Text }));
    let shown = if full { running::SHOWN } else { 100 };
    let rows = clients.seen_by(caller).into_iter().map(|client| {
        let statement = client.statement();
        let (command, seconds) = statement.as_ref().map_or(("Sleep", 0), |running| ("Query", running.since.elapsed().as_secs() as i64));
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
    Answer::rows(columns.to_vec(), rows.collect())
}

/// What went wrong with the statement before this one.
fn told(failure: Option<&Failure>) -> Answer {
    let columns = vec![Column::text("Level"), Column::new("Code", ColumnType::Integer), Column::text("Message")];
    let row = |failure: &Failure| vec!["Error".into(), Value::Integer(failure.kind.code().0.into()), failure.text.as_str().into()];
    Answer::rows(columns, failure.map(row).into_iter().collect())
}

fn told_count(name: &str, failure: Option<&Failure>) -> Answer {
    Answer::rows(vec![Column::new(name, ColumnType::Integer)], vec![vec![i64::from(failure.is_some()).into()]])
}
