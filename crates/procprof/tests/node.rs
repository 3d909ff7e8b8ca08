//! `procprof node` and a small server of the test's own, which speaks the protocol.

// A failing unwrap is a failing test.
#![allow(clippy::unwrap_used)]

mod dumps;
mod hostile;
mod jvm;

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use procprof_profile::{LabelValue, Profile};
use procprof_server::protocol::{Heartbeat, PushedProfile};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{PATIENCE, listening_port, procprof, signal};

const TOKEN: &str = "secret-of-this-host";
const HOST: &str = "00112233445566778899aabbccddeeff";

/// What the server does, and what has come.
#[derive(Default)]
struct State {
    /// Whether it answers at all.
    is_away: bool,
    is_revoked: bool,
    /// Requests that were refused.
    refused: u32,
    /// Commands of the next heartbeat.
    commands: Vec<Value>,
    heartbeats: Vec<Heartbeat>,
    /// Profiles by id, and how often each came.
    profiles: BTreeMap<String, (PushedProfile, Vec<u8>, u32)>,
    /// Ahead of the host's clock.
    skew_nanos: i64,
    wanted_symbols: Vec<String>,
    offers: Vec<String>,
    symbols: Vec<Vec<u8>>,
}

/// A server in a thread, on a port of its own.
struct Server {
    base: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // A killed client breaks off.
                std::thread::spawn(move || drop(answer(stream, &state)));
            }
        });
        Self { base, state }
    }

    fn update(&self, update: impl FnOnce(&mut State)) {
        update(&mut self.state.lock().unwrap());
    }

    fn await_state<T>(&self, what: &str, ready: impl Fn(&State) -> Option<T>) -> T {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(found) = ready(&self.state.lock().unwrap()) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no {what}");
    }
}

fn answer(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((key, value)) = line.trim().split_once(':') else { break };
            headers.insert(key.to_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let path = first.split(' ').nth(1).unwrap_or("").to_owned();
        if state.lock().unwrap().is_away {
            return Ok(());
        }
        let is_known = headers.get("authorization").map(String::as_str) == Some(&*format!("Bearer {TOKEN}"));
        let is_revoked = state.lock().unwrap().is_revoked;
        let (status, answer) = if is_known && !is_revoked {
            ("200 OK", handle(&path, &body, state))
        } else {
            state.lock().unwrap().refused += 1;
            ("401 Unauthorized", json!({ "error": "no such token" }))
        };
        let text = answer.to_string();
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{text}", text.len())?;
    }
}

fn handle(path: &str, body: &[u8], state: &Mutex<State>) -> Value {
    if path == "/api/hosts/heartbeat" {
        let heartbeat: Heartbeat = serde_json::from_slice(body).unwrap();
        let until = Instant::now() + Duration::from_secs(heartbeat.wait_seconds.min(1).into());
        let sent = heartbeat.sent_nanos;
        state.lock().unwrap().heartbeats.push(heartbeat);
        while state.lock().unwrap().commands.is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut state = state.lock().unwrap();
        let commands = std::mem::take(&mut state.commands);
        let waited = 0;
        return json!({
            "server_nanos": sent + state.skew_nanos + waited, "commands": commands, "wanted_symbols": state.wanted_symbols,
        });
    }
    let mut state = state.lock().unwrap();
    if path.starts_with("/api/symbols/offer") {
        state.offers.push(path.to_owned());
        return json!({ "take": true });
    }
    if path == "/api/symbols" {
        state.symbols.push(body.to_vec());
        return json!({ "outcome": "added" });
    }
    assert_eq!(path, "/api/hosts/push");
    let (mut rest, mut profiles) = (body, Vec::new());
    while !rest.is_empty() {
        let header: PushedProfile = serde_json::from_slice(part(&mut rest)).unwrap();
        let profile = part(&mut rest).to_vec();
        let id = header.id.clone();
        let known = state.profiles.entry(id.clone()).or_insert_with(|| (header, profile, 0));
        known.2 += 1;
        let outcome = if known.2 == 1 { "stored" } else { "known" };
        profiles.push(json!({ "id": id, "outcome": { "outcome": outcome } }));
    }
    json!({ "profiles": profiles, "wanted_symbols": state.wanted_symbols })
}

fn part<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let (length, behind) = rest.split_first_chunk::<4>().unwrap();
    let (part, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
    *rest = behind;
    part
}

/// An agent with its files.
struct Agent {
    child: Child,
    folder: TempDir,
}

