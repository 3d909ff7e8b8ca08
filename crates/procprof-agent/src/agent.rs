//! The agent: its configuration, and access to its endpoints.

use crate::aside;
use crate::error::{Error, Result};
#[cfg(feature = "heap")]
use crate::heap::HeapSampler;
use crate::heap::{DumpFileLimits, DumpFiles, Dumper, Heap, HeapStatus, Jemalloc, Keeper, TimedSwitch, Turns};
use crate::options::CpuEngine;
#[cfg(target_os = "linux")]
use crate::process_context::Published;
use crate::request::Response;
use crate::room;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How to run the agent.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The jemalloc this process allocates with; without it, heap profiles are those of the crate's own sampler
    /// (feature `heap`) or there are none.
    pub jemalloc: Option<Jemalloc>,
    /// The folder through which heap dumps pass, private and for a moment; default: the system's folder for temporary
    /// files.
    pub dump_folder: Option<PathBuf>,
    /// How many of the files stay that jemalloc dumps by itself (`lg_prof_interval`, `prof_gdump`); without limits none
    /// is deleted. They can be listed and fetched either way.
    pub dump_files: Option<DumpFileLimits>,
    /// Engine for CPU samples of requests that name none. Default: the environment's `PROCPROF_ENGINE`, else
    /// [`CpuEngine::Auto`].
    pub engine: Option<CpuEngine>,
    /// The bearer token that every request must carry; without it no client is authenticated.
    pub token: Option<String>,
    /// The name of the service, published for host agents and other readers outside as `service.name` of
    /// OpenTelemetry's process context, with the attributes of the environment's `OTEL_RESOURCE_ATTRIBUTES`. Default:
    /// the environment's `OTEL_SERVICE_NAME`, else that among the attributes. Nothing is published where a library of
    /// OpenTelemetry has done so before.
    pub service_name: Option<String>,
}

/// Interval at which a waiting capture checks whether its client is still connected, and how much memory is free.
pub(crate) const LOOK_AT_CLIENT: Duration = Duration::from_millis(250);

/// The running agent. Clones share one agent, which is idle between requests and ends with [`Agent::stop`] or its last
/// clone.
#[derive(Clone, Debug)]
#[must_use = "an agent ends when it is dropped"]
pub struct Agent {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pid: u32,
    token: Option<String>,
    engine: CpuEngine,
    dumper: Option<Dumper>,
    dump_files: Option<DumpFileLimits>,
    keeper: Option<Keeper>,
    heap_switch: Arc<TimedSwitch>,
    growth_turns: Turns,
    /// Whether `start` switched the heap sampler on, and the end has to switch it off.
    has_sampler: bool,
    /// What is published for readers outside, until the agent ends.
    #[cfg(target_os = "linux")]
    context: Mutex<Option<Published>>,
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
    let dump_files = config.dump_files;
    let watched = dumper.as_ref().and_then(|dumper| DumpFiles::from_jemalloc(&dumper.jemalloc)).zip(dump_files);
    let keeper = watched.map(|(files, limits)| Keeper::start(files, limits)).transpose()?;
    let has_sampler = begin_heap(dumper.as_ref());
    let shared = Shared {
        pid: std::process::id(),
        token: config.token,
        engine,
        dumper,
        dump_files,
        keeper,
        heap_switch: Arc::default(),
        growth_turns: Turns::default(),
        has_sampler,
        #[cfg(target_os = "linux")]
        context: Mutex::new(crate::process_context::publish(config.service_name.as_deref())),
        stopped: Mutex::new(false),
        stop: Condvar::new(),
    };
    Ok(Agent { shared: Arc::new(shared) })
}

/// Starts the heap sampler where it is the process's heap profiler and is not running yet.
#[cfg(feature = "heap")]
fn begin_heap(dumper: Option<&Dumper>) -> bool {
    let wanted = matches!(Heap::of_this_process(dumper), Ok(Heap::Sampler)) && !HeapSampler::is_active();
    if wanted {
        HeapSampler::enable();
    }
    wanted
}

#[cfg(feature = "heap")]
fn end_heap() {
    HeapSampler::disable();
}

#[cfg(not(feature = "heap"))]
fn begin_heap(_: Option<&Dumper>) -> bool {
    false
}

#[cfg(not(feature = "heap"))]
fn end_heap() {}

impl Shared {
    fn end(&self) {
        if std::process::id() != self.pid {
            return;
        }
        let was_stopped = std::mem::replace(&mut *self.stopped.lock().unwrap_or_else(PoisonError::into_inner), true);
        self.stop.notify_all();
        self.heap_switch.end();
        self.keeper.iter().for_each(Keeper::end);
        #[cfg(target_os = "linux")]
        drop(self.context.lock().unwrap_or_else(PoisonError::into_inner).take());
        if self.has_sampler && !was_stopped {
            end_heap();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.end();
    }
}

impl Agent {
    /// Ends what the agent started, as dropping its last clone does: captures that are waiting end and further ones are
    /// refused, what was switched for a time goes back now, and the heap sampler stops if [`start`] began it. All
    /// sampling of its endpoints has ended when their calls return.
    pub fn stop(&self) {
        self.shared.end();
    }

