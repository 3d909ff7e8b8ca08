//! A `procprof serve` of its own for a test: its process, its data, its address.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Longest wait for anything that must happen; nothing is measured by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The built command.
pub(crate) fn procprof() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_procprof"));
    command.env("PROCPROF_CACHE_DIR", cache());
    command
}

/// The folder of what was read of programs, which all tests use.
pub(crate) fn cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache")
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// `http://127.0.0.1:PORT`.
    pub(crate) base: String,
    log: Mutex<mpsc::Receiver<String>>,
}

impl Server {
    /// Starts `serve` on a free port over `data` and waits until it answers.
    pub(crate) fn start(data: &Path, arguments: &[&str]) -> Server {
        let mut command = procprof();
        command.args(["serve", "--http", "127.0.0.1:0", "--data"]).arg(data).args(arguments);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("procprof starts");
        let (sender, receiver) = mpsc::channel();
        let mut server = Server { child, base: String::new(), log: Mutex::new(receiver) };
        let stderr = server.child.stderr.take().expect("its log is piped");
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                eprintln!("{line}");
                let _ = sender.send(line);
            }
        });
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            let Ok(line) = server.next_line() else { break };
            let Some((_, url)) = line.split_once("open http") else { continue };
            let Some((scheme, address)) = url.split_once("://") else { continue };
            server.base = format!("http{scheme}://{}", address.split('/').next().unwrap_or(address));
            return server;
        }
        panic!("the server did not start");
    }

    /// The next line of its log.
    fn next_line(&self) -> Result<String, mpsc::RecvTimeoutError> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(PATIENCE)
    }

    /// The port of its SQL listener, from the next line of its log.
    pub(crate) fn sql_port(&self) -> u16 {
        let line = self.next_line().expect("a line of the log");
        let (_, rest) = line.split_once("SQL at 127.0.0.1:").unwrap_or_else(|| panic!("no SQL door: {line}"));
        rest.split(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// The lines of its log from here to the first that holds `text`, which must come.
    pub(crate) fn log_until(&self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.next_line().unwrap_or_else(|_| panic!("no {text:?} in the log: {lines:#?}"));
            let is_last = line.contains(text);
            lines.push(line);
            if is_last {
                return lines;
            }
        }
    }

    /// Signals it to end; returns its status, and the lines of its log from here on.
    pub(crate) fn terminate_with_log(mut self) -> (ExitStatus, Vec<String>) {
        signal(self.pid(), "TERM");
        let mut lines = Vec::new();
        loop {
            match self.next_line() {
                Ok(line) => lines.push(line),
                // Its end closes the pipe, a moment before it can be reaped.
                Err(mpsc::RecvTimeoutError::Disconnected) => return (self.child.wait().expect("reap"), lines),
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("its log goes on: {lines:#?}"),
            }
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as the kernel would: no chance to clean up.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("reap");
    }

    /// Signals it to end and waits for that.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        signal(self.pid(), "TERM");
        self.child.wait().expect("reap")
    }

    /// Status and body of a GET.
    pub(crate) fn get(&self, path: &str) -> (u16, Vec<u8>) {
        curl(&[&format!("{}{path}", self.base)])
    }

    /// The JSON of a GET that must succeed.
    pub(crate) fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        let text = String::from_utf8_lossy(&body);
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"))
    }

    /// All stored profiles of a query such as `node=10001`, newest first.
    pub(crate) fn profiles(&self, query: &str) -> Vec<Value> {
        let mut rows = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = self.json(&format!("/api/profiles?limit=1000&{query}&cursor={cursor}"));
            rows.extend(page["profiles"].as_array().expect("an array of profiles").iter().cloned());
            match page["next"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => return rows,
            }
        }
    }

    /// Error rows of a query.
    pub(crate) fn errors(&self, query: &str) -> Vec<Value> {
        self.json(&format!("/api/errors?limit=1000&{query}"))["errors"].as_array().expect("an array of errors").clone()
    }

    /// Waits until `ready` is true.
    pub(crate) fn wait_for(&self, what: &str, mut ready: impl FnMut(&Server) -> bool) {
        let start = Instant::now();
        while !ready(self) {
            assert!(start.elapsed() < PATIENCE, "not within {} s: {what}", PATIENCE.as_secs());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let children = children(self.pid());
        let _ = self.child.kill();
        let _ = self.child.wait();
        // They end without it, but may still write to its folder, which is removed next.
        let begun = Instant::now();
        while children.iter().any(|pid| is_running(*pid)) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The processes that threads of a process have started and that have not been waited for.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().map_while(Result::ok);
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

/// Whether a process has not ended.
fn is_running(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ") && !status.contains("State:\tX")
}

/// Sends a signal to a process this test started.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().expect("kill runs");
    assert!(status.success(), "kill -{name} {pid}");
}

/// Status and body of a request by curl.
pub(crate) fn curl(arguments: &[&str]) -> (u16, Vec<u8>) {
    let output =
        Command::new("curl").args(["-sS", "--max-time", "300", "-w", "\n%{http_code}"]).args(arguments).output();
    let output = output.expect("this test needs curl");
    let end = output.stdout.iter().rposition(|byte| *byte == b'\n').unwrap_or_default();
    let status = String::from_utf8_lossy(&output.stdout[end..]).trim().parse().unwrap_or_default();
    (status, output.stdout[..end].to_vec())
}

/// The output of `go tool pprof` with these arguments; fails unless it succeeds.
pub(crate) fn go_tool_pprof(arguments: &[&str]) -> String {
    let output = Command::new("go").args(["tool", "pprof"]).args(arguments).output().expect("this test needs go");
    assert!(output.status.success(), "go tool pprof {arguments:?}: {}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A program that reports are compared with.
pub(crate) fn peer(name: &str) -> PathBuf {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/peers")).join(name).join(name);
    assert!(path.exists(), "this test needs {}, which `cargo xtask test` installs", path.display());
    path
}

/// Removes what a JVM that is killed leaves in `/tmp`: the socket that it was attached by, and the repository of its
/// Flight Recorder, such as `2026_11_28_16_20_03_4242`.
pub(crate) fn remove_remains_of_jvm(pid: u32) {
    let _ = std::fs::remove_file(format!("/tmp/.java_pid{pid}"));
    for entry in std::fs::read_dir("/tmp").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("20") && name.ends_with(&format!("_{pid}")) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Standard output and error as one text.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Every file below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map_while(Result::ok).map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// A folder for a test's data.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A folder for what the tests of this process share, without links in its path. It stays until the next run, which
/// removes those of processes that have ended.
pub(crate) fn shared_folder() -> &'static Path {
    static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("processes");
        std::fs::create_dir_all(&all).expect("a folder for all processes");
        for entry in std::fs::read_dir(&all).expect("its entries").map_while(Result::ok) {
            if !Path::new("/proc").join(entry.file_name()).exists() {
                // Another test process may remove it, too.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let own = all.canonicalize().expect("its path").join(std::process::id().to_string());
        // A process that had this number before may have left it.
        let _ = std::fs::remove_dir_all(&own);
        std::fs::create_dir(&own).expect("a folder of this process");
        own
    });
    &FOLDER
}

/// The only port that a process listens at, once it does.
pub(crate) fn listening_port(pid: u32) -> u16 {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
        let targets = descriptors.map_while(Result::ok).filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let sockets: Vec<String> = targets.map(|target| target.display().to_string()).collect();
        let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).expect("its sockets");
        let port = table.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_own = words.get(3) == Some(&"0A") && sockets.contains(&format!("socket:[{}]", words[9]));
            is_own.then(|| u16::from_str_radix(words[1].rsplit(':').next()?, 16).ok()).flatten()
        });
        if let Some(port) = port {
            return port;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("process {pid} listens nowhere");
}

/// Copies a folder with all that is in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    let status = Command::new("cp").args(["-a", "--reflink=auto", "-T"]).args([from, to]).status().expect("cp runs");
    assert!(status.success(), "cp -a {} {}", from.display(), to.display());
}

/// A small file system in memory; unmounted when dropped.
pub(crate) struct SmallDisk(TempDir);

impl SmallDisk {
    pub(crate) fn new(size: &str) -> SmallDisk {
        let folder = folder();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "procprof-test"])
            .arg(folder.path())
            .status();
        assert!(mounted.is_ok_and(|status| status.success()), "this test needs `mount -t tmpfs`, so root");
        SmallDisk(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills it to its last byte; the file is removed to make room.
    pub(crate) fn fill(&self) -> PathBuf {
        let filler = self.path().join("filler");
        // The write fails at the end.
        assert!(std::fs::write(&filler, vec![0u8; 128 << 20]).is_err());
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(self.0.path()).status();
    }
}
