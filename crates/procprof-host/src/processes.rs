//! The processes of a recording: names, threads and address spaces, as records tell of them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use foldhash::{HashMap, HashSet};
use procprof_process::{Error, Pid, Process as LiveProcess};
use procprof_profile::perf_event::{AddressSpace, FileIdentity, ImageId, MappedCode, MappedFile, Task};
use procprof_unwind::Space;

use crate::go_stacks::GoStacks;
use crate::images::Images;
use crate::membership::Membership;
use crate::moved_text::MovedText;

/// How often is read what a process belongs to that has no attributes.
const MEMBERSHIP_READS: u8 = 3;

/// Whether the code of a process is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CodeKnown {
    Yes,
    /// It ended before it could be read.
    #[default]
    Vanished,
    /// Its maps may not be read by this user.
    Refused,
    /// It has more mappings than are read.
    Oversized,
    /// Its mappings change more often than is followed.
    Restless,
    /// It is none of the pid namespace of this process.
    Outside,
}

/// The pid of all processes outside the pid namespace of this process, in the kernel's records; in the first namespace,
/// that of the idle task, which has no code of its own.
const OUTSIDE: u32 = 0;
/// The name of all processes that have no pid here.
const OUTSIDE_NAME: &str = "[outside the pid namespace]";

/// A process while it is recorded.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) threads: HashMap<u32, String>,
    /// Shared with the processes that it has forked until one of them maps something.
    pub(crate) space: Arc<AddressSpace>,
    /// What unwinding needs, made from `space` when a sample needs it.
    pub(crate) unwinding: Option<Unwinding>,
    /// Whether its code is known.
    pub(crate) code: CodeKnown,
    pub(crate) membership: Arc<Membership>,
    /// Whether `membership` is what the process itself has, not what its origin had.
    pub(crate) is_membership_read: bool,
    /// How often it was read.
    pub(crate) membership_reads: u8,
    /// Whether its samples are kept, once that was asked.
    pub(crate) is_taken: Option<bool>,
    pub(crate) moved_text: MovedText,
    /// CPU time that its code has taken since the last cut: files opened, unwind tables made.
    pub(crate) preparation: Duration,
}

/// The unwind tables of an address space.
#[derive(Debug)]
pub(crate) struct Unwinding {
    pub(crate) space: Space,
    pub(crate) images: Vec<ImageId>,
    pub(crate) go: GoStacks,
}

/// All processes by pid.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    all: HashMap<u32, Process>,
    /// Whether the names of threads are read.
    has_threads: bool,
    /// Processes that had ended when `forget_ended` last looked.
    ended: HashSet<u32>,
    /// Mappings that did not fit into an address space.
    pub(crate) mappings_refused: u64,
}

impl Processes {
    pub(crate) fn new(has_threads: bool) -> Self {
        Self { has_threads, ..Self::default() }
    }

    pub(crate) fn get_mut(&mut self, pid: u32) -> Option<&mut Process> {
        self.all.get_mut(&pid)
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.all.keys().copied().collect()
    }

    pub(crate) fn contains(&self, pid: u32) -> bool {
        self.all.contains_key(&pid)
    }

    /// Reads a process that has been running from `/proc`; one that can't be read is known by what is left of it.
    pub(crate) fn read(&mut self, pid: u32, images: &mut Images) {
        let mut process = Process::default();
        if pid == OUTSIDE {
            process.code = CodeKnown::Outside;
            if !has_all_pids() {
                process.name = OUTSIDE_NAME.to_owned();
                process.membership =
                    Arc::new(Membership { program: Some(OUTSIDE_NAME.to_owned()), ..Membership::default() });
            }
        } else if let Ok(live) = LiveProcess::open(Pid(pid)) {
            process.name = live.status().map(|status| status.name).unwrap_or_default();
            let threads = if self.has_threads { live.threads().unwrap_or_default() } else { Vec::new() };
            process.threads.extend(threads.into_iter().map(|thread| (thread.tid.0, thread.name)));
            let maps = live.maps();
            process.code = match &maps {
                Ok(_) => CodeKnown::Yes,
                Err(error) if error.is_gone() => CodeKnown::Vanished,
                Err(Error::TooMany { .. } | Error::TooLong { .. }) => CodeKnown::Oversized,
                Err(_) => CodeKnown::Refused,
            };
            for range in maps.unwrap_or_default().iter().filter(|range| range.executable) {
                let identity = FileIdentity::Inode { device: range.device, inode: range.inode };
                let start = range.start.0;
                let image = images.mapped(pid, start, identity, &range.path);
                let code = MappedCode { range: start..range.limit.0, file_offset: range.file_offset.0, image };
                self.mappings_refused += u64::from(!Arc::make_mut(&mut process.space).insert(code));
            }
        }
        self.all.insert(pid, process);
    }

