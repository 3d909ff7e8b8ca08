//! The server's own metrics: as OpenMetrics for scrapers that request it, else in Prometheus' older text form.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

use procprof_profile::Nanos;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::clock::now;
use crate::nodes::{Node, Registry as Nodes};

/// Most nodes that have figures of their own; a scrape of all services of 5,000 hosts would take 20 MB.
const NODES_MAX: usize = 2_000;

/// The labels by which captures are counted.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Captured {
    /// The node's name.
    pub(crate) node: String,
    /// The profile type.
    pub(crate) r#type: String,
}

/// A node.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct OfNode {
    /// The node's name.
    pub(crate) node: String,
}

/// A state of nodes.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HealthLabel {
    /// As [`crate::nodes::Health::summary`] names it.
    health: &'static str,
}

/// How a statement ended.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Ended {
    /// `ok` or `error`.
    pub(crate) outcome: &'static str,
}

/// The version of this program.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Build {
    version: &'static str,
    architecture: &'static str,
}

/// The labels by which failures are counted.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Failed {
    /// The node's name.
    pub(crate) node: String,
    /// The profile type.
    pub(crate) r#type: String,
    /// The error's code.
    pub(crate) code: String,
}

/// One label with a fixed meaning.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Reason {
    /// Why.
    pub(crate) reason: &'static str,
}

/// The class of an HTTP status.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Status {
    /// `2xx`, `4xx`, …
    class: &'static str,
}

