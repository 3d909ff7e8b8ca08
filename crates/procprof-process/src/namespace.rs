//! The namespaces of a process: `/proc/PID/ns/*`, links such as `mnt:[4026531841]`.

use std::fs;
use std::io;

use crate::{Error, Pid, Result, procfs};

/// A kind of namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NamespaceKind {
    /// Control groups.
    Cgroup,
    /// System V IPC and POSIX message queues.
    Ipc,
    /// Mounts: what a path means.
    Mount,
    /// Network: interfaces, ports, `/proc/net`.
    Network,
    /// Process ids.
    Pid,
    /// Boot and monotonic clocks.
    Time,
    /// Users and groups.
    User,
    /// Host name.
    Uts,
}

impl NamespaceKind {
    /// All kinds, by name.
    pub const ALL: [Self; 8] =
        [Self::Cgroup, Self::Ipc, Self::Mount, Self::Network, Self::Pid, Self::Time, Self::User, Self::Uts];

    /// The kernel's name, as below `/proc/PID/ns`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Ipc => "ipc",
            Self::Mount => "mnt",
            Self::Network => "net",
            Self::Pid => "pid",
            Self::Time => "time",
            Self::User => "user",
            Self::Uts => "uts",
        }
    }
}

/// The number of the first pid namespace (`PROC_PID_INIT_INO` in the kernel's `proc_ns.h`).
const FIRST_PIDS: u64 = 0xeffffffc;

/// The namespaces a process is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespaces {
    inodes: [Option<u64>; NamespaceKind::ALL.len()],
}

impl Namespaces {
    /// Reads the namespaces of `pid`.
    pub(crate) fn read(pid: Pid) -> Result<Self> {
        let mut inodes = [None; NamespaceKind::ALL.len()];
        for (inode, kind) in inodes.iter_mut().zip(NamespaceKind::ALL) {
            *inode = inode_of(pid, kind)?;
        }
        Ok(Self { inodes })
    }

    /// The number of the namespace of that kind; `None` if this kernel has no such kind.
    pub fn inode(&self, kind: NamespaceKind) -> Option<u64> {
        self.inodes[kind as usize]
    }

    /// Whether all processes of the host have a pid in its pid namespace.
    pub fn has_all_pids(&self) -> bool {
        self.inode(NamespaceKind::Pid).is_none_or(|inode| inode == FIRST_PIDS)
    }

    /// Whether both are in the same namespace of that kind.
    pub fn share(&self, other: &Self, kind: NamespaceKind) -> bool {
        self.inode(kind) == other.inode(kind)
    }
}

fn inode_of(pid: Pid, kind: NamespaceKind) -> Result<Option<u64>> {
    let path = procfs::path(pid, &format!("ns/{}", kind.name()));
    let target = match fs::read_link(&path) {
        Ok(target) => target,
        // An older kernel has no such kind, unless it is the process that is missing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = procfs::path(pid, "ns");
            fs::metadata(&directory).map_err(|error| Error::of_process(pid, &directory, error))?;
            return Ok(None);
        }
        Err(source) => return Err(Error::of_process(pid, &path, source)),
    };
    let inode = target.to_str().and_then(parse_link);
    let inode = inode.ok_or_else(|| Error::malformed(&path, 1, "kind:[number]"))?;
    Ok(Some(inode))
}

fn parse_link(target: &str) -> Option<u64> {
    let (_, number) = target.split_once(":[")?;
    number.strip_suffix(']')?.parse().ok()
}
