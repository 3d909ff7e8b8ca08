//! Programs that were run to get profiles of them: kept ones, and those made anew, each once for all tests.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use super::kept::Kept;
use super::peer::{Answer, Answers};
use super::{sources, stubs};
use crate::harness::{PATIENCE, curl, procprof, shared_folder, text};

/// A program and profiles of one run of it.
pub(crate) struct Program {
    /// Its name in `testdata/jeprof`.
    pub(crate) name: &'static str,
    pub(crate) folder: PathBuf,
    binary: String,
    profiles: Vec<String>,
    /// The peers' answers about it.
    pub(crate) answers: Answers,
}

impl Program {
    fn new(name: &'static str, folder: PathBuf, profiles: &[&str], answers: Answers) -> Self {
        // jeprof finds the program in the memory map by its path without links.
        let path = |file: &str| folder.join(file).to_str().unwrap().to_owned();
        let (binary, profiles) = (path("program"), profiles.iter().map(|file| path(file)).collect());
        Program { name, folder, binary, profiles, answers }
    }

    pub(crate) fn binary(&self) -> &str {
        &self.binary
    }

    /// All profiles, in the order in which they were written.
    pub(crate) fn profiles<const COUNT: usize>(&self) -> [&str; COUNT] {
        assert_eq!(self.profiles.len(), COUNT, "{}", self.name);
        std::array::from_fn(|number| self.profiles[number].as_str())
    }

    /// Two dumps of the heap: the earlier and the later one.
    pub(crate) fn heaps(&self) -> [&str; 2] {
        self.profiles()
    }
}

/// A program of `testdata/jeprof`.
struct Recipe {
    name: &'static str,
    source: &'static str,
    compiler: &'static str,
    flags: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    arguments: &'static [&'static str],
    profiles: &'static [&'static str],
}

const JEMALLOC: (&str, &str) = ("MALLOC_CONF", "prof:true,prof_accum:true,lg_prof_sample:10");
const PRELOAD: (&str, &str) = ("LD_PRELOAD", "libjemalloc.so.2");
const HEAPS: &[&str] = &["1.heap", "2.heap"];

static RECIPES: [Recipe; 5] = [
    Recipe {
        name: "c",
        source: "heap.c",
        compiler: "cc",
        flags: &["-O2", "-ljemalloc"],
        environment: &[JEMALLOC],
        arguments: HEAPS,
        profiles: HEAPS,
    },
    Recipe {
        name: "cpp",
        source: "heap.cpp",
        compiler: "c++",
        flags: &["-O2", "-std=c++17"],
        environment: &[JEMALLOC, PRELOAD],
        arguments: HEAPS,
        profiles: HEAPS,
    },
    Recipe {
        name: "rust",
        source: "heap.rs",
        compiler: "rustc",
        flags: &["-O", "--edition=2024"],
        environment: &[JEMALLOC, PRELOAD],
        arguments: HEAPS,
        profiles: HEAPS,
    },
    Recipe {
        name: "cpu",
        source: "cpu.c",
        compiler: "cc",
        flags: &["-O2", "-lprofiler"],
        environment: &[("CPUPROFILE_FREQUENCY", "400")],
        arguments: &["out"],
        profiles: &["out"],
    },
    Recipe {
        name: "tcmalloc",
        source: "tcmalloc.cpp",
        compiler: "c++",
        flags: &["-O2", "-ltcmalloc"],
        environment: &[("TCMALLOC_SAMPLE_PARAMETER", "4096")],
        arguments: &["out"],
        profiles: &["out.0001.heap", "out.0002.heap", "out.growth"],
    },
];

fn recipe(name: &str) -> &'static Recipe {
    RECIPES.iter().find(|recipe| recipe.name == name).unwrap_or_else(|| panic!("no program {name}"))
}

/// A program as it is kept, with the answers that are kept about it.
pub(crate) fn kept(name: &str) -> &'static Program {
    static PROGRAMS: [LazyLock<Program>; RECIPES.len()] = [
        LazyLock::new(|| unpacked(&RECIPES[0])),
        LazyLock::new(|| unpacked(&RECIPES[1])),
        LazyLock::new(|| unpacked(&RECIPES[2])),
        LazyLock::new(|| unpacked(&RECIPES[3])),
        LazyLock::new(|| unpacked(&RECIPES[4])),
    ];
    &PROGRAMS[names().position(|known| known == name).unwrap_or_else(|| panic!("no program {name}"))]
}

/// The names of all programs.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    RECIPES.iter().map(|recipe| recipe.name)
}

fn unpacked(recipe: &'static Recipe) -> Program {
    let folder = shared_folder().join("kept").join(recipe.name);
    std::fs::create_dir_all(&folder).unwrap();
    let answers = unpack(recipe.name, &folder);
    Program::new(recipe.name, folder, recipe.profiles, Answers::Kept(answers))
}

/// Writes the files of a kept program into a folder; returns the answers about it.
pub(crate) fn unpack(name: &str, folder: &Path) -> BTreeMap<String, Answer> {
    let (recipe, mut kept) = (recipe(name), Kept::read(name));
    let source = std::fs::read(sources().join(recipe.source)).unwrap();
    assert!(
        kept.files.remove(recipe.source).as_ref() == Some(&source),
        "{} has changed since {name}.zst was made; testdata/jeprof/README.md says how to make it anew",
        recipe.source,
    );
    kept.unpack(folder);
    kept.answers
}

