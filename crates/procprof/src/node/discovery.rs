//! The processes of the host and the services that they belong to, read from `/proc`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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

/// Most lines of a service about texts that are not read whole.
const OVERSIZED_MAX: usize = 16;

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
    /// The texts of it that are not read whole, beyond a limit.
    oversized: Vec<String>,
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
    /// The hints among its own that tell of texts that are not read whole.
    pub(super) oversized: Vec<String>,
}

/// A service while its processes are added.
#[derive(Debug)]
struct ServiceBuilder {
    facts: ServiceFacts,
    treatment: Treatment,
    oversized: Vec<String>,
    oldest: Identity,
    cpu: Duration,
    /// The values that its processes have of each label.
    labels: BTreeMap<String, BTreeSet<String>>,
}

impl ServiceBuilder {
    fn new(name: String, oldest: Identity) -> Self {
        let facts = ServiceFacts { name, ..ServiceFacts::default() };
        let (treatment, oversized) = (Treatment::Exclude, Vec::new());
        Self { facts, treatment, oversized, oldest, cpu: Duration::ZERO, labels: BTreeMap::new() }
    }

    /// The service, with the labels on which its processes agree.
    fn finish(self) -> Service {
        let only = |mut values: BTreeSet<String>| values.pop_first().filter(|_| values.is_empty());
        let labels = self.labels.into_iter().filter_map(|(key, values)| Some((key, only(values)?)));
        let mut facts = ServiceFacts { labels: labels.collect(), ..self.facts };
        facts.hints.extend(self.oversized.iter().cloned());
        Service { facts, treatment: self.treatment, oversized: self.oversized }
    }
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
        let mut services: BTreeMap<String, ServiceBuilder> = BTreeMap::new();
        let (mut watched, mut jvms) = (Vec::new(), Vec::new());
        for pid in pids {
            let Some((identity, used, known)) = self.look(pid) else { continue };
            let Decision { treatment, off_cpu, engine, jvm_names, dumps } =
                decide(settings, &known.name, &known.membership);
            let name = known.membership.service(&known.name);
            if treatment != Treatment::Exclude && !dumps.is_empty() && watched.len() < WATCHED_MAX {
                watched.push(Watched { identity, service: name.clone(), folders: dumps.to_vec() });
            }
            let labels: BTreeMap<String, String> =
                known.membership.labels().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            let is_jvm = engine == Engine::Jvm
                && matches!(treatment, Treatment::Profile | Treatment::Always)
                && FoundJvm::with_pid(identity.pid).is_some();
            if is_jvm {
                // One that has ended meanwhile is nobody's.
                let user = Process::open(identity.pid).and_then(|process| process.status()).map_or(0, |own| own.uid);
                jvms.push(Chosen { identity, service: name.clone(), user, labels: labels.clone() });
            }
            let builder = services.entry(name.clone()).or_insert_with(|| ServiceBuilder::new(name.clone(), identity));
            match (builder.treatment, treatment) {
                // What is excluded is no part of a service of which something is profiled.
                (Treatment::Host | Treatment::Profile | Treatment::Always, Treatment::Exclude) => continue,
                (Treatment::Exclude, own) if own != Treatment::Exclude => {
                    *builder = ServiceBuilder::new(name, identity)
                }
                _ => {}
            }
            builder.treatment = builder.treatment.max(treatment);
            builder.cpu += used;
            for (key, value) in labels {
                builder.labels.entry(key).or_default().insert(value);
            }
            let ServiceBuilder { facts, oldest, oversized, .. } = builder;
            facts.processes += 1;
            if facts.program.is_empty() || identity.start_ticks < oldest.start_ticks {
                *oldest = identity;
                facts.program.clone_from(&known.program);
            }
            facts.process = (oldest.pid.0, oldest.start_ticks);
            let hint = known.hint.clone().filter(|hint| !(is_jvm || jvm_names && hint == JVM_HINT));
            facts.hints.extend(hint.filter(|hint| !facts.hints.contains(hint)));
            let room = OVERSIZED_MAX.saturating_sub(oversized.len());
            oversized.extend(known.oversized.iter().take(room).cloned());
            add_types(&mut facts.types, off_cpu, is_jvm);
        }
        self.known.retain(|_, known| known.is_seen);
        (self.watched, self.jvms) = (watched, jvms);
        let milli = |cpu: Duration| match elapsed {
            Some(elapsed) => (1000.0 * cpu.as_secs_f64() / elapsed.as_secs_f64().max(0.001)) as u64,
            None => 0,
        };
        let mut services: Vec<Service> = services
            .into_values()
            .map(|builder| {
                let cpu_milli = milli(builder.cpu);
                let mut service = builder.finish();
                service.facts.cpu_milli = cpu_milli;
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
            oversized: Vec::new(),
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
            let oversized = process.oversized_texts().into_iter();
            known.oversized = oversized.map(|text| format!("process {pid}: {text}")).collect();
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
    use super::super::rules::Pattern;
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
    #[test]
    fn a_service_has_the_labels_of_all_its_processes_that_are_profiled() {
        let named = |name: &str| {
            let mut command = std::process::Command::new("sleep");
            command.arg("3600").env("OTEL_RESOURCE_ATTRIBUTES", format!("service.name={name},zone=a"));
            Sleeper(command.spawn().unwrap())
        };
        let (name, others) = (format!("one-{}", std::process::id()), format!("two-{}", std::process::id()));
        let sleepers = [named(&others), named(&name), named(&name), named(&others)];
        let rules = |names: &[&String]| {
            let mut settings = Settings { profile_others: false, ..Settings::defaults() };
            let rule = |name: &&String| Rule {
                labels: vec![("service.name".to_owned(), Pattern::new(name))],
                ..Rule::default()
            };
            settings.rules = names.iter().map(rule).collect();
            settings
        };
        let mut discovery = Discovery::default();
        let pid = sleepers[0].0.id();
        let mut scan = |settings: &Settings| {
            let services = discovery.scan(settings);
            let known = discovery.known.iter().find(|((own, _), _)| own.0 == pid).unwrap().1;
            let service = known.membership.service(&known.name);
            let facts = services.into_iter().find(|own| own.facts.name == service).unwrap().facts;
            (facts.processes, facts.labels.get("service.name").cloned(), facts.labels.get("zone").cloned())
        };
        let zone = Some("a".to_owned());
        // Until all have executed their program, they have this one's environment.
        let begun = Instant::now();
        while scan(&rules(&[&name])) != (2, Some(name.clone()), zone.clone()) {
            assert!(begun.elapsed() < Duration::from_secs(180), "{:?}", scan(&rules(&[&name])));
        }
        assert_eq!(scan(&rules(&[&name, &others])), (4, None, zone));
    }

    /// A process that is ended when it is dropped.
    struct Sleeper(std::process::Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
