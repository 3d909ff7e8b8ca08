//! The processes of the host and the services that they belong to, read from `/proc`.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use procprof_collect::jvm::FoundJvm;
use procprof_host::Membership;
use procprof_process::{Identity, Interpreter, Pid, Process};
use procprof_server::protocol::{OfferedType, ServiceFacts};

use super::dumps::{DumpFolder, Watched};
use super::jvm::Chosen;
use super::rules::{Engine, Rule, Treatment};
use super::settings::Settings;

/// What shows the methods of a JVM here, in place of a command.
const JVM_HINT: &str = "its rule leaves its compiled methods without names (jvm_names = false); one with engine = \"jvm\" \
                        records it by its own means";

/// Most processes whose dump folders are watched.
const WATCHED_MAX: usize = 1_000;

/// Looks at which is read what a process belongs to: the first ones, and later one of so many.
const LOOKS_WHILE_YOUNG: u32 = 3;
const LOOKS_LATER: u32 = 10;

/// What is known of a process that runs.
#[derive(Clone, Debug)]
struct Known {
    name: String,
    program: String,
    membership: Membership,
    hint: Option<String>,
    cpu: Duration,
    is_seen: bool,
    /// How often it was looked at.
    looks: u32,
}

/// The processes that were seen last.
#[derive(Debug, Default)]
pub(super) struct Discovery {
    known: HashMap<(Pid, u64), Known>,
    scanned: Option<Instant>,
    /// Processes with dump folders.
    pub(super) watched: Vec<Watched>,
    /// JVMs that are recorded by their own means.
    pub(super) jvms: Vec<Chosen>,
}

/// A service of this host.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) facts: ServiceFacts,
    pub(super) treatment: Treatment,
}

/// What is recorded of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision<'a> {
    pub(super) treatment: Treatment,
    /// Whether it is profiled off CPU, too.
    pub(super) off_cpu: bool,
    pub(super) engine: Engine,
    /// Whether a JVM is asked for the names of its compiled methods.
    pub(super) jvm_names: bool,
    pub(super) dumps: &'a [DumpFolder],
}

/// What the rules decide for a process.
pub(super) fn decide<'a>(settings: &'a Settings, process: &str, membership: &Membership) -> Decision<'a> {
    match settings.rules.iter().find(|rule| rule.matches(process, membership)) {
        Some(Rule { treatment, off_cpu, engine, jvm_names, dumps, .. }) => {
            let jvm_names = *jvm_names && *treatment != Treatment::Exclude;
            Decision { treatment: *treatment, off_cpu: *off_cpu, engine: *engine, jvm_names, dumps }
        }
        None => {
            let treatment = if settings.profile_others { Treatment::Profile } else { Treatment::Exclude };
            let jvm_names = settings.profile_others;
            Decision { treatment, off_cpu: false, engine: Engine::Perf, jvm_names, dumps: &[] }
        }
    }
}

impl Discovery {
    /// Reads all processes; CPU times are of the time since the last look. Services with the most CPU time come first.
    pub(super) fn scan(&mut self, settings: &Settings) -> Vec<Service> {
        let elapsed = self.scanned.replace(Instant::now()).map(|last| last.elapsed());
        self.known.values_mut().for_each(|known| known.is_seen = false);
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut services: BTreeMap<String, (Service, Identity, Duration)> = BTreeMap::new();
        let (mut watched, mut jvms) = (Vec::new(), Vec::new());
        for pid in pids {
            let Some((identity, used, known)) = self.look(pid) else { continue };
            let Decision { treatment, off_cpu, engine, jvm_names, dumps } =
                decide(settings, &known.name, &known.membership);
            let name = known.membership.service(&known.name);
            if treatment != Treatment::Exclude && !dumps.is_empty() && watched.len() < WATCHED_MAX {
                watched.push(Watched { identity, service: name.clone(), folders: dumps.to_vec() });
            }
            let is_jvm = engine == Engine::Jvm
                && matches!(treatment, Treatment::Profile | Treatment::Always)
                && FoundJvm::with_pid(identity.pid).is_some();
            if is_jvm {
                jvms.push(Chosen { identity, service: name.clone() });
            }
            let new = || {
                let labels = known.membership.labels().into_iter().map(|(key, value)| (key.to_owned(), value));
                let facts = ServiceFacts { name: name.clone(), labels: labels.collect(), ..ServiceFacts::default() };
                (Service { facts, treatment }, identity, Duration::ZERO)
            };
            let (service, oldest, cpu) = services.entry(name.clone()).or_insert_with(new);
            service.facts.processes += 1;
            *cpu += used;
            if service.facts.program.is_empty() || identity.start_ticks < oldest.start_ticks {
                *oldest = identity;
                service.facts.program.clone_from(&known.program);
            }
            service.facts.process = (oldest.pid.0, oldest.start_ticks);
            let hint = known.hint.clone().filter(|hint| !(is_jvm || jvm_names && hint == JVM_HINT));
            service.facts.hints.extend(hint.filter(|hint| !service.facts.hints.contains(hint)));
            add_types(&mut service.facts.types, off_cpu, is_jvm);
        }
        self.known.retain(|_, known| known.is_seen);
        (self.watched, self.jvms) = (watched, jvms);
        let milli = |cpu: Duration| match elapsed {
            Some(elapsed) => (1000.0 * cpu.as_secs_f64() / elapsed.as_secs_f64().max(0.001)) as u64,
            None => 0,
        };
        let mut services: Vec<Service> = services
            .into_values()
            .map(|(mut service, _, cpu)| {
                service.facts.cpu_milli = milli(cpu);
                service
            })
            .collect();
        services
            .sort_by(|a, b| b.facts.cpu_milli.cmp(&a.facts.cpu_milli).then_with(|| a.facts.name.cmp(&b.facts.name)));
        services
    }

