//! Heap dumps drawn in jeprof's shapes, by the command's own grammar of that name: in a child, since it reads foreign
//! binaries.
//!
//! The dumps are the frames of the child's input; the words of its task name them `{0}`, `{1}`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use procprof_core::children::ChildError;
use procprof_process::{Pid, Process};
use procprof_profile::format::{self, Limits, jemalloc};
use procprof_profile::{Addresses, LocationId, Profile, ProfileId};
use procprof_store::Entry;

use crate::Sql;
use crate::mysql::{SqlError, SqlErrorKind};

/// The answer for a dump without samples.
const NO_NODES: &str = "No nodes to print: too little was allocated since the heap profiler was switched on; let the \
                        process work for a while, then dump again";

/// The program a dump is of.
pub(super) enum Program {
    /// A file.
    File(PathBuf),
    /// Of a process of this machine, and not at `path`: it was replaced since it started, or is in a container. It can
    /// be read through the process.
    Through { link: PathBuf, path: PathBuf },
    /// On another machine, or ended: the dump brings the names that were found when it was stored.
    Elsewhere,
}

impl Program {
    /// The program of a process on this machine: by its path where that leads to the same file, else through the
    /// process.
    pub(super) fn from_pid(pid: u32) -> Program {
        let link = PathBuf::from(format!("/proc/{pid}/exe"));
        let path = Process::open(Pid(pid)).and_then(|process| process.executable()).map(|executable| executable.path);
        match path {
            Ok(path) if is_same_file(&path, &link) => Program::File(path),
            Ok(path) if link.exists() => Program::Through { link, path },
            _ => Program::Elsewhere,
        }
    }

    /// The file to name it by.
    fn file(&self) -> Option<&Path> {
        match self {
            Program::File(file) | Program::Through { link: file, .. } => Some(file),
            Program::Elsewhere => None,
        }
    }

    /// A dump whose memory map calls the program by the path of that file.
    fn dump(&self, dump: Bytes) -> Bytes {
        match self {
            Program::Through { link, path } => renamed(&dump, path, link).into(),
            Program::File(_) | Program::Elsewhere => dump,
        }
    }
}

/// A dump whose memory map has another path of the program.
fn renamed(dump: &[u8], path: &Path, to: &Path) -> Vec<u8> {
    let (path, to) = (path.as_os_str().as_bytes(), to.as_os_str().as_bytes());
    let rename = |line: &[u8]| {
        let (line, end) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |line| (line, &b"\n"[..]));
        let mapped = line.strip_suffix(b" (deleted)").unwrap_or(line);
        match mapped.strip_suffix(path).filter(|rest| rest.last().is_some_and(u8::is_ascii_whitespace)) {
            Some(rest) => [rest, to, end].concat(),
            None => [line, end].concat(),
        }
    };
    dump.split_inclusive(|byte| *byte == b'\n').flat_map(rename).collect()
}

fn is_same_file(path: &std::path::Path, link: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |path: &std::path::Path| std::fs::metadata(path).map(|state| (state.dev(), state.ino())).ok();
    number(path).is_some_and(|number_of_path| Some(number_of_path) == number(link))
}

fn other(text: impl Into<String>) -> SqlError {
    SqlError::new(SqlErrorKind::Other, text)
}

/// A dump, or what it has more than a base, as jeprof's option prints it.
pub(super) async fn jeprof(
    sql: &Arc<Sql>,
    option: &str,
    program: Program,
    base: Option<&Entry>,
    entry: &Entry,
) -> Result<String, SqlError> {
    let mut words = vec![option.to_owned()];
    let brings_names = matches!(program, Program::Elsewhere);
    let mut dumps = Vec::new();
    for (name, entry) in [base.map(|base| ("{1}", base)), Some(("{0}", entry))].into_iter().flatten().rev() {
        let (store, id) = (Arc::clone(&sql.store), entry.id);
        let dump = tokio::task::spawn_blocking(move || {
            store.open_bytes(id).map_err(|error| error.to_string()).and_then(|b| dump(&b, brings_names))
        });
        let dump = dump.await.map_err(|error| other(error.to_string()))?;
        dumps.push(program.dump(dump.map_err(|why| other(format!("dump {}: {why}", entry.id)))?.into()));
        if name == "{1}" {
            words.push("--base={1}".to_owned());
        }
    }
    words.extend(program.file().map(|program| program.to_string_lossy().into_owned()));
    words.push("{0}".to_owned());
    run_jeprof(sql, words, dumps).await
}