/// All figures.
#[allow(missing_docs, reason = "the help texts of `Metrics::new` document the fields under the same names")]
pub struct Metrics {
    registry: Registry,
    pub(crate) captures: Family<Captured, Counter>,
    pub(crate) failures: Family<Failed, Counter>,
    pub(crate) ingested: Counter,
    pub(crate) ingest_bytes: Counter,
    pub(crate) ingest_seconds: Histogram,
    pub(crate) refused: Family<Reason, Counter>,
    pub(crate) lost_samples: Counter,
    pub(crate) start_delay: Histogram,
    pub(crate) retained_away: Counter,
    pub(crate) retained_away_bytes: Counter,
    pub(crate) archived: Counter,
    pub(crate) archived_parts: Counter,
    pub(crate) archived_bytes: Counter,
    pub(crate) archive_failures: Counter,
    pub(crate) archive_missed: Counter,
    pub(crate) archive_compacted_parts: Counter,
    pub(crate) archive_dropped_parts: Counter,
    pub(crate) servers_alive: Gauge,
    /// No labels; empty until something is archived.
    archive_lag: Family<Vec<(String, String)>, Gauge<f64, AtomicU64>>,
    archived_until: Mutex<Option<Nanos>>,
    store_bytes: Gauge,
    store_profiles: Gauge,
    pub(crate) renders: Counter,
    pub auth_failures: Counter,
    pub panics: Counter,
    pub(crate) paused: Gauge,
    http: Family<Status, Counter>,
    pub sql_connections: Gauge,
    sql_statements: Family<Ended, Counter>,
    sql_seconds: Histogram,
    sql_rows: Counter,
    build: Family<Build, Gauge>,
    nodes: Family<HealthLabel, Gauge>,
    nodes_without_figures: Gauge,
    node_up: Family<OfNode, Gauge>,
    last_success: Family<Captured, Gauge<f64, AtomicU64>>,
    rss: Gauge,
    cpu_seconds: Counter<f64, AtomicU64>,
    /// One scrape at a time: figures of nodes are made anew for each.
    scrape: Mutex<()>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Metrics {
        let mut metrics = Metrics {
            registry: Registry::with_prefix("procprof"),
            captures: Family::default(),
            failures: Family::default(),
            ingested: Counter::default(),
            ingest_bytes: Counter::default(),
            ingest_seconds: Histogram::new(exponential_buckets(0.001, 4.0, 9)),
            refused: Family::default(),
            lost_samples: Counter::default(),
            start_delay: Histogram::new([0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0]),
            retained_away: Counter::default(),
            retained_away_bytes: Counter::default(),
            archived: Counter::default(),
            archived_parts: Counter::default(),
            archived_bytes: Counter::default(),
            archive_failures: Counter::default(),
            archive_missed: Counter::default(),
            archive_compacted_parts: Counter::default(),
            archive_dropped_parts: Counter::default(),
            servers_alive: Gauge::default(),
            archive_lag: Family::default(),
            archived_until: Mutex::default(),
            store_bytes: Gauge::default(),
            store_profiles: Gauge::default(),
            renders: Counter::default(),
            auth_failures: Counter::default(),
            panics: Counter::default(),
            paused: Gauge::default(),
            http: Family::default(),
            sql_connections: Gauge::default(),
            sql_statements: Family::default(),
            sql_seconds: Histogram::new(exponential_buckets(0.001, 4.0, 9)),
            sql_rows: Counter::default(),
            build: Family::default(),
            nodes: Family::default(),
            nodes_without_figures: Gauge::default(),
            node_up: Family::default(),
            last_success: Family::default(),
            rss: Gauge::default(),
            cpu_seconds: Counter::default(),
            scrape: Mutex::default(),
        };
        metrics
            .build
            .get_or_create(&Build { version: env!("CARGO_PKG_VERSION"), architecture: std::env::consts::ARCH })
            .set(1);
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("captures", "Profiles captured, by node and type", self.captures.clone());
        registry.register(
            "capture_failures",
            "Captures that gave no profile, by node, type and code",
            self.failures.clone(),
        );
        registry.register("profiles_ingested", "Profiles taken in, from all sources", self.ingested.clone());
        registry.register("ingest_bytes", "Bytes of profiles taken in, as they arrived", self.ingest_bytes.clone());
        registry.register_with_unit(
            "ingest",
            "Time from the last byte to the stored file",
            Unit::Seconds,
            self.ingest_seconds.clone(),
        );
        registry.register(
            "refused",
            "Profiles and renderings refused because a limit was reached",
            self.refused.clone(),
        );
        registry.register("lost_samples", "Samples the sources said they lost", self.lost_samples.clone());
        let late = "How late scheduled captures started, because others were running";
        registry.register_with_unit("capture_start_delay", late, Unit::Seconds, self.start_delay.clone());
        registry.register("retention_deleted", "Profiles deleted by retention", self.retained_away.clone());
        registry.register("retention_deleted_bytes", "Bytes deleted by retention", self.retained_away_bytes.clone());
        registry.register("archived_profiles", "Profiles written to the archive", self.archived.clone());
        registry.register("archived_parts", "Parts written to the archive", self.archived_parts.clone());
        registry.register("archived_bytes", "Bytes written to the archive", self.archived_bytes.clone());
        registry.register(
            "archive_failures",
            "Profiles and hours that could not be archived, and compactions that failed, counted at each try",
            self.archive_failures.clone(),
        );
        registry.register(
            "archive_missed_profiles",
            "Profiles that retention deleted and that may not be in the archive",
            self.archive_missed.clone(),
        );
        registry.register(
            "archive_compacted_parts",
            "Parts that compaction has merged into others",
            self.archive_compacted_parts.clone(),
        );
        registry.register(
            "archive_dropped_parts",
            "Parts dropped by archive_days_max and archive_bytes_max",
            self.archive_dropped_parts.clone(),
        );
        let servers = "Servers of the archive that are alive; 0 without an archive";
        registry.register("servers_alive", servers, self.servers_alive.clone());
        let lag = "Time since the moment before which all profiles are archived; up to 65 minutes if all is well, \
                   missing before the first hour is archived";
        registry.register_with_unit("archive_lag", lag, Unit::Seconds, self.archive_lag.clone());
        registry.register_with_unit("store", "Size of the stored profiles", Unit::Bytes, self.store_bytes.clone());
        registry.register("store_profiles", "Profiles stored", self.store_profiles.clone());
        registry.register("renders", "Reports rendered", self.renders.clone());
        registry.register("auth_failures", "Requests with wrong credentials", self.auth_failures.clone());
        registry.register("panics", "Requests that failed by a defect", self.panics.clone());
        registry.register("paused", "1 while scheduled captures are paused", self.paused.clone());
        registry.register("http_responses", "HTTP answers, by class of status", self.http.clone());
        registry.register("sql_connections", "SQL clients that are logged in", self.sql_connections.clone());
        registry.register("sql_statements", "SQL statements, by outcome", self.sql_statements.clone());
        registry.register_with_unit(
            "sql_statement",
            "Time of SQL statements to the last row",
            Unit::Seconds,
            self.sql_seconds.clone(),
        );
        registry.register("sql_rows", "Rows that SQL statements returned", self.sql_rows.clone());
        registry.register("build_info", "Version and architecture of the server; always 1", self.build.clone());
        registry.register("nodes", "Nodes that are profiled, by the health of their captures", self.nodes.clone());
        let without = "Nodes beyond 2,000, which have no figures of their own below: services of hosts first";
        registry.register("nodes_without_figures", without, self.nodes_without_figures.clone());
        let up = "1 if the latest capture of any scheduled type of the node succeeded, 0 if all failed; missing \
                  before the first";
        registry.register("node_up", up, self.node_up.clone());
        let success = "When a profile of the node and type last arrived, since the epoch; missing before the first";
        registry.register_with_unit("last_success_timestamp", success, Unit::Seconds, self.last_success.clone());
        registry.register_with_unit("resident", "Memory of the server", Unit::Bytes, self.rss.clone());
        registry.register_with_unit(
            "cpu",
            "CPU time of the server since its start",
            Unit::Seconds,
            self.cpu_seconds.clone(),
        );
    }

