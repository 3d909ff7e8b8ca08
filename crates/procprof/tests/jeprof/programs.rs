//! Programs that were run to get heap dumps of them, each once for all tests.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use crate::harness::{curl, procprof, text};
use crate::jeprof::kept;

/// A program and two heap dumps of one run of it.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    binary: String,
    heaps: [String; 2],
}

impl Program {
    pub(crate) fn binary(&self) -> &str {
        &self.binary
    }

    /// The earlier and the later one.
    pub(crate) fn heaps(&self) -> [&str; 2] {
        [&self.heaps[0], &self.heaps[1]]
    }
}

/// A C program linked with jemalloc.
pub(crate) fn c_program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| compiled("c", "cc", "heap.c", &["-O2", "-ljemalloc"], None));
    &PROGRAM
}

/// A C++ program that has jemalloc preloaded.
pub(crate) fn cpp_program() -> &'static Program {
    static PROGRAM: LazyLock<Program> =
        LazyLock::new(|| compiled("cpp", "c++", "heap.cpp", &["-O2", "-std=c++17"], Some("libjemalloc.so.2")));
    &PROGRAM
}

/// A Rust program that has jemalloc preloaded.
pub(crate) fn rust_program() -> &'static Program {
    static PROGRAM: LazyLock<Program> =
        LazyLock::new(|| compiled("rust", "rustc", "heap.rs", &["-O", "--edition=2024"], Some("libjemalloc.so.2")));
    &PROGRAM
}

/// Compiles a source of `testdata/jeprof`, with debug information.
pub(crate) fn compile(compiler: &str, source: &str, flags: &[&str], binary: &Path) {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/jeprof").join(source).canonicalize().unwrap();
    run(Command::new(compiler).arg("-g").arg("-o").arg(binary).arg(source).args(flags));
}

fn compiled(name: &'static str, compiler: &str, source: &str, flags: &[&str], preload: Option<&str>) -> Program {
    let folder = kept::folder().join(name);
    std::fs::create_dir(&folder).unwrap();
    // jeprof finds the program in the memory map by its path without links.
    let path = |file: &str| folder.join(file).to_str().unwrap().to_owned();
    let (binary, heaps) = (path("program"), [path("1.heap"), path("2.heap")]);
    compile(compiler, source, flags, Path::new(&binary));
    let mut command = Command::new(&binary);
    command.args(&heaps).env("MALLOC_CONF", "prof:true,prof_accum:true,lg_prof_sample:10");
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    run(&mut command);
    Program { name, binary, heaps }
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
    let folder = kept::folder().join("demo");
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
    let heaps = ["1.heap", "2.heap"].map(|file| folder.join(file).to_str().unwrap().to_owned());
    for heap in &heaps {
        // It allocates all the time, but not at once.
        std::thread::sleep(Duration::from_secs(4));
        let (status, dump) = curl(&[&url]);
        assert_eq!(status, 200, "{url}");
        assert!(dump.starts_with(b"heap_v2/"), "{url}");
        std::fs::write(heap, dump).unwrap();
    }
    Program { name: "demo", binary: env!("CARGO_BIN_EXE_procprof").to_owned(), heaps }
}

/// A process that is killed when dropped.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
