//! The continuous recording of the whole host, cut into a profile for each service.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use procprof_host::{Condition, Cut, Engine, Filter, Measure, Membership, Options, Recorder, Target};
use procprof_profile::format::pprof;
use procprof_symbolize::ProvenFile;
use tokio::sync::oneshot;

use super::discovery::{Discovery, decide};
use super::governor::{CostMilli, Governor};
use super::rules::Treatment;
use super::settings::Settings;
use super::shared::{Shared, cpu_nanos, nanos_since_1970, thread_nanos};
use crate::allocator;

/// Longest time between two looks at the buffers.
const LOOK: Duration = Duration::from_secs(1);
/// Longest time until the first cut, so that users soon see a new host.
const FIRST_CUT: Duration = Duration::from_secs(10);
/// Bytes of a buffer: half of what may be locked by default is left for captures on hosts with two CPUs.
const BUFFER_BYTES: usize = 2 << 20;
/// Most CPU time for opening the files of a process and making their unwind tables, each interval.
const PROCESS_CPU_MAX: Duration = Duration::from_millis(200);
/// Cuts that wait to be made into profiles.
const CUTS_MAX: usize = 2;

/// Most intervals of a cut that waits for those before it.
const INTERVALS_MAX: u32 = 60;

/// A request to the recording.
#[derive(Debug)]
pub(super) enum Ask {
    /// Record at this rate, or at the configured one.
    Rate(Option<u32>),
    /// The file with a build id.
    File(String, oneshot::Sender<Option<ProvenFile>>),
}

/// Begins the recording of CPU time of all processes.
///
/// # Errors
/// It is not permitted, or not possible on this machine.
pub(super) fn attach(hz: u32) -> Result<Recorder> {
    let process_cpu_max = Some(PROCESS_CPU_MAX);
    let options =
        Options { engine: Engine::Perf, hz, buffer_bytes: BUFFER_BYTES, process_cpu_max, ..Options::default() };
    Ok(Recorder::attach(Target::Host, &options)?)
}

/// Begins the recording of waits of the processes whose rule wants it: by BPF programs where these are permitted, else
/// by the kernel's records of all switches.
///
/// # Errors
/// It is not permitted, or not possible on this machine.
pub(super) fn attach_off_cpu(settings: &Settings) -> Result<Recorder> {
    let rules = settings.clone();
    let is_wanted = move |name: &str, membership: &Membership| {
        let decision = decide(&rules, name, membership);
        decision.off_cpu && matches!(decision.treatment, Treatment::Profile | Treatment::Always)
    };
    let options = Options {
        measure: Measure::OffCpu,
        engine: Engine::Auto,
        hz: settings.hz,
        waits_hz: Some(settings.hz.max(20)),
        buffer_bytes: BUFFER_BYTES,
        process_cpu_max: Some(PROCESS_CPU_MAX),
        filter: Filter { condition: Some(Condition::new(is_wanted)), ..Filter::default() },
        ..Options::default()
    };
    let recorder = Recorder::attach(Target::Host, &options)?;
    if let Some(reason) = recorder.without_bpf() {
        tracing::warn!("waits are recorded by perf events, at a cost for each switch of the host: {reason}");
    }
    Ok(recorder)
}

/// Records until the agent stops.
///
/// # Errors
/// The recording fails.
pub(super) fn run(shared: &Arc<Shared>, mut recorder: Recorder, asks: &Receiver<Ask>) -> Result<()> {
    let mut governor = Governor::new(shared.settings.hz, shared.settings.cpu_milli_max);
    let cuts = start_profiling(shared)?;
    let interval = Duration::from_secs(shared.settings.cut_seconds);
    let mut due = Instant::now() + interval.min(FIRST_CUT);
    // The start reads all processes; it is not what the agent costs from then on.
    let mut cost = Cost::now(shared);
    let mut is_first = true;
    while !shared.is_stopping() {
        recorder.poll(LOOK.min(due.saturating_duration_since(Instant::now())))?;
        let mut wanted = None;
        for ask in asks.try_iter() {
            match ask {
                Ask::Rate(hz) => wanted = Some(hz.unwrap_or(shared.settings.hz)),
                // One that no longer waits needs no answer.
                Ask::File(build_id, reply) => drop(reply.send(recorder.file(&build_id))),
            }
        }
        if Instant::now() < due && wanted.is_none() {
            continue;
        }
        if wanted.is_none() && is_to_wait(shared, cost.at) {
            due = Instant::now() + LOOK;
            continue;
        }
        let now = governor.hz;
        if wanted.is_none() {
            governor.note_memory(!fits_in_memory(shared, &mut recorder));
        }
        let next = match wanted {
            Some(hz) => governor.want(hz),
            None if is_first => now,
            None => {
                let cost = cost.since(shared, recorder.preparation());
                shared.counters.cost_micro.store((cost.total() * 1000.0) as u64, Ordering::Relaxed);
                governor.next(cost)
            }
        };
        let cut = if next == now {
            recorder.cut()
        } else {
            tracing::info!("{next} samples for each second of CPU time from now on, {} are wanted", governor.wanted);
            recorder.cut_at_rate(next)?
        };
        shared.update_host(|host| (host.hz, host.hz_wanted) = (next, governor.wanted));
        shared.counters.samples.fetch_add(cut.statistics.samples, Ordering::Relaxed);
        give(shared, &cuts, cut);
        (cost, is_first, due) = (Cost::now(shared), false, Instant::now() + interval);
    }
    give(shared, &cuts, recorder.cut());
    Ok(())
}

