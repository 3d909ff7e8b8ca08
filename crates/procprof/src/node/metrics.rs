//! The metrics of the agent, for Prometheus.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::shared::Shared;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 8;
/// Longest time of a connection.
const LONGEST: Duration = Duration::from_secs(5);
/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 8192;

/// Listens on a loopback address.
///
/// # Errors
/// The address can't be had.
pub(super) async fn listen(address: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("listen on {address}"))
}

/// Answers until the agent stops.
pub(super) async fn serve(shared: &Arc<Shared>, listener: TcpListener) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            // A client that is too slow or goes away has no answer.
            let _ = tokio::time::timeout(LONGEST, answer(&shared, stream)).await;
            drop(slot);
        });
    }
}

async fn answer(shared: &Shared, mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() >= HEAD_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let is_metrics = head.starts_with(b"GET /metrics ") || head.starts_with(b"GET /metrics?");
    let (status, body) = if is_metrics { ("200 OK", text(shared)) } else { ("404 Not Found", String::new()) };
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n\
         {body}",
        body.len()
    );
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

/// The metrics as text.
fn text(shared: &Shared) -> String {
    let (host, services) = shared.report();
    let counters = &shared.counters;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    let seconds = |counter: &AtomicU64| count(counter) / 1e9;
    let dumps = shared.dumps.totals();
    let rows: [(&str, &str, &str, f64); 22] = [
        ("cpu_seconds_total", "counter", "CPU time of the agent", host.cpu_nanos as f64 / 1e9),
        (
            "capture_cpu_seconds_total",
            "counter",
            "CPU time of captures, part of the former",
            seconds(&counters.capture_nanos),
        ),
        (
            "cpu_share",
            "gauge",
            "CPUs used in the last interval, with the kernel's part and without captures",
            count(&counters.cost_micro) / 1e6,
        ),
        ("cpu_share_max", "gauge", "CPUs that it may use", shared.settings.cpu_milli_max as f64 / 1000.0),
        (
            "memory_short_total",
            "counter",
            "Intervals in which it used more memory than it may",
            count(&counters.memory_short),
        ),
        ("resident_bytes", "gauge", "Memory of the agent", host.resident_bytes as f64),
        ("hz", "gauge", "Samples for each second of CPU time", f64::from(host.hz)),
        ("hz_wanted", "gauge", "The rate that is asked for", f64::from(host.hz_wanted)),
        ("samples_total", "counter", "Samples taken", count(&counters.samples)),
        ("samples_lost_total", "counter", "Samples and other records that were lost", host.samples_lost as f64),
        (
            "jvm_cuts_lost_total",
            "counter",
            "Recordings of JVMs that could not be read, or were lost at the end of the JVM",
            shared.jvms.cuts_lost() as f64,
        ),
        ("excluded_cpu_seconds_total", "counter", "CPU time of excluded processes", seconds(&counters.excluded_nanos)),
        ("services", "gauge", "Services that are profiled", services.len() as f64),
        ("profiles_sent_total", "counter", "Profiles that the server has", count(&counters.sent)),
        ("profiles_refused_total", "counter", "Profiles that the server refused", count(&counters.refused)),
        ("spool_profiles", "gauge", "Profiles that wait", host.spooled.0 as f64),
        ("spool_bytes", "gauge", "Bytes of profiles that wait", host.spooled.1 as f64),
        (
            "spool_lost_total",
            "counter",
            "Profiles that made room in a full spool, and were not sent",
            host.spool_lost as f64,
        ),
        ("dumps_sent_total", "counter", "Files of dump folders that were sent", dumps.sent as f64),
        ("dumps_unreadable_total", "counter", "Files of dump folders that are no profiles", dumps.unreadable as f64),
        (
            "dumps_skipped_total",
            "counter",
            "Files of dump folders that are too large, too old or another user's",
            dumps.skipped as f64,
        ),
        ("failed_requests_total", "counter", "Requests to the server that failed", count(&counters.failed_requests)),
    ];
    let mut page = String::new();
    for (name, kind, help, value) in rows {
        let _ = write!(
            page,
            "# HELP procprof_node_{name} {help}.\n# TYPE procprof_node_{name} {kind}\nprocprof_node_{name} {value}\n"
        );
    }
    let skew = counters.skew_milli.load(Ordering::Relaxed).cast_signed() as f64 / 1000.0;
    let symbols = count(&counters.symbols);
    let _ = write!(
        page,
        "# HELP procprof_node_clock_skew_seconds The host's clock less the server's.\n\
         # TYPE procprof_node_clock_skew_seconds gauge\nprocprof_node_clock_skew_seconds {skew}\n\
         # HELP procprof_node_symbols_sent_total Symbol indexes sent.\n\
         # TYPE procprof_node_symbols_sent_total counter\nprocprof_node_symbols_sent_total {symbols}\n"
    );
    page
}
