//! One process: the handle for all queries.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::cgroup::{self, Cgroup, ContainerId};
use crate::mapped_file::{self, MappedFile};
use crate::maps::{self, MappedRange};
use crate::process_context::{self, ProcessContext};
use crate::stat::Stat;
use crate::thread::{self, Thread};
use crate::{BuildId, Container, Error, Identity, Namespaces, Pid, Result, Status, Workload, image, procfs};

/// Most bytes of a command line that are read. A process chooses its length itself: `PR_SET_MM_MAP` needs no privilege.
pub const COMMAND_LINE_BYTES_MAX: usize = 256 << 10;
/// Most bytes of an environment that are read.
pub const ENVIRONMENT_BYTES_MAX: usize = 256 << 10;

/// A process that existed when it was opened. Each method reads `/proc` again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    identity: Identity,
}

/// The file a process executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// Its path in the process's mount namespace, without ` (deleted)`.
    pub path: PathBuf,
    /// Whether it is unlinked (or replaced by another one of that name).
    pub deleted: bool,
}

/// The arguments of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// The arguments, the program's name first; empty for a kernel thread. Bytes that are not UTF-8 become U+FFFD.
    pub arguments: Vec<String>,
    /// Whether there are more than [`COMMAND_LINE_BYTES_MAX`] bytes; arguments that end behind them are left out.
    pub is_cut: bool,
}

/// The resource usage of a process at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time spent so far by all its threads, ended ones included, to a clock tick (10 ms).
    pub cpu_time: Duration,
    /// Resident memory in bytes; the kernel batches its updates, so it may be some pages off.
    pub resident_bytes: u64,
    /// Number of threads.
    pub threads: u64,
}

impl Process {
    /// Opens the process that has `pid` now.
    ///
    /// Errs with [`Error::Gone`] if there is none.
    pub fn open(pid: Pid) -> Result<Self> {
        let identity = Identity::read(pid)?;
        Ok(Self { identity })
    }

    /// Opens the calling process.
    pub fn current() -> Result<Self> {
        Self::open(Pid::current())
    }