    /// The heap as sampled at this moment, by jemalloc or the agent's own sampler: `heap_v2` text.
    ///
    /// # Errors
    /// [`Error::NoJemalloc`], [`Error::HeapUnavailable`] (naming the variable to set), [`Error::Mallctl`],
    /// [`Error::System`] for the file.
    pub fn heap_dump(&self) -> Result<Vec<u8>> {
        let dump = || self.heap()?.text();
        aside::run(LOOK_AT_CLIENT, || (), dump)
            .map_err(|source| Error::System { what: "start a thread for the heap dump", source })?
    }

    /// The state of this process's heap profiler.
    ///
    /// # Errors
    /// [`Error::NoJemalloc`] where no heap profiler is known, [`Error::Forked`].
    pub fn heap_status(&self) -> Result<HeapStatus> {
        self.heap_aside(|agent| Ok(agent.heap()?.status()))
    }

    /// Samples the heap from now on, for good or for a time, after which it is as before; the state then.
    ///
    /// # Errors
    /// As [`Agent::heap_status`]; [`Error::HeapUnavailable`] where the profiler cannot be switched.
    pub fn heap_activate(&self, length: Option<Duration>) -> Result<HeapStatus> {
        self.heap_aside(|agent| agent.set_heap(true, length))
    }

    /// Samples the heap no longer, as [`Agent::heap_activate`].
    ///
    /// # Errors
    /// As [`Agent::heap_activate`].
    pub fn heap_deactivate(&self, length: Option<Duration>) -> Result<HeapStatus> {
        self.heap_aside(|agent| agent.set_heap(false, length))
    }

    /// Switches the heap profiler on the calling thread.
    pub(crate) fn set_heap(&self, active: bool, length: Option<Duration>) -> Result<HeapStatus> {
        let heap = self.heap()?;
        self.heap_switch().set(active, heap.status().active, length, heap.switch())?;
        Ok(heap.status())
    }

    /// Runs `ask` in a thread whose descriptors are not the program's.
    fn heap_aside(&self, ask: impl Fn(&Agent) -> Result<HeapStatus> + Sync) -> Result<HeapStatus> {
        let status = aside::run(LOOK_AT_CLIENT, || (), || ask(self));
        status.map_err(|source| Error::System { what: "start a thread for the heap profiler", source })?
    }

    /// The engine for requests that name none.
    pub(crate) fn engine(&self) -> CpuEngine {
        self.shared.engine
    }

    /// Whether requests must carry a token.
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

    /// The jemalloc of this process, if it was named.
    pub(crate) fn jemalloc(&self) -> Result<&Jemalloc> {
        self.in_own_process()?;
        self.shared.dumper.as_ref().map(|dumper| &dumper.jemalloc).ok_or(Error::NoJemalloc)
    }

    /// How many of the files stay that jemalloc dumps by itself.
    pub(crate) fn dump_file_limits(&self) -> Option<DumpFileLimits> {
        self.shared.dump_files
    }

    /// The heap profiler's switch for a time.
    pub(crate) fn heap_switch(&self) -> &Arc<TimedSwitch> {
        &self.shared.heap_switch
    }

    /// The turns of measuring growth.
    pub(crate) fn growth_turns(&self) -> &Turns {
        &self.shared.growth_turns
    }

    /// Waits; errs when the agent is stopped or the client leaves meanwhile.
    pub(crate) fn wait(&self, length: Duration, client_waits: Option<&dyn Fn() -> bool>) -> Result<()> {
        self.in_own_process()?;
        let end = Instant::now() + length;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.stopped_within(left.min(LOOK_AT_CLIENT)) {
                return Err(Error::Stopped);
            }
            room::go_on()?;
            if client_waits.is_some_and(|waits| !waits()) {
                return Err(Error::ClientLeft);
            }
            if Instant::now() >= end {
                return Ok(());
            }
        }
    }

    fn stopped_within(&self, length: Duration) -> bool {
        let stopped = self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        *self
            .shared
            .stop
            .wait_timeout_while(stopped, length, |stopped| !*stopped)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    fn in_own_process(&self) -> Result<()> {
        if std::process::id() == self.shared.pid { Ok(()) } else { Err(Error::Forked { parent: self.shared.pid }) }
    }
}

fn engine_of_environment() -> Result<CpuEngine> {
    const VARIABLE: &str = "PROCPROF_ENGINE";
    let Some(name) = std::env::var_os(VARIABLE) else { return Ok(CpuEngine::Auto) };
    let name = name.to_string_lossy();
    CpuEngine::of_name(&name)
        .ok_or_else(|| Error::Config { what: format!("{VARIABLE}={name}: expected auto, perf or tick") })
}

/// Compares in a time that does not depend on the position of the first difference.
fn equal_in_constant_time(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}