    /// A process has mapped code. As in all records, processes that share a pid, being outside, are left out.
    pub(crate) fn mapped(&mut self, mapped: &MappedFile<'_>, images: &mut Images) {
        if mapped.pid == OUTSIDE {
            return;
        }
        let process = self.all.entry(mapped.pid).or_default();
        let MappedFile { pid, start, length, offset, identity, .. } = *mapped;
        let image = images.mapped(pid, start, identity, Path::new(OsStr::from_bytes(mapped.path)));
        let code = MappedCode { range: start..start.saturating_add(length), file_offset: offset, image };
        self.mappings_refused += u64::from(!Arc::make_mut(&mut process.space).insert(code));
        process.unwinding = None;
        process.moved_text.code_changed();
        if process.code == CodeKnown::Vanished {
            process.code = CodeKnown::Yes;
        }
    }

    /// The mappings of a process are not followed any more.
    pub(crate) fn lose_code(&mut self, pid: u32) {
        if let Some(process) = self.all.get_mut(&pid) {
            (process.code, process.space, process.unwinding) = (CodeKnown::Restless, Arc::default(), None);
            process.moved_text.code_changed();
        }
    }

    /// A thread has a name; with a program executed, the address space begins anew.
    pub(crate) fn named(&mut self, pid: u32, tid: u32, name: &[u8], is_exec: bool) {
        if pid == OUTSIDE {
            return;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        let process = self.all.entry(pid).or_default();
        if is_exec {
            // Service managers move a process between fork and execution.
            let membership = Arc::new(Membership { program: None, ..(*process.membership).clone() });
            // What a restless one maps is passed over all the same.
            let is_restless = process.code == CodeKnown::Restless;
            let code = if is_restless { CodeKnown::Restless } else { CodeKnown::Yes };
            *process = Process { code, membership, ..Process::default() };
        }
        if pid == tid {
            process.name.clone_from(&name);
            process.is_taken = None;
        }
        if self.has_threads {
            process.threads.insert(tid, name);
        }
    }

    /// A thread or process begins: it has the name of its origin, a process also a copy of the address space.
    pub(crate) fn forked(&mut self, task: Task) {
        if task.pid == OUTSIDE {
            return;
        }
        if task.pid == task.parent {
            if let Some(process) = self.all.get_mut(&task.pid) {
                let name = process.name.clone();
                if self.has_threads {
                    process.threads.entry(task.tid).or_insert(name);
                }
            }
            return;
        }
        let Some(parent) = self.all.get(&task.parent) else { return };
        let child = Process {
            name: parent.name.clone(),
            threads: std::iter::once((task.tid, parent.name.clone())).collect(),
            space: Arc::clone(&parent.space),
            unwinding: None,
            code: parent.code,
            membership: Arc::clone(&parent.membership),
            is_membership_read: false,
            membership_reads: 0,
            is_taken: None,
            moved_text: MovedText::default(),
            preparation: Duration::ZERO,
        };
        self.all.insert(task.pid, child);
    }

    /// A thread ends, and with the first thread what is known of the process; what others of its threads still do is
    /// met by reading it again.
    pub(crate) fn exited(&mut self, task: Task) {
        if task.pid == task.tid && task.pid != OUTSIDE {
            self.all.remove(&task.pid);
        } else if let Some(process) = self.all.get_mut(&task.pid) {
            process.threads.remove(&task.tid);
        }
    }

    /// Reads what a process that has samples belongs to; of one that is gone it stays what its origin had.
    pub(crate) fn read_membership(&mut self, pid: u32) {
        let Some(process) = self.all.get_mut(&pid).filter(|process| !process.is_membership_read) else { return };
        process.is_membership_read = true;
        process.membership_reads += 1;
        if let Ok(live) = LiveProcess::open(Pid(pid)) {
            let membership = Membership::read(&live, &process.membership);
            // Of one that ended meanwhile, less is known than before.
            if process.membership_reads == 1 || live.check_same().is_ok() {
                process.membership = Arc::new(membership);
                process.is_taken = None;
            }
        }
    }

    /// Has what young processes belong to read again: they publish attributes some time after their start. Each process
    /// may take CPU time anew.
    pub(crate) fn look_again(&mut self) {
        for process in self.all.values_mut() {
            process.preparation = Duration::ZERO;
            process.is_membership_read &=
                process.membership_reads >= MEMBERSHIP_READS || !process.membership.attributes.is_empty();
        }
    }

    /// Forgets processes of whose end no record tells. What ended since the last look is kept once more, for the samples
    /// of it that are not read yet.
    pub(crate) fn forget_ended(&mut self) {
        let is_gone = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
        let ended: HashSet<u32> = self.all.keys().copied().filter(is_gone).collect();
        self.all.retain(|pid, _| !(ended.contains(pid) && self.ended.contains(pid)));
        self.ended = ended;
    }

    /// The images that processes have mapped.
    pub(crate) fn images(&self) -> HashSet<ImageId> {
        self.all.values().flat_map(|process| process.space.code().iter().map(|code| code.image)).collect()
    }

    /// Forgets all tables of address spaces, so that their numbers can be given again.
    pub(crate) fn forget_unwinding(&mut self) {
        self.all.values_mut().for_each(|process| process.unwinding = None);
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

/// Whether all processes of the host have a pid here.
pub(crate) fn has_all_pids() -> bool {
    LiveProcess::current().and_then(|own| own.namespaces()).is_ok_and(|namespaces| namespaces.has_all_pids())
}
