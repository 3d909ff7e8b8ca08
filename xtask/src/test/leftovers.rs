//! What tests leave behind: temporary files, shared memory, groups of processes, mounts and processes.
//!
//! Each suite has a folder for temporary files of its own (`TMPDIR`), which is empty when it has ended well. Of places
//! that all programs of the machine share, only what looks like ours counts.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Folders that all programs share.
const SHARED: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Groups of processes of the kernel.
const GROUPS: &str = "/sys/fs/cgroup";

/// How names begin that tests and the programs under test give to files of [`SHARED`].
const OURS: [&str; 8] =
    ["procprof", "libprocprof", ".procprof", ".java_pid", ".attach_pid", "jeprof", ".org.chromium", "playwright"];

/// How long processes may take to end after their tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the tests of one run write, and what was there before.
pub(crate) struct Places {
    root: tempfile::TempDir,
    suites: Mutex<Vec<String>>,
    before: BTreeSet<PathBuf>,
}

impl Places {
    /// Makes a folder for temporary files.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn new() -> Result<Places> {
        // Paths of sockets have at most 107 bytes.
        let root = tempfile::Builder::new().prefix("pp-").tempdir().context("make a folder for temporary files")?;
        open_to_all(root.path())?;
        Ok(Places { root, suites: Mutex::default(), before: shared() })
    }

    /// The folder for temporary files of a suite.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn folder_of(&self, suite: &str) -> Result<PathBuf> {
        let number = {
            let mut suites = self.suites.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            suites.iter().position(|known| known == suite).unwrap_or_else(|| {
                suites.push(suite.to_owned());
                suites.len() - 1
            })
        };
        let folder = self.root.path().join(number.to_string());
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        open_to_all(&folder)?;
        Ok(folder)
    }

    /// What is left now, a line each. Processes that are left are killed, and the folders of the suites removed.
    pub(crate) fn leftovers(self) -> Vec<String> {
        let mut found = self.left_by_suites();
        found.extend(shared().difference(&self.before).map(|path| path.display().to_string()));
        found
    }

    fn left_by_suites(&self) -> Vec<String> {
        let mut found = Vec::new();
        let root = self.root.path().as_os_str().as_bytes();
        let deadline = Instant::now() + PATIENCE;
        let mut processes = processes_with(root);
        while !processes.is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(100));
            processes = processes_with(root);
        }
        for (pid, command) in processes {
            found.push(format!("process {pid}: {command}"));
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                // It may have ended meanwhile.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let suites = self.suites.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (number, suite) in suites.iter().enumerate() {
            let left = entries(&self.root.path().join(number.to_string()));
            found.extend(left.iter().map(|path| format!("temporary file of {suite}: {}", described(path))));
        }
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let root = self.root.path().to_string_lossy();
        found.extend(mounts.lines().filter(|line| line.contains(&*root)).map(|line| format!("mount: {line}")));
        found
    }
}

fn open_to_all(folder: &Path) -> Result<()> {
    // Some tests run programs as another user.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o1777))
        .with_context(|| format!("set permissions of {}", folder.display()))
}

/// The name of a file, and of a folder what it holds, too, which tells whose it is.
fn described(path: &Path) -> String {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !path.is_dir() {
        return name(path);
    }
    let held = entries(path).iter().map(|path| name(path)).collect::<Vec<_>>();
    format!("{} with [{}]", name(path), held.join(", "))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// What looks like ours in places that all programs share.
fn shared() -> BTreeSet<PathBuf> {
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        OURS.iter().any(|start| name.starts_with(start)) || is_recorders(&name)
    };
    let files = SHARED.iter().flat_map(|folder| entries(Path::new(folder)));
    let groups = entries(Path::new(GROUPS)).into_iter().flat_map(|group| {
        let mut all = entries(&group);
        all.push(group);
        all
    });
    files.chain(groups).filter(is_ours).collect()
}

/// Whether a folder of that name is the repository of a JVM's Flight Recorder: `2026_11_28_16_20_03_4242`.
fn is_recorders(name: &str) -> bool {
    let mut parts = name.split('_');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.clone().count() == 7 && parts.all(is_number)
}

/// Processes in whose environment a text stands, with their command lines.
fn processes_with(text: &[u8]) -> Vec<(i32, String)> {
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for process in entries(Path::new("/proc")) {
        let Some(name) = process.file_name().and_then(|name| name.to_str()) else { continue };
        let Ok(pid) = name.parse() else { continue };
        // A process of another user, or one that has ended.
        let Ok(environment) = fs::read(process.join("environ")) else { continue };
        if name == own || !environment.windows(text.len()).any(|window| window == text) {
            continue;
        }
        let command = fs::read(process.join("cmdline")).unwrap_or_default();
        found.push((pid, String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned()));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn files_and_processes_that_stay_are_found() {
        let places = Places::new().unwrap();
        let folder = places.folder_of("a suite").unwrap();
        assert_eq!(places.folder_of("a suite").unwrap(), folder);
        assert_ne!(places.folder_of("another").unwrap(), folder);
        fs::write(folder.join("left"), "").unwrap();
        let mut child = Command::new("sleep").arg("1000").env("TMPDIR", &folder).spawn().unwrap();
        let found = processes_with(folder.as_os_str().as_bytes());
        assert_eq!(found, [(i32::try_from(child.id()).unwrap(), "sleep 1000".to_owned())]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(places.left_by_suites(), ["temporary file of a suite: left"]);
    }

    #[test]
    fn repositories_of_jvms_are_ours() {
        assert!(is_recorders("2026_11_28_16_20_03_4242"));
        for other in ["2026_11_28_16_20_03", "2026_11_28_16_20_03_", "a_11_28_16_20_03_4242", "_"] {
            assert!(!is_recorders(other), "{other}");
        }
    }
}
