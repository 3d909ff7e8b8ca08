//! What the parts of the agent share: settings, the spool, and the facts for heartbeats.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use procprof_host::{Cut, Measure, UnnamedCode};
use procprof_server::protocol::{HostFacts, PushedProfile, SERVICES_MAX, ServiceFacts};
use tokio::sync::Notify;

use super::discovery::decide;
use super::dumps::{Dumps, Report};
use super::jvm::Jvms;
use super::settings::Settings;
use super::spool::Spool;
use crate::jvm_names::JvmNames;

/// The state of the agent.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: Settings,
    /// A copy of the kernel's symbols, from before privileges were given up.
    pub(super) kallsyms: Option<PathBuf>,
    spool: Mutex<Spool>,
    facts: Mutex<Facts>,
    /// Told when something is in the spool.
    pub(super) filled: Notify,
    pub(super) stop: AtomicBool,
    /// Cuts of which the profiles are not made yet, and recordings of JVMs that have not ended.
    unfinished: AtomicU64,
    unfinished_jvms: AtomicU64,
    pub(super) counters: Counters,
    pub(super) dumps: Dumps,
    pub(super) jvms: Jvms,
    jvm_names: JvmNames,
    /// By service: what is not read or named of its processes, beyond a limit. Of the last cut.
    unnamed: Mutex<BTreeMap<String, Vec<String>>>,
}

/// What changes while it runs.
#[derive(Debug, Default)]
struct Facts {
    host: HostFacts,
    services: Vec<ServiceFacts>,
    /// The services with profiles of their own in the last cut; `None` before the first one.
    own: Option<BTreeSet<String>>,
}

/// Counters since the start.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Profiles that the server has.
    pub(super) sent: AtomicU64,
    /// Profiles that the server refused for good.
    pub(super) refused: AtomicU64,
    /// Requests that failed.
    pub(super) failed_requests: AtomicU64,
    /// Samples taken.
    pub(super) samples: AtomicU64,
    /// Nanoseconds of CPU time of excluded processes.
    pub(super) excluded_nanos: AtomicU64,
    /// Symbol indexes sent.
    pub(super) symbols: AtomicU64,
    /// CPU time of the agent in the last interval, with the kernel's share, in millionths of a CPU.
    pub(super) cost_micro: AtomicU64,
    /// Nanoseconds of CPU time of captures, which are not part of that.
    pub(super) capture_nanos: AtomicU64,
    /// Nanoseconds of CPU time for making profiles of samples.
    pub(super) profiling_nanos: AtomicU64,
    /// The host's clock less the server's, in milliseconds, as a signed number.
    pub(super) skew_milli: AtomicU64,
    /// Times that it used more memory than it may.
    pub(super) memory_short: AtomicU64,
}

impl Counters {
    /// Makes profiles of samples, and counts the CPU time.
    pub(super) fn profiling<T>(&self, work: impl FnOnce() -> T) -> T {
        let begun = thread_nanos();
        let result = work();
        self.profiling_nanos.fetch_add(thread_nanos().saturating_sub(begun), Ordering::Relaxed);
        result
    }
}

impl Shared {
    pub(super) fn new(settings: Settings, kallsyms: Option<PathBuf>, spool: Spool, host: HostFacts) -> Self {
        Self {
            settings,
            kallsyms,
            spool: Mutex::new(spool),
            facts: Mutex::new(Facts { host, ..Facts::default() }),
            filled: Notify::new(),
            stop: AtomicBool::new(false),
            unfinished: AtomicU64::new(0),
            unfinished_jvms: AtomicU64::new(0),
            counters: Counters::default(),
            dumps: Dumps::default(),
            jvms: Jvms::default(),
            jvm_names: JvmNames::default(),
            unnamed: Mutex::default(),
        }
    }