impl Agent {
    fn start(server: &Server, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let spool = folder.path().join("spool");
        // JVMs of other tests are not attached to.
        let others = "[[rule]]\nprocess = \"java\"\ntreatment = \"exclude\"\n";
        let config = format!("host_id = \"{HOST}\"\ncut_seconds = 5\nspool = \"{}\"\n{more}{others}", spool.display());
        std::fs::write(folder.path().join("node.toml"), config).unwrap();
        std::fs::write(folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
        Self { child: Self::spawn(folder.path(), server), folder }
    }

    fn spawn(folder: &Path, server: &Server) -> Child {
        let mut command = procprof();
        command.args(["node", "--server", &server.base, "--token-file"]).arg(folder.join("token"));
        command.arg("--config").arg(folder.join("node.toml")).stderr(Stdio::inherit());
        command.spawn().unwrap()
    }

    fn kill_and_restart(&mut self, server: &Server) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = Self::spawn(self.folder.path(), server);
    }

    fn spooled(&self) -> usize {
        let names = std::fs::read_dir(self.folder.path().join("spool")).unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().ends_with(".frame")).count()
    }

    fn stop(mut self) {
        signal(self.child.id(), "TERM");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // One that has ended can't be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process of that name that uses a part of a CPU; killed when dropped.
struct Busy {
    child: Child,
    folder: Option<TempDir>,
}

impl Busy {
    fn start(name: &str) -> Self {
        Self::start_built(name, &[])
    }

    /// The same, with options of the compiler.
    fn start_built(name: &str, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(name);
        crate::record::compiled("burn.c", options, &program);
        let mut command = Command::new(&program);
        let busy = Self::start_command(command.args(["3600", "1", "0", "500"]));
        busy.in_folder(folder)
    }

    fn in_folder(mut self, folder: TempDir) -> Self {
        self.folder = Some(folder);
        self
    }

    fn start_command(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: command.spawn().unwrap(), folder: None }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn decoded(bytes: &[u8]) -> Profile {
    procprof_profile::format::decode(bytes, &procprof_profile::format::Limits::default()).unwrap().profile
}

/// Frames of the kernel.
fn in_kernel(profile: &Profile) -> impl Iterator<Item = procprof_profile::LocationId> {
    let is_kernel = |id: &procprof_profile::LocationId| {
        let mapping = profile.location(*id).mapping.map(|id| profile.string(profile.mapping(id).filename));
        mapping == Some("[kernel.kallsyms]")
    };
    profile.samples().flat_map(|sample| sample.stack.to_vec()).filter(is_kernel)
}

fn pids(profile: &Profile) -> Vec<i64> {
    let pid = |sample: procprof_profile::Sample<'_>| {
        let label = sample.labels.iter().find(|label| profile.string(label.key) == "pid")?;
        if let LabelValue::Number(pid, _) = label.value { Some(pid) } else { None }
    };
    profile.samples().filter_map(pid).collect()
}

#[test]
fn services_are_profiled_all_the_time_and_captured_on_command() {
    let busy = Busy::start("busy-captured");
    let pid = i64::from(busy.child.id());
    let server = Server::start();
    server.update(|state| state.skew_nanos = -600_000_000_000);
    // It spends its time in the kernel.
    let _writer = Busy::start_command(Command::new("dd").args(["if=/dev/zero", "of=/dev/null", "bs=16M"]));
    // A debug build has more memory than an agent may by default.
    let metrics = "metrics = \"127.0.0.1:0\"\nmemory_bytes_max = \"1 GiB\"\n";
    let rules = "labels = { zone = \"a\" }\nprofile_others = false\n[[rule]]\nprocess = \"busy-captured\"\ntreatment = \"always\"\njvm_names = false\n[[rule]]\nservice = \"*\"\ntreatment = \"host\"\njvm_names = false\n";
    let agent = Agent::start(&server, &format!("{metrics}{rules}"));
    let heartbeat = server.await_state("heartbeat with services", |state| {
        state
            .heartbeats
            .iter()
            .find(|heartbeat| heartbeat.services.iter().any(|service| service.name == "busy-captured"))
            .cloned()
    });
    assert_eq!((&*heartbeat.host.id, heartbeat.host.hz, &*heartbeat.host.labels["zone"]), (HOST, 19, "a"));
    assert!(heartbeat.host.missing.is_empty(), "{:?}", heartbeat.host.missing);
    let of_service = |state: &State, service: Option<&str>| {
        let is_it = |(header, ..): &&(PushedProfile, Vec<u8>, u32)| {
            header.service.as_deref() == service && header.capture.is_none() && header.profile_type == "cpu"
        };
        state.profiles.values().find(is_it).cloned()
    };
    let (header, bytes, _) =
        server.await_state("profile of the service", |state| of_service(state, Some("busy-captured")));
    let profile = decoded(&bytes);
    assert!(pids(&profile).contains(&pid), "{:?}", pids(&profile));
    assert!(header.duration_nanos >= 4_000_000_000 && header.host == HOST, "{header:?}");
    // The file's addresses have no names here, but a build id by which the server finds them.
    assert!(profile.mappings().iter().any(|mapping| !profile.string(mapping.build_id).is_empty()));
    // Only the host can name the kernel's functions; it reads their names before it gives up the privilege.
    let named = server.await_state("profile of the host with frames of the kernel", |state| {
        let is_of_host = |(header, ..): &&(PushedProfile, Vec<u8>, u32)| {
            header.service.is_none() && header.capture.is_none() && header.profile_type == "cpu"
        };
        let hosts = state.profiles.values().filter(is_of_host).map(|(_, bytes, _)| decoded(bytes));
        let named = |host: Profile| {
            assert!(!pids(&host).contains(&pid));
            in_kernel(&host).map(|id| !host.lines(id).is_empty()).collect::<Vec<bool>>()
        };
        hosts.map(named).find(|named| !named.is_empty())
    });
    assert!(named.iter().filter(|is_named| **is_named).count() * 2 > named.len(), "{named:?}");
    // It keeps the capabilities that it needs, and can gain no others.
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.child.id())).unwrap();
    let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned();
    let needed = format!("{:016x}", 1_u64 << 38 | 1 << 19 | 1 << 2);
    assert_eq!([field("CapEff:"), field("CapPrm:"), field("CapBnd:")], [&*needed; 3]);
    assert_eq!(field("NoNewPrivs:"), "1");

    let capture = |id: &str, service: Option<&str>, profile_type: &str| json!({ "command": "capture", "capture": id, "service": service, "profile_type": profile_type, "seconds": 3, "hz": 99 });
    server.update(|state| {
        let commands = [
            capture("c1", Some("busy-captured"), "cpu"),
            capture("c2", None, "off_cpu"),
            capture("c3", None, "mutex"),
            capture("c1", Some("busy-captured"), "cpu"),
        ];
        state.commands.extend(commands);
        state.commands.push(json!({ "command": "rate", "hz": 49 }));
    });
    let answered = server.await_state("captures", |state| {
        let captures = state
            .profiles
            .values()
            .filter_map(|(header, bytes, _)| Some((header.capture.clone()?, (header.clone(), bytes.clone()))));
        let captures: BTreeMap<_, _> = captures.collect();
        (captures.len() == 3).then_some(captures)
    });
    let failures = ["c1", "c2"].map(|id| answered[id].0.failure.clone());
    assert_eq!(failures, [None, None]);
    let profile = decoded(&answered["c1"].1);
    assert!(pids(&profile).iter().all(|other| *other == pid), "{:?}", pids(&profile));
    assert!(profile.period() == 1_000_000_000 / 99 && answered["c1"].0.failure.is_none());
    assert!(decoded(&answered["c2"].1).sample_count() > 0);
    assert_eq!(answered["c3"].0.failure.as_deref(), Some("a host agent records no profiles of type mutex"));
    server.await_state("the other rate", |state| {
        state.heartbeats.last().filter(|last| last.host.hz_wanted == 49).map(|_| ())
    });

    let port = listening_port(agent.child.id());
    let (status, page) = crate::harness::curl(&[&format!("http://127.0.0.1:{port}/metrics")]);
    let page = String::from_utf8(page).unwrap();
    let value = |name: &str| -> f64 {
        let line = page.lines().find_map(|line| line.strip_prefix(&format!("procprof_node_{name} ")));
        line.unwrap_or_else(|| panic!("no {name}: {page}")).parse().unwrap()
    };
    assert_eq!((status, value("hz_wanted"), value("spool_lost_total")), (200, 49.0, 0.0));
    // As exact as the time between the host's clock and the answer.
    assert!((400.0..800.0).contains(&value("clock_skew_seconds")) && value("profiles_sent_total") >= 5.0, "{page}");
    assert!(value("cpu_seconds_total") > 0.0 && value("samples_total") > 0.0, "{page}");

    // What it sends is whole when it ends.
    agent.stop();
    let state = server.state.lock().unwrap();
    assert!(state.profiles.values().all(|(_, _, times)| *times == 1));
}

