//! Which instance of a process answers, as far as can be known, so that a restart during a capture is noticed.
//!
//! For a process on this host (a loopback address) it is the pid and start time of the owner of the listening port,
//! from `/proc`. A remote StarRocks backend reports its pid and uptime at brpc's `/vars`:
//! ```text
//! pid : 4242
//! process_uptime : 86400.123456
//! ```
//! Of any other process nothing is known; there a connection that breaks is the only sign.

use std::time::Duration;

use procprof_process::{Identity, Pid, Process, listeners_on};
use procprof_profile::Nanos;
use reqwest::Method;

use crate::clock::now;
use crate::route::HttpEndpoint;
use crate::{BaseUrl, CollectError, HttpClient, Target, Watch, body};

/// How long the process has to answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// A process closes its connections some time before it is gone; it is checked this often, with this pause.
const ENDING_LOOKS: u32 = 10;
const ENDING_PAUSE: Duration = Duration::from_millis(50);

/// Start times computed from an uptime may differ by this much for one process.
const TOLERANCE_NANOS: i64 = 3_000_000_000;

/// The identity of a running process as far as known. Nothing known is a value too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// The process on this host that listens on the address.
    pub local: Option<Identity>,
    /// The pid that it reports, in its own namespace.
    pub pid: Option<u32>,
    /// The start time that it reports (UTC), to a few seconds.
    pub started: Option<Nanos>,
}

impl Instance {
    /// Finds out what is known of the process behind `base`, one of the target's services. Failures leave it unknown.
    pub async fn read(client: &HttpClient, target: &Target, base: &BaseUrl) -> Instance {
        if let Some(local) = local_owner(base).await {
            return Instance { local: Some(local), ..Instance::default() };
        }
        let Some(page) = target.endpoints.variables else { return Instance::default() };
        let vars = tokio::time::timeout(PATIENCE, read_vars(client, target, page));
        vars.await.ok().flatten().unwrap_or_default()
    }

    /// When the process started (UTC), where known.
    pub fn start_time(&self) -> Option<Nanos> {
        self.local.map(|identity| identity.start_time).or(self.started)
    }

    /// The evidence that the process ended, checked after its connection broke: a process on this host is given a
    /// moment to be gone.
    pub(crate) async fn ended(&self) -> Option<String> {
        let local = self.local?;
        for _ in 0..ENDING_LOOKS {
            if !is_running(&local) {
                return Some(format!("process {} ended", local.pid));
            }
            tokio::time::sleep(ENDING_PAUSE).await;
        }
        None
    }

    /// The evidence that another process answers by now, if there is any.
    pub async fn changed(&self, client: &HttpClient, target: &Target, base: &BaseUrl) -> Option<String> {
        if let Some(local) = self.local {
            return (!is_running(&local)).then(|| format!("process {} ended", local.pid));
        }
        if *self == Instance::default() {
            return None;
        }
        self.differs(&Instance::read(client, target, base).await)
    }

    /// The error with its reason, where that is to be seen: a process of this host that listens without a thread and
    /// has not looked for clients in time.
    pub(crate) async fn explained(&self, error: CollectError) -> CollectError {
        let (CollectError::Timeout { url, after }, Some(local)) = (&error, self.local) else { return error };
        let listens = tokio::task::spawn_blocking(move || listens_without_thread(&local)).await;
        match listens {
            Ok(true) => CollectError::NotServed { url: url.clone(), after: *after, pid: local.pid.0 },
            _ => error,
        }
    }

    fn differs(&self, later: &Instance) -> Option<String> {
        if let (Some(before), Some(after)) = (self.pid, later.pid)
            && before != after
        {
            return Some(format!("its pid was {before} and is {after}"));
        }
        let (before, after) = (self.started?, later.started?);
        let moved = after.0.saturating_sub(before.0);
        (moved > TOLERANCE_NANOS).then(|| format!("it started {} s later than the one before", moved / 1_000_000_000))
    }
}

/// Whether the process is there and has an address space; one that ended but was not waited for has none.
fn is_running(identity: &Identity) -> bool {
    let Ok(process) = Process::open(identity.pid) else {
        return false;
    };
    let maps = process.maps();
    process.identity().is_same(identity) && !maps.is_ok_and(|maps| maps.is_empty())
}

/// Whether a process has the preload library and no thread of it that accepts connections.
fn listens_without_thread(identity: &Identity) -> bool {
    const LIBRARY: &str = "libprocprof_preload";
    const THREAD: &str = "procprof-http";
    let Ok(process) = Process::open(identity.pid) else { return false };
    let has_library = process.maps().is_ok_and(|maps| maps.iter().any(|range| range.name().contains(LIBRARY)));
    let has_thread = process.threads().map_or(true, |threads| threads.iter().any(|thread| thread.name == THREAD));
    process.identity().is_same(identity) && has_library && !has_thread
}

/// The process on this host that listens there; `None` for another host, and for one that may not be looked at.
pub(crate) async fn local_owner(base: &BaseUrl) -> Option<Identity> {
    let addresses = base.loopback();
    if addresses.is_empty() {
        return None;
    }
    let port = base.port();
    let found = tokio::task::spawn_blocking(move || {
        let listeners = listeners_on(port).ok()?;
        let accepting = listeners.iter().filter(|listener| addresses.iter().any(|address| listener.accepts(*address)));
        let pid: Pid = accepting.flat_map(|listener| &listener.owners).map(|owner| owner.pid).min()?;
        Identity::read(pid).ok()
    });
    found.await.ok().flatten()
}

async fn read_vars(client: &HttpClient, target: &Target, page: HttpEndpoint) -> Option<Instance> {
    let url = target.base(page.service).ok()?.join(page.path);
    let response = client.request(target, Method::GET, url).ok()?.send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let text = body::read(response, "", 1 << 16, &Watch::default()).await.ok()?;
    Some(parse_vars(&String::from_utf8_lossy(&text), now()))
}

fn parse_vars(text: &str, now: Nanos) -> Instance {
    let value = |name: &str| {
        let mut pairs = text.lines().filter_map(|line| line.split_once(" : "));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value.trim())
    };
    let uptime = value("process_uptime").and_then(|seconds| seconds.parse::<f64>().ok());
    let uptime = uptime.filter(|seconds| (0.0..1e9).contains(seconds));
    let started = uptime.map(|seconds| Nanos(now.0.saturating_sub((seconds * 1e9) as i64)));
    Instance { local: None, pid: value("pid").and_then(|pid| pid.parse().ok()), started }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brpcs_variables_are_parsed() {
        let instance = parse_vars("pid : 42\r\nprocess_uptime : 1.500000\r\n", Nanos(10_000_000_000));
        assert_eq!((instance.pid, instance.started), (Some(42), Some(Nanos(8_500_000_000))));
        assert_eq!(parse_vars("<html>pid : x", Nanos(1)), Instance::default());
    }

    #[test]
    fn a_new_pid_or_a_later_start_is_another_instance() {
        let before = parse_vars("pid : 1\r\nprocess_uptime : 100.0\r\n", Nanos(100_000_000_000));
        let check = |text: &str, wanted: Option<&str>| {
            let later = parse_vars(text, Nanos(110_000_000_000));
            assert_eq!(before.differs(&later).as_deref(), wanted);
        };
        check("pid : 1\r\nprocess_uptime : 110.0\r\n", None);
        check("pid : 1\r\nprocess_uptime : 5.0\r\n", Some("it started 105 s later than the one before"));
        check("pid : 2\r\nprocess_uptime : 5.0\r\n", Some("its pid was 1 and is 2"));
        check("", None);
    }
}
