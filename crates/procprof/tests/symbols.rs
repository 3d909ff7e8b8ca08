//! Symbols that travel: a stripped program in a mount namespace of its own is profiled, and gets its names from what is
//! pushed.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use procprof_process::BuildId;
use procprof_profile::format::{self, Limits};
use procprof_profile::{Addr, LocationId, Mapping, Profile, ProfileBuilder};
use serde_json::Value;

use crate::harness::{Server, folder, procprof, text};

/// A busy program with an agent, stripped, in a file that only its own mount namespace has; killed when dropped.
struct Hidden {
    child: Child,
    address: String,
    /// Its path in its namespace, which does not exist outside.
    path: PathBuf,
    /// Its debug file, elsewhere.
    debug: PathBuf,
    build_id: String,
}

impl Hidden {
    fn start(folder: &Path) -> Hidden {
        let at = |name: &str| folder.join(name);
        std::fs::create_dir(at("inside")).expect("a folder to mount on");
        // The names of functions are enough, and all else is large.
        let (built, whole) = (Path::new(env!("CARGO_BIN_EXE_procprof")), at("whole"));
        objcopy(&["--strip-debug".as_ref(), built.as_os_str(), whole.as_os_str()]);
        objcopy(&["--only-keep-debug".as_ref(), whole.as_os_str(), at("busy.debug").as_os_str()]);
        objcopy(&["--strip-all".as_ref(), whole.as_os_str(), at("stripped").as_os_str()]);
        let script = "mount -t tmpfs none \"$1/inside\" && cp \"$1/stripped\" \"$1/inside/busy\" && exec \"$1/inside/busy\" demo-node --role be";
        let mut unshare = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            unshare.arg("--map-root-user");
        }
        let child = unshare.args(["--mount", "sh", "-c", script, "sh"]).arg(folder).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("this test needs unshare");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let address =
            line.trim().strip_prefix("listening ").unwrap_or_else(|| panic!("it printed {line:?}")).to_owned();
        let build_id =
            BuildId::of_file(&std::fs::File::open(&whole).expect("the program")).expect("ELF").expect("a build id");
        Hidden { child, address, path: at("inside/busy"), debug: at("busy.debug"), build_id: build_id.to_string() }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn objcopy(arguments: &[&std::ffi::OsStr]) {
    let status = Command::new("objcopy").args(arguments).status().expect("this test needs objcopy");
    assert!(status.success(), "objcopy {arguments:?}");
}

fn command(arguments: &[&str]) -> Output {
    procprof().args(arguments).output().expect("procprof starts")
}

/// The share of a profile's CPU time, in percent, whose innermost function has a name and whose frames in `file` all
/// have one.
fn named_percent(profile: &Profile, file: &Path) -> f64 {
    let column = profile.default_sample_type();
    let is_named = |id: LocationId| !profile.lines(id).is_empty();
    let is_of_file = |id: LocationId| {
        let mapping = profile.location(id).mapping.map(|mapping| profile.string(profile.mapping(mapping).filename));
        mapping.is_some_and(|name| Path::new(name) == file)
    };
    let (mut named, mut total) = (0, 0);
    for sample in profile.samples() {
        let value = sample.values[column];
        total += value;
        let is_whole = sample.stack.first().is_some_and(|leaf| is_named(*leaf))
            && sample.stack.iter().all(|id| is_named(*id) || !is_of_file(*id));
        named += if is_whole { value } else { 0 };
    }
    100.0 * named as f64 / total.max(1) as f64
}

#[test]
fn a_stripped_program_in_its_own_mount_namespace_gets_names_from_what_is_pushed() {
    let folder = folder();
    let hidden = Hidden::start(folder.path());
    assert!(!hidden.path.exists(), "its file is nowhere outside its namespace");
    let file = folder.path().join("procprof.toml");
    let config = format!(
        "self_interval_seconds = 3600\n[[node]]\nname = \"hidden\"\nkind = \"procprof\"\nhttp = \"{}\"\nschedule.cpu = {{ seconds = 2, every = 600 }}\n",
        hidden.address
    );
    std::fs::write(&file, config).expect("a configuration");
    let server = Server::start(&folder.path().join("data"), &["--config", &file.display().to_string()]);
    server.wait_for("a CPU profile", |server| !server.profiles("node=hidden&type=cpu").is_empty());
    let id = server.profiles("node=hidden&type=cpu")[0]["id"].as_str().expect("an id").to_owned();
    let download = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, server.get(&format!("/api/profiles/{id}/download")).1).expect("the download is kept");
        let bytes = std::fs::read(&path).expect("the download");
        (path, format::decode(&bytes, &Limits::default()).expect("a profile").profile)
    };

    // Everything that shows it names the file and what to do.
    let missing = server.json(&format!("/api/profiles/{id}"))["wanted"][0].clone();
    // The file that runs is seen to be stripped, also from outside its namespace.
    let (folder_of_id, rest) = hidden.build_id.split_at(2);
    let debug = format!("/usr/lib/debug/.build-id/{folder_of_id}/{rest}.debug");
    let push = format!("procprof symbols push --server {} {debug}", server.base);
    assert_eq!(missing["file"].as_str().map(Path::new), Some(hidden.path.as_path()), "{missing}");
    assert_eq!(
        (missing["build_id"].as_str(), missing["command"].as_str()),
        (Some(hidden.build_id.as_str()), Some(push.as_str())),
        "{missing}"
    );
    // On a busy machine two seconds hold few samples, some of them in the C library.
    assert!(missing["percent"].as_f64().is_some_and(|percent| percent > 60.0), "{missing}");
    for page in [format!("/p/{id}"), "/proc_profile?node=hidden".to_owned(), "/symbols".to_owned()] {
        let (status, body) = server.get(&page);
        let body = String::from_utf8_lossy(&body);
        assert!(status == 200 && body.contains(&push) && body.contains(&hidden.build_id), "{page}: {body}");
    }
    let (path, before) = download("before.pb.gz");
    assert!(named_percent(&before, &hidden.path) < 10.0, "{}", named_percent(&before, &hidden.path));
    let report = command(&["report", "-top", &path.display().to_string()]);
    let printed = String::from_utf8_lossy(&report.stderr).into_owned();
    let wanted =
        printed.lines().find(|line| line.contains("wanted: busy (build id ")).unwrap_or_else(|| panic!("{printed}"));
    assert!(report.status.success() && wanted.contains(&hidden.build_id), "{printed}");
    assert!(
        wanted.contains("% of samples") && wanted.contains("procprof symbols push") && wanted.contains("--binary"),
        "{printed}"
    );

    // The stripped file itself has nothing to send; its debug file has.
    let stripped =
        command(&["symbols", "push", "--server", &server.base, &folder.path().join("stripped").display().to_string()]);
    assert!(!stripped.status.success() && text(&stripped).contains("it is stripped"), "{}", text(&stripped));
    let pushed = command(&["symbols", "push", "--server", &server.base, &hidden.debug.display().to_string()]);
    assert!(pushed.status.success() && text(&pushed).contains("stored profile"), "{}", text(&pushed));

    let (_, after) = download("after.pb.gz");
    let percent = named_percent(&after, &hidden.path);
    eprintln!("{percent:.2} % named after the push, of {} samples", after.sample_count());
    assert!(percent >= 85.0, "{percent} % named");
    let (_, top) = server.get(&format!("/api/profiles/{id}/render/top"));
    assert!(String::from_utf8_lossy(&top).contains("hot_70"), "{}", String::from_utf8_lossy(&top));
    let shown = server.json(&format!("/api/profiles/{id}"));
    assert!(!shown["wanted"].to_string().contains("/inside/busy"), "{shown}");
}