#[test]
fn nothing_is_lost_or_sent_twice_while_the_server_is_away_and_the_agent_is_killed() {
    let _busy = Busy::start("busy-killed");
    let server = Server::start();
    let mut agent = Agent::start(&server, "cpu_milli_min = 0\n");
    server.await_state("profile", |state| (!state.profiles.is_empty()).then_some(()));
    server.update(|state| state.is_away = true);
    let begun = Instant::now();
    while agent.spooled() < 3 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    agent.kill_and_restart(&server);
    let waiting = agent.spooled();
    assert!(waiting >= 3, "{waiting} profiles in the spool");
    server.update(|state| (state.is_away, state.is_revoked) = (false, true));
    server.await_state("refused request", |state| (state.refused >= 2).then_some(()));
    assert!(agent.spooled() >= 3);
    let before = server.state.lock().unwrap().profiles.len();
    server.update(|state| state.is_revoked = false);
    server.await_state("profiles of the spool", |state| (state.profiles.len() >= before + waiting).then_some(()));
    let begun = Instant::now();
    while agent.spooled() > 0 && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
    agent.stop();
    let state = server.state.lock().unwrap();
    // Sent again where the answer did not arrive, and then known by its id.
    let twice = state.profiles.values().filter(|(_, _, times)| *times > 1).count();
    println!("{} profiles, {twice} of them sent again", state.profiles.len());
    assert!(state.profiles.values().all(|(header, ..)| header.host == HOST));
}

