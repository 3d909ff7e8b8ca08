//! Finds the process that listens on a TCP port of this host.
//!
//! `/proc/net/tcp` and `tcp6` list the sockets of this network namespace, a line each; addresses
//! are hex digits of 32-bit words in the machine's byte order, state `0A` is "listening":
//! ```text
//!    0: 0100007F:1F5E 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000  0 4242 1 ...
//! ```
//! Those that listen come first, before connections (`tcp_seq_start` in the kernel's `net/ipv4/tcp_ipv4.c`): the rest
//! is not read. The inode (4242) is matched with the links `/proc/PID/fd/N -> socket:[4242]`; those of a thread with
//! descriptors of its own (`unshare(CLONE_FILES)`) are in `/proc/PID/task/TID/fd` only.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use crate::stat::Stat;
use crate::{Error, Pid, Result, procfs};

const LISTENING: &str = "0A";

/// A listening TCP socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The address it is bound to.
    pub address: SocketAddr,
    /// The user that made it.
    pub uid: u32,
    /// The socket's number.
    pub inode: u64,
    /// The processes that have it open, by ascending pid. Empty if none is visible: another user's
    /// whose descriptors may not be read, or one in another pid namespace.
    pub owners: Vec<SocketOwner>,
}

/// A process that has a socket open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketOwner {
    /// The process.
    pub pid: Pid,
    /// Its main thread's name, at most 15 bytes.
    pub name: String,
}

impl Listener {
    /// Whether a connection to `address` reaches this socket: the same address, or a wildcard one.
    ///
    /// An IPv6 wildcard socket is taken to accept IPv4 too, as is the default.
    pub fn accepts(&self, address: IpAddr) -> bool {
        match (self.address.ip().to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(wanted)) => own.is_unspecified() || own == wanted,
            (IpAddr::V6(own), IpAddr::V6(wanted)) => own.is_unspecified() || own == wanted,
            (IpAddr::V6(own), IpAddr::V4(_)) => own.is_unspecified(),
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }
}

/// Finds the TCP sockets that listen on `port` in this network namespace, with their processes.
///
/// Errs only if the list of sockets can't be read; processes that can't be read are skipped.
pub fn listeners_on(port: u16) -> Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let path = Path::new(table);
        let text = match procfs::read_first_lines(path, may_be_followed) {
            Ok(text) => text,
            // A kernel without IPv6 has no such table.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut listening = parse_listening(&text, path)?;
        listening.retain(|listener| listener.address.port() == port);
        listeners.append(&mut listening);
    }
    if !listeners.is_empty() {
        find_owners(&mut listeners)?;
    }
    Ok(listeners)
}

/// Whether sockets that listen may come behind this line: they come first, and others may be tens of thousands.
fn may_be_followed(line: &str) -> bool {
    let state = line.split_ascii_whitespace().nth(3);
    state == Some(LISTENING) || state == Some("st")
}

fn parse_listening(text: &str, path: &Path) -> Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    for (index, line) in text.lines().enumerate().skip(1) {
        let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
        let malformed = |expected| Error::malformed(path, index + 1, expected);
        let &[_, local, _, state, _, _, _, uid, _, inode] = fields.as_slice() else {
            return Err(malformed("ten fields"));
        };
        if state != LISTENING {
            continue;
        }
        listeners.push(Listener {
            address: parse_address(local).ok_or_else(|| malformed("a local address"))?,
            uid: uid.parse().map_err(|_| malformed("a user id"))?,
            inode: inode.parse().map_err(|_| malformed("an inode"))?,
            owners: Vec::new(),
        });
    }
    Ok(listeners)
}

fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |index: usize| {
        let digits = address.get(index * 8..index * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (index, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(index)?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn find_owners(listeners: &mut [Listener]) -> Result<()> {
    let directory = Path::new("/proc");
    let pids = procfs::numbers_in(directory).map_err(|source| Error::io(directory, source))?;
    let pids: Vec<Pid> = pids.into_iter().map(Pid).collect();
    for pid in &pids {
        add_owner(listeners, *pid, &procfs::path(*pid, "fd"));
    }
    // Threads seldom have descriptors of their own, and a host may have tens of thousands of them.
    if listeners.iter().all(|listener| !listener.owners.is_empty()) {
        return Ok(());
    }
    for pid in pids {
        let tasks = procfs::path(pid, "task");
        for thread in procfs::numbers_in(&tasks).unwrap_or_default().into_iter().filter(|thread| *thread != pid.0) {
            add_owner(listeners, pid, &tasks.join(thread.to_string()).join("fd"));
        }
    }
    Ok(())
}

/// Adds `pid` to the listeners whose sockets are among the descriptors in `directory`; to none if they may not be read.
fn add_owner(listeners: &mut [Listener], pid: Pid, directory: &Path) {
    let inodes = open_sockets(directory);
    for listener in listeners.iter_mut().filter(|listener| inodes.contains(&listener.inode)) {
        if listener.owners.iter().any(|owner| owner.pid == pid) {
            continue;
        }
        if let Some(name) = name_of(pid) {
            listener.owners.push(SocketOwner { pid, name });
        }
    }
}

/// The sockets among the descriptors in `directory`; none if it is gone or may not be read.
fn open_sockets(directory: &Path) -> Vec<u64> {
    let descriptors = procfs::numbers_in(directory).unwrap_or_default();
    let links =
        descriptors.into_iter().filter_map(|descriptor| fs::read_link(directory.join(descriptor.to_string())).ok());
    links
        .filter_map(|target| {
            let number = target.to_str()?.strip_prefix("socket:[")?;
            number.strip_suffix(']')?.parse().ok()
        })
        .collect()
}

fn name_of(pid: Pid) -> Option<String> {
    let text = procfs::read_text(pid, "stat").ok()?;
    let stat = Stat::parse(&text, &procfs::path(pid, "stat")).ok()?;
    Some(stat.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn parses_both_families() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n\
            0: 0100007F:1F5E 00000000:0000 0A 00000000:00000000 00:00000000 00000000 7 0 42 1 0\n\
            1: 0100007F:1F5E 0100007F:9000 01 00000000:00000000 00:00000000 00000000 7 0 43 1 0\n\
            2: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A \
               00000000:00000000 00:00000000 00000000 0 0 44 1 0\n";
        let listeners = parse_listening(text, Path::new("tcp")).unwrap();
        assert_eq!(listeners.len(), 2);
        assert_eq!(listeners[0].address, "127.0.0.1:8030".parse().unwrap());
        assert_eq!((listeners[0].uid, listeners[0].inode), (7, 42));
        assert_eq!(listeners[1].address, "[::1]:80".parse().unwrap());
    }

    #[test]
    fn says_which_line_is_wrong() {
        let error = parse_listening("header\n0: 1 2\n", Path::new("tcp")).unwrap_err();
        assert_eq!(error.to_string(), "tcp: line 2: expected ten fields");
    }

    #[test]
    fn wildcards_accept_every_address() {
        let accepts = |own: &str, wanted: &str| {
            let listener = Listener { address: own.parse().unwrap(), uid: 0, inode: 0, owners: Vec::new() };
            listener.accepts(wanted.parse().unwrap())
        };
        assert!(accepts("0.0.0.0:1", "127.0.0.1"));
        assert!(accepts("[::]:1", "127.0.0.1"));
        assert!(accepts("[::]:1", "::1"));
        assert!(accepts("[::ffff:127.0.0.1]:1", "127.0.0.1"));
        assert!(!accepts("127.0.0.2:1", "127.0.0.1"));
        assert!(!accepts("0.0.0.0:1", "::1"));
    }
}
