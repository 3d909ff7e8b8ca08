//! Sessions in a terminal, beside those of `go tool pprof` and jeprof.

#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::harness::{PATIENCE, folder, procprof, text};
use crate::jeprof::peer::ours_of;
use crate::jeprof::programs::{Program, kept};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/report").join(name).canonicalize().unwrap()
}

fn with_input(command: &mut Command, input: &str) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        piped.spawn().unwrap_or_else(|error| panic!("this test needs {}: {error}", command.get_program().display()));
    // One that ends early does not read it all.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    child.wait_with_output().unwrap()
}

/// The content of a terminal after these keys.
fn in_terminal(folder: &Path, term: &str, command: &str, keys: &str) -> String {
    // Keys that come before the program reads would be shown once more, before or behind its first prompt.
    let command = format!("stty -echo; {command}");
    let mut script = Command::new("script");
    script
        .args(["-qec", &command, "/dev/null"])
        .env("TERM", term)
        .env("TZ", "UTC")
        .env("PROCPROF_CACHE_DIR", folder)
        .current_dir(folder);
    let output = with_input(&mut script, keys);
    text(&output).replace('\r', "")
}

/// The answers to each line: the text between the prompts. The terminal does not show what is typed.
fn answers(transcript: &str, prompt: &str) -> Vec<String> {
    transcript.split(prompt).skip(1).map(|part| part.trim_end().to_owned()).collect()
}

const LINES: &[&str] = &[
    "top",
    "top5 -cum",
    "top 3 json -runtime",
    "peek json",
    "tree 4",
    "traces json",
    "granularity=lines",
    "top 6",
    "granularity=functions",
    "focus=json",
    "top",
    "focus=",
    "samples",
    "top 4",
    "cpu",
    "unit=ms",
    "top2",
    "tags",
    "bogus",
    "peek",
    "unit",
    "help top2",
];