/// Records the time off CPU of services that a rule names until the agent stops.
///
/// # Errors
/// The recording fails.
pub(super) fn run_off_cpu(shared: &Arc<Shared>, mut recorder: Recorder) -> Result<()> {
    let cuts = start_profiling(shared)?;
    let interval = Duration::from_secs(shared.settings.cut_seconds);
    let (mut begun, mut due) = (Instant::now(), Instant::now() + interval);
    while !shared.is_stopping() {
        recorder.poll(LOOK.min(due.saturating_duration_since(Instant::now())))?;
        if Instant::now() < due {
            continue;
        }
        if is_to_wait(shared, begun) {
            due = Instant::now() + LOOK;
            continue;
        }
        give(shared, &cuts, recorder.cut());
        fits_in_memory(shared, &mut recorder);
        (begun, due) = (Instant::now(), Instant::now() + interval);
    }
    give(shared, &cuts, recorder.cut());
    Ok(())
}

/// Whether a cut that is due has to wait, since the profiles of those before it are not made yet: what is recorded
/// meanwhile is part of it. At last it is taken, and lost if there is still no place for it.
fn is_to_wait(shared: &Shared, begun: Instant) -> bool {
    let longest = Duration::from_secs(shared.settings.cut_seconds).saturating_mul(INTERVALS_MAX);
    shared.unfinished_cuts() >= CUTS_MAX as u64 && begun.elapsed() < longest && shared.fits_in_memory()
}

/// Whether the agent uses no more memory than it may; gives back what can be made again if it does.
fn fits_in_memory(shared: &Shared, recorder: &mut Recorder) -> bool {
    if shared.fits_in_memory() {
        return true;
    }
    recorder.forget_tables();
    if let Err(code) = allocator::give_back() {
        tracing::warn!("give memory back: the allocator answers {code}");
    }
    let fits = shared.fits_in_memory();
    if !fits {
        shared.counters.memory_short.fetch_add(1, Ordering::Relaxed);
        tracing::warn!("the agent uses more memory than memory_bytes_max, also without its tables: it samples less");
    }
    fits
}

fn give(shared: &Shared, cuts: &SyncSender<Cut>, cut: Cut) {
    let lost = cut.statistics.lost;
    shared.begin_cut();
    let dropped = match cuts.try_send(cut) {
        Ok(()) => 0,
        Err(TrySendError::Full(cut) | TrySendError::Disconnected(cut)) => {
            shared.end_cut();
            tracing::error!(
                "the profiles of {} samples are lost: those before are not finished",
                cut.statistics.samples
            );
            cut.statistics.samples
        }
    };
    shared.update_host(|host| host.samples_lost += lost + dropped);
}

/// What the agent has used.
struct Cost {
    at: Instant,
    cpu: u64,
    captures: u64,
    /// CPU time of this thread, which takes the samples in, and for making profiles of them.
    sampling: u64,
    samples: u64,
}

impl Cost {
    fn now(shared: &Shared) -> Self {
        Self {
            at: Instant::now(),
            cpu: cpu_nanos(),
            captures: shared.counters.capture_nanos.load(Ordering::Relaxed),
            sampling: thread_nanos() + shared.counters.profiling_nanos.load(Ordering::Relaxed),
            samples: shared.counters.samples.load(Ordering::Relaxed),
        }
    }

    /// The cost since then, without captures that users ask for. `preparation` is what the recording took of it for
    /// opening files and making their tables.
    fn since(&self, shared: &Shared, preparation: Duration) -> CostMilli {
        let now = Self::now(shared);
        let used = (now.cpu - self.cpu).saturating_sub(now.captures - self.captures);
        let sampling = Duration::from_nanos(now.sampling - self.sampling).saturating_sub(preparation);
        CostMilli::new(Duration::from_nanos(used), sampling, now.samples - self.samples, self.at.elapsed())
    }
}

/// Starts the thread that makes profiles of cuts, at low priority, while the recording goes on.
fn start_profiling(shared: &Arc<Shared>) -> Result<SyncSender<Cut>> {
    let (sender, receiver) = sync_channel::<Cut>(CUTS_MAX);
    let shared = Arc::clone(shared);
    let work = move || {
        // The priority is that of this thread alone; at the ordinary one it does the same work.
        let _ = rustix::process::nice(5);
        let mut discovery = Discovery::default();
        update_services(&shared, &mut discovery);
        for cut in receiver {
            // A stop waits for the profiles of the last cut alone.
            if cut.measure() == Measure::Cpu && !shared.is_stopping() {
                update_services(&shared, &mut discovery);
            }
            if let Err(error) = push_profiles(&shared, cut) {
                tracing::error!("make profiles: {error:#}");
            }
            shared.end_cut();
        }
    };
    std::thread::Builder::new().name("profiles".to_owned()).spawn(work).context("start a thread")?;
    Ok(sender)
}