    /// A process with the CPU time that it used since the last look; `None` if it has ended.
    fn look(&mut self, pid: u32) -> Option<(Identity, Duration, &Known)> {
        let process = Process::open(Pid(pid)).ok()?;
        let identity = process.identity();
        let cpu = process.usage().ok()?.cpu_time;
        let known = self.known.entry((identity.pid, identity.start_ticks)).or_insert_with(|| Known {
            name: String::new(),
            program: String::new(),
            membership: Membership::default(),
            hint: None,
            // What it used before it was first seen is not of this interval.
            cpu,
            is_seen: false,
            looks: 0,
        });
        let name = process.status().ok()?.name;
        known.looks = known.looks.wrapping_add(1);
        // One that executes another program has another name; and what is published for OpenTelemetry comes after the
        // start, and may change.
        let is_young = known.looks <= LOOKS_WHILE_YOUNG || known.looks.is_multiple_of(LOOKS_LATER);
        if known.name != name || is_young {
            known.membership = Membership::of_process(&process);
            known.hint = hint(&process);
            let path = process.executable().ok().map(|executable| executable.path);
            let file = path.as_ref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy().into_owned());
            known.program = file.unwrap_or_else(|| name.clone());
            known.name = name;
        }
        let used = cpu.saturating_sub(std::mem::replace(&mut known.cpu, cpu));
        known.is_seen = true;
        Some((identity, used, known))
    }
}

/// What would show the names of the program that an interpreter runs; `PID` stands for its processes.
fn hint(process: &Process) -> Option<String> {
    let interpreter = Interpreter::of_process(process)?;
    let advice = interpreter.advice(Some(process))?;
    match interpreter.name {
        "a JVM" => Some(JVM_HINT.to_owned()),
        name => Some(format!("it is {name}; {advice}")),
    }
}

/// The types of a service: CPU time all the time, time off CPU and what a JVM records by rule, and what can be asked
/// for.
fn add_types(types: &mut Vec<OfferedType>, off_cpu: bool, is_jvm: bool) {
    let of_jvm = [("alloc", true), ("contention", true)].into_iter().filter(|_| is_jvm);
    for (name, continuous) in [("cpu", true), ("off_cpu", off_cpu), ("wall", false)].into_iter().chain(of_jvm) {
        match types.iter_mut().find(|offered| offered.profile_type == name) {
            Some(offered) => offered.continuous |= continuous,
            None => types.push(OfferedType { profile_type: name.to_owned(), continuous }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_with_its_time() {
        let mut discovery = Discovery::default();
        let settings = Settings::defaults();
        discovery.scan(&settings);
        let begun = Instant::now();
        let mut rounds = 0_u64;
        while begun.elapsed() < Duration::from_millis(300) {
            rounds = std::hint::black_box(rounds + 1);
        }
        let services = discovery.scan(&settings);
        let own = Process::current().unwrap().identity();
        let known = &discovery.known[&(own.pid, own.start_ticks)];
        let name = known.membership.service(&known.name);
        let service = services.iter().find(|service| service.facts.name == name).unwrap();
        assert!(service.facts.processes >= 1 && service.treatment == Treatment::Profile, "{service:?}");
        assert_eq!(service.facts.types[0], OfferedType { profile_type: "cpu".to_owned(), continuous: true });
        let before = discovery.known.len();
        discovery.known.insert((Pid(u32::MAX - 1), 1), known.clone());
        discovery.scan(&settings);
        assert!(!discovery.known.contains_key(&(Pid(u32::MAX - 1), 1)), "{before}");
    }
}