#[test]
fn symbols_that_the_server_wants_are_sent() {
    let server = Server::start();
    server.update(|state| state.wanted_symbols = vec!["00112233445566778899aabb".to_owned(), "ffff".to_owned()]);
    let agent = Agent::start(&server, "");
    // A file that does not run yet when it is wanted is looked for again.
    server.await_state("two heartbeats", |state| (state.heartbeats.len() >= 2).then_some(()));
    let _busy = Busy::start_built("burn", &["-g", "-Wl,--build-id=0x00112233445566778899aabb"]);
    let symbols = server.await_state("symbols", |state| state.symbols.first().cloned());
    let index = procprof_symbolize::SymbolIndex::from_bytes(symbols).unwrap();
    assert!(index.contents().unwrap().functions > 3 && index.contents().unwrap().has_lines);
    assert!(
        server.state.lock().unwrap().offers[0].contains("00112233445566778899aabb"),
        "{:?}",
        server.state.lock().unwrap().offers
    );
    agent.stop();
    assert_eq!(server.state.lock().unwrap().symbols.len(), 1);
}

/// The server that `procprof serve` is, with a token of its own for the host.
#[test]
fn a_server_shows_services_with_the_names_of_their_functions() {
    let _busy = Busy::start_built("burn-shown", &["-g", "-Wl,--build-id=0xffeeddccbbaa998877665544"]);
    let data = tempfile::tempdir().unwrap();
    let real = crate::harness::Server::start(data.path(), &[]);
    let server = Server { base: real.base.clone(), state: Arc::default() };
    let mut agent = Agent::start(&server, "name = \"first\"\n");
    let is_named = |row: &Value| row.to_string().contains("burn-shown") && row.to_string().contains("\"spin\"");
    real.wait_for("a profile of the service with names", |real| real.profiles("type=cpu").iter().any(is_named));
    agent.kill_and_restart(&server);
    let killed = jiff::Timestamp::now();
    let start = |row: &Value| row["start"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    real.wait_for("a profile that the agent started again has begun", |real| {
        real.profiles("type=cpu").iter().any(|row| start(row) > killed)
    });
    let nodes = real.json("/api/nodes").to_string();
    assert!(nodes.contains("first/burn-shown"), "{nodes}");
    agent.stop();
    assert!(real.errors("").is_empty(), "{:?}", real.errors(""));
}

#[test]
fn once_prints_what_would_be_profiled() {
    let _busy = Busy::start("busy-excluded");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("node.toml");
    std::fs::write(&config, "[[rule]]\nprocess = \"busy-excluded\"\ntreatment = \"exclude\"\n").unwrap();
    let output = procprof().args(["node", "--once", "--config"]).arg(&config).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let is_row = |line: &&str| line.contains("excluded") && line.trim_end().ends_with(" busy-excluded");
    assert!(text.lines().any(|line| is_row(&line)), "{text}");
    assert!(text.contains("All processes can be recorded."), "{text}");
    for (arguments, expected) in [
        (&["node"][..], "no server is given"),
        (&["node", "--server", "http://127.0.0.1:1"], "no token is given"),
        (&["node", "--once", "--config", "/nowhere/node.toml"], "read /nowhere/node.toml"),
    ] {
        let output = procprof().args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_of_once_is_no_failure() {
    let mut command = procprof();
    let mut child = command.args(["node", "--once"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let printed = crate::harness::text(&output);
    assert!(output.status.success() && !printed.contains("panicked"), "{printed}");
}