/// A dump as it came from the process, as jeprof's option prints it; `None` where its program is elsewhere.
pub(super) async fn jeprof_of_dump(
    sql: &Sql,
    option: &str,
    program: &Program,
    dump: Bytes,
) -> Option<Result<String, SqlError>> {
    let words = vec![option.to_owned(), program.file()?.to_string_lossy().into_owned(), "{0}".to_owned()];
    Some(run_jeprof(sql, words, vec![program.dump(dump)]).await)
}

/// The output of jeprof's grammar for dumps.
async fn run_jeprof(sql: &Sql, words: Vec<String>, dumps: Vec<Bytes>) -> Result<String, SqlError> {
    match sql.children.jeprof(words, dumps, &sql.config()).await {
        Ok(drawing) => String::from_utf8(drawing).map_err(|error| other(format!("draw: {error}"))),
        Err(ChildError::Ended { status, complaint }) => match first_error(&complaint) {
            Some("No nodes to print") => Ok(NO_NODES.to_owned()),
            message => Err(other(format!("draw: the child ended with {status}: {}", message.unwrap_or("no message")))),
        },
        Err(error @ ChildError::TooLong { .. }) => Err(SqlError::new(SqlErrorKind::TimedOut, format!("draw: {error}"))),
        Err(error) => Err(other(format!("draw: {error}"))),
    }
}

/// The first error of jeprof, without the names of its files before it.
fn first_error(complaint: &str) -> Option<&str> {
    complaint.lines().find(|line| !line.is_empty() && !line.starts_with("Using local file"))
}

/// A DOT with the link to its drawn graph in a last line, a comment; `base` is the address of this server's pages for
/// users.
pub(super) fn with_link(dot: String, base: &str, id: ProfileId) -> String {
    match base.is_empty() || !dot.starts_with("digraph") {
        true => dot,
        false => format!("{}\n// {}/p/{id}?format=svg\n", dot.trim_end_matches('\n'), base.trim_end_matches('/')),
    }
}

/// A stored profile as jemalloc's text, preceded by the names it was stored with if `with_names`.
fn dump(stored: &[u8], with_names: bool) -> Result<Vec<u8>, String> {
    let profile = format::decode(stored, &Limits::default()).map_err(|error| error.to_string())?.profile;
    let text = jemalloc::encode(&profile).map_err(|error| error.to_string())?;
    Ok(if with_names { [names(&profile).as_bytes(), &text].concat() } else { text })
}

/// The head of what jeprof calls a symbolized profile: a line for each address, its functions outermost first.
fn names(profile: &Profile) -> String {
    let program = profile.mappings().first().map_or("", |mapping| profile.string(mapping.filename));
    let mut text = format!("--- symbol\nbinary={program}\n");
    for (index, location) in profile.locations().iter().enumerate() {
        let lines = profile.lines(LocationId(index as u32));
        let functions: Vec<&str> =
            lines.iter().rev().map(|line| profile.string(profile.function(line.function).name)).collect();
        // jeprof looks names up at the call, one byte before the address it returns to.
        let before = if profile.addresses() == Addresses::CallSite { 0 } else { 1 };
        if !functions.is_empty() {
            text += &format!(
                "0x{:016x} {}\n",
                location.address.0.wrapping_sub(before),
                functions.join("--").replace('\n', " ")
            );
        }
    }
    text + "---\n--- heap\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_map_is_renamed_and_nothing_else() {
        let dump = b"heap_v2/1\n  t*: 1: 2\nMAPPED_LIBRARIES:\n5-6 r-xp 0 fd:01 7 /bin/be (deleted)\n\
            6-7 r-xp 0 fd:01 7 /bin/be\n7-8 r-xp 0 fd:01 8 /old/bin/be\n8-9 r-xp 0 fd:01 9 /lib/libc.so.6 (deleted)\n9-a /bin/be";
        let expected = b"heap_v2/1\n  t*: 1: 2\nMAPPED_LIBRARIES:\n5-6 r-xp 0 fd:01 7 /proc/1/exe\n\
            6-7 r-xp 0 fd:01 7 /proc/1/exe\n7-8 r-xp 0 fd:01 8 /old/bin/be\n8-9 r-xp 0 fd:01 9 /lib/libc.so.6 (deleted)\n9-a /proc/1/exe";
        let made = renamed(dump, Path::new("/bin/be"), Path::new("/proc/1/exe"));
        assert_eq!(String::from_utf8_lossy(&made), String::from_utf8_lossy(expected));
    }
}
