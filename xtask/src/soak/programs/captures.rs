//! Captures of one program, one after the other, of every type, engine and rate.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use procprof_profile::format::{self, Limits};

use crate::http;

/// The requests in turn.
const REQUESTS: &[&str] = &[
    "profile?seconds=1&frequency=99&engine=auto",
    "profile?seconds=1&frequency=1000&engine=perf",
    "profile?seconds=1&frequency=4000&engine=tick",
    "wall?seconds=1&frequency=99",
    "contention?seconds=1",
    "profile?seconds=1&frequency=4000&engine=perf",
    "heap",
    "profile?seconds=1&frequency=1000&engine=tick",
    "wall?seconds=1&frequency=20",
    "mutex?seconds=1",
    "profile?seconds=1&frequency=4000&engine=auto",
    "allocs",
];

/// Their results.
#[derive(Default)]
pub(super) struct Captured {
    pub(super) taken: usize,
    /// Answers that were neither a profile nor a refusal with its reason, and how often.
    pub(super) broken: BTreeMap<String, usize>,
    refused: BTreeMap<String, usize>,
    /// CPU time in the profiles of each request, and what of it is in no sample.
    cpu: BTreeMap<&'static str, Cpu>,
}

/// CPU time, nanoseconds.
#[derive(Default)]
struct Cpu {
    total: i64,
    unsampled: i64,
}

impl fmt::Display for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} captures", self.taken)?;
        for (request, Cpu { total, unsampled }) in &self.cpu {
            let share = 100.0 * *unsampled as f64 / (*total).max(1) as f64;
            let request = request.trim_start_matches("profile?seconds=1&");
            write!(f, "; {request}: {:.1} s CPU, {share:.1} % unsampled", *total as f64 / 1e9)?;
        }
        for (what, count) in self.refused.iter().chain(&self.broken) {
            write!(f, "; {count} times {what}")?;
        }
        Ok(())
    }
}

/// Takes `wanted` captures of the program that listens at `port`, or as many as possible until `stop`.
pub(super) fn capture(port: u16, wanted: usize, stop: &AtomicBool) -> Captured {
    let mut captured = Captured::default();
    let address = format!("127.0.0.1:{port}");
    let mut requests = REQUESTS.iter().cycle();
    while captured.taken < wanted && !stop.load(Ordering::Relaxed) {
        let Some(request) = requests.next() else { break };
        match http::request("GET", &address, &format!("/debug/pprof/{request}")) {
            Ok(answer) if answer.status == 200 => captured.add(request, &answer.body),
            Ok(answer) => {
                let reason = String::from_utf8_lossy(&answer.body);
                let refusal = format!("{}: {} {}", request, answer.status, reason.lines().next().unwrap_or_default());
                *captured.refused.entry(refusal).or_default() += 1;
                // A type that this program lacks is no capture, and not requested without end.
                captured.taken += usize::from(answer.status == 404 || answer.status == 501);
                thread::sleep(Duration::from_millis(100));
            }
            // Between two runs, or a run that ended meanwhile: its exit status is checked elsewhere.
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
    captured
}

impl Captured {
    fn add(&mut self, request: &'static str, body: &[u8]) {
        let decoded = match format::decode(body, &Limits::default()) {
            Ok(decoded) => decoded,
            Err(error) => {
                *self.broken.entry(format!("{request}: {error}")).or_default() += 1;
                return;
            }
        };
        self.taken += 1;
        if !request.starts_with("profile") {
            return;
        }
        let cpu = self.cpu.entry(request).or_default();
        for sample in decoded.profile.samples() {
            let [count, nanos] = *sample.values else { continue };
            cpu.total += nanos;
            // The row of time without samples.
            cpu.unsampled += if count == 0 { nanos } else { 0 };
        }
    }
}