    pub(super) fn spool(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names what only this host can name of a cut, with the names that JVMs give where rules permit to ask them.
    pub(super) fn name_own(&self, cut: &mut Cut) {
        let generated = cut.generated_code();
        let mut services: HashMap<u32, String> = HashMap::new();
        for process in cut.processes().into_iter().filter(|process| generated.contains(&process.pid)) {
            if decide(&self.settings, process.name, process.membership).jvm_names {
                services.insert(process.pid, process.membership.service(process.name));
            }
        }
        let asked = generated.into_iter().filter_map(|pid| services.remove_entry(&pid));
        // A stop waits for no JVM.
        let asked = asked.filter(|_| !self.is_stopping());
        let maps = self.jvm_names.ask(asked, cut.started + cut.duration);
        cut.name_own(self.kallsyms.as_deref(), &maps);
        self.note_unnamed(cut);
    }

    /// Notes for each service why generated code of its processes has no names.
    fn note_unnamed(&self, cut: &Cut) {
        let mut unnamed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut reasons: HashMap<u32, Vec<String>> = HashMap::new();
        for UnnamedCode { pid, why } in cut.unnamed() {
            reasons.entry(*pid).or_default().push(format!("generated code of process {pid} has no names: {why}"));
        }
        for process in cut.processes() {
            let lines = reasons.remove(&process.pid).unwrap_or_default();
            if !lines.is_empty() {
                unnamed.entry(process.membership.service(process.name)).or_default().extend(lines);
            }
        }
        if cut.measure() == Measure::Cpu {
            *self.unnamed.lock().unwrap_or_else(PoisonError::into_inner) = unnamed;
        }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the facts of the host.
    pub(super) fn update_host(&self, update: impl FnOnce(&mut HostFacts)) {
        update(&mut self.facts().host);
    }

    /// Sets the services that are profiled now.
    pub(super) fn set_services(&self, mut services: Vec<ServiceFacts>) {
        let mut facts = self.facts();
        facts.host.services_left_out = services.len().saturating_sub(SERVICES_MAX) as u64;
        services.truncate(SERVICES_MAX);
        facts.services = services;
    }

    /// Sets the services with profiles of their own.
    pub(super) fn set_own(&self, own: BTreeSet<String>) {
        self.facts().own = Some(own);
    }

    /// The facts of the host and its services now.
    pub(super) fn report(&self) -> (HostFacts, Vec<ServiceFacts>) {
        let (spooled, spool_lost) = {
            let spool = self.spool();
            (spool.waiting(), spool.lost())
        };
        let facts = self.facts();
        let mut host = facts.host.clone();
        (host.spooled, host.spool_lost) = (spooled, spool_lost);
        host.cpu_nanos = cpu_nanos();
        host.resident_bytes = resident_bytes();
        let (used, most) = (host.resident_bytes >> 20, self.settings.memory_bytes_max >> 20);
        if used > most {
            host.missing.push(format!("memory: the agent uses {used} MiB, more than {most} MiB (memory_bytes_max)"));
        }
        let mut services = facts.services.clone();
        for service in &mut services {
            service.in_host = facts.own.as_ref().is_some_and(|own| !own.contains(&service.name));
        }
        drop(facts);
        let reports = self.dumps.reports();
        let unnamed = self.unnamed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for service in &mut services {
            service.hints.extend(reports.get(&service.name).into_iter().flat_map(Report::lines));
            service.hints.extend(self.jvms.limits(&service.name));
            service.hints.extend(self.jvm_names.limits(&service.name));
            service.hints.extend(unnamed.get(&service.name).into_iter().flatten().cloned());
        }
        (host, services)
    }

    /// Whether the agent uses no more memory than it may.
    pub(super) fn fits_in_memory(&self) -> bool {
        resident_bytes() <= self.settings.memory_bytes_max
    }

    /// A header for a profile of this host.
    pub(super) fn header(&self, profile_type: &str, service: Option<String>) -> PushedProfile {
        let facts = self.facts();
        let of_service = |name: &String| facts.services.iter().find(|service| service.name == *name);
        let labels = service.as_ref().and_then(of_service).map(|service| service.labels.clone()).unwrap_or_default();
        PushedProfile {
            host: facts.host.id.clone(),
            service,
            id: uuid::Uuid::now_v7().to_string(),
            profile_type: profile_type.to_owned(),
            labels,
            ..PushedProfile::default()
        }
    }

    /// Gives a profile to the spool, from which it is sent.
    pub(super) fn push(&self, header: &PushedProfile, profile: &[u8]) {
        self.spool().put(header, profile);
        self.filled.notify_one();
    }

    /// A cut is given to the thread that makes profiles.
    pub(super) fn begin_cut(&self) {
        self.unfinished.fetch_add(1, Ordering::AcqRel);
    }

    /// The profiles of a cut are made.
    pub(super) fn end_cut(&self) {
        self.unfinished.fetch_sub(1, Ordering::AcqRel);
    }

    /// A recording of a JVM begins.
    pub(super) fn begin_jvm(&self) {
        self.unfinished_jvms.fetch_add(1, Ordering::AcqRel);
    }

    /// A recording of a JVM has ended, and its profiles are made.
    pub(super) fn end_jvm(&self) {
        self.unfinished_jvms.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether JVMs are recorded.
    pub(super) fn is_recording_jvms(&self) -> bool {
        self.unfinished_jvms.load(Ordering::Acquire) > 0
    }

    /// Cuts of which the profiles are not made yet.
    pub(super) fn unfinished_cuts(&self) -> u64 {
        self.unfinished.load(Ordering::Acquire)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// CPU time of this process.
pub(super) fn cpu_nanos() -> u64 {
    nanos_of(rustix::time::ClockId::ProcessCPUTime)
}

/// CPU time of the calling thread.
pub(super) fn thread_nanos() -> u64 {
    nanos_of(rustix::time::ClockId::ThreadCPUTime)
}

fn nanos_of(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn resident_bytes() -> u64 {
    let process = procprof_process::Process::current();
    process.and_then(|process| process.usage()).map_or(0, |usage| usage.resident_bytes)
}

/// A moment of the host's clock, in nanoseconds since 1970.
pub(super) fn nanos_since_1970(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