    /// Its identity.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        self.identity.pid
    }

    /// Checks that the pid still belongs to this process. Call it after a series of reads to verify that all of them
    /// were of one process.
    ///
    /// Errs with [`Error::Gone`] if the process ended.
    pub fn check_same(&self) -> Result<()> {
        self.identity.check_current()
    }

    /// Whether all its threads have ended, also if its parent has not waited for it yet.
    pub fn has_ended(&self) -> bool {
        let text = self.check_same().and_then(|()| procfs::read_text(self.pid(), "stat"));
        let stat = text.and_then(|text| Stat::parse(&text, &procfs::path(self.pid(), "stat")));
        // The first thread may end before the others, and is a zombie then, too.
        stat.is_ok_and(|stat| matches!(stat.state, 'Z' | 'X') && stat.threads <= 1) || self.check_same().is_err()
    }

    /// Its arguments. A process may overwrite them.
    pub fn command_line(&self) -> Result<CommandLine> {
        let prefix = procfs::read_prefix(self.pid(), "cmdline", COMMAND_LINE_BYTES_MAX as u64)?;
        let mut bytes = &*prefix.bytes;
        if prefix.is_cut {
            // A part of an argument could be taken for another one.
            bytes = bytes.iter().rposition(|byte| *byte == 0).and_then(|end| bytes.get(..=end)).unwrap_or_default();
        }
        let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
        let mut line = CommandLine { arguments: Vec::new(), is_cut: prefix.is_cut };
        if !bytes.is_empty() {
            let arguments = bytes.split(|byte| *byte == 0);
            line.arguments = arguments.map(|argument| String::from_utf8_lossy(argument).into_owned()).collect();
        }
        Ok(line)
    }

    /// The file it executes.
    pub fn executable(&self) -> Result<Executable> {
        let path = procfs::path(self.pid(), "exe");
        let target = fs::read_link(&path);
        let target = target.map_err(|source| Error::of_process(self.pid(), &path, source))?;
        let (path, deleted) = maps::split_deleted(target);
        Ok(Executable { path, deleted })
    }

    /// Its address space, by ascending address; empty for a kernel thread and a zombie.
    pub fn maps(&self) -> Result<Vec<MappedRange>> {
        maps::maps_of(self.pid())
    }

    /// Opens the file behind a range of its maps, also if it is deleted, replaced or in a
    /// container.
    ///
    /// Errs with [`Error::Unreachable`] if there is no file, or none proven to be that one.
    pub fn open_mapped(&self, range: &MappedRange) -> Result<MappedFile> {
        mapped_file::open_mapped(&self.identity, range)
    }

    /// The build id of the image a range of its maps belongs to: from the file, else from memory
    /// (the `[vdso]` has no file). `None` if the image has none.
    pub fn build_id_of(&self, range: &MappedRange) -> Result<Option<BuildId>> {
        match self.open_mapped(range) {
            Ok(mapped) => BuildId::of_file(&mapped.file).map_err(|source| Error::Io { path: mapped.path, source }),
            Err(Error::Unreachable { .. }) => image::build_id_in_memory(self.pid(), range),
            Err(error) => Err(error),
        }
    }

    /// Its threads, by ascending id.
    pub fn threads(&self) -> Result<Vec<Thread>> {
        thread::threads_of(self.pid())
    }

    /// Its control groups.
    pub fn cgroups(&self) -> Result<Vec<Cgroup>> {
        cgroup::cgroups_of(self.pid())
    }

    /// The container it runs in; `None` if none is found.
    pub fn container(&self) -> Result<Option<ContainerId>> {
        cgroup::container_of(self.pid())
    }

    /// What it belongs to, by its control groups; of one in a mount namespace of its own, the container also by its
    /// mounts.
    pub fn workload(&self) -> Result<Workload> {
        let mut workload = Workload::from_cgroups(&self.cgroups()?);
        let own_mounts = || fs::read_link("/proc/self/ns/mnt").ok();
        let mounts = || fs::read_link(procfs::path(self.pid(), "ns/mnt")).ok();
        if workload.is_empty() && mounts().is_some_and(|mounts| Some(mounts) != own_mounts()) {
            workload.container = self.container()?.map(|id| Container { runtime: "container", id });
        }
        Ok(workload)
    }

    /// The value of a variable of the environment that it was started with; `None` if it was not set. It takes the
    /// right to trace the process.
    ///
    /// Errs with [`Error::TooLong`] if it is not among the first [`ENVIRONMENT_BYTES_MAX`] bytes and there are more.
    pub fn environment(&self, name: &str) -> Result<Option<String>> {
        let prefix = procfs::read_prefix(self.pid(), "environ", ENVIRONMENT_BYTES_MAX as u64)?;
        let mut variables = prefix.bytes.split(|byte| *byte == 0).peekable();
        while let Some(variable) = variables.next() {
            let value = variable.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            let is_whole = !prefix.is_cut || variables.peek().is_some();
            if let Some(value) = value.filter(|_| is_whole) {
                return Ok(Some(String::from_utf8_lossy(value).into_owned()));
            }
        }
        if prefix.is_cut {
            let limit = ENVIRONMENT_BYTES_MAX as u64;
            return Err(Error::TooLong { path: procfs::path(self.pid(), "environ"), limit });
        }
        Ok(None)
    }

    /// The texts of this process that are longer than is read of them, as sentences for its user.
    pub fn oversized_texts(&self) -> Vec<String> {
        let is_longer = |name: &str, limit: usize| {
            procfs::read_prefix(self.pid(), name, limit as u64).is_ok_and(|prefix| prefix.is_cut)
        };
        let texts =
            [("cmdline", "command line", COMMAND_LINE_BYTES_MAX), ("environ", "environment", ENVIRONMENT_BYTES_MAX)];
        let texts = texts.into_iter().filter(|(name, _, limit)| is_longer(name, *limit));
        let sentence = |(_, what, limit): (&str, &str, usize)| {
            format!("its {what} is longer than {} KiB; the rest is not read", limit >> 10)
        };
        texts.map(sentence).collect()
    }

    /// What it publishes for OpenTelemetry; `None` if it publishes nothing that can be read. It takes the right to
    /// trace the process.
    pub fn context(&self) -> Result<Option<ProcessContext>> {
        process_context::context_of(self.pid())
    }

    /// Whether it is a thread of the kernel.
    pub fn is_kernel_thread(&self) -> Result<bool> {
        let text = procfs::read_text(self.pid(), "stat")?;
        Ok(Stat::parse(&text, &procfs::path(self.pid(), "stat"))?.is_kernel_thread())
    }

    /// The namespaces it is in.
    pub fn namespaces(&self) -> Result<Namespaces> {
        Namespaces::read(self.pid())
    }

    /// Its name, users and pids in other namespaces.
    pub fn status(&self) -> Result<Status> {
        let text = procfs::read_text(self.pid(), "status")?;
        Status::parse(&text, &procfs::path(self.pid(), "status"))
    }

    /// CPU time, memory and number of threads at this moment.
    pub fn usage(&self) -> Result<Usage> {
        let text = procfs::read_text(self.pid(), "stat")?;
        let stat = Stat::parse(&text, &procfs::path(self.pid(), "stat"))?;
        let page_bytes = rustix::param::page_size() as u64;
        Ok(Usage {
            cpu_time: stat.cpu_time(),
            resident_bytes: stat.resident_pages.saturating_mul(page_bytes),
            threads: stat.threads,
        })
    }
}
