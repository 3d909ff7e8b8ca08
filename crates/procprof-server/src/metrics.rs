//! The server's own figures, in Prometheus' text form.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// What a capture is counted by.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Captured {
    /// The node's name.
    pub node: String,
    /// The profile type.
    pub r#type: String,
}

/// What a failure is counted by.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Failed {
    /// The node's name.
    pub node: String,
    /// The profile type.
    pub r#type: String,
    /// The error's code.
    pub code: String,
}

/// One label with a fixed meaning.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Reason {
    /// Why.
    pub reason: &'static str,
}

/// The class of an HTTP status.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct Status {
    /// `2xx`, `4xx`, …
    pub class: &'static str,
}

/// All figures.
#[allow(missing_docs, reason = "the help texts of `Metrics::new` document the fields under the same names")]
pub(crate) struct Metrics {
    registry: Registry,
    pub captures: Family<Captured, Counter>,
    pub failures: Family<Failed, Counter>,
    pub ingested: Counter,
    pub ingest_bytes: Counter,
    pub ingest_seconds: Histogram,
    pub refused: Family<Reason, Counter>,
    pub lost_samples: Counter,
    pub start_delay: Histogram,
    pub retained_away: Counter,
    pub retained_away_bytes: Counter,
    store_bytes: Gauge,
    store_profiles: Gauge,
    pub renders: Counter,
    pub auth_failures: Counter,
    pub panics: Counter,
    pub paused: Gauge,
    http: Family<Status, Counter>,
    rss: Gauge,
    cpu_seconds: Gauge<f64, AtomicU64>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// All at zero.
    pub(crate) fn new() -> Metrics {
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
            store_bytes: Gauge::default(),
            store_profiles: Gauge::default(),
            renders: Counter::default(),
            auth_failures: Counter::default(),
            panics: Counter::default(),
            paused: Gauge::default(),
            http: Family::default(),
            rss: Gauge::default(),
            cpu_seconds: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("captures", "Profiles captured, by node and type", self.captures.clone());
        registry.register("capture_failures", "Captures that gave no profile, by node, type and code", self.failures.clone());
        registry.register("profiles_ingested", "Profiles taken in, from all sources", self.ingested.clone());
        registry.register("ingest_bytes", "Bytes of profiles taken in, as they arrived", self.ingest_bytes.clone());
        registry.register_with_unit("ingest", "Time from the last byte to the stored file", Unit::Seconds, self.ingest_seconds.clone());
        registry.register("refused", "Profiles and renderings refused because a limit was reached", self.refused.clone());
        registry.register("lost_samples", "Samples the sources said they lost", self.lost_samples.clone());
        let late = "How late scheduled captures started, because others were running";
        registry.register_with_unit("capture_start_delay", late, Unit::Seconds, self.start_delay.clone());
        registry.register("retention_deleted", "Profiles deleted by retention", self.retained_away.clone());
        registry.register("retention_deleted_bytes", "Bytes deleted by retention", self.retained_away_bytes.clone());
        registry.register_with_unit("store", "Size of the stored profiles", Unit::Bytes, self.store_bytes.clone());
        registry.register("store_profiles", "Profiles stored", self.store_profiles.clone());
        registry.register("renders", "Reports rendered", self.renders.clone());
        registry.register("auth_failures", "Requests with wrong credentials", self.auth_failures.clone());
        registry.register("panics", "Requests that failed by a defect", self.panics.clone());
        registry.register("paused", "1 while scheduled captures are paused", self.paused.clone());
        registry.register("http_responses", "HTTP answers, by class of status", self.http.clone());
        registry.register_with_unit("resident", "Memory of the server", Unit::Bytes, self.rss.clone());
        registry.register_with_unit("cpu", "CPU time of the server since its start", Unit::Seconds, self.cpu_seconds.clone());
    }

    /// Counts an answer.
    pub(crate) fn responses(&self, status: u16) {
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
    pub(crate) fn stored(&self, bytes: u64, profiles: u64) {
        self.store_bytes.set(bytes.cast_signed());
        self.store_profiles.set(profiles.cast_signed());
    }

    /// Counts a refusal.
    pub(crate) fn refuse(&self, reason: &'static str) {
        self.refused.get_or_create(&Reason { reason }).inc();
    }

    /// The figures as text; memory and CPU time are read now.
    pub(crate) fn text(&self) -> String {
        let usage = procprof_process::Process::current().and_then(|process| process.usage());
        if let Ok(usage) = usage {
            self.rss.set(usage.resident_bytes.cast_signed());
            self.cpu_seconds.set(usage.cpu_time.as_secs_f64());
        }
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
