//! The agent of this process: started before `main` if the environment is set so, by a call of the program, or in the
//! place of a process that has ended.

use crate::settings::{ListenerKind, Settings};
use crate::signals::Around;
use crate::stderr::print;
use crate::{births, deferred, heap, signals, waits};
use procprof_agent::{Agent, Config, Contention, HeapSampler, Jemalloc, Listener, ProcessTree};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The environment variable that contains the id of the listening process for its descendants.
const HOLDER: &str = "PROCPROF_LISTENING_PID";

/// The agent and listener of a process.
pub(crate) struct Running {
    pub(crate) agent: Agent,
    pub(crate) listener: Option<Listener>,
    /// The token that requests must carry.
    pub(crate) token: Option<String>,
}

/// One process's, made on first use and after a fork.
struct Process {
    pid: u32,
    running: Mutex<Option<Running>>,
}

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

/// The agent and listener of this process. A forked child finds nothing: the parent's threads do not exist there, and
/// its state is left alone.
pub(crate) fn running() -> MutexGuard<'static, Option<Running>> {
    let (pid, current) = (std::process::id(), PROCESS.load(Ordering::Acquire));
    // SAFETY: null, or leaked below and never freed.
    if let Some(process) = unsafe { current.as_ref() }
        && process.pid == pid
    {
        return process.running.lock().unwrap_or_else(PoisonError::into_inner);
    }
    let fresh = Box::into_raw(Box::new(Process { pid, running: Mutex::new(None) }));
    if PROCESS.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: made above and not published.
        drop(unsafe { Box::from_raw(fresh) });
    }
    running()
}

/// Called by the loader before `main`, in a process that has one thread.
pub(crate) extern "C" fn at_load() {
    heap::at_load();
    signals::at_load(&AROUND_FILTERS);
    waits::at_load();
    births::at_load();
    deferred::begin_by(take_over);
    if std::env::var_os("PROCPROF_LISTEN").is_none() {
        return;
    }
    let (settings, bad) = Settings::of_environment();
    if !settings.is_for_this_program() {
        return;
    }
    let own = std::process::id() as i32;
    let holder = std::env::var(HOLDER)
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|holder| *holder != own && deferred::lives(*holder));
    if let Some(holder) = holder {
        return deferred::wait_for(holder);
    }
    bad.iter().for_each(|line| print(line));
    begin_in_time(&settings);
    // Also where that failed: the failure was reported, and each child would report it again.
    // SAFETY: the process has no other thread of the program's yet that could read its environment.
    unsafe { std::env::set_var(HOLDER, own.to_string()) };
}

/// Begins in a process whose ancestor has listened until now, and has reported bad settings.
fn take_over() {
    begin_in_time(&Settings::of_environment().0);
}

/// The actions around a filter for all threads.
static AROUND_FILTERS: Around = Around { end: end_before_filter, begin_again: take_over };

/// The process would be ended by the next thing that a thread of ours does; whether there was one.
fn end_before_filter() -> bool {
    let is_running = running().is_some();
    if is_running {
        end();
        print(&format!(
            "process {} runs on without a profiler: it loads a seccomp filter for all its threads that forbids what \
             the profiler calls",
            std::process::id()
        ));
    }
    is_running
}

/// Begins, or waits for the file that is to be there first.
fn begin_in_time(settings: &Settings) {
    let later = settings.start_file.as_deref().filter(|file| !file.exists());
    match later.map(deferred::wait_for_file) {
        None => begin_by(settings),
        Some(Ok(())) => {}
        Some(Err(expected)) => print(&format!("PROCPROF_START_FILE: expected {expected}")),
    }
}

/// Begins if the environment is set so, and reports failures and a port that the system has chosen.
fn begin_by(settings: &Settings) {
    let Some(listen) = settings.listen else { return };
    match begin(settings, Some(listen)) {
        Ok(Some(address)) if listen.port() == 0 => {
            print(&format!("process {} listens on http://{address}/debug/pprof/", std::process::id()));
        }
        Ok(_) => {}
        Err(why) => print(&format!("process {} runs without a profiler: {why}", std::process::id())),
    }
}

/// Starts the agent and, at an address, its listener; where it listens.
pub(crate) fn begin(settings: &Settings, listen: Option<SocketAddr>) -> Result<Option<SocketAddr>, String> {
    let mut running = running();
    if running.is_some() {
        return Err("it is running already".to_owned());
    }
    follow_forks();
    let config = Config {
        jemalloc: Jemalloc::find(),
        dump_folder: settings.dump_folder.clone(),
        dump_files: settings.dump_files,
        engine: Some(settings.engine),
        token: settings.token.clone(),
        service_name: None,
    };
    let agent = procprof_agent::start(config).map_err(|error| error.to_string())?;
    let bound =
        listen.map(|address| bind(settings, address, agent.clone()).map_err(|error| format!("{address}: {error}")));
    let listener = bound.transpose().inspect_err(|_| HeapSampler::disable())?;
    set_heap(settings);
    if settings.contention
        && let Err(error) = Contention::enable()
    {
        print(&format!("process {} runs without a record of locks: {error}", std::process::id()));
    }
    deferred::forget();
    if listener.is_some() && !ProcessTree::begin() {
        print(&format!(
            "process {} is profiled without the processes it will fork: there is no memory to share with them",
            std::process::id()
        ));
    }
    let address = listener.as_ref().map(Listener::address);
    *running = Some(Running { agent, listener, token: settings.token.clone() });
    Ok(address)
}

/// Binds the listener: without a thread where the process has one only, and its threads come to look for clients.
fn bind(settings: &Settings, address: SocketAddr, agent: Agent) -> procprof_agent::Result<Listener> {
    let is_on_demand = settings.listener == ListenerKind::OnDemand
        && !settings.contention
        && !births::has_threads()
        && heap::is_in_use();
    if is_on_demand { Listener::bind_on_demand(address, agent) } else { Listener::bind(address, agent, None) }
}

/// Configures the sampler by the environment, where it is this process's.
fn set_heap(settings: &Settings) {
    if settings.heap_sample_bytes != HeapSampler::sample_bytes() {
        HeapSampler::reset(Some(settings.heap_sample_bytes));
    }
    if !settings.heap || !heap::is_in_use() {
        HeapSampler::disable();
    }
}

/// Ends what runs, if it does.
pub(crate) fn end() {
    let former = running().take();
    if let Some(Running { agent, listener, .. }) = former {
        match listener {
            Some(listener) => listener.stop(),
            None => agent.stop(),
        }
        HeapSampler::disable();
        Contention::disable();
    }
}

fn follow_forks() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // SAFETY: a function of this library, which is never unloaded.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
}

/// In a forked child: the parent's listener is closed here, so that its port is free once the parent is gone.
unsafe extern "C" fn in_child() {
    // SAFETY: null, or leaked in `running` and never freed.
    let Some(parent) = (unsafe { PROCESS.load(Ordering::Acquire).as_ref() }) else { return };
    if parent.pid == std::process::id() {
        return;
    }
    // Held by another thread of the parent at most while it starts or stops.
    if let Ok(running) = parent.running.try_lock()
        && let Some(listener) = running.as_ref().and_then(|running| running.listener.as_ref())
    {
        listener.close_in_child();
        deferred::wait_for(parent.pid as i32);
    }
}
