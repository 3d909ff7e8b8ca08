//! The lines `collect` writes: `[2026-11-20 22:31:05] text`, with `WARNING:` and `ERROR:` as the script has them.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use jiff::Zoned;

/// A log file this long is renamed to `….log.1`, in place of the one before.
const MAX_BYTES: u64 = 16 << 20;

/// The destination of log lines.
pub(super) struct Journal {
    place: Place,
}

enum Place {
    /// Standard output; warnings and errors to standard error.
    Terminal,
    File(Mutex<LogFile>),
}

struct LogFile {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Lines for people at a terminal.
    pub(super) fn terminal() -> Journal {
        Journal { place: Place::Terminal }
    }

    /// Lines appended to a file.
    pub(super) fn file(path: &Path) -> Result<Journal> {
        let file = open(path)?;
        Ok(Journal { place: Place::File(Mutex::new(LogFile { path: path.to_owned(), file })) })
    }

    /// Logs an event.
    pub(super) fn info(&self, text: &str) {
        self.line("", text);
    }

    /// Logs that something was skipped or is incomplete.
    pub(super) fn warning(&self, text: &str) {
        self.line("WARNING: ", text);
    }

    /// Logs a failure.
    pub(super) fn error(&self, text: &str) {
        self.line("ERROR: ", text);
    }

    /// A line that cannot be written is lost: there is no other place to report it.
    fn line(&self, level: &str, text: &str) {
        let text = text.replace(['\n', '\r'], " ");
        let line = format!("[{}] {level}{text}\n", Zoned::now().strftime("%Y-%m-%d %H:%M:%S"));
        drop(match &self.place {
            Place::Terminal if level.is_empty() => std::io::stdout().write_all(line.as_bytes()),
            Place::Terminal => std::io::stderr().write_all(line.as_bytes()),
            Place::File(log) => log.lock().unwrap_or_else(PoisonError::into_inner).write(&line),
        });
    }
}

impl LogFile {
    fn write(&mut self, line: &str) -> std::io::Result<()> {
        if self.file.metadata()?.len() + line.len() as u64 > MAX_BYTES {
            let mut older = self.path.clone().into_os_string();
            older.push(".1");
            fs::rename(&self.path, older)?;
            self.file = OpenOptions::new().append(true).create(true).open(&self.path)?;
        }
        self.file.write_all(line.as_bytes())
    }
}

fn open(path: &Path) -> Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("make folder {}", folder.display()))?;
    }
    OpenOptions::new().append(true).create(true).open(path).with_context(|| format!("open {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_file_has_the_scripts_lines_and_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/collect_be_profile.log");
        let journal = Journal::file(&path).unwrap();
        journal.error("no\nconnection");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("[20") && text.ends_with("] ERROR: no connection\n"), "{text}");
        File::options().write(true).open(&path).unwrap().set_len(MAX_BYTES).unwrap();
        journal.info("next");
        assert_eq!(fs::metadata(path.with_extension("log.1")).unwrap().len(), MAX_BYTES);
        assert!(fs::read_to_string(&path).unwrap().ends_with("] next\n"));
    }
}
