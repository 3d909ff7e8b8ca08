//! jemalloc's dump files: it writes a dump to a file of a given name; that file is private, read once and deleted.

use super::jemalloc::Jemalloc;
use crate::error::{Error, Result};
use crate::options::MAX_DUMP_BYTES;
use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Takes dumps, one at a time.
#[derive(Debug)]
pub(crate) struct Dumper {
    pub(crate) jemalloc: Jemalloc,
    folder: PathBuf,
    turn: Mutex<()>,
}

impl Dumper {
    /// Dumps pass through `folder`.
    pub(crate) fn new(jemalloc: Jemalloc, folder: PathBuf) -> Self {
        Self { jemalloc, folder, turn: Mutex::new(()) }
    }

    /// Refuses where no totals of all allocations are kept.
    pub(crate) fn require_totals(&self) -> Result<()> {
        self.jemalloc.require_available()?;
        let variable = self.jemalloc.naming().variable();
        if self.jemalloc.keeps_totals() { Ok(()) } else { Err(Error::NoTotals { variable }) }
    }

    /// The heap as sampled now: jemalloc's `heap_v2` text with `MAPPED_LIBRARIES`.
    pub(crate) fn dump(&self) -> Result<Vec<u8>> {
        self.jemalloc.require_available()?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let file = PrivateFile::create(&self.folder)?;
        let name = CString::new(file.path.as_os_str().as_bytes());
        let name = name.map_err(|error| Error::System { what: "name the heap dump file", source: error.into() })?;
        self.jemalloc.write(c"prof.dump", "prof.dump", name.as_ptr())?;
        file.read()
    }
}

/// An empty file only this user can read, deleted when dropped.
struct PrivateFile {
    path: PathBuf,
}

impl PrivateFile {
    /// Makes the file before jemalloc opens it, so that it has this mode and can't be another user's link.
    fn create(folder: &Path) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("procprof-{}-{number}.heap", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(_) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(Error::System { what: "create the heap dump file", source }),
            }
        }
    }

    fn read(&self) -> Result<Vec<u8>> {
        let system = |source| Error::System { what: "read the heap dump", source };
        let bytes = fs::metadata(&self.path).map_err(system)?.len();
        if bytes > MAX_DUMP_BYTES {
            return Err(Error::DumpTooLarge { bytes });
        }
        fs::read(&self.path).map_err(system)
    }
}

impl Drop for PrivateFile {
    fn drop(&mut self) {
        // Already removed: nothing is left to do.
        let _ = fs::remove_file(&self.path);
    }
}
