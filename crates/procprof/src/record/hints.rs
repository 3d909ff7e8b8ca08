//! Programs in interpreters and virtual machines that were recorded without the names of their functions, and how to
//! get these.

use std::collections::BTreeMap;

use procprof_profile::{Label, LabelValue, Location, Profile, Sample};

/// Share of a process's samples without names from which it is worth a line.
const SHARE_MIN: f64 = 0.05;
/// Most lines.
const LINES_MAX: usize = 5;

/// A program that executes others.
struct Interpreter {
    name: &'static str,
    /// The name of its processes, unless they change it.
    process: &'static str,
    /// How the names of the files with its code begin.
    files: &'static [&'static str],
    /// How the names begin that the functions of its programs have, where these are known. `None` if they are code of
    /// their own, generated at run time, which has no name otherwise.
    functions: Option<&'static str>,
    /// What gives its functions names.
    help: fn(pid: &str) -> String,
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        name: "Python",
        process: "python3",
        files: &["python3", "libpython3"],
        functions: Some("py::"),
        help: |_| "start it with python3 -X perf (3.12 and later)".to_owned(),
    },
    Interpreter {
        name: "Node.js",
        process: "node",
        files: &["node", "libnode.so"],
        functions: None,
        help: |_| "start it with node --perf-basic-prof".to_owned(),
    },
    Interpreter {
        name: "a JVM",
        process: "java",
        files: &["libjvm.so"],
        functions: None,
        help: |pid| format!("record it with procprof collect --pid {pid}"),
    },
];

/// Samples of one process in one interpreter.
#[derive(Default)]
struct Counts {
    all: i64,
    unnamed: i64,
}

/// A line for each process whose functions have no names and could have them, the one with most samples first.
pub(super) fn hints(profile: &Profile) -> Vec<String> {
    let mut counts: BTreeMap<(String, usize), Counts> = BTreeMap::new();
    for sample in profile.samples() {
        let (Some(pid), process) = (label(profile, &sample, "pid"), label(profile, &sample, "process")) else {
            continue;
        };
        // The stacks of generated code without frame pointers do not reach the files.
        let is_in = |interpreter: &Interpreter| {
            process.as_deref() == Some(interpreter.process)
                || sample.stack.iter().any(|id| interpreter.has(profile, profile.location(*id)))
        };
        for (place, _) in INTERPRETERS.iter().enumerate().filter(|(_, interpreter)| is_in(interpreter)) {
            let count = counts.entry((pid.clone(), place)).or_default();
            let value = sample.values.first().copied().unwrap_or(0);
            count.all += value;
            count.unnamed += if INTERPRETERS[place].names(profile, &sample) { 0 } else { value };
        }
    }
    let mut worth: Vec<_> =
        counts.into_iter().filter(|(_, count)| count.unnamed as f64 > SHARE_MIN * count.all as f64).collect();
    worth.sort_by_key(|(_, count)| std::cmp::Reverse(count.unnamed));
    let line = |((pid, place), count): ((String, usize), Counts)| {
        let Interpreter { name, help, .. } = &INTERPRETERS[place];
        let share = 100.0 * count.unnamed as f64 / count.all as f64;
        format!(
            "process {pid} is {name}, and {share:.0} % of its samples are without its functions' names; {}",
            help(&pid)
        )
    };
    worth.into_iter().take(LINES_MAX).map(line).collect()
}

impl Interpreter {
    /// Whether a location is in its own code.
    fn has(&self, profile: &Profile, location: &Location) -> bool {
        let path = location.mapping.map_or("", |id| profile.string(profile.mapping(id).filename));
        let file = path.rsplit('/').next().unwrap_or(path);
        path.starts_with('/') && self.files.iter().any(|name| is_version_of(file, name))
    }

    /// Whether a sample in it has the names of its program's functions.
    fn names(&self, profile: &Profile, sample: &Sample<'_>) -> bool {
        let mut names = sample.stack.iter().flat_map(|id| profile.lines(*id));
        match self.functions {
            Some(prefix) => names.any(|line| profile.string(profile.function(line.function).name).starts_with(prefix)),
            None => !sample.stack.iter().any(|id| is_unnamed_generated_code(profile, *id)),
        }
    }
}

/// Whether a file's name is this one, but for a version behind it.
fn is_version_of(file: &str, name: &str) -> bool {
    let is_version =
        |rest: &str| rest.is_empty() || rest.starts_with(|first: char| first == '.' || first.is_ascii_digit());
    file.strip_prefix(name).is_some_and(is_version)
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

    /// Samples of process 7: the path of a file on the stack, a function with a name, and how many more have only
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
        let labels = [builder.number_label("pid", 7, ""), builder.text_label("process", process)];
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
                    "process 7 is Python, and 50 % of its samples are without its functions' names; start it with python3 -X perf (3.12 and later)",
                ),
            ),
            ("/usr/lib/libpython3.11.so.1.0", "py::main:/app.py", Some("python3 -X perf")),
            ("/usr/bin/node", "JS:*main", Some("node --perf-basic-prof")),
            ("/opt/jdk/lib/server/libjvm.so", "main", Some("procprof collect --pid 7")),
            ("/memory/java", "main", Some("procprof collect --pid 7")),
            ("/usr/bin/node_exporter-1", "main", None),
            ("/usr/bin/nodejs-app", "main", None),
            ("/usr/bin/burn", "main", None),
        ] {
            let lines = hints(&profile(path, function, 10, 10));
            assert_eq!(lines.len(), usize::from(expected.is_some()), "{path}: {lines:?}");
            assert!(expected.is_none_or(|expected| lines[0].contains(expected)), "{path}: {lines:?}");
            assert!(hints(&profile(path, function, 99, 1)).is_empty(), "{path}");
        }
    }
}
