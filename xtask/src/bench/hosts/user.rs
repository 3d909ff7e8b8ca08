//! A user who opens pages one after the other, with a pause between them.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::agent::{host_name, service_name};
use super::{PUSH_EVERY, SERVICES, Simulation};
use crate::http;

/// Time that a user looks at a page.
const LOOK: Duration = Duration::from_secs(1);
/// Statement of the SQL client.
const STATEMENT: &str = "SELECT n.name, count(*) AS profiles, max(p.completed) AS newest FROM procprof.profiles p JOIN \
    procprof.nodes n ON n.id = p.node WHERE n.name LIKE 'host-00%' GROUP BY n.name ORDER BY profiles DESC LIMIT 20";

pub(super) struct User {
    number: usize,
    hosts: usize,
    sql_port: String,
}

/// Visits of a page.
#[derive(Default)]
pub(super) struct Visits {
    times: Vec<Duration>,
    failed: usize,
    bytes: usize,
}

impl User {
    pub(super) fn new(number: usize, hosts: usize, sql_port: &str) -> User {
        User { number, hosts, sql_port: sql_port.to_owned() }
    }

    /// Opens pages until the end; visits by page.
    pub(super) fn browse(&self, simulation: &Simulation) -> Result<BTreeMap<&'static str, Visits>> {
        let mut visits: BTreeMap<&'static str, Visits> = BTreeMap::new();
        let mut round = self.number;
        // Until then hosts are new.
        simulation.rest(PUSH_EVERY);
        while !simulation.is_over() {
            round += 1;
            let (host, service) = (host_name(round * 13 % self.hosts), service_name(round % SERVICES));
            let last = self.hosts * (SERVICES + 1) / 100;
            let mut visit = |page: &'static str, path: &str| -> Option<Vec<u8>> {
                let own = visits.entry(page).or_default();
                let begun = Instant::now();
                let answer = http::send("GET", &simulation.address, path, "Accept-Encoding: gzip\r\n", &[]);
                own.times.push(begun.elapsed());
                thread::sleep(LOOK);
                match answer {
                    Ok(answer) if answer.status == 200 => {
                        own.bytes = own.bytes.max(answer.body.len());
                        Some(answer.body)
                    }
                    other => {
                        let status = other.map(|answer| answer.status.to_string());
                        eprintln!("xtask: {path}: {}", status.unwrap_or_else(|error| format!("{error:#}")));
                        own.failed += 1;
                        None
                    }
                }
            };
            visit("/", "/");
            visit("/?page=N", &format!("/?page={}", 1 + round * 17 % last.max(1)));
            visit("/?q=NAME", &format!("/?q={host}"));
            visit("/api/nodes", "/api/nodes");
            visit("/proc_profile", &format!("/proc_profile?node={host}/{service}"));
            if let Some(id) = newest(&simulation.address, &host, &service) {
                visit("/p/ID", &format!("/p/{id}"));
                visit("/p/ID/tree", &format!("/p/{id}/tree"));
            }
            let begun = Instant::now();
            let is_answered = self.select();
            let own = visits.entry("SQL").or_default();
            own.times.push(begun.elapsed());
            if let Err(error) = is_answered {
                eprintln!("xtask: SQL: {error:#}");
                own.failed += 1;
            }
        }
        Ok(visits)
    }

    /// Runs a statement by a client of its own.
    fn select(&self) -> Result<()> {
        let output = Command::new("mariadb")
            .args(["--no-defaults", "--protocol=TCP", "--skip-ssl", "--host=127.0.0.1", "--user=root", "--batch"])
            .args(["--port", &self.sql_port, "--execute", STATEMENT])
            .stdin(Stdio::null())
            .output()
            .context("run mariadb")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }
}

/// The newest profile of a service, if it has one.
fn newest(address: &str, host: &str, service: &str) -> Option<String> {
    let page = http::json(address, &format!("/api/profiles?limit=1&node={host}/{service}")).ok()?;
    page["profiles"][0]["id"].as_str().map(str::to_owned)
}

impl Visits {
    pub(super) fn add(&mut self, other: Visits) {
        self.times.extend(other.times);
        self.failed += other.failed;
        self.bytes = self.bytes.max(other.bytes);
    }

    pub(super) fn row(mut self, hosts: usize, page: &str) -> Vec<String> {
        self.times.sort_unstable();
        let last = self.times.len().saturating_sub(1);
        let time = |place: usize| {
            self.times
                .get(place.min(last))
                .map_or_else(String::new, |time| format!("{:.1} ms", time.as_secs_f64() * 1e3))
        };
        vec![
            hosts.to_string(),
            page.to_owned(),
            format!("{}, {}", self.times.len(), self.failed),
            self.bytes.to_string(),
            time(self.times.len() / 2),
            time(self.times.len() * 99 / 100),
            time(last),
        ]
    }
}