/// A C program with debug information, as three files: whole, stripped with a debug link, and the debug file.
fn compiled(folder: &Path) {
    let at = |name: &str| folder.join(name).into_os_string();
    std::fs::write(
        at("small.c"),
        "int twice(int x) { return 2 * x; }\nint main(int c, char **v) { return twice(c); }\n",
    )
    .expect("a source");
    let gcc = Command::new("gcc")
        .args(["-g", "-Wl,--build-id", "-o"])
        .args([at("small"), at("small.c")])
        .status()
        .expect("this test needs gcc");
    assert!(gcc.success());
    objcopy(&["--only-keep-debug".as_ref(), &at("small"), &at("small.debug")]);
    objcopy(&["--strip-all".as_ref(), &at("small"), &at("bare")]);
}

fn pack(program: &str, file: &Path) {
    let status = Command::new(program).args(["-q", "-k"]).arg(file).status();
    assert!(status.unwrap_or_else(|error| panic!("this test needs {program}: {error}")).success());
}

#[test]
fn what_is_pushed_is_listed_and_removed_and_may_be_compressed() {
    let folder = folder();
    let server = Server::start(&folder.path().join("data"), &[]);
    let symbols = |arguments: &[&str]| {
        let output = command(&[&["symbols", arguments[0], "--server", &server.base], &arguments[1..]].concat());
        (output.status.success(), text(&output))
    };
    let path = |name: &str| folder.path().join(name).display().to_string();
    let all = folder.path().join("all");
    std::fs::create_dir(&all).expect("a folder");
    compiled(&all);
    let debug = all.join("small.debug");
    pack("xz", &debug);
    pack("zstd", &debug);
    pack("gzip", &debug);

    let (done, printed) = symbols(&["list"]);
    assert!(done && printed.starts_with("no symbols\n"), "{printed}");
    for ending in ["", ".gz", ".xz", ".zst"] {
        let file = path(&format!("all/small.debug{ending}"));
        let (done, printed) = symbols(&["push", &file]);
        assert!(done && printed.contains("functions") && printed.contains(" sent as "), "{ending}: {printed}");
        let (done, again) = symbols(&["push", &file]);
        assert!(done && again.contains("by local (operator), which these do not replace"), "{ending}: {again}");
        if ending != ".zst" {
            let key = printed.split(" sent as ").nth(1).and_then(|rest| rest.get(..8)).expect("a key");
            assert!(symbols(&["remove", key]).0, "{printed}");
        }
    }
    let (done, printed) = symbols(&["push", &path("all")]);
    assert!(
        done && printed.contains("the same symbols were sent already") && printed.contains("1 stripped files"),
        "{printed}"
    );
    let listed: Value = server.json("/api/symbols");
    let rows = listed["symbols"].as_array().expect("rows");
    let key = rows[0]["key"].as_str().expect("a key");
    assert_eq!((rows.len(), rows[0]["detail"].as_str()), (1, Some("lines")), "{listed}");
    let (_, printed) = symbols(&["list"]);
    assert!(printed.contains(key) && printed.contains("small"), "{printed}");

    let (done, printed) = symbols(&["remove", "ffffffffffffffff"]);
    assert!(!done && printed.contains("no symbols have that key"), "{printed}");
    let (done, printed) = symbols(&["remove", &key[..8]]);
    assert!(done && printed == format!("{key}: removed\n"), "{printed}");
    for (file, why) in
        [("all/bare", "it is stripped"), ("all/small.c", "not an ELF file"), ("all/nowhere", "No such file")]
    {
        let (done, printed) = symbols(&["push", &path(file)]);
        assert!(!done && printed.contains(why), "{file}: {printed}");
    }
    assert!(server.json("/api/symbols")["symbols"].as_array().is_some_and(Vec::is_empty));
    let nobody = command(&["symbols", "push", "--server", "http://127.0.0.1:1", &path("all/small")]);
    assert!(!nobody.status.success() && text(&nobody).contains("ask http://127.0.0.1:1"), "{}", text(&nobody));
}

