//! Files that processes write by themselves, sent as their profiles.

use std::os::unix::fs::{chown, symlink};
use std::path::PathBuf;

use super::*;

/// A program with jemalloc that dumps its heap again and again; killed when dropped.
struct Dumper {
    child: Child,
    folder: TempDir,
}

impl Dumper {
    fn start(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(name);
        symlink(env!("CARGO_BIN_EXE_procprof"), &program).unwrap();
        std::fs::create_dir(folder.path().join("heaps")).unwrap();
        let options = "prof:true,prof_active:true,lg_prof_sample:12,lg_prof_interval:22,prof_prefix:heaps/own";
        let mut command = Command::new(&program);
        command.args(["demo-node", "--role", "be"]).env("_RJEM_MALLOC_CONF", options).current_dir(folder.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        Self { child, folder }
    }

    /// Its dumps, the oldest first; waits for the first ones.
    fn dumps(&self) -> Vec<PathBuf> {
        let begun = Instant::now();
        loop {
            let entries = std::fs::read_dir(self.folder.path().join("heaps")).unwrap().flatten();
            let mut dumps: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            dumps.sort_by_key(|path| std::fs::metadata(path).unwrap().modified().unwrap());
            if dumps.len() >= 2 {
                return dumps;
            }
            assert!(begun.elapsed() < PATIENCE, "no dumps: {dumps:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Dumper {
    fn drop(&mut self) {
        // One that was stopped is killed all the same.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn dumps_are_sent_once_as_profiles_of_their_process() {
    let dumper = Dumper::start("dumper-own");
    let named = tempfile::tempdir().unwrap();
    let first = dumper.dumps()[0].clone();
    // It writes no more from here on, but still runs.
    signal(dumper.child.id(), "STOP");
    let at = |name: &str| named.path().join(name);
    std::fs::copy(&first, at("copy.heap")).unwrap();
    std::fs::write(at("broken.heap"), "heap_v2/512\n  t*: 1: x\n").unwrap();
    std::fs::write(at("copy.log"), "no dump").unwrap();
    symlink("/etc/passwd", at("link.heap")).unwrap();
    assert!(Command::new("mkfifo").arg(at("pipe.heap")).status().expect("this test needs mkfifo").success());
    std::fs::copy(&first, at("other.heap")).unwrap();
    chown(at("other.heap"), Some(65534), None).unwrap();
    let sparse = std::fs::File::create(at("large.heap")).unwrap();
    sparse.set_len(1 << 30).unwrap();

    let server = Server::start();
    let folders = format!("dumps = [\"auto\", \"{}\", \"/nowhere/dumps\"]", named.path().display());
    let rule =
        format!("metrics = \"127.0.0.1:0\"\nprofile_others = false\n[[rule]]\nprocess = \"dumper-own\"\n{folders}\n");
    let mut agent = Agent::start(&server, &rule);
    let file = |header: &PushedProfile| header.labels.get("file").cloned();
    let sent = |state: &State, name: &str| {
        state.profiles.values().find(|(header, ..)| file(header).as_deref() == Some(name)).cloned()
    };
    let own = first.file_name().unwrap().to_str().unwrap();
    for name in [own, "copy.heap"] {
        let (header, bytes, _) = server.await_state(name, |state| sent(state, name));
        assert_eq!((header.service.as_deref(), &*header.profile_type), (Some("dumper-own"), "heap"), "{header:?}");
        let profile = decoded(&bytes);
        assert!(profile.sample_count() > 0 && header.start_nanos > 0);
        // By its build id the server names the functions of the program.
        let of_program = profile.mappings().iter().find(|mapping| {
            profile.string(mapping.filename).ends_with("/procprof") && !profile.string(mapping.build_id).is_empty()
        });
        assert!(of_program.is_some(), "{:?}", profile.mappings());
    }
    let hints = server.await_state("report of the dumps", |state| {
        let services = &state.heartbeats.last()?.services;
        let hints = services.iter().find(|service| service.name == "dumper-own")?.hints.join("\n");
        (hints.contains("another user's") && hints.contains("broken.heap") && hints.contains("64 MiB")).then_some(hints)
    });
    assert!(hints.contains("1 dumps can't be read as profiles; the latest: broken.heap: "), "{hints}");
    assert!(hints.contains("dump folder: open /nowhere/dumps"), "{hints}");
    let port = listening_port(agent.child.id());
    let (_, page) = crate::harness::curl(&[&format!("http://127.0.0.1:{port}/metrics")]);
    let page = String::from_utf8(page).unwrap();
    for row in ["dumps_unreadable_total 1", "dumps_skipped_total 2"] {
        assert!(page.contains(&format!("procprof_node_{row}\n")), "{page}");
    }

    // An agent that is started again sends what is new alone; what the server has not answered for is sent again.
    let begun = Instant::now();
    while agent.spooled() > 0 {
        assert!(begun.elapsed() < PATIENCE, "profiles stay in the spool");
        std::thread::sleep(Duration::from_millis(5));
    }
    agent.kill_and_restart(&server);
    std::fs::copy(&first, at("later.heap")).unwrap();
    server.await_state("dump after the restart", |state| sent(state, "later.heap"));
    agent.stop();
    let state = server.state.lock().unwrap();
    let of_files: Vec<&(PushedProfile, Vec<u8>, u32)> =
        state.profiles.values().filter(|(header, ..)| file(header).is_some()).collect();
    assert!(of_files.iter().all(|(header, _, times)| *times == 1 || header.labels["file"] == "later.heap"));
    let names = ["link.heap", "pipe.heap", "other.heap", "large.heap", "broken.heap", "copy.log"];
    assert!(names.iter().all(|name| sent(&state, name).is_none()));
}
