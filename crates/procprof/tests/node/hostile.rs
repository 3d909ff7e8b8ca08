//! Processes that show an agent more of themselves than it can bear, beside an ordinary service.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use procprof_profile::Profile;

use super::{Agent, Busy, Server, State, decoded, pids};
use crate::harness::{procprof, signal};
use crate::record::compiled;

/// Memory that an agent may take beside what it has without hostile processes; it has some 50 MiB of its 100 MiB.
const MORE_KIB_MAX: u64 = 48 << 10;

/// What an agent of a debug build needs.
const LIMITS: &str = "memory_bytes_max = \"1 GiB\"\ncpu_milli_max = 1000\n";

/// A program of `testdata/record` that runs, with the first line that it has printed.
struct Hostile {
    child: Child,
    line: String,
    _folder: tempfile::TempDir,
}

impl Hostile {
    fn start(source: &str, name: &str, prepare: impl FnOnce(&mut Command, &Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(name);
        compiled(source, &[], &program);
        let mut command = Command::new(&program);
        prepare(&mut command, &program);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{name} has ended");
        Self { child, line, _folder: folder }
    }

    fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(perf_map(self.id()));
    }
}

fn perf_map(pid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/perf-{pid}.map"))
}

/// A figure of `/proc/PID/status`, in KiB.
fn kib(pid: u32, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The profiles of CPU time of a service so far.
fn profiles(state: &State, service: &str) -> Vec<(i64, i64, Profile)> {
    let mut found: Vec<(i64, i64, Profile)> = state
        .profiles
        .values()
        .filter(|(header, ..)| header.service.as_deref() == Some(service) && header.profile_type == "cpu")
        .map(|(header, bytes, _)| (header.start_nanos, header.duration_nanos, decoded(bytes)))
        .collect();
    found.sort_by_key(|(start, ..)| *start);
    found
}

/// Runs an agent beside an ordinary service and hostile processes until the agent has told what it must tell, and as
/// many more profiles of the ordinary service have come: none may be missing, and no sample lost. What else is waited
/// for is `awaited`, given the pids of the hostile processes.
fn check(hostile: impl FnOnce() -> Vec<Hostile>, told: &[&str], awaited: impl Fn(&State, &[u32]) -> bool) {
    let ordinary = Busy::start("busy-beside");
    let server = Server::start();
    let agent = Agent::start(&server, LIMITS);
    let pid = agent.child.id();
    server.await_state("profiles", |state| (!profiles(state, "busy-beside").is_empty()).then_some(()));
    let before = kib(pid, "VmHWM:");
    let hostile = hostile();
    let first = profiles(&server.state.lock().unwrap(), "busy-beside").len();
    for told in told {
        server.await_state(&format!("{told:?} in the facts of a service"), |state| {
            let services = &state.heartbeats.last()?.services;
            services.iter().flat_map(|service| &service.hints).find(|hint| hint.contains(told)).map(|_| ())
        });
    }
    server.await_state("more profiles", |state| (profiles(state, "busy-beside").len() >= first + 3).then_some(()));
    let ids: Vec<u32> = hostile.iter().map(Hostile::id).collect();
    server.await_state("what the hostile processes show", |state| awaited(state, &ids).then_some(()));
    let peak = kib(pid, "VmHWM:");
    assert!(peak < before + MORE_KIB_MAX, "{before} KiB before, {peak} KiB at most");
    let begun = Instant::now();
    signal(pid, "TERM");
    let mut agent = agent;
    assert!(agent.child.wait().unwrap().success());
    // It takes at most 5 s; the others are those of a loaded machine.
    assert!(begun.elapsed() < Duration::from_secs(10), "it stopped after {:?}", begun.elapsed());
    let state = std::mem::take(&mut *server.state.lock().unwrap());
    let of_ordinary = profiles(&state, "busy-beside");
    for pair in of_ordinary.windows(2) {
        let gap = pair[1].0 - pair[0].0 - pair[0].1;
        assert!(gap.abs() < 100_000_000, "{gap} ns between two profiles");
    }
    assert!(of_ordinary.iter().all(|(_, _, profile)| pids(profile).contains(&i64::from(ordinary.child.id()))));
    let last = &state.heartbeats.last().unwrap().host;
    // Where it waits for a CPU, its samples cost more.
    assert!(last.samples_lost == 0 && last.hz >= 10, "{last:?}");
}

#[test]
fn once_tells_of_texts_that_are_not_read_and_a_long_class_path_hides_no_main_class() {
    let long = Hostile::start("texts.c", "long-line", |command, _| {
        command.env("TEXTS", "cmdline").env("TEXTS_MIB", "1");
    });
    let class = format!("com.example.Main{}", std::process::id());
    let _java = Hostile::start("texts.c", "java", |command, _| {
        command.arg0("java").args(["-cp", &"/opt/lib/a.jar:".repeat(6_900), &class]);
    });
    let output = procprof().args(["node", "--once"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = format!("process {}: its command line is longer than 256 KiB; the rest is not read", long.id());
    assert!(text.contains(&line), "{text}");
    assert!(text.lines().any(|line| line.trim_end().ends_with(&class)), "{text}");
}

#[test]
fn a_program_of_a_user_is_not_taken_for_another_users() {
    let name = format!("busy{}", std::process::id());
    let start = |uid: Option<u32>| {
        Hostile::start("texts.c", &name, |command, program| {
            let folder = program.parent().unwrap();
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
            if let Some(uid) = uid {
                command.uid(uid).gid(uid);
            }
        })
    };
    // A number that no user has is its own name.
    let _programs = [None, Some(3_999_999_999)].map(start);
    let output = procprof().args(["node", "--once"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for service in [name.clone(), format!("3999999999:{name}")] {
        assert!(text.lines().any(|line| line.trim_end().ends_with(&format!(" {service}"))), "{service}: {text}");
    }
}

/// Code that a program has made, with a perf map that `write` writes; it is given the address of the first function.
fn generated(name: &str, write: impl FnOnce(u64, &mut File)) -> Hostile {
    let hostile = Hostile::start("generated.c", name, |command, _| {
        command.arg("20000");
    });
    let start = u64::from_str_radix(hostile.line.trim(), 16).unwrap();
    write(start, &mut File::create(perf_map(hostile.id())).unwrap());
    hostile
}

#[test]
fn perf_maps_of_any_content_cost_their_own_names_alone() {
    let sparse = || generated("map-sparse", |_, file| file.set_len(500 << 20).unwrap());
    let every = || {
        generated("map-of-all", |_, file| {
            let lines = b"0 ffffffffffffff a\n".repeat(10_000);
            (0..340).for_each(|_| file.write_all(&lines).unwrap());
        })
    };
    // 20,000 functions, and 230,000 that do not run now, in 17 MiB: a debug build reads a third as much in the time.
    let honest = || {
        generated("map-honest", |start, file| {
            let mut text = String::new();
            for number in 0..250_000_u64 {
                let address = start.wrapping_add(number * 64);
                text += &format!("{address:x} 40 function_{number:08}_with_a_name_of_fifty_letters_or_more\n");
            }
            assert!(text.len() > 16 << 20);
            file.write_all(text.as_bytes()).unwrap();
        })
    };
    let told = ["it has 500 MiB; at most 64 MiB are read"];
    // The leaves of a profile that are named, and all of them.
    let named = |profile: &Profile, honest: u32| {
        let of_honest = profile.samples().zip(pids(profile)).filter(|(_, pid)| *pid == i64::from(honest));
        let leaves: Vec<_> = of_honest.filter_map(|(sample, _)| sample.stack.first().copied()).collect();
        let is_named = |id: &procprof_profile::LocationId| {
            let line = profile.lines(*id).first();
            line.is_some_and(|line| profile.string(profile.function(line.function).name).starts_with("function_"))
        };
        (leaves.iter().filter(|id| is_named(id)).count(), leaves.len())
    };
    // On a busy host a profile has few samples; those before the map was read have no names.
    check(
        || vec![sparse(), every(), honest()],
        &told,
        |state, ids| {
            let of_honest = profiles(state, "map-honest");
            let counts = of_honest.iter().map(|(_, _, profile)| named(profile, ids[2])).filter(|(named, _)| *named > 0);
            let (named, all) = counts.fold((0, 0), |(named, all), count| (named + count.0, all + count.1));
            all > 9 && named * 10 > all * 8
        },
    );
}

/// Gives an ELF file an `.eh_frame` of so many bytes, a hole at its end, without a search table.
fn widen_eh_frame(path: &Path, bytes: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let number = |at: u64, length: usize| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word[..length], at).unwrap();
        u64::from_le_bytes(word)
    };
    let (segments, sections) = (number(0x20, 8), number(0x28, 8));
    for segment in 0..number(0x38, 2) {
        let at = segments + segment * 56;
        // PT_GNU_EH_FRAME
        if number(at, 4) == 0x6474_e550 {
            file.write_all_at(&[0; 4], at).unwrap();
        }
    }
    let names = number(sections + number(0x3e, 2) * 64 + 24, 8);
    let end = file.metadata().unwrap().len().next_multiple_of(4096);
    let mut found = false;
    for section in 0..number(0x3c, 2) {
        let at = sections + section * 64;
        let mut name = [0; 10];
        let _ = file.read_exact_at(&mut name, names + number(at, 4));
        if &name == b".eh_frame\0" {
            file.write_all_at(&[end.to_le_bytes(), bytes.to_le_bytes()].concat(), at + 24).unwrap();
            found = true;
        }
    }
    assert!(found, "no .eh_frame");
    file.set_len(end + bytes.min(1 << 40)).unwrap();
}

#[test]
fn long_texts_and_sections_of_any_size_cost_their_own_processes_alone() {
    let with = |name: &str, bytes: u64| Hostile::start("texts.c", name, |_, program| widen_eh_frame(program, bytes));
    let showing = |text: &str| {
        Hostile::start("texts.c", text, |command, _| {
            command.env("TEXTS", text).env("TEXTS_MIB", "63");
        })
    };
    let start = || {
        let files = [("hole-of-500", 500 << 20), ("hole-of-250", 250 << 20), ("lying", u64::MAX / 2)];
        let files = files.map(|(name, bytes)| with(name, bytes));
        files.into_iter().chain(["cmdline", "environ"].map(showing)).collect()
    };
    let told = ["its command line is longer than 256 KiB", "its environment is longer than 256 KiB"];
    check(start, &told, |state, _| {
        let names = ["hole-of-500", "hole-of-250", "lying", "cmdline", "environ"];
        names.iter().all(|name| !profiles(state, name).is_empty())
    });
}

#[test]
fn changes_of_a_process_are_followed_up_to_a_limit() {
    let start = || {
        let changing = |kind: &str| {
            Hostile::start("neighbour.c", &format!("changes-{kind}"), |command, _| {
                // A debug build does not read as fast as two CPUs can write.
                command.args([kind, "slowly"]);
            })
        };
        ["mappings", "names"].map(changing).into()
    };
    check(start, &[], |state, _| {
        let profiles = profiles(state, "changes-mappings");
        let mut names = profiles.iter().flat_map(|(_, _, profile)| profile.parts().strings.iter());
        names.any(|name| name == "[process that maps code too often]")
    });
}

/// Moves what of an ELF file is not loaded behind a hole.
fn spread(path: &Path, hole: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let number = |at: u64, length: usize| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word[..length], at).unwrap();
        u64::from_le_bytes(word)
    };
    let (sections, mut end) = (number(0x28, 8), hole);
    for section in 0..number(0x3c, 2) {
        let at = sections + section * 64;
        let (kind, flags, offset, size) =
            (number(at + 4, 4), number(at + 8, 8), number(at + 24, 8), number(at + 32, 8));
        if kind != 0 && flags & 2 == 0 {
            let mut bytes = vec![0; size as usize];
            file.read_exact_at(&mut bytes, offset).unwrap();
            file.write_all_at(&bytes, end).unwrap();
            file.write_all_at(&end.to_le_bytes(), at + 24).unwrap();
            end = (end + size).next_multiple_of(16);
        }
    }
}

#[test]
fn a_program_of_nearly_a_gigabyte_keeps_its_names() {
    const BUILD_ID: &str = "99887766554433221100aabb";
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("large-program");
    compiled("texts.c", &["-g", &format!("-Wl,--build-id=0x{BUILD_ID}")], &program);
    spread(&program, 900_000_000);
    let large = Busy::start_command(&mut Command::new(&program)).in_folder(folder);
    let server = Server::start();
    server.update(|state| state.wanted_symbols = vec![BUILD_ID.to_owned()]);
    let agent = Agent::start(&server, LIMITS);
    let symbols = server.await_state("symbols", |state| state.symbols.first().cloned());
    let index = procprof_symbolize::SymbolIndex::from_bytes(symbols).unwrap();
    assert!(index.contents().unwrap().has_lines);
    let whole = server.await_state("a profile", |state| {
        profiles(state, "large-program").into_iter().find(|(_, _, profile)| profile.sample_count() > 0)
    });
    assert!(pids(&whole.2).contains(&i64::from(large.child.id())));
    let depths: Vec<usize> = whole.2.samples().map(|sample| sample.stack.len()).collect();
    assert!(depths.iter().any(|depth| *depth >= 3), "{depths:?}");
    agent.stop();
}