#[test]
fn missing_symbols_of_an_import_are_listed_at_once_and_by_the_server() {
    let (folder, be) = (folder(), "/opt/be/lib/starrocks_be");
    let (from, data) = (folder.path().join("proc_profile"), folder.path().join("data"));
    std::fs::create_dir(&from).expect("a folder");
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let filename = builder.intern(be);
    let mapping =
        builder.mapping(Mapping { start: Addr(0x40_0000), limit: Addr(0x80_0000), filename, ..Mapping::default() });
    let location = builder.address(Some(mapping), Addr(0x40_1000));
    builder.sample(&[location], &[1, 10_000_000], &[]);
    let profile = format::pprof::encode_gzip(&builder.finish().expect("a profile")).expect("it can be encoded");
    std::fs::write(from.join("cpu-profile-20251120-120000-pprof.gz"), profile).expect("a file");
    let mut import = procprof();
    let output = import.args(["store", "import", "--data"]).arg(&data).arg(&from).output().expect("procprof starts");
    let printed = text(&output);
    assert!(output.status.success() && printed.contains("1 added, 0 already there, 0 refused"), "{printed}");
    assert!(printed.contains(&format!("wanted: {be}, by 1 of them")), "{printed}");
    let server = Server::start(&data, &[]);
    let wanted = &server.json("/api/symbols")["wanted"][0];
    assert_eq!((wanted["file"].as_str(), wanted["percent"].as_f64()), (Some(be), Some(100.0)), "{wanted}");
}
