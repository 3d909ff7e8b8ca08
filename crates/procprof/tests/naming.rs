//! The sources of names of `procprof report`, and its lines about missing ones.

#![allow(clippy::unwrap_used, reason = "a failing unwrap is a failing test")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use procprof_process::BuildId;
use procprof_profile::{Addr, Mapping, ProfileBuilder, format};
use tempfile::TempDir;

use crate::harness::{PATIENCE, copy_folder, folder, procprof, shared_folder};

/// The load address of the program, according to the profile.
const START: u64 = 0x5500_0000_0000;

/// A stripped program, its debug file in a folder of its own, and a profile of it.
struct Program {
    folder: TempDir,
    profile: PathBuf,
    build_id: String,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(program: &str, arguments: &[&std::ffi::OsStr]) {
    let status =
        Command::new(program).args(arguments).status().unwrap_or_else(|error| panic!("{program} is needed: {error}"));
    assert!(status.success(), "{program} {arguments:?}");
}

impl Program {
    fn new() -> Self {
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        copy_folder(compiled(), folder.path());
        let whole = path("whole");
        let build_id = BuildId::of_file(&std::fs::File::open(&whole).unwrap()).unwrap().unwrap().to_string();
        let profile = path("profile.pb.gz");
        let program = Self { folder, profile, build_id };
        program.write_profile(&program.path("busy"), &program.build_id, address_of(&whole));
        program
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// One sample in the program, one in code made at run time, one in the kernel, two in a library that is nowhere.
    fn write_profile(&self, binary: &Path, build_id: &str, function: u64) {
        let mut builder = ProfileBuilder::new(&[("samples", "count")]);
        let mut mapping = |start: u64, filename: &str, build_id: &str| {
            let (filename, build_id) = (builder.intern(filename), builder.intern(build_id));
            let mapping = Mapping {
                start: Addr(start),
                limit: Addr(start + 0x100_0000),
                filename,
                build_id,
                ..Mapping::default()
            };
            builder.mapping(mapping)
        };
        let main = mapping(START, binary.to_str().unwrap(), build_id);
        let memory = mapping(0x7000_0000, "", "");
        let gone = mapping(0x6000_0000, "/opt/gone/lib.so", "00ff00ff");
        let places = [
            (Some(main), START + function),
            (Some(memory), 0x7000_0010),
            (None, 0xffff_ffff_8100_0010),
            (Some(gone), 0x6000_0010),
            (Some(gone), 0x6000_0020),
        ];
        for (mapping, address) in places {
            let location = builder.address(mapping, Addr(address));
            builder.sample(&[location], &[20], &[]);
        }
        std::fs::write(&self.profile, format::pprof::encode(&builder.finish().unwrap()).unwrap()).unwrap();
    }

    /// The report's text, and its standard error. No names are looked for in this user's folders.
    fn report(&self, arguments: &[&str], environment: &[(&str, &str)]) -> (String, String) {
        let mut command = procprof();
        command
            .arg("report")
            .args(arguments)
            .arg("-top")
            .arg(&self.profile)
            .env_remove("DEBUGINFOD_URLS")
            .env_remove("PPROF_BINARY_PATH");
        command
            .env("HOME", self.folder.path())
            .env("PROCPROF_CACHE_DIR", self.path("cache"))
            .envs(environment.iter().copied());
        let Output { status, stdout, stderr } = command.output().unwrap();
        assert!(status.success(), "{}", text(&stderr));
        (text(&stdout), text(&stderr))
    }
}

/// A folder with the program, its stripped copy, and its debug file, made once.
fn compiled() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let folder = shared_folder().join("naming");
        std::fs::create_dir_all(folder.join("symbols")).unwrap();
        let path = |name: &str| folder.join(name).into_os_string();
        let flags = ["-O2", "-g", "-Wl,--build-id=sha1", "-Wl,-Ttext-segment=0", "-o"].map(std::ffi::OsStr::new);
        run("g++", &[&flags[..], &[&path("whole"), source("inline.cpp").as_os_str()]].concat());
        run("objcopy", &["--only-keep-debug".as_ref(), &path("whole"), &path("symbols/busy.debug")]);
        run("objcopy", &["--strip-all".as_ref(), &path("whole"), &path("busy")]);
        folder
    });
    &FOLDER
}