/// A program that is made anew, with the answers of the peers on this machine.
pub(crate) fn made(name: &str) -> Program {
    let (recipe, folder) = (recipe(name), shared_folder().join("made").join(name));
    std::fs::create_dir_all(&folder).unwrap();
    compile(recipe.compiler, recipe.source, recipe.flags, &folder.join("program"));
    run(&mut command(recipe, &folder, &[]));
    Program::new(recipe.name, folder, recipe.profiles, Answers::Asked(Mutex::default()))
}

/// The same as it can be kept: without paths and addresses of this machine. Writes the file of `testdata/jeprof` after
/// `check`, which asks for all answers, if `UPDATE_EXPECT` is set.
pub(crate) fn made_to_keep(name: &str, check: impl FnOnce(&Program)) {
    let (recipe, folder) = (recipe(name), shared_folder().join("to-keep").join(name));
    std::fs::create_dir_all(&folder).unwrap();
    let place = sources().display().to_string();
    let own: &[String] = match recipe.compiler {
        "rustc" => &["-Cprefer-dynamic".to_owned(), format!("--remap-path-prefix={place}=.")],
        _ => &[format!("-ffile-prefix-map={place}=.")],
    };
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    compile(recipe.compiler, recipe.source, &[recipe.flags, &own].concat(), &folder.join("program"));
    let mut command = command(recipe, &folder, &["setarch", "-R"]);
    if recipe.compiler == "rustc" {
        let output = Command::new("rustc").args(["--print", "target-libdir"]).current_dir(sources()).output().unwrap();
        command.env("LD_LIBRARY_PATH", String::from_utf8(output.stdout).unwrap().trim());
    }
    run(&mut command);
    let paths: Vec<PathBuf> = recipe.profiles.iter().map(|profile| folder.join(profile)).collect();
    let libraries = stubs::replace(&folder, &paths);
    let program = Program::new(recipe.name, folder, recipe.profiles, Answers::Asked(Mutex::default()));
    check(&program);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let profiles = recipe.profiles.iter().map(|profile| (*profile).to_owned());
        let mut kept = Kept { answers: program.answers.to_keep(), ..Kept::default() };
        kept.pack(&program.folder, profiles.chain(libraries).chain(["program".to_owned()]));
        kept.files.insert(recipe.source.to_owned(), std::fs::read(sources().join(recipe.source)).unwrap());
        kept.write(name);
    }
}

/// Runs a program, by another one that `starter` names.
fn command(recipe: &Recipe, folder: &Path, starter: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(starter).arg(folder.join("program"));
    command.args(recipe.arguments.iter().map(|file| folder.join(file)));
    command.envs(recipe.environment.iter().copied());
    command
}

/// Compiles a source of `testdata/jeprof`, with debug information.
pub(crate) fn compile(compiler: &str, source: &str, flags: &[&str], binary: &Path) {
    // Libraries are named behind the source that needs them.
    let source = sources().join(source);
    run(Command::new(compiler).arg("-g").arg("-o").arg(binary).arg(source).args(flags).current_dir(sources()));
}

pub(crate) fn run(command: &mut Command) {
    let output =
        command.output().unwrap_or_else(|error| panic!("this test needs {}: {error}", command.get_program().display()));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
}

/// The command itself, which is a large Rust program with tikv-jemallocator, as the demo runs it, but with
/// all allocations counted, and more of them sampled.
pub(crate) fn demo_node() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(run_demo_node);
    &PROGRAM
}

fn run_demo_node() -> Program {
    let folder = shared_folder().join("demo");
    std::fs::create_dir(&folder).unwrap();
    let mut command = procprof();
    command.args(["demo-node", "--role", "BE"]).env("_RJEM_MALLOC_CONF", "prof_accum:true,lg_prof_sample:14");
    let mut node = Node(command.stdout(Stdio::piped()).spawn().expect("procprof starts"));
    let mut line = String::new();
    BufReader::new(node.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = format!(
        "http://{}/pprof/heap",
        line.trim().strip_prefix("listening ").unwrap_or_else(|| panic!("it said {line:?}"))
    );
    let heaps = HEAPS.iter().zip([1, 20]);
    let mut allocated = 0;
    for (heap, least) in heaps {
        allocated += least;
        let dump = wait_for_allocations(&url, allocated);
        allocated = allocations(&dump);
        std::fs::write(folder.join(heap), dump).unwrap();
    }
    let mut program = Program::new("demo", folder, HEAPS, Answers::Asked(Mutex::default()));
    program.binary = env!("CARGO_BIN_EXE_procprof").to_owned();
    program
}

/// A dump of the node's heap with so many sampled allocations.
fn wait_for_allocations(url: &str, least: u64) -> String {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let (status, dump) = curl(&[url]);
        assert_eq!(status, 200, "{url}");
        let dump = String::from_utf8(dump).unwrap();
        assert!(dump.starts_with("heap_v2/"), "{url}");
        if allocations(&dump) >= least {
            return dump;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the node allocates nothing");
}

/// Allocations in the first total of a dump, `t*: LIVE: BYTES [ALL: BYTES]`.
fn allocations(dump: &str) -> u64 {
    let total = dump.lines().find_map(|line| line.trim().strip_prefix("t*: "));
    let all = total.and_then(|total| total.split_once('[')?.1.split_once(':')).unwrap_or_else(|| panic!("{dump}"));
    all.0.parse().unwrap()
}

/// A process that is killed when dropped.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
