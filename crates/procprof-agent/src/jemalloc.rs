//! jemalloc's own heap profiler, driven through its `mallctl`.
//!
//! The function pointer comes from the embedder, who knows which jemalloc the program allocates with: this crate links none, so a second
//! one can't get in. jemalloc writes a dump to a file of a given name; that file is private, read once and deleted.

use crate::error::{Error, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The largest dump that is read into memory, bytes.
pub const MAX_DUMP_BYTES: u64 = 1 << 30;

/// The type of jemalloc's `mallctl` and of tikv-jemalloc-sys's `_rjem_mallctl`.
pub type MallctlFn =
    unsafe extern "C" fn(name: *const c_char, old: *mut c_void, old_length: *mut usize, new: *mut c_void, new_length: usize) -> c_int;

/// How the program's jemalloc names its symbols, and with them its environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JemallocNaming {
    /// `_rjem_mallctl`: tikv-jemallocator as it comes.
    Rust,
    /// `mallctl`: a C or C++ program's, or tikv-jemallocator with its unprefixed feature.
    Plain,
}

impl JemallocNaming {
    /// The environment variable this jemalloc reads when the process starts.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Rust => "_RJEM_MALLOC_CONF",
            Self::Plain => "MALLOC_CONF",
        }
    }
}

/// The jemalloc this process allocates with.
#[derive(Clone, Copy, Debug)]
pub struct Jemalloc {
    mallctl: MallctlFn,
    naming: JemallocNaming,
}

/// What jemalloc's profiler is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapStatus {
    /// Built with profiling (`config.prof`).
    pub compiled_in: bool,
    /// Started with profiling (`opt.prof`); without it nothing below can be changed.
    pub available: bool,
    /// Sampling now (`prof.active`).
    pub active: bool,
    /// Base-2 logarithm of the mean number of bytes between samples.
    pub lg_sample: Option<usize>,
}

impl Jemalloc {
    /// Names the function through which this process's jemalloc is controlled.
    ///
    /// # Safety
    /// `mallctl` is the `mallctl` of the jemalloc that is this process's allocator, and stays loaded.
    pub const unsafe fn new(mallctl: MallctlFn, naming: JemallocNaming) -> Self {
        Self { mallctl, naming }
    }

    /// What the profiler is doing now.
    pub fn status(&self) -> HeapStatus {
        let flag = |name| self.read::<bool>(name).unwrap_or(false);
        HeapStatus {
            compiled_in: flag(c"config.prof"),
            available: flag(c"opt.prof"),
            active: flag(c"prof.active"),
            lg_sample: self.read::<usize>(c"prof.lg_sample").or_else(|| self.read(c"opt.lg_prof_sample")),
        }
    }

    /// Switches sampling on or off, for present and future threads.
    ///
    /// # Errors
    /// [`Error::HeapUnavailable`] when the process was started without profiling; [`Error::Mallctl`].
    pub fn set_active(&self, active: bool) -> Result<()> {
        self.require_available()?;
        self.write(c"prof.thread_active_init", "prof.thread_active_init", active)?;
        self.write(c"prof.active", "prof.active", active)
    }

    /// Forgets all samples; `lg_sample` sets the base-2 logarithm of the mean bytes between samples from now on, else it stays.
    ///
    /// # Errors
    /// [`Error::HeapUnavailable`] when the process was started without profiling; [`Error::Mallctl`].
    pub fn reset(&self, lg_sample: Option<usize>) -> Result<()> {
        self.require_available()?;
        match lg_sample {
            Some(lg_sample) => self.write(c"prof.reset", "prof.reset", lg_sample),
            None => self.call(c"prof.reset", "prof.reset", std::ptr::null_mut(), 0),
        }
    }

    fn require_available(&self) -> Result<()> {
        if self.status().available {
            return Ok(());
        }
        Err(Error::HeapUnavailable { variable: self.naming.variable(), compiled_in: self.status().compiled_in })
    }

    fn read<T: Copy + Default>(&self, name: &CStr) -> Option<T> {
        let (mut value, mut length) = (T::default(), size_of::<T>());
        // SAFETY: `new`'s promise; `value` has room for `length` bytes, and only plain integers and flags are read.
        let code = unsafe { (self.mallctl)(name.as_ptr(), (&raw mut value).cast(), &mut length, std::ptr::null_mut(), 0) };
        (code == 0 && length == size_of::<T>()).then_some(value)
    }

    fn write<T>(&self, name: &CStr, text: &'static str, mut value: T) -> Result<()> {
        self.call(name, text, (&raw mut value).cast(), size_of::<T>())
    }

    fn call(&self, name: &CStr, text: &'static str, new: *mut c_void, length: usize) -> Result<()> {
        // SAFETY: `new`'s promise; `new` is null or points to `length` bytes that outlive the call.
        match unsafe { (self.mallctl)(name.as_ptr(), std::ptr::null_mut(), std::ptr::null_mut(), new, length) } {
            0 => Ok(()),
            code => Err(Error::Mallctl { name: text, source: io::Error::from_raw_os_error(code) }),
        }
    }
}

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
    /// Makes the file before jemalloc opens it, so that it has this mode and can't be somebody's link.
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
        // Nothing is left to do when somebody else has removed it.
        let _ = fs::remove_file(&self.path);
    }
}
