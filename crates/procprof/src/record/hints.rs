//! Programs in interpreters and virtual machines that were recorded without the names of their functions, and how to
//! get these.

use std::collections::BTreeMap;

use procprof_process::interpreter::{Functions, INTERPRETERS};
use procprof_process::{Interpreter, Pid, Process};
use procprof_profile::{Label, LabelValue, Location, Profile, Sample};

/// Share of a process's samples without names from which it is worth a line.
const SHARE_MIN: f64 = 0.05;
/// Most lines.
const LINES_MAX: usize = 5;

/// Samples of one process in one interpreter.
#[derive(Default)]
struct Counts {
    all: i64,
    unnamed: i64,
}

/// A line for each process whose functions have no names and could have them, the one with most samples first.
pub(super) fn hints(profile: &Profile) -> Vec<String> {
    let mut live: BTreeMap<String, Option<&'static Interpreter>> = BTreeMap::new();
    let mut counts: BTreeMap<(String, &'static str), Counts> = BTreeMap::new();
    for sample in profile.samples() {
        let (Some(pid), process) = (label(profile, &sample, "pid"), label(profile, &sample, "process")) else {
            continue;
        };
        let by_name = process.as_deref().and_then(Interpreter::of_file).map(|known| known.name);
        let live = live.entry(pid.clone()).or_insert_with(|| opened(&pid).as_ref().and_then(Interpreter::of_process));
        // The stacks of generated code without frame pointers do not reach the files.
        let is_in = |interpreter: &Interpreter| {
            [by_name, live.map(|known| known.name)].contains(&Some(interpreter.name))
                || sample.stack.iter().any(|id| has(interpreter, profile, profile.location(*id)))
        };
        for interpreter in INTERPRETERS.iter().filter(|interpreter| is_in(interpreter)) {
            let count = counts.entry((pid.clone(), interpreter.name)).or_default();
            let value = sample.values.first().copied().unwrap_or(0);
            count.all += value;
            count.unnamed += if names(interpreter, profile, &sample) { 0 } else { value };
        }
    }
    let mut worth: Vec<_> =
        counts.into_iter().filter(|(_, count)| count.unnamed as f64 > SHARE_MIN * count.all as f64).collect();
    worth.sort_by_key(|(_, count)| std::cmp::Reverse(count.unnamed));
    let line = |((pid, name), count): ((String, &str), Counts)| {
        let interpreter = INTERPRETERS.iter().find(|interpreter| interpreter.name == name)?;
        let share = 100.0 * count.unnamed as f64 / count.all as f64;
        // Pids are reused, and a process that has ended has no switches.
        let process =
            opened(&pid).filter(|process| Interpreter::of_process(process).is_some_and(|found| found.name == name));
        let advice = interpreter.advice(process.as_ref())?.replace("PID", &pid);
        Some(format!(
            "process {pid} is {name}, and {share:.0} % of its samples are without its functions' names; {advice}"
        ))
    };
    worth.into_iter().filter_map(line).take(LINES_MAX).collect()
}

fn opened(pid: &str) -> Option<Process> {
    Process::open(Pid(pid.parse().ok()?)).ok()
}

/// Whether a location is in an interpreter's own code.
fn has(interpreter: &Interpreter, profile: &Profile, location: &Location) -> bool {
    let path = location.mapping.map_or("", |id| profile.string(profile.mapping(id).filename));
    path.starts_with('/') && interpreter.has_file(path.rsplit('/').next().unwrap_or(path))
}

/// Whether a sample in an interpreter has the names of its program's functions.
fn names(interpreter: &Interpreter, profile: &Profile, sample: &Sample<'_>) -> bool {
    let mut names = sample.stack.iter().flat_map(|id| profile.lines(*id));
    match interpreter.functions {
        Functions::Prefixed(prefix) => {
            names.any(|line| profile.string(profile.function(line.function).name).starts_with(prefix))
        }
        Functions::Generated => !sample.stack.iter().any(|id| is_unnamed_generated_code(profile, *id)),
        Functions::Absent => false,
    }
}

fn is_unnamed_generated_code(profile: &Profile, id: procprof_profile::LocationId) -> bool {
    let mapping = profile.location(id).mapping;
    let is_generated = mapping.is_none_or(|id| profile.string(profile.mapping(id).filename) == "[anon]");
    is_generated && profile.lines(id).is_empty()
}

/// The text of a sample's label.
fn label(profile: &Profile, sample: &Sample<'_>, key: &str) -> Option<String> {
    let is_it = |label: &&Label| profile.string(label.key) == key;
    Some(match sample.labels.iter().find(is_it)?.value {
        LabelValue::Number(number, _) => number.to_string(),
        LabelValue::Text(text) => profile.string(text).to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use procprof_profile::{Addr, Mapping, ProfileBuilder, ProfileType};

    use super::*;

    /// A pid above all that there can be.
    const NOBODY: i64 = 4_194_305;

    /// Samples of that process: the path of a file on the stack, a function with a name, and how many more have only
    /// generated code beside the file.
    fn profile(path: &str, function: &str, named: i64, unnamed: i64) -> Profile {
        let mut builder = ProfileBuilder::new(ProfileType::Cpu.sample_types());
        let mut mapping = |path: &str, start: u64| {
            let filename = builder.intern(path);
            builder.mapping(Mapping { start: Addr(start), limit: Addr(start + 99), filename, ..Mapping::default() })
        };
        let (file, generated) = (mapping(path, 1000), mapping("[anon]", 2000));
        let in_file = builder.address(Some(file), Addr(1001));
        let in_generated = builder.address(Some(generated), Addr(2001));
        let in_function = builder.frame(function);
        let process = path.rsplit('/').next().unwrap();
        let labels = [builder.number_label("pid", NOBODY, ""), builder.text_label("process", process)];
        builder.sample(&[in_function, in_file], &[named, named], &labels);
        builder.sample(&[in_generated, in_file], &[unnamed, unnamed], &labels);
        builder.finish().unwrap()
    }

    #[test]
    fn programs_without_names_get_the_switch_that_gives_them() {
        for (path, function, expected) in [
            (
                "/usr/bin/python3.12",
                "py::main:/app.py",
                Some(
                    "process 4194305 is Python, and 50 % of its samples are without its functions' names; start it with python3 -X perf (3.12 and later), which names its functions",
                ),
            ),
            ("/usr/lib/libpython3.11.so.1.0", "py::main:/app.py", Some("python3 -X perf")),
            ("/usr/bin/node", "JS:*main", Some("node --perf-basic-prof")),
            ("/opt/jdk/lib/server/libjvm.so", "main", Some("procprof collect --pid 4194305")),
            ("/memory/java", "main", Some("procprof collect --pid 4194305")),
            ("/usr/bin/node_exporter-1", "main", None),
            ("/usr/bin/nodejs-app", "main", None),
            ("/usr/bin/burn", "main", None),
        ] {
            let lines = hints(&profile(path, function, 10, 10));
            assert_eq!(lines.len(), usize::from(expected.is_some()), "{path}: {lines:?}");
            assert!(expected.is_none_or(|expected| lines[0].contains(expected)), "{path}: {lines:?}");
            assert!(hints(&profile(path, function, 99, 1)).is_empty(), "{path}");
        }
        for (path, advice) in [
            ("/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2", "rbspy record --pid 4194305"),
            ("/usr/sbin/php-fpm8.2", "phpspy --pid=4194305"),
        ] {
            let lines = hints(&profile(path, "main", 99, 1));
            assert!(lines.len() == 1 && lines[0].contains(advice), "{path}: {lines:?}");
        }
    }
}
