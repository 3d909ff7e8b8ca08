//! The agent: what it was told, and the way to its endpoints.

use crate::cpu::CpuEngine;
use crate::endpoints;
use crate::error::{Error, Result};
use crate::heap::{Dumper, Heap, Jemalloc, TimedSwitch};
use crate::request::{Request, Response};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How to run the agent.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The jemalloc this process allocates with; without it, heap profiles are those of the crate's own sampler (feature `heap`) or there are none.
    pub jemalloc: Option<Jemalloc>,
    /// Where heap dumps pass through, private and for a moment; the system's folder for temporary files when not given.
    pub dump_folder: Option<PathBuf>,
    /// How CPU samples are made where a request does not say; the environment's `PROCPROF_ENGINE` when not given, else [`CpuEngine::Auto`].
    pub engine: Option<CpuEngine>,
    /// The bearer token every request must carry; without it nobody is asked who he is.
    pub token: Option<String>,
}

/// The running agent. Clones are the same agent; it does nothing until it is asked.
#[derive(Clone, Debug)]
pub struct Agent {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pid: u32,
    token: Option<String>,
    engine: CpuEngine,
    dumper: Option<Dumper>,
    heap_switch: Arc<TimedSwitch>,
    stopped: Mutex<bool>,
    stop: Condvar,
}

/// Starts the agent.
///
/// ```
/// let agent = procprof_agent::start(procprof_agent::Config::default())?;
/// let page = agent.handle(&procprof_agent::Request::get("/debug/pprof/"));
/// assert_eq!(page.status, 200);
/// agent.stop();
/// # Ok::<(), procprof_agent::Error>(())
/// ```
///
/// # Errors
/// [`Error::Config`] for an empty token, an unknown `PROCPROF_ENGINE` or a dump folder that is none.
pub fn start(config: Config) -> Result<Agent> {
    if config.token.as_ref().is_some_and(String::is_empty) {
        return Err(Error::Config { what: "token: expected at least one character".into() });
    }
    let engine = config.engine.map_or_else(engine_of_environment, Ok)?;
    let folder = config.dump_folder.unwrap_or_else(std::env::temp_dir);
    if !folder.is_dir() {
        return Err(Error::Config { what: format!("dump_folder {}: no such folder", folder.display()) });
    }
    let dumper = config.jemalloc.map(|jemalloc| Dumper::new(jemalloc, folder));
    #[cfg(feature = "heap")]
    if matches!(Heap::of_this_process(dumper.as_ref()), Ok(Heap::Sampler)) {
        crate::heap::HeapSampler::enable();
    }
    let (pid, stopped, stop) = (std::process::id(), Mutex::new(false), Condvar::new());
    Ok(Agent { shared: Arc::new(Shared { pid, token: config.token, engine, dumper, heap_switch: Arc::default(), stopped, stop }) })
}

impl Agent {
    /// Answers a request to one of [`crate::ENDPOINTS`]; a capture blocks the caller for its seconds. Any thread may call.
    pub fn handle(&self, request: &Request<'_>) -> Response {
        endpoints::handle(self, request)
    }

    /// Ends captures that are waiting and refuses further ones; what was switched for a time goes back now. All sampling of its endpoints has ended when their calls return.
    pub fn stop(&self) {
        if self.in_own_process().is_ok() {
            *self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.shared.stop.notify_all();
            self.shared.heap_switch.end();
        }
    }

    /// The heap as sampled at this moment, by jemalloc or the agent's own sampler: `heap_v2` text.
    ///
    /// # Errors
    /// [`Error::NoJemalloc`], [`Error::HeapUnavailable`] (naming the variable to set), [`Error::Mallctl`], [`Error::System`] for the file.
    pub fn heap_dump(&self) -> Result<Vec<u8>> {
        self.heap()?.text()
    }

    /// How CPU samples are made where a request does not say.
    pub(crate) fn engine(&self) -> CpuEngine {
        self.shared.engine
    }

    /// Whether a token is needed to ask.
    pub(crate) fn has_token(&self) -> bool {
        self.shared.token.is_some()
    }

    /// Lets a request with the right token in.
    pub(crate) fn admit(&self, authorization: Option<&str>) -> std::result::Result<(), Response> {
        let Some(token) = &self.shared.token else { return Ok(()) };
        let given = authorization.and_then(|header| header.split_once(' '));
        let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        if given.is_some_and(|given| equal_in_constant_time(given.as_bytes(), token.as_bytes())) {
            return Ok(());
        }
        let mut refusal = Response::text(401, "expected the header Authorization: Bearer TOKEN");
        refusal.headers.push(("WWW-Authenticate", "Bearer".to_owned()));
        Err(refusal)
    }

    /// The heap profiler of this process.
    pub(crate) fn heap(&self) -> Result<Heap<'_>> {
        self.in_own_process()?;
        Heap::of_this_process(self.shared.dumper.as_ref())
    }

    /// The heap profiler's switch for a time.
    pub(crate) fn heap_switch(&self) -> &Arc<TimedSwitch> {
        &self.shared.heap_switch
    }

    /// Waits; true when the agent was stopped meanwhile or before.
    pub(crate) fn wait(&self, length: Duration) -> Result<bool> {
        self.in_own_process()?;
        let end = Instant::now() + length;
        let mut stopped = self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if *stopped || left.is_zero() {
                return Ok(*stopped);
            }
            stopped = self.shared.stop.wait_timeout(stopped, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn in_own_process(&self) -> Result<()> {
        if std::process::id() == self.shared.pid { Ok(()) } else { Err(Error::Forked { parent: self.shared.pid }) }
    }
}

fn engine_of_environment() -> Result<CpuEngine> {
    const VARIABLE: &str = "PROCPROF_ENGINE";
    let Some(name) = std::env::var_os(VARIABLE) else { return Ok(CpuEngine::Auto) };
    let name = name.to_string_lossy();
    CpuEngine::of_name(&name).ok_or_else(|| Error::Config { what: format!("{VARIABLE}={name}: expected auto, perf or tick") })
}

/// Compares without telling by its time how much was right.
fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}