/// The place in the file of the second byte of `shapes::area(int)`, by `nm`: the file is linked so that places and
/// addresses are the same.
fn address_of(program: &Path) -> u64 {
    let output = Command::new("nm").arg("-C").arg(program).output().expect("nm is needed");
    let names = text(&output.stdout);
    let line = names.lines().find(|line| line.ends_with(" T shapes::area(int)")).unwrap_or_else(|| panic!("{names}"));
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap() + 1
}

#[test]
fn what_has_no_name_is_counted_and_missing_files_are_listed() {
    let program = Program::new();
    let (shown, errors) = program.report(&[], &[]);
    assert!(!shown.contains("shapes::area"), "{shown}");
    let counted =
        "procprof: 5 of 5 addresses have no name: 2 file missing, 1 mapping without a file, 1 kernel, 1 no symbols\n";
    assert!(errors.contains(counted), "{errors}");
    for wanted in [
        "lib.so (build id 00ff00ff): hides 40.0 %",
        &format!("busy (build id {}): hides 20.0 %", program.build_id),
        "it is stripped",
    ] {
        assert!(errors.contains(wanted), "{errors}");
    }
}

#[test]
fn names_come_from_the_files_that_were_given() {
    let program = Program::new();
    let busy = program.path("symbols/busy.debug");
    let (perf_map, kallsyms) = (program.path("perf.map"), program.path("kallsyms"));
    std::fs::write(&perf_map, "70000000 100 Interpreter::loop(int)\n").unwrap();
    std::fs::write(&kallsyms, "ffffffff81000000 T do_syscall\n").unwrap();
    let flag = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let rest = [flag("perf-map", &perf_map), flag("kallsyms", &kallsyms)];
    let folder = program.path("symbols").display().to_string();
    for (own, environment) in [
        (flag("binary", &busy), None),
        (flag("debug-dir", &program.path("symbols")), None),
        ("--short-names".to_owned(), Some(("PPROF_BINARY_PATH", folder.as_str()))),
    ] {
        if environment.is_some() {
            std::fs::rename(&busy, program.path("symbols/busy")).unwrap();
        }
        let arguments = [own.as_str(), &rest[0], &rest[1]];
        let (shown, errors) = program.report(&arguments, &environment.into_iter().collect::<Vec<_>>());
        let (area, made) = if environment.is_some() {
            ("shapes::area\n", "Interpreter::loop\n")
        } else {
            ("shapes::area(int)\n", "Interpreter::loop(int)\n")
        };
        for name in [area, made, "do_syscall\n"] {
            assert!(shown.contains(name), "{own}: {shown}\n{errors}");
        }
        assert!(errors.contains("2 of 5 addresses have no name: 2 file missing\n"), "{own}: {errors}");
        assert!(
            errors.contains(&format!("unverified: nothing proves that {} is the profiled file\n", kallsyms.display())),
            "{own}: {errors}"
        );
    }
    let other = program.path("other");
    run(
        "gcc",
        &[
            "-x".as_ref(),
            "c".as_ref(),
            "-Wl,--build-id=sha1".as_ref(),
            "-o".as_ref(),
            other.as_os_str(),
            source("inline.c").as_os_str(),
        ],
    );
    let (_, errors) = program.report(&[&flag("binary", &other)], &[]);
    assert!(
        errors.contains(&format!("procprof: not used: {}: build id mismatch: its is ", other.display())),
        "{errors}"
    );
}

