//! The large programs, made once below the target folder, and random addresses of their code.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSymbol, SymbolKind};

const ADDRESSES: usize = 16_000;
/// Units of the C++ program, and instances of its templates in each.
const UNITS: usize = 10;
const INSTANCES: usize = 40;

/// The workspace's target folder: the bench itself is in `release/deps` below it.
fn target() -> PathBuf {
    let bench = std::env::current_exe().unwrap();
    bench.ancestors().nth(3).unwrap().to_owned()
}

fn folder() -> PathBuf {
    let folder = target().join("bench-symbolize");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A C++ program with heavy templates, and whatever of `procprof` has been built already.
pub(crate) fn programs() -> Vec<PathBuf> {
    let built = ["debug/procprof", "release/procprof"].map(|name| target().join(name));
    let built = built.into_iter().filter(|program| program.exists());
    [templates()].into_iter().chain(built).collect()
}

fn templates() -> PathBuf {
    let program = folder().join("templates");
    if !program.exists() {
        let objects: Vec<PathBuf> = (0..UNITS).map(compile_unit).collect();
        run(Command::new("g++").args(objects).arg("-o").arg(&program));
    }
    program
}

fn compile_unit(unit: usize) -> PathBuf {
    let object = folder().join(format!("templates-{unit}.o"));
    if !object.exists() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/symbolize/templates.cpp");
        let mut command = Command::new("g++");
        command
            .args(["-std=c++17", "-O2", "-g", "-c"])
            .arg(format!("-DUNIT={unit}"))
            .arg(format!("-DCOUNT={INSTANCES}"));
        run(command.arg(source).arg("-o").arg(&object));
    }
    object
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
    assert!(status.success(), "{command:?}");
}

/// The same addresses in two orders, as files with one hexadecimal number a line.
pub(crate) fn addresses(program: &Path) -> Vec<(&'static str, PathBuf)> {
    let mut shuffled = random_addresses(&fs::read(program).unwrap());
    let name = program.file_name().unwrap().display();
    let files = ["random", "ascending"].map(|order| (order, folder().join(format!("{name}.{order}"))));
    for (order, file) in &files {
        if *order == "ascending" {
            shuffled.sort_unstable();
        }
        let mut out = std::io::BufWriter::new(fs::File::create(file).unwrap());
        shuffled.iter().for_each(|address| writeln!(out, "{address:#x}").unwrap());
    }
    files.into_iter().collect()
}

/// Each byte of a function is as likely as any other.
fn random_addresses(bytes: &[u8]) -> Vec<u64> {
    let object = object::File::parse(bytes).unwrap();
    let functions = object.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    let mut ends = Vec::new();
    let mut total = 0;
    for function in functions {
        total += function.size();
        ends.push((total, function.address() + function.size()));
    }
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let draw = |_| {
        let place = next() % total;
        let (end, address_end) = ends[ends.partition_point(|(end, _)| *end <= place)];
        address_end - (end - place)
    };
    (0..ADDRESSES).map(draw).collect()
}