#[test]
fn a_session_answers_as_pprof_does() {
    let (folder, profile) = (folder(), file("go.cpu.pb.gz"));
    let keys = LINES.join("\n") + "\nquit\n";
    let own = in_terminal(
        folder.path(),
        "dumb",
        &format!("{} report {}", env!("CARGO_BIN_EXE_procprof"), profile.display()),
        &keys,
    );
    let peer =
        in_terminal(folder.path(), "dumb", &format!("go tool pprof -symbolize=none {}", profile.display()), &keys);
    let greeting = |transcript: &str| {
        transcript
            .split("(pprof) ")
            .next()
            .unwrap()
            .lines()
            .filter(|line| line.contains(": "))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(greeting(&own), greeting(&peer));
    let (own_answers, peer_answers) = (answers(&own, "(pprof) "), answers(&peer, "(pprof) "));
    assert_eq!(own_answers.len(), peer_answers.len(), "{own}\n{peer}");
    for ((line, own), peer) in LINES.iter().zip(&own_answers).zip(&peer_answers) {
        assert_eq!(own, peer, "{line}");
    }
}

#[test]
fn a_session_writes_files_and_survives_mistakes() {
    let (folder, profile) = (folder(), file("go.cpu.pb.gz"));
    let lines = [
        "o",
        "help",
        "help focus",
        "dot json >calls.dot",
        "svg > calls.svg",
        "html >page.html",
        "collapsed >/nowhere/x",
        "proto",
        "top 30 | head -3",
        "sample_index=zebra",
        "focus=(",
        "list (",
        "web",
        ":",
        "comments",
    ];
    let command = format!("{} report {}", env!("CARGO_BIN_EXE_procprof"), profile.display());
    let transcript = in_terminal(folder.path(), "dumb", &command, &(lines.join("\n") + "\n"));
    let answers = answers(&transcript, "(pprof) ");
    let expected = [
        "sort                      = flat                 //: [cum | flat]",
        "List options and their values",
        "Usage:\n    focus=<val>",
        "Generating report in calls.dot",
        "Generating report in calls.svg",
        "Generating report in page.html",
        "/nowhere/x",
        "Generating report in ./profile.001.pb.gz",
        "Showing nodes accounting for",
        "the profile has samples, cpu",
        "report option focus",
        "report option symbol",
        "-http",
        "",
        "",
    ];
    for ((line, answer), expected) in lines.iter().zip(&answers).zip(expected) {
        assert!(answer.contains(expected), "{line}: {answer}");
    }
    assert_eq!(answers[8].lines().count(), 3, "{}", answers[8]);
    for (file, begins) in
        [("calls.dot", "digraph"), ("calls.svg", "<"), ("page.html", "<!"), ("profile.001.pb.gz", "\u{1f}")]
    {
        let bytes =
            std::fs::read(folder.path().join(file)).unwrap_or_else(|error| panic!("{file}: {error}\n{transcript}"));
        assert!(bytes.starts_with(begins.as_bytes()), "{file}");
    }
}

#[test]
fn lines_are_remembered_by_the_next_session() {
    let (folder, profile) = (folder(), file("go.cpu.pb.gz"));
    let command = format!("{} report {}", env!("CARGO_BIN_EXE_procprof"), profile.display());
    let mut terminal = Terminal::start(folder.path(), &command);
    terminal.type_until("", "(pprof) ");
    terminal.type_until("top 2 json\r", "Showing nodes accounting for");
    terminal.type_until("", "(pprof) ");
    terminal.end();
    let mut terminal = Terminal::start(folder.path(), &command);
    terminal.type_until("", "(pprof) ");
    terminal.type_until("\u{1b}[A", "top 2 json");
    terminal.type_until("\r", "Showing nodes accounting for");
    terminal.end();
    let kept = std::fs::read_to_string(folder.path().join("history-pprof")).unwrap();
    assert_eq!(kept.lines().filter(|line| *line == "top 2 json").count(), 1, "{kept}");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(folder.path().join("history-pprof")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o077, 0, "{mode:o}");

    // Where nothing can be kept, that is reported once and the session goes on.
    std::fs::remove_file(folder.path().join("history-pprof")).unwrap();
    std::fs::create_dir(folder.path().join("history-pprof")).unwrap();
    let mut terminal = Terminal::start(folder.path(), &command);
    terminal.type_until("", "this session's lines are not kept");
    terminal.type_until("", "(pprof) ");
    terminal.type_until("top 2 json\r", "Showing nodes accounting for");
    terminal.type_until("", "(pprof) ");
    assert!(!terminal.end().contains("unrecognized"));
}

/// A terminal whose keys wait for what it shows.
struct Terminal {
    child: std::process::Child,
    shown: std::sync::mpsc::Receiver<u8>,
    all: String,
}

impl Terminal {
    fn start(folder: &Path, command: &str) -> Terminal {
        let mut script = Command::new("script");
        script
            .args(["-qec", command, "/dev/null"])
            .env("TERM", "xterm")
            .env("PROCPROF_CACHE_DIR", folder)
            .current_dir(folder);
        let mut child = script
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("this test needs script (bsdutils)");
        let (sender, shown) = std::sync::mpsc::channel();
        let output = child.stdout.take().unwrap();
        std::thread::spawn(move || {
            for byte in std::io::Read::bytes(output).map_while(Result::ok) {
                let _ = sender.send(byte);
            }
        });
        Terminal { child, shown, all: String::new() }
    }

    /// Types ^D and waits for the end.
    fn end(mut self) -> String {
        self.child.stdin.as_mut().unwrap().write_all(b"\x04").unwrap();
        assert!(self.child.wait().unwrap().success());
        std::mem::take(&mut self.all)
    }

    /// Types the keys, then waits until the terminal shows a text that it has not shown before.
    fn type_until(&mut self, keys: &str, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
        let mut new = Vec::new();
        while !String::from_utf8_lossy(&new).contains(text) {
            let byte = self.shown.recv_timeout(PATIENCE);
            new.push(byte.unwrap_or_else(|_| {
                panic!("{keys:?} did not show {text:?} after {}: {:?}", self.all, String::from_utf8_lossy(&new))
            }));
        }
        self.all.push_str(&String::from_utf8_lossy(&new));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_keyboard_completes_and_remembers() {
    let (folder, profile) = (folder(), file("go.cpu.pb.gz"));
    let mut terminal =
        Terminal::start(folder.path(), &format!("{} report {}", env!("CARGO_BIN_EXE_procprof"), profile.display()));
    terminal.type_until("", "(pprof) ");
    terminal.type_until("sample_i\t", "sample_index=");
    terminal.type_until("zebra\r", "the profile has samples, cpu");
    terminal.type_until("", "(pprof) ");
    // The arrow up brings the line back.
    terminal.type_until("\u{1b}[A\r", "the profile has samples, cpu");
    terminal.type_until("", "(pprof) ");
    terminal.type_until("peek findMa\t", "compress/flate...compressor..findMatch");
    // ^C gives the line up and leaves the session.
    terminal.type_until("\u{3}", "(pprof) ");
    terminal.type_until("top 2\r", "Showing top 2 nodes");
    terminal.type_until("", "(pprof) ");
    assert!(!terminal.end().contains("unrecognized"));
}

#[test]
fn without_a_terminal_or_with_a_kind_there_is_no_session() {
    let (folder, profile) = (folder(), file("go.cpu.pb.gz"));
    let piped = with_input(procprof().arg("report").arg(&profile), "tree\n");
    assert!(text(&piped).contains("Showing nodes") && !text(&piped).contains("(pprof)"), "{}", text(&piped));
    let command = format!("{} report -top {}", env!("CARGO_BIN_EXE_procprof"), profile.display());
    assert!(!in_terminal(folder.path(), "dumb", &command, "").contains("(pprof)"));
}

#[test]
fn a_session_answers_as_jeprof_does() {
    check_session(kept("c"));
}

/// A session of ours prints what one of jeprof prints.
pub(crate) fn check_session(program: &Program) {
    let [_, heap] = program.heaps();
    let lines = "top\ntop3\ntext5 --cum\ntop -main\n\ntop --cum --lines\ntop2\nbogus\nquit\n";
    let arguments = ["--interactive", program.binary(), heap];
    let own = ours_of(&arguments, lines);
    let peer = program.answer_to(&[&["jeprof"], &arguments[..]].concat(), "lines", lines);
    assert_eq!(String::from_utf8_lossy(&own.stdout), peer.printed());
    let errors = |stderr: &[u8]| String::from_utf8_lossy(stderr).lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(errors(&own.stderr), errors(&peer.stderr));
    let more = ours_of(&arguments, "top2 grow\nlist main\ndot >/nowhere/x\nweb\nhelp\ncallgrind\n");
    let printed = text(&more);
    for expected in
        ["After focusing on 'grow': ", "ROUTINE", "/nowhere/x", "web is not done here", "Commands:", "events: Hits"]
    {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}

#[test]
fn jeprof_starts_a_session_on_a_terminal() {
    let (program, folder) = (kept("c"), folder());
    let command = format!("{} jeprof {} {}", env!("CARGO_BIN_EXE_procprof"), program.binary(), program.heaps()[1]);
    let transcript = in_terminal(folder.path(), "dumb", &command, "top2\nquit\n");
    assert!(
        transcript.contains("Welcome to jeprof!  For help, type 'help'.") && transcript.contains("(jeprof) "),
        "{transcript}"
    );
    assert!(transcript.contains("Total: "), "{transcript}");
}