#[test]
fn paths_of_a_profile_without_build_ids_are_trusted_and_marked() {
    let program = Program::new();
    let whole = program.path("whole");
    program.write_profile(&whole, "", address_of(&whole));
    let unverified = format!("unverified: nothing proves that {} is the profiled file\n", whole.display());
    let (shown, errors) = program.report(&[], &[]);
    assert!(shown.contains("shapes::area(int)") && errors.contains(&unverified), "{shown}\n{errors}");
    let (shown, errors) = program.report(&["--trust-paths=false"], &[]);
    assert!(!shown.contains("shapes::area") && !errors.contains(&unverified), "{shown}\n{errors}");
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/symbolize").join(name)
}

/// A real server over a folder of debug files.
struct Debuginfod {
    child: Child,
    url: String,
}

impl Debuginfod {
    /// Starts it, and waits until it has the debug file of `build_id`.
    fn start(program: &Program) -> Self {
        // It has no option for any free port.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("debuginfod");
        command.args(["-F", "-p", &port.to_string(), "-d", ":memory:"]).arg(program.path("symbols"));
        command
            .env_remove("DEBUGINFOD_URLS")
            .env("HOME", program.folder.path())
            .env("DEBUGINFOD_CACHE_PATH", program.path("upstream"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("debuginfod is needed");
        let mut server = Self { child, url: format!("http://127.0.0.1:{port}") };
        let until = Instant::now() + PATIENCE;
        while !has(port, &program.build_id) {
            assert!(Instant::now() < until, "debuginfod does not have the file");
            if server.child.try_wait().unwrap().is_some() {
                // Another process took the port.
                return Self::start(program);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        server
    }
}

impl Drop for Debuginfod {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has(port: u16, build_id: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let request = format!("GET /buildid/{build_id}/debuginfo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut status = [0; 15];
    stream.write_all(request.as_bytes()).and_then(|()| stream.read_exact(&mut status)).is_ok()
        && status.ends_with(b"200 OK")
}

#[test]
fn what_was_read_is_kept_unless_that_is_not_wanted() {
    let program = Program::new();
    let debug_file = format!("--binary={}", program.path("symbols/busy.debug").display());
    let (without, _) = program.report(&[&debug_file, "--no-cache"], &[]);
    assert!(without.contains("shapes::area(int)\n") && !program.path("cache").exists(), "{without}");
    let (with, _) = program.report(&[&debug_file], &[]);
    assert_eq!((with, program.path("cache/symbols").exists()), (without, true));
}

#[test]
fn debug_files_are_fetched_from_a_real_debuginfod_and_kept() {
    let program = Program::new();
    let server = Debuginfod::start(&program);
    let url = server.url.clone();
    let environment = [("DEBUGINFOD_URLS", url.as_str())];
    let kept = program.path("cache/debuginfod").join(&program.build_id).join("debuginfo");
    let (shown, errors) = program.report(&[], &environment);
    assert!(shown.contains("shapes::area(int)\n"), "{shown}\n{errors}");
    assert!(
        errors.contains(&format!("fetching debug information from {url}/buildid/{}/debuginfo", program.build_id)),
        "{errors}"
    );
    assert_eq!(std::fs::read(&kept).unwrap(), std::fs::read(program.path("symbols/busy.debug")).unwrap());
    // A missing file is not requested again soon.
    assert!(program.path("cache/debuginfod/00ff00ff/missing").exists());
    drop(server);

    let (shown, errors) = program.report(&[], &environment);
    assert!(shown.contains("shapes::area(int)\n") && !errors.contains("debuginfod:"), "{shown}\n{errors}");
    std::fs::remove_dir_all(program.path("cache")).unwrap();
    let (shown, errors) = program.report(&[], &environment);
    assert!(
        !shown.contains("shapes::area") && errors.contains(&format!("procprof: debuginfod: {url}/buildid/")),
        "{shown}\n{errors}"
    );
    // A limit is reported when it is hit.
    let server = Debuginfod::start(&program);
    let environment = [("DEBUGINFOD_URLS", server.url.as_str()), ("DEBUGINFOD_MAXSIZE", "100")];
    let (_, errors) = program.report(&[], &environment);
    assert!(errors.contains("more than 100 bytes (DEBUGINFOD_MAXSIZE)"), "{errors}");
    assert!(!kept.exists());
}
