//! A simulated host: heartbeats that the server holds, and a push with a profile of each service every minute.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::connection::Connection;
use super::{PUSH_EVERY, SERVICES, Simulation};

/// Time for which the server may hold a heartbeat, in seconds, as agents let it.
const WAIT_SECONDS: u32 = 20;
/// Pause after a failure.
const PAUSE: Duration = Duration::from_secs(5);
/// Time between two heartbeats without commands, at least.
const HEARTBEAT_MIN: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(super) struct SimulatedHost {
    number: usize,
    /// Time from the start to its first requests: hosts do not start at once.
    first: Duration,
}

/// The name of a host.
pub(super) fn host_name(number: usize) -> String {
    format!("host-{number:04}")
}

/// The name of a service of each host.
pub(super) fn service_name(number: usize) -> String {
    format!("service-{number}")
}

impl SimulatedHost {
    pub(super) fn new(number: usize, hosts: usize) -> SimulatedHost {
        SimulatedHost { number, first: PUSH_EVERY.mul_f64(number as f64 / hosts as f64) }
    }

    fn id(&self) -> String {
        format!("{:032x}", self.number + 1)
    }

    /// Sends heartbeats until the end.
    pub(super) fn send_heartbeats(&self, simulation: &Simulation) {
        let (mut connection, mut wait_seconds) = (Connection::new(&simulation.address), 0);
        simulation.rest(self.first);
        while !simulation.is_over() {
            let begun = std::time::Instant::now();
            let answer = self.heartbeat(&mut connection, wait_seconds);
            // The server may end first.
            if simulation.is_over() {
                break;
            }
            simulation.traffic.heartbeats.fetch_add(1, Ordering::Relaxed);
            match answer {
                Ok(next_seconds) => {
                    wait_seconds = WAIT_SECONDS;
                    let next = HEARTBEAT_MIN.max(Duration::from_secs(next_seconds));
                    simulation.rest(next.saturating_sub(begun.elapsed()));
                }
                Err(error) => failed(&simulation.traffic.heartbeats_failed, "heartbeat", &error, simulation),
            }
        }
        simulation.traffic.connections.fetch_add(connection.opened, Ordering::Relaxed);
    }

    /// Sends one; least time until the next.
    fn heartbeat(&self, connection: &mut Connection, wait_seconds: u32) -> Result<u64> {
        let types = r#"[{"profile_type":"cpu","continuous":true},{"profile_type":"off_cpu","continuous":false}]"#;
        let service = |number: usize| {
            let name = service_name(number);
            format!(
                concat!(
                    r#"{{"name":"{name}","process":[{pid},1000],"processes":2,"program":"/usr/sbin/{name}","#,
                    r#""labels":{{"unit":"{name}.service"}},"types":{types},"cpu_milli":350,"hints":[]}}"#
                ),
                name = name,
                pid = 4711 + number,
                types = types
            )
        };
        let services: Vec<String> = (0..SERVICES).map(service).collect();
        let body = format!(
            concat!(
                r#"{{"host":{{"id":"{}","name":"{}","kernel":"6.8.0","cpus":8,"memory_bytes":34359738368,"#,
                r#""version":"0.1.0","started_nanos":1,"labels":{{"rack":"r{}"}},"hz":19,"hz_wanted":19,"missing":[],"#,
                r#""cpu_nanos":1,"resident_bytes":50000000,"spooled":[0,0],"spool_lost":0,"samples_lost":0,"#,
                r#""services_left_out":0}},"services":[{}],"sent_nanos":{},"wait_seconds":{}}}"#
            ),
            self.id(),
            host_name(self.number),
            self.number % 40,
            services.join(","),
            nanos(),
            wait_seconds
        );
        let (status, answer) = connection.post("/api/hosts/heartbeat", "application/json", body.as_bytes())?;
        ensure!(status == 200, "{status}: {}", String::from_utf8_lossy(&answer));
        let answer: Value = serde_json::from_slice(&answer).context("read the answer")?;
        Ok(answer["next_seconds"].as_u64().unwrap_or_default())
    }

    /// Pushes profiles until the end.
    pub(super) fn push_profiles(&self, simulation: &Simulation) {
        let mut connection = Connection::new(&simulation.address);
        // The first heartbeat comes before them.
        simulation.rest(self.first + PAUSE);
        let mut push = 0;
        while !simulation.is_over() {
            let pushed = self.push(&mut connection, simulation, push);
            simulation.traffic.pushes.fetch_add(1, Ordering::Relaxed);
            push += 1;
            match pushed {
                Ok(stored) => {
                    simulation.traffic.stored.fetch_add(stored, Ordering::Relaxed);
                    simulation.traffic.not_stored.fetch_add(SERVICES as u64 - stored, Ordering::Relaxed);
                    simulation.rest(PUSH_EVERY);
                }
                Err(error) => failed(&simulation.traffic.pushes_failed, "push", &error, simulation),
            }
        }
        simulation.traffic.connections.fetch_add(connection.opened, Ordering::Relaxed);
    }

    /// Pushes a profile of each service; how many were stored.
    fn push(&self, connection: &mut Connection, simulation: &Simulation, push: usize) -> Result<u64> {
        let mut body = Vec::new();
        let start = nanos() - PUSH_EVERY.as_nanos() as i64;
        for service in 0..SERVICES {
            let id = format!("01890000-{:04x}-7000-8{service:03x}-{:012x}", push & 0xffff, self.number);
            let header = format!(
                concat!(
                    r#"{{"host":"{}","service":"{}","id":"{}","profile_type":"cpu","start_nanos":{},"#,
                    r#""duration_nanos":{},"capture":null,"labels":{{"unit":"{}.service"}},"failure":null}}"#
                ),
                self.id(),
                service_name(service),
                id,
                start,
                PUSH_EVERY.as_nanos(),
                service_name(service)
            );
            let content = &simulation.contents[(self.number * 7 + service * 11 + push) % simulation.contents.len()];
            let mut profile = GzEncoder::new(Vec::new(), Compression::fast());
            profile.write_all(content).context("pack a profile")?;
            let profile = profile.finish().context("pack a profile")?;
            for part in [header.as_bytes(), &profile] {
                body.extend_from_slice(&u32::try_from(part.len()).context("a length")?.to_le_bytes());
                body.extend_from_slice(part);
            }
        }
        let (status, answer) = connection.post("/api/hosts/push", "application/vnd.procprof.push", &body)?;
        ensure!(status == 200, "{status}: {}", String::from_utf8_lossy(&answer));
        let answer: Value = serde_json::from_slice(&answer).context("read the answer")?;
        let outcomes = answer["profiles"].as_array().context("the answer has no profiles")?;
        let is_stored = |pushed: &&Value| pushed["outcome"]["outcome"] == "stored";
        if let Some(other) = outcomes.iter().find(|pushed| !is_stored(pushed)) {
            eprintln!("xtask: {} is not stored: {other}", host_name(self.number));
        }
        Ok(outcomes.iter().filter(is_stored).count() as u64)
    }
}

/// Counts and tells a failure, and waits a moment.
fn failed(counter: &AtomicU64, what: &str, error: &anyhow::Error, simulation: &Simulation) {
    counter.fetch_add(1, Ordering::Relaxed);
    eprintln!("xtask: {what}: {error:#}");
    simulation.rest(PAUSE);
}

fn nanos() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}
