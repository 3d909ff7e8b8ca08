//! The folders that a process writes dumps to, by its rule or by what it was started with.

use std::path::{Path, PathBuf};

use procprof_files::Folder;
use procprof_process::Process;

use super::super::rules::Pattern;
use super::Watched;

/// Endings of files that are taken for dumps where a rule names a folder alone.
const ENDINGS: &[&str] = &[".heap", ".gz", ".pprof", ".prof", ".pb", ".jfr", ".collapsed"];
/// The folder of jemalloc's dumps in the environment of a program that has it with or without a prefix.
const MALLOC_CONF: &[&str] = &["MALLOC_CONF", "_RJEM_MALLOC_CONF", "JE_MALLOC_CONF"];
/// The folder in a log folder in which StarRocks keeps profiles.
const STARROCKS: &str = "proc_profile";

/// A folder of dumps, as a rule has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DumpFolder {
    /// The working directory or `prof_prefix` for the files of jemalloc, and StarRocks' `proc_profile`.
    Auto,
    /// A folder as the process sees it, and which files of it.
    Named(PathBuf, Option<Pattern>),
}

impl DumpFolder {
    /// `auto`, `FOLDER` or `FOLDER/PATTERN`.
    ///
    /// # Errors
    /// What was expected.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        if !text.starts_with('/') {
            return Err(format!("expected auto or an absolute path, got {text}"));
        }
        let (folder, last) = text.rsplit_once('/').unwrap_or_default();
        if folder.contains('*') {
            return Err(format!("{text}: * may be in the last part of the path only"));
        }
        Ok(match last.contains('*') {
            true => Self::Named(PathBuf::from(format!("{folder}/")), Some(Pattern::new(last))),
            false => Self::Named(PathBuf::from(text), None),
        })
    }
}

/// Which files of an open folder are dumps of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    names: Names,
    /// The user as whom the process runs, whose files are read.
    pub(super) user: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    /// Those of jemalloc: `PREFIX.PID.NUMBER.KIND.heap`; of any prefix if there is none.
    Jemalloc(Option<String>, u32),
    Like(Pattern),
    Usual,
}

impl Place {
    pub(super) fn takes(&self, name: &str) -> bool {
        match &self.names {
            Names::Jemalloc(prefix, pid) => is_of_jemalloc(name, prefix.as_deref(), *pid),
            Names::Like(pattern) => pattern.matches(name),
            Names::Usual => ENDINGS.iter().any(|ending| name.ends_with(ending)),
        }
    }
}

/// Whether a name is that of a dump that jemalloc has made in a process by itself: `jeprof.4711.0.i0.heap`.
fn is_of_jemalloc(name: &str, prefix: Option<&str>, pid: u32) -> bool {
    let mut parts = name.rsplitn(5, '.');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (Some("heap"), Some(kind), Some(number), Some(of)) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    // f: at the end, i: by an interval, m: on request, u: by a high-water mark.
    let is_kind = kind == "f" || kind.strip_prefix(['f', 'i', 'm', 'u']).is_some_and(is_number);
    let is_prefix = parts.next().is_some_and(|own| prefix.is_none_or(|prefix| prefix == own));
    is_kind && is_number(number) && of.parse() == Ok(pid) && is_prefix
}

/// The folders of a process, open, and why others are not; `None` if the process has ended.
pub(super) fn places(watched: &Watched) -> (Option<Vec<(Place, Folder)>>, Vec<String>) {
    let pid = watched.identity.pid.0;
    let process = Process::open(watched.identity.pid).ok();
    let Some(process) = process.filter(|process| process.identity().is_same(&watched.identity)) else {
        return (None, Vec::new());
    };
    let Ok(status) = process.status() else { return (None, Vec::new()) };
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let (mut open, mut errors) = (Vec::new(), Vec::new());
    for folder in &watched.folders {
        let (wanted, is_named): (Vec<(PathBuf, Names)>, bool) = match folder {
            DumpFolder::Named(path, pattern) => {
                (vec![(path.clone(), pattern.clone().map_or(Names::Usual, Names::Like))], true)
            }
            DumpFolder::Auto => {
                let own = status.namespace_pids.last().map_or(pid, |own| own.0);
                (derived(&process, own), false)
            }
        };
        for (path, names) in wanted {
            match Folder::open_in_root(&root, &path) {
                Ok(folder) => open.push((Place { names, user: status.uid }, folder)),
                // Of those that are derived, a process has some only.
                Err(error) if !is_named && error.is_not_found() => {}
                Err(error) => errors.push(reason(&error)),
            }
        }
    }
    // What was read may be another process's, if this one has ended meanwhile.
    if process.check_same().is_err() { (None, Vec::new()) } else { (Some(open), errors) }
}

