//! Finds the JVMs of this host, and the one that a [`JvmTarget`] names.

use std::path::PathBuf;

use procprof_process::{Pid, Process};

use super::JvmError;

/// Options of `java` whose value is the next argument.
const WITH_VALUE: &[&str] = &[
    "-cp",
    "-classpath",
    "--class-path",
    "-p",
    "--module-path",
    "--upgrade-module-path",
    "--add-modules",
    "--enable-native-access",
    "--limit-modules",
    "--add-exports",
    "--add-opens",
    "--add-reads",
    "--patch-module",
    "--source",
    "--describe-module",
    "-d",
];

/// Longest pid file, in bytes.
const PID_FILE_MAX: u64 = 64;

/// Names a JVM. It is looked up for each use, so that a restarted one is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JvmTarget {
    /// The process with that pid.
    Pid(Pid),
    /// The process whose pid is in a file.
    PidFile(PathBuf),
    /// The only one with that main class (with its package or without), or that jar.
    MainClass(String),
    /// The only one whose command line contains this text.
    CommandLine(String),
}

/// A JVM of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundJvm {
    /// Its pid.
    pub pid: Pid,
    /// Its main class, jar or module, as the first 256 KiB of its command line name it; the program's name where they
    /// name none.
    pub main: String,
    /// The first 256 KiB of its command line, words joined by blanks.
    pub command_line: String,
}

impl JvmTarget {
    /// The process that it names at this moment.
    ///
    /// # Errors
    /// [`JvmError::NotFound`] where none fits, or several do.
    pub fn find(&self) -> Result<Pid, JvmError> {
        match self {
            JvmTarget::Pid(pid) => Ok(*pid),
            JvmTarget::PidFile(path) => {
                let unfit = |why: String| JvmError::NotFound(format!("pid file {}: {why}", path.display()));
                let mut text = String::new();
                let file = procprof_process::open_regular(path).map_err(|error| unfit(error.to_string()))?;
                std::io::Read::read_to_string(&mut std::io::Read::take(file, PID_FILE_MAX), &mut text)
                    .map_err(|error| unfit(error.to_string()))?;
                let pid = text.trim().parse().map_err(|_| unfit("no pid in it".to_owned()))?;
                Ok(Pid(pid))
            }
            JvmTarget::MainClass(class) => {
                only(running_jvms(), &format!("with the main class {class}"), |found| is_class(&found.main, class))
            }
            JvmTarget::CommandLine(part) => {
                only(running_jvms(), &format!("with {part:?} in its command line"), |found| {
                    found.command_line.contains(part)
                })
            }
        }
    }
}

/// The JVMs of this host whose command line and maps we may read, by pid.
pub fn running_jvms() -> Vec<FoundJvm> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<FoundJvm> = pids.filter_map(|pid| FoundJvm::with_pid(Pid(pid))).collect();
    found.sort_by_key(|found| found.pid.0);
    found
}

impl FoundJvm {
    /// The process with a pid, if it is a JVM whose command line and maps we may read.
    pub fn with_pid(pid: Pid) -> Option<FoundJvm> {
        let process = Process::open(pid).ok()?;
        let program = process.executable().ok()?.path.file_name()?.to_string_lossy().into_owned();
        // Other programs have a JVM within, and `java` becomes one a moment after it was started.
        let has_library =
            || process.maps().is_ok_and(|maps| maps.iter().any(|range| range.path.ends_with("libjvm.so")));
        if program != "java" && !has_library() {
            return None;
        }
        let words = process.command_line().ok()?.arguments;
        let main = main_class(words.get(1..).unwrap_or_default()).unwrap_or(program);
        Some(FoundJvm { pid, main, command_line: words.join(" ") })
    }
}

/// The main class, jar or module of a command line of `java`, given without its first argument.
fn main_class(words: &[String]) -> Option<String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-jar" => return words.next().map(|jar| jar.rsplit('/').next().unwrap_or(jar).to_owned()),
            "-m" | "--module" => return words.next().cloned(),
            option if WITH_VALUE.contains(&option) => {
                words.next();
            }
            option if option.starts_with(['-', '@']) || option.is_empty() => {}
            class => return Some(class.to_owned()),
        }
    }
    None
}

/// Whether a main class has that name, with or without its package.
fn is_class(main: &str, named: &str) -> bool {
    main == named || main.strip_suffix(named).is_some_and(|package| package.ends_with(['.', '/']))
}

fn only(found: Vec<FoundJvm>, which: &str, fits: impl Fn(&FoundJvm) -> bool) -> Result<Pid, JvmError> {
    let pids: Vec<Pid> = found.iter().filter(|found| fits(found)).map(|found| found.pid).collect();
    match pids.as_slice() {
        [pid] => Ok(*pid),
        [] => Err(JvmError::NotFound(format!("no JVM {which} is running (or this user may not see it)"))),
        several => {
            let pids: Vec<String> = several.iter().take(10).map(Pid::to_string).collect();
            Err(JvmError::NotFound(format!("{} JVMs {which} are running: pids {}", several.len(), pids.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn main_of(line: &str) -> Option<String> {
        main_class(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn main_classes_are_found_behind_options() {
        assert_eq!(
            main_of("-Xmx1g -cp lib/a.jar:b com.starrocks.StarRocksFE --host_type IP").unwrap(),
            "com.starrocks.StarRocksFE"
        );
        assert_eq!(main_of("-Dfoo=bar -jar /opt/app/server.jar --port 1").unwrap(), "server.jar");
        assert_eq!(main_of("--add-opens java.base/java.nio=ALL-UNNAMED -m app/app.Main").unwrap(), "app/app.Main");
        assert_eq!(main_of("@arguments Busy.java").unwrap(), "Busy.java");
        assert_eq!(main_of("-version"), None);
        assert!(is_class("com.starrocks.StarRocksFE", "StarRocksFE") && is_class("app/app.Main", "app.Main"));
        assert!(!is_class("com.starrocks.StarRocksFE", "FE") && !is_class("Main", "other.Main"));
    }

    #[test]
    fn one_that_is_meant_must_be_the_only_one() {
        let jvm = |pid, main: &str| FoundJvm { pid: Pid(pid), main: main.to_owned(), command_line: String::new() };
        let all = || vec![jvm(1, "a.Main"), jvm(2, "b.Main"), jvm(3, "c.Other")];
        assert_eq!(only(all(), "", |found| is_class(&found.main, "Other")).unwrap(), Pid(3));
        let error = only(all(), "with the main class Main", |found| is_class(&found.main, "Main")).unwrap_err();
        assert_eq!(error.to_string(), "2 JVMs with the main class Main are running: pids 1, 2");
        assert!(only(Vec::new(), "x", |_| true).is_err());
    }
}