    /// Counts an answer.
    pub fn responses(&self, status: u16) {
        let class = match status / 100 {
            1 => "1xx",
            2 => "2xx",
            3 => "3xx",
            4 => "4xx",
            _ => "5xx",
        };
        self.http.get_or_create(&Status { class }).inc();
    }

    /// Sets what is stored.
    pub fn stored(&self, bytes: u64, profiles: u64) {
        self.store_bytes.set(bytes.cast_signed());
        self.store_profiles.set(profiles.cast_signed());
    }

    /// Notes the moment before which all profiles are archived.
    pub(crate) fn archived_until(&self, moment: Nanos) {
        *self.archived_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(moment);
    }

    /// Counts a refusal.
    pub fn refuse(&self, reason: &'static str) {
        self.refused.get_or_create(&Reason { reason }).inc();
    }

    /// Counts a SQL statement.
    pub fn statement(&self, is_ok: bool, rows: u64, seconds: f64) {
        let outcome = if is_ok { "ok" } else { "error" };
        self.sql_statements.get_or_create(&Ended { outcome }).inc();
        self.sql_rows.inc_by(rows);
        self.sql_seconds.observe(seconds);
    }

    /// The figures as OpenMetrics; memory, CPU time and how nodes fare are read now.
    pub fn open_metrics(&self, nodes: &Nodes) -> String {
        let _scrape = self.scrape.lock().unwrap_or_else(PoisonError::into_inner);
        self.note_nodes(nodes);
        if let Some(until) = *self.archived_until.lock().unwrap_or_else(PoisonError::into_inner) {
            let lag = (now().0.saturating_sub(until.0)).max(0) as f64 / 1e9;
            self.archive_lag.get_or_create(&Vec::new()).set(lag);
        }
        let usage = procprof_process::Process::current().and_then(|process| process.usage());
        if let Ok(usage) = usage {
            self.rss.set(usage.resident_bytes.cast_signed());
            self.cpu_seconds.inc_by((usage.cpu_time.as_secs_f64() - self.cpu_seconds.get()).max(0.0));
        }
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// The same in Prometheus' text form.
    pub fn text(&self, nodes: &Nodes) -> String {
        prometheus_text(&self.open_metrics(nodes))
    }

    fn note_nodes(&self, nodes: &Nodes) {
        self.nodes.clear();
        self.node_up.clear();
        self.last_success.clear();
        let all = nodes.all();
        let mut profiled: Vec<&Arc<Node>> = all.iter().filter(|node| !node.past).collect();
        for summary in nodes.summaries(profiled.iter().copied()) {
            self.nodes.get_or_create(&HealthLabel { health: summary }).inc();
        }
        self.nodes_without_figures.set(profiled.len().saturating_sub(NODES_MAX) as i64);
        let is_service = |node: &Node| node.pushed_by.as_ref().is_some_and(|pushed_by| pushed_by.service.is_some());
        profiled.sort_by_key(|node| is_service(node));
        for node in profiled.iter().take(NODES_MAX) {
            let health = nodes.health(node.id);
            if !matches!(health.summary(), "unknown" | "in-host") {
                let up = i64::from(health.summary() != "failing");
                self.node_up.get_or_create(&OfNode { node: node.name().to_owned() }).set(up);
            }
            for (profile_type, health) in &health.types {
                let Some(at) = health.last_success else { continue };
                let label = Captured { node: node.name().to_owned(), r#type: profile_type.name().to_owned() };
                self.last_success.get_or_create(&label).set(at.as_millisecond() as f64 / 1e3);
            }
        }
    }
}

/// OpenMetrics names a counter without `_total` in its description; the older form has neither that nor units nor an
/// end marker.
fn prometheus_text(open_metrics: &str) -> String {
    let counters: BTreeSet<&str> =
        open_metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let described =
            ["# HELP ", "# TYPE "].iter().find_map(|head| Some((*head, line.strip_prefix(head)?.split_once(' ')?)));
        match described.filter(|(_, (name, _))| counters.contains(name)) {
            Some((head, (name, rest))) => text.push_str(&format!("{head}{name}_total {rest}")),
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::prometheus_text;

    #[test]
    fn counters_are_described_by_their_whole_name() {
        let open = "# HELP a_seconds Time.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\na_seconds_total{x=\"# TYPE\"} 1.5\n\
                    # HELP b B.\n# TYPE b gauge\nb 1\n# EOF\n";
        let text = "# HELP a_seconds_total Time.\n# TYPE a_seconds_total counter\na_seconds_total{x=\"# TYPE\"} 1.5\n\
                    # HELP b B.\n# TYPE b gauge\nb 1\n";
        assert_eq!(prometheus_text(open), text);
    }
}