fn reason(error: &procprof_files::Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

/// The folders in which a process may write dumps by itself.
fn derived(process: &Process, own_pid: u32) -> Vec<(PathBuf, Names)> {
    let variable = |name: &str| process.environment(name).ok().flatten().filter(|value| !value.is_empty());
    let mut found = Vec::new();
    if let Ok(working) = std::fs::read_link(format!("/proc/{}/cwd", process.pid())) {
        let configured = MALLOC_CONF.iter().find_map(|name| prefix(&variable(name)?));
        found.push(match configured {
            Some(prefix) => in_folder(&working, &prefix, own_pid),
            None => (working, Names::Jemalloc(None, own_pid)),
        });
    }
    let logs =
        [variable("LOG_DIR").map(PathBuf::from), variable("STARROCKS_HOME").map(|home| Path::new(&home).join("log"))];
    let mut logs: Vec<PathBuf> = logs.into_iter().flatten().filter(|folder| folder.is_absolute()).collect();
    logs.dedup();
    found.extend(logs.into_iter().map(|folder| (folder.join(STARROCKS), Names::Usual)));
    found
}

/// The `prof_prefix` of jemalloc's options, which are separated by commas.
fn prefix(options: &str) -> Option<String> {
    let found = options.split(',').filter_map(|option| option.strip_prefix("prof_prefix:")).next_back()?;
    (!found.is_empty()).then(|| found.to_owned())
}

fn in_folder(working: &Path, prefix: &str, pid: u32) -> (PathBuf, Names) {
    let (folder, name) = match prefix.rsplit_once('/') {
        Some((folder, name)) => (working.join(format!("{folder}/")), name),
        None => (working.to_owned(), prefix),
    };
    (folder, Names::Jemalloc(Some(name.to_owned()), pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_folders_and_files() {
        let named = |path: &str, pattern: Option<&str>| DumpFolder::Named(path.into(), pattern.map(Pattern::new));
        assert_eq!(DumpFolder::parse("auto"), Ok(DumpFolder::Auto));
        assert_eq!(DumpFolder::parse("/a/b"), Ok(named("/a/b", None)));
        assert_eq!(DumpFolder::parse("/a/b*.heap"), Ok(named("/a/", Some("b*.heap"))));
        assert_eq!(DumpFolder::parse("/*"), Ok(named("/", Some("*"))));
        assert!(DumpFolder::parse("/a*/b").unwrap_err().contains("last part"));
        assert!(DumpFolder::parse("a/b").unwrap_err().contains("absolute path"));
    }

    #[test]
    fn dumps_of_jemalloc_are_known_by_their_names() {
        for (name, expected) in [
            ("jeprof.4711.0.i0.heap", true),
            ("jeprof.4711.12.f.heap", true),
            ("jeprof.4711.3.u2.heap", true),
            ("a.b.4711.3.m2.heap", true),
            ("jeprof.4712.0.i0.heap", false),
            ("jeprof.04711.0.i0.heaps", false),
            ("jeprof.4711.0.x0.heap", false),
            ("jeprof.4711.0.i.heap", false),
            ("4711.0.i0.heap", false),
            ("heap", false),
            ("", false),
        ] {
            assert_eq!(is_of_jemalloc(name, None, 4711), expected, "{name}");
        }
        assert!(is_of_jemalloc("a.b.1.0.i0.heap", Some("a.b"), 1) && !is_of_jemalloc("a.b.1.0.i0.heap", Some("b"), 1));
        let usual = Place { names: Names::Usual, user: 0 };
        assert!(usual.takes("cpu-profile-20261120-222534-pprof.gz") && !usual.takes("be.INFO"));
    }

    #[test]
    fn the_prefix_of_jemalloc_names_a_folder() {
        assert_eq!(prefix("prof:true,prof_prefix:/data/je,lg_prof_interval:30").as_deref(), Some("/data/je"));
        assert_eq!(prefix("prof_prefix:a,prof_prefix:b").as_deref(), Some("b"));
        assert_eq!((prefix("prof:true"), prefix("prof_prefix:")), (None, None));
        let of = |prefix: &str| in_folder(Path::new("/srv"), prefix, 7);
        let names = |name: &str| Names::Jemalloc(Some(name.to_owned()), 7);
        assert_eq!(of("je"), (PathBuf::from("/srv"), names("je")));
        assert_eq!(of("sub/je"), (PathBuf::from("/srv/sub/"), names("je")));
        assert_eq!(of("/data/je"), (PathBuf::from("/data/"), names("je")));
    }
}
