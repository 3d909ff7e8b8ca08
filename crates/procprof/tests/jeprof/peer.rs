//! One command line given to both, and what they print compared.

// A test may unwrap in the functions it calls, too.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use super::programs::Program;
use super::{binutils, kept, sources};
use crate::harness::{procprof, text};

/// jeprof breaks ties in the order of a hash, which this number decides. Where edges tie at a limit,
/// ours must be what one of these gives.
const HASH_SEEDS: u32 = 100;

/// A peer's output.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Answer {
    fn map(&self, change: impl Fn(&[u8]) -> Vec<u8>) -> Answer {
        Answer { code: self.code, stdout: change(&self.stdout), stderr: change(&self.stderr) }
    }

    /// Standard output of a success.
    pub(crate) fn printed(&self) -> String {
        assert_eq!(self.code, 0, "{}", String::from_utf8_lossy(&self.stderr));
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Where the peers' answers about a program come from.
pub(crate) enum Answers {
    /// From a file, by the command line; none is asked.
    Kept(BTreeMap<String, Answer>),
    /// From the peers of this machine, by the command line and the seed of hashes.
    Asked(Mutex<BTreeMap<(String, u32), Answer>>),
}

impl Answers {
    /// Seeds that may be tried.
    fn seeds(&self) -> std::ops::Range<u32> {
        match self {
            Answers::Kept(_) => 0..1,
            Answers::Asked(_) => 0..HASH_SEEDS,
        }
    }

    /// The answers that were given; of several to a command line the last, with which ours agreed.
    pub(crate) fn to_keep(&self) -> BTreeMap<String, Answer> {
        let Answers::Asked(answers) = self else { return BTreeMap::new() };
        let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.iter().map(|((command_line, _), answer)| (command_line.clone(), answer.clone())).collect()
    }
}

impl Program {
    /// The output of a peer, given by its name and arguments, with its hashes in an order of their own; run once for
    /// the same command line. `input` is its name and text.
    fn ask(&self, words: &[&str], input: Option<(&str, &str)>, seed: u32) -> Answer {
        let input_name = input.map(|(name, _)| format!(" < {name}")).unwrap_or_default();
        let command_line = format!("{}{input_name}", words.join(" "));
        let command_line = kept::without_paths(command_line.as_bytes(), &self.folder);
        let key = (String::from_utf8(command_line).unwrap(), seed);
        let answers = match &self.answers {
            Answers::Kept(answers) => {
                let answer = answers.get(&key.0);
                let answer = answer.unwrap_or_else(|| panic!("{}: no answer is kept to {:?}", self.name, key.0));
                return answer.map(|text| kept::with_paths(text, &self.folder));
            }
            Answers::Asked(answers) => answers,
        };
        let known = answers.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let answer = known.unwrap_or_else(|| {
            let Output { status, stdout, stderr } = peer(words, input.map(|(_, text)| text), seed);
            let answer = Answer { code: status.code().expect("a peer is not killed"), stdout, stderr };
            answer.map(|text| kept::without_paths(text, &self.folder))
        });
        answers.lock().unwrap_or_else(PoisonError::into_inner).insert(key, answer.clone());
        answer.map(|text| kept::with_paths(text, &self.folder))
    }

    /// The output of a peer, given by its name and arguments.
    pub(crate) fn answer(&self, words: &[&str]) -> Answer {
        self.ask(words, None, 0)
    }

    /// The same of one that reads `text` on standard input. Answers are kept by the `name` of it.
    pub(crate) fn answer_to(&self, words: &[&str], name: &str, text: &str) -> Answer {
        self.ask(words, Some((name, text)), 0)
    }

    fn jeprof(&self, arguments: &[&str], seed: u32) -> Answer {
        self.ask(&[&["jeprof"], arguments].concat(), None, seed)
    }
}

/// Runs a peer.
fn peer(words: &[&str], input: Option<&str>, seed: u32) -> Output {
    let mut command = Command::new(format!("/usr/bin/{}", words[0]));
    command.env("PERL_HASH_SEED", seed.to_string()).env("LC_ALL", "C").env("JEPROF_TOOLS", binutils::tools());
    command.args(&words[1..]).current_dir(sources());
    with_input(&mut command, input.unwrap_or_default())
}

/// Our output.
pub(crate) fn ours(arguments: &[&str]) -> Output {
    ours_of(arguments, "")
}

/// Our output with this standard input.
pub(crate) fn ours_of(arguments: &[&str], input: &str) -> Output {
    // Sources of kept programs are named without a folder.
    with_input(procprof().arg("jeprof").args(arguments).current_dir(sources()), input)
}

fn with_input(command: &mut Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let needed = format!("this test needs {}", command.get_program().display());
    let mut child = command.spawn().expect(&needed);
    // One that needs no input may have ended.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// A difference that is known, from `testdata/jeprof/exceptions.txt`.
pub(crate) struct Exception {
    program: String,
    output: String,
    pub(crate) cause: String,
}

/// The list of known differences.
pub(crate) fn exceptions() -> Vec<Exception> {
    let path = sources().join("exceptions.txt");
    let list = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &str| {
        let mut fields = line.splitn(3, " | ").map(|field| field.trim().to_owned());
        let mut field = || fields.next().unwrap_or_else(|| panic!("three fields: {line}"));
        Exception { program: field(), output: field(), cause: field() }
    };
    rows.map(row).collect()
}

/// Fails unless both print the same: `--text` in the same order, all else as sets of lines.
pub(crate) fn check(program: &Program, arguments: &[&str]) {
    let (own, peers) = (ours(arguments), program.jeprof(arguments, 0));
    // A graph of each thread ends both at the first thread without nodes.
    assert_eq!(own.status.success(), peers.code == 0, "{arguments:?}: {}\n{}", text(&own), errors(&peers.stderr));
    compare(program, arguments, &own.stdout);
}

/// Fails unless jeprof prints the same with these arguments.
pub(crate) fn compare(program: &Program, arguments: &[&str], own: &[u8]) {
    let is_ordered = arguments[0] == "--text";
    let prepared = |printed: &[u8]| lines(printed, arguments[0], is_ordered);
    let (own, peers) = (prepared(own), prepared(&program.jeprof(arguments, 0).stdout));
    assert!(
        !peers.is_empty() || arguments.iter().any(|argument| argument.starts_with("--thread")),
        "{arguments:?}: jeprof printed nothing"
    );
    // An exception costs no runs of jeprof, so it comes before other seeds.
    let excepted =
        exceptions().iter().any(|exception| exception.program == program.name && exception.output == arguments[0]);
    if own == peers || (excepted && with_bare_names(&own) == with_bare_names(&peers)) {
        return;
    }
    let mut other_seeds = program.answers.seeds().skip(1);
    if !is_ordered && other_seeds.any(|seed| own == prepared(&program.jeprof(arguments, seed).stdout)) {
        return;
    }
    panic!("{arguments:?}: jeprof -, procprof +\n{}", difference(&peers, &own));
}

/// Fails unless both fail alike: the exit code and the first line on standard error that is no note.
pub(crate) fn check_failure(program: &Program, arguments: &[&str]) {
    let (own, peers) = (ours(arguments), program.jeprof(arguments, 0));
    let first = |stderr: &[u8]| {
        let errors = errors(stderr);
        let line = errors.lines().find(|line| !line.starts_with("Using local file")).unwrap_or_default();
        line.trim_start_matches("jeprof: ").to_owned()
    };
    assert_eq!(first(&own.stderr), first(&peers.stderr), "{arguments:?}");
    // Perl's `die` ends with the number of the last system error.
    assert_ne!(peers.code, 0, "{arguments:?}");
    assert_eq!(own.status.code(), Some(1), "{arguments:?}");
}

fn errors(stderr: &[u8]) -> String {
    String::from_utf8_lossy(stderr).into_owned()
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