fn update_services(shared: &Shared, discovery: &mut Discovery) {
    let services = discovery.scan(&shared.settings);
    shared.dumps.set_watched(std::mem::take(&mut discovery.watched));
    shared.jvms.set_chosen(std::mem::take(&mut discovery.jvms));
    let is_profiled = |treatment: Treatment| matches!(treatment, Treatment::Profile | Treatment::Always);
    let profiled = services.into_iter().filter(|service| is_profiled(service.treatment));
    shared.set_services(profiled.map(|service| service.facts).collect());
}

/// Makes a profile of each service that is above the least CPU time, and one of the rest: every sample of a process
/// that is not excluded is in one of them.
fn push_profiles(shared: &Shared, mut cut: Cut) -> Result<()> {
    shared.name_own(&mut cut);
    shared.counters.profiling(|| make_profiles(shared, &cut))
}

fn make_profiles(shared: &Shared, cut: &Cut) -> Result<()> {
    let is_cpu = cut.measure() == Measure::Cpu;
    // Their CPU time is in the recordings that they make themselves.
    let jvms = if is_cpu { shared.jvms.recorded_since(cut.started) } else { Vec::new() };
    let own = own_services(shared, cut, &jvms);
    if is_cpu {
        shared.set_own(own.iter().cloned().chain(shared.jvms.services()).collect());
    }
    let profile_type = if is_cpu { "cpu" } else { "off_cpu" };
    let of_own = |name: &str, membership: &Membership| {
        let decision = decide(&shared.settings, name, membership);
        matches!(decision.treatment, Treatment::Profile | Treatment::Always) && (is_cpu || decision.off_cpu)
    };
    for service in &own {
        let takes = |pid: u32, name: &str, membership: &Membership| {
            membership.service(name) == *service && of_own(name, membership) && !jvms.contains(&pid)
        };
        let profile = cut.part(takes, &format!("service {service}"))?;
        push(shared, cut, profile_type, Some(service.clone()), profile)?;
    }
    if is_cpu {
        let takes = |pid: u32, name: &str, membership: &Membership| {
            let is_excluded = decide(&shared.settings, name, membership).treatment == Treatment::Exclude;
            let has_own = of_own(name, membership) && own.contains(&membership.service(name));
            !is_excluded && !has_own && !jvms.contains(&pid)
        };
        let profile = cut.profile(takes, "processes of the host without a profile of their own")?;
        push(shared, cut, profile_type, None, profile)?;
    }
    Ok(())
}

/// The services with profiles of their own.
fn own_services(shared: &Shared, cut: &Cut, jvms: &[u32]) -> BTreeSet<String> {
    let settings = &shared.settings;
    let is_cpu = cut.measure() == Measure::Cpu;
    let mut services: HashMap<String, (u64, bool)> = HashMap::new();
    for process in cut.processes().into_iter().filter(|process| !jvms.contains(&process.pid)) {
        let decision = decide(settings, process.name, process.membership);
        let is_chosen = match decision.treatment {
            Treatment::Exclude => {
                shared.counters.excluded_nanos.fetch_add(process.nanos, Ordering::Relaxed);
                continue;
            }
            Treatment::Host => continue,
            Treatment::Profile | Treatment::Always if !is_cpu => decision.off_cpu,
            Treatment::Profile => false,
            Treatment::Always => true,
        };
        let (nanos, is_always) = services.entry(process.membership.service(process.name)).or_default();
        *nanos += process.nanos;
        *is_always |= is_chosen;
    }
    let least = (settings.cpu_milli_min as f64 / 1000.0 * cut.duration.as_nanos() as f64) as u64;
    services.retain(|_, (nanos, is_always)| *is_always || (is_cpu && *nanos >= least));
    let mut own: Vec<(u64, String)> = services.into_iter().map(|(name, (nanos, _))| (nanos, name)).collect();
    own.sort_unstable_by(|a, b| b.cmp(a));
    own.into_iter().take(settings.services_max as usize).map(|(_, name)| name).collect()
}

fn push(
    shared: &Shared,
    cut: &Cut,
    profile_type: &str,
    service: Option<String>,
    profile: Option<procprof_profile::Profile>,
) -> Result<()> {
    let Some(profile) = profile else { return Ok(()) };
    let mut header = shared.header(profile_type, service);
    header.start_nanos = nanos_since_1970(cut.started);
    header.duration_nanos = i64::try_from(cut.duration.as_nanos()).unwrap_or(i64::MAX);
    shared.push(&header, &pprof::encode_gzip(&profile)?);
    Ok(())
}
