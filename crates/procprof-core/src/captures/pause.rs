//! Whether scheduled captures are paused; a restart keeps it so.

use std::io;
use std::path::PathBuf;

use tokio::sync::watch;

/// The switch, and where its state is kept.
pub(super) struct Pause {
    state: watch::Sender<bool>,
    file: PathBuf,
}

impl Pause {
    /// As it was left; the file is there while captures are paused.
    pub(super) fn open(file: PathBuf) -> Pause {
        Pause { state: watch::Sender::new(file.exists()), file }
    }

    /// Whether scheduled captures are paused.
    pub(super) fn is_paused(&self) -> bool {
        *self.state.borrow()
    }

    /// Sees each change.
    pub(super) fn changes(&self) -> watch::Receiver<bool> {
        self.state.subscribe()
    }

    /// Pauses or resumes scheduled captures.
    ///
    /// # Errors
    /// It cannot be kept; it holds for this process all the same.
    pub(super) fn set(&self, paused: bool) -> io::Result<()> {
        self.state.send_replace(paused);
        match paused {
            true => procprof_files::replace(&self.file, b"scheduled captures are paused\n", 0o640)?,
            false => drop(procprof_files::remove(&self.file)?),
        }
        Ok(())
    }
}
