//! One command line given to both, and what they print compared.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::harness::{procprof, text};
use crate::jeprof::kept;
use crate::jeprof::programs::Program;

/// jeprof breaks ties in the order of a hash, which this number decides. Where edges tie at a limit,
/// ours must be what one of these gives.
const HASH_SEEDS: u32 = 100;

/// A difference that is known, from `testdata/jeprof/exceptions.txt`.
pub(crate) struct Exception {
    program: String,
    output: String,
    pub(crate) cause: String,
}

/// The list of known differences.
pub(crate) fn exceptions() -> Vec<Exception> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/jeprof/exceptions.txt");
    let list = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let mut fields = line.splitn(3, " | ").map(|field| field.trim().to_owned());
        let mut field = || fields.next().unwrap_or_else(|| panic!("three fields: {line}"));
        Exception { program: field(), output: field(), cause: field() }
    };
    rows.map(row).collect()
}

/// The output of jeprof, with its hashes in an order of their own; run once for the same arguments.
fn jeprof(arguments: &[&str], seed: u32) -> Arc<Output> {
    type Outputs = Mutex<HashMap<(Vec<String>, u32), Arc<Output>>>;
    static OUTPUTS: LazyLock<Outputs> = LazyLock::new(Mutex::default);
    let key = (arguments.iter().map(|argument| (*argument).to_owned()).collect(), seed);
    if let Some(output) = OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Arc::clone(output);
    }
    let mut command = Command::new("/usr/bin/jeprof");
    command.env("PERL_HASH_SEED", seed.to_string()).env("LC_ALL", "C").env("JEPROF_TOOLS", kept::tools());
    let output = Arc::new(command.args(arguments).output().expect("this test needs jeprof (libjemalloc-dev)"));
    OUTPUTS.lock().unwrap_or_else(PoisonError::into_inner).insert(key, Arc::clone(&output));
    output
}

/// Our output; the index on disk is there from the second time on.
fn ours(arguments: &[&str]) -> Output {
    procprof().arg("jeprof").args(arguments).output().expect("procprof runs")
}

/// Fails unless both print the same: `--text` in the same order, all else as sets of lines.
pub(crate) fn check(program: &Program, arguments: &[&str]) {
    check_named(program.name, arguments);
}

/// The same, for a program of that name in the list of exceptions.
pub(crate) fn check_named(program: &str, arguments: &[&str]) {
    let (own, peers) = (ours(arguments), jeprof(arguments, 0));
    // A graph of each thread ends both at the first thread without nodes.
    assert_eq!(own.status.success(), peers.status.success(), "{arguments:?}: {}\n{}", text(&own), text(&peers));
    compare_with(program, arguments, &own.stdout, &peers.stdout);
}

/// Fails unless jeprof prints the same with these arguments.
pub(crate) fn compare(program: &str, arguments: &[&str], own: &[u8]) {
    compare_with(program, arguments, own, &jeprof(arguments, 0).stdout);
}

fn compare_with(program: &str, arguments: &[&str], own: &[u8], peers: &[u8]) {
    let is_ordered = arguments[0] == "--text";
    let prepared = |printed: &[u8]| lines(printed, arguments[0], is_ordered);
    let (own, peers) = (prepared(own), prepared(peers));
    assert!(
        !peers.is_empty() || arguments.iter().any(|argument| argument.starts_with("--thread")),
        "{arguments:?}: jeprof printed nothing"
    );
    // An exception costs no runs of jeprof, so it comes before other seeds.
    let excepted =
        exceptions().iter().any(|exception| exception.program == program && exception.output == arguments[0]);
    if own == peers || (excepted && with_bare_names(&own) == with_bare_names(&peers)) {
        return;
    }
    if !is_ordered && (1..HASH_SEEDS).any(|seed| own == prepared(&jeprof(arguments, seed).stdout)) {
        return;
    }
    panic!("{arguments:?}: jeprof -, procprof +\n{}", difference(&peers, &own));
}

/// Fails unless both fail alike: the exit code and the first line on standard error that is no note.
pub(crate) fn check_failure(arguments: &[&str]) {
    let (own, peers) = (ours(arguments), jeprof(arguments, 0));
    let first = |output: &Output| {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = errors.lines().find(|line| !line.starts_with("Using local file")).unwrap_or_default();
        line.trim_start_matches("jeprof: ").to_owned()
    };
    assert_eq!(first(&own), first(&peers), "{arguments:?}");
    // Perl's `die` ends with the number of the last system error.
    assert_eq!(own.status.code() == Some(0), peers.status.code() == Some(0), "{arguments:?}");
    assert_eq!(own.status.code(), Some(1), "{arguments:?}");
}

fn lines(bytes: &[u8], output: &str, is_ordered: bool) -> Vec<String> {
    let printed = String::from_utf8_lossy(bytes);
    let mut lines: Vec<String> = match output {
        "--callgrind" => expanded(&printed),
        _ => printed.lines().map(str::to_owned).collect(),
    };
    if !is_ordered {
        lines.sort_unstable();
    }
    lines
}

/// Callgrind's blocks, one a line, with names in place of their numbers.
fn expanded(text: &str) -> Vec<String> {
    let mut names = std::collections::HashMap::new();
    let block = |block: &str| {
        let line = |line: &str| {
            let Some((key, rest)) = line.split_once("=(") else { return line.to_owned() };
            let (number, name) = rest.split_once(')').unwrap_or((rest, ""));
            let names = names.entry((key.ends_with('l'), number.to_owned()));
            format!("{key}={}", names.or_insert_with(|| name.trim().to_owned()))
        };
        block.lines().map(line).collect::<Vec<_>>().join(" ")
    };
    text.split("\n\n").map(block).collect()
}

/// Stacks whose functions are named without arguments, template arguments and leading type.
fn with_bare_names(lines: &[String]) -> Vec<String> {
    let bare = |name: &str| {
        let (mut depth, mut before) = (0, ' ');
        let kept: String = name
            .chars()
            .filter(|letter| {
                depth += i32::from(matches!(letter, '(' | '<'));
                let keep = depth == 0;
                // The arrow of `operator->` closes nothing.
                depth -= i32::from(*letter == ')' || (*letter == '>' && before != '-'));
                before = *letter;
                keep
            })
            .collect();
        kept.rsplit_once(' ').map_or(kept.clone(), |(_, function)| function.to_owned())
    };
    let stack = |line: &String| {
        let (stack, value) = line.rsplit_once(' ').unwrap_or((line, ""));
        let names: Vec<String> = stack.split(';').map(bare).collect();
        format!("{} {value}", names.join(";"))
    };
    let mut lines: Vec<String> = lines.iter().map(stack).collect();
    lines.sort_unstable();
    lines
}

fn difference(peers: &[String], own: &[String]) -> String {
    let missing = peers.iter().filter(|line| !own.contains(line)).map(|line| format!("- {line}\n"));
    let surplus = own.iter().filter(|line| !peers.contains(line)).map(|line| format!("+ {line}\n"));
    missing.take(20).chain(surplus.take(20)).collect()
}
