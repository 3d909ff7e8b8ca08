//! jemalloc's own heap profiler, driven through its `mallctl`.
//!
//! The function pointer comes from the embedding program, which links a specific jemalloc, or from the program's
//! exported symbols: this crate links none, so a second one can't get in.

use super::environment;
use crate::error::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;

/// The type of jemalloc's `mallctl` and of tikv-jemalloc-sys's `_rjem_mallctl`.
pub type MallctlFn = unsafe extern "C" fn(
    name: *const c_char,
    old: *mut c_void,
    old_length: *mut usize,
    new: *mut c_void,
    new_length: usize,
) -> c_int;

/// How the program's jemalloc names its symbols, and with them its environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JemallocNaming {
    /// `_rjem_mallctl`: tikv-jemallocator as it comes.
    Rust,
    /// `mallctl`: a C or C++ program's, or tikv-jemallocator with its unprefixed feature.
    Plain,
    /// `jemallctl`: built with `--with-jemalloc-prefix=je`, as StarRocks does.
    Je,
}

impl JemallocNaming {
    /// The environment variable this jemalloc reads when the process starts.
    pub fn variable(self) -> &'static str {
        match self {
            Self::Rust => "_RJEM_MALLOC_CONF",
            Self::Plain => "MALLOC_CONF",
            Self::Je => "JEMALLOC_CONF",
        }
    }

    fn mallctl(self) -> &'static CStr {
        match self {
            Self::Rust => c"_rjem_mallctl",
            Self::Plain => c"mallctl",
            Self::Je => c"jemallctl",
        }
    }
}

/// The jemalloc this process allocates with.
#[derive(Clone, Copy, Debug)]
pub struct Jemalloc {
    mallctl: MallctlFn,
    naming: JemallocNaming,
}

/// The state of jemalloc's profiler.
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

    /// The jemalloc whose control function the program or a library of it exports: C and C++ programs do; a static Rust
    /// binary does not.
    pub fn find() -> Option<Self> {
        [JemallocNaming::Plain, JemallocNaming::Rust, JemallocNaming::Je].into_iter().find_map(|naming| {
            // SAFETY: looks a NUL-terminated name up in what is loaded.
            let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, naming.mallctl().as_ptr()) };
            // SAFETY: a function of that name is jemalloc's own control, with this signature in all its versions.
            let mallctl = unsafe { std::mem::transmute::<*mut c_void, Option<MallctlFn>>(symbol) };
            mallctl.map(|mallctl| Self { mallctl, naming })
        })
    }

    /// How this jemalloc names its symbols and its environment variable.
    pub fn naming(&self) -> JemallocNaming {
        self.naming
    }

    /// Whether it keeps totals of all allocations beside what is in use (`opt.prof_accum`, off by default and set at
    /// start only).
    pub fn keeps_totals(&self) -> bool {
        self.read(c"opt.prof_accum").unwrap_or(false)
    }

    /// The prefix of the names of the dumps it writes by itself (`opt.prof_prefix`).
    pub(super) fn dump_prefix(&self) -> Option<String> {
        let address = self.read::<usize>(c"opt.prof_prefix").filter(|address| *address != 0)?;
        // SAFETY: jemalloc's own NUL-terminated text, which stays as it was at start.
        let prefix = unsafe { CStr::from_ptr(address as *const c_char) };
        prefix.to_str().ok().map(str::to_owned)
    }

    /// Base-2 logarithm of the bytes between the dumps it writes by itself (`opt.lg_prof_interval`), if it does.
    pub(crate) fn lg_dump_interval(&self) -> Option<u64> {
        self.read::<isize>(c"opt.lg_prof_interval").and_then(|interval| u64::try_from(interval).ok())
    }

    /// Whether it writes a dump whenever its memory reaches a new peak (`prof.gdump`).
    pub(crate) fn dumps_at_peaks(&self) -> bool {
        self.read(c"prof.gdump").unwrap_or(false)
    }

    /// The current state of the profiler.
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

    /// Forgets all samples; `lg_sample` sets the base-2 logarithm of the mean bytes between samples from now on, else
    /// it stays.
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

    pub(super) fn require_available(&self) -> Result<()> {
        if self.status().available {
            return Ok(());
        }
        let variable = self.naming.variable();
        Err(Error::HeapUnavailable {
            variable,
            compiled_in: self.status().compiled_in,
            hint: environment::hint(variable),
        })
    }

    fn read<T: Copy + Default>(&self, name: &CStr) -> Option<T> {
        let (mut value, mut length) = (T::default(), size_of::<T>());
        // SAFETY: `new`'s promise; `value` has room for `length` bytes, and only plain integers and flags are read.
        let code =
            unsafe { (self.mallctl)(name.as_ptr(), (&raw mut value).cast(), &mut length, std::ptr::null_mut(), 0) };
        (code == 0 && length == size_of::<T>()).then_some(value)
    }

    pub(super) fn write<T>(&self, name: &CStr, text: &'static str, mut value: T) -> Result<()> {
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
