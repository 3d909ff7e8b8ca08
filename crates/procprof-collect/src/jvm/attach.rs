//! A client of HotSpot's attach protocol.
//!
//! A JVM that has not been attached to opens its socket when it gets SIGQUIT and finds the file `.attach_pid<pid>`;
//! the pid is the one it has in its own namespace. Each connection takes one command and is answered by a code, a
//! newline and text, to the end:
//!
//! ```text
//! /tmp/.java_pid4242    "1" NUL "jcmd" NUL "VM.version" NUL NUL NUL   →   "0\nOpenJDK 64-Bit Server VM version 17.0.15+6\nJDK 17.0.15\n"
//! ```
//! Source: `attachListener_posix.cpp` of OpenJDK.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use procprof_process::{Identity, Pid, Process};
use rustix::fs::FileType;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::{Gid, PidfdFlags, Signal, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::folder::TemporaryFolder;
use super::{JvmError, answer, counters};

/// How long a JVM has to open its socket. One that does not never will, having printed all its stacks.
const LISTENING: Duration = Duration::from_secs(6);
/// Age until which a JVM counts as starting: it handles the signal before it looks for the file.
const YOUNG: Duration = Duration::from_secs(30);

/// Longest answer, in bytes.
const ANSWER_MAX: u64 = 4 << 20;

/// Longest arguments of a command, in bytes: the JVM closes the connection beyond.
pub(super) const ARGUMENT_MAX: usize = 1024;

/// Those that did not begin to listen when they were signalled; a restarted process is another one. At most
/// [`SILENT_MAX`].
static SILENT: Mutex<Vec<Identity>> = Mutex::new(Vec::new());
const SILENT_MAX: usize = 1000;

/// A running JVM.
#[derive(Debug)]
pub struct Jvm {
    process: Process,
    /// Its identity on this host.
    handle: OwnedFd,
    /// Its pid in its own namespace.
    inner_pid: Pid,
    uid: u32,
    gid: u32,
}

impl Jvm {
    /// Opens the process with that pid, without sending anything to it.
    ///
    /// # Errors
    /// [`JvmError::Gone`]; [`JvmError::Io`] where `/proc` cannot be read.
    pub fn open(pid: Pid) -> Result<Jvm, JvmError> {
        let of_process = |error: procprof_process::Error| match error {
            error if error.is_gone() => JvmError::Gone { pid },
            error => JvmError::io(pid, "look at it", std::io::Error::other(error)),
        };
        let process = Process::open(pid).map_err(of_process)?;
        let handle = rustix::process::pidfd_open(raw_pid(pid)?, PidfdFlags::empty())
            .map_err(|errno| JvmError::io(pid, "open it", errno))?;
        // The descriptor may have come to stand for a later process of the same pid.
        process.check_same().map_err(of_process)?;
        let status = process.status().map_err(of_process)?;
        let inner_pid = status.namespace_pids.last().copied().unwrap_or(pid);
        Ok(Jvm { process, handle, inner_pid, uid: status.uid, gid: status.gid })
    }

    /// The identity of the process.
    pub fn identity(&self) -> Identity {
        self.process.identity()
    }

    /// Whether the process has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// Its effective user and group.
    pub(super) fn owner(&self) -> (u32, u32) {
        (self.uid, self.gid)
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn pid(&self) -> Pid {
        self.process.pid()
    }

    /// The pid that it has in its own namespace.
    pub(super) fn inner_pid(&self) -> Pid {
        self.inner_pid
    }

    /// Runs a command, as `jcmd PID LINE` does, and returns its answer without the code.
    ///
    /// # Errors
    /// All of [`JvmError`] but those of a recording.
    pub fn command(&self, line: &str, timeout: Duration) -> Result<String, JvmError> {
        let (code, text) = self.execute("jcmd", line, timeout)?;
        if code == 0 {
            return Ok(text);
        }
        let (command, message) = (answer::first_word(line), answer::shortened(&text));
        Err(JvmError::Command { pid: self.pid(), command, message })
    }

    /// Makes the JVM load a library of its file system as an agent with options.
    ///
    /// # Errors
    /// As [`Jvm::command`]; the agent's own code where it is not 0.
    pub fn load_agent(&self, library: &str, options: &str, timeout: Duration) -> Result<(), JvmError> {
        // "true": the path is absolute. The library's own answer stands in the text.
        let (code, text) = self.execute("load", &format!("{library}\0true\0{options}"), timeout)?;
        match if code == 0 { answer::agent_code(&text) } else { Some(code) } {
            Some(0) => Ok(()),
            _ => Err(JvmError::Command {
                pid: self.pid(),
                command: "load".to_owned(),
                message: answer::shortened(&text),
            }),
        }
    }

    fn execute(&self, name: &str, arguments: &str, timeout: Duration) -> Result<(i32, String), JvmError> {
        if arguments.len() > ARGUMENT_MAX {
            return Err(JvmError::Command {
                pid: self.pid(),
                command: name.to_owned(),
                message: format!("more than {ARGUMENT_MAX} bytes of arguments"),
            });
        }
        let folder = self.temporary_folder()?;
        let stream = match self.try_connect(&folder, timeout)? {
            Some(stream) => stream,
            None => self.have_it_listen(&folder, timeout)?,
        };
        self.execute_on(stream, name, arguments, timeout)
    }

    /// Sends a command to a connection, and returns the code and the text of the answer.
    pub(super) fn execute_on(
        &self,
        mut stream: UnixStream,
        name: &str,
        arguments: &str,
        timeout: Duration,
    ) -> Result<(i32, String), JvmError> {
        let pid = self.pid();
        let command = format!("{name} {}", answer::first_word(arguments));
        let deadline = Instant::now() + timeout;
        let timed_out = || JvmError::Timeout { pid, command: command.clone(), after: timeout };
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => timed_out(),
            _ => JvmError::io(pid, command.clone(), error),
        };
        stream.set_write_timeout(Some(timeout)).map_err(failed)?;
        // Always three arguments, each ended by a NUL.
        let missing = 2 - arguments.matches('\0').count().min(2);
        stream.write_all(format!("1\0{name}\0{arguments}\0{}", "\0".repeat(missing)).as_bytes()).map_err(failed)?;
        let (mut bytes, mut piece) = (Vec::new(), [0; 8192]);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(timed_out());
            }
            stream.set_read_timeout(Some(left)).map_err(failed)?;
            match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(length) => bytes.extend_from_slice(&piece[..length]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
            if bytes.len() as u64 > ANSWER_MAX {
                return Err(JvmError::TooLarge { pid, bytes: bytes.len() as u64, limit: ANSWER_MAX });
            }
        }
        self.process.check_same().map_err(|_| JvmError::Gone { pid })?;
        let unread =
            || JvmError::Command { pid, command: command.clone(), message: "an answer without a code".to_owned() };
        answer::split(&bytes).ok_or_else(unread)
    }

    /// The folder where it has its socket.
    pub(super) fn temporary_folder(&self) -> Result<TemporaryFolder, JvmError> {
        let (pid, own) = (self.pid(), rustix::process::geteuid().as_raw());
        TemporaryFolder::open(pid).map_err(|error| match error {
            JvmError::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied && own != self.uid => {
                JvmError::OtherUser { pid, theirs: self.uid, own }
            }
            error => error,
        })
    }

    /// Connects to its socket, or has it listen if its counters tell that it can: no signal is sent to a process of
    /// which that is not known.
    pub(super) fn connect_if_attachable(
        &self,
        folder: &TemporaryFolder,
        timeout: Duration,
    ) -> Result<UnixStream, JvmError> {
        if let Some(stream) = self.try_connect(folder, timeout)? {
            return Ok(stream);
        }
        self.check_counters()?;
        self.have_it_listen(folder, timeout)
    }

    /// Errs if it has no socket and its counters don't tell that it can be attached to.
    pub(super) fn check_attachable(&self, folder: &TemporaryFolder) -> Result<(), JvmError> {
        if folder.find(&self.socket_name())?.is_some() { Ok(()) } else { self.check_counters() }
    }

    fn check_counters(&self) -> Result<(), JvmError> {
        counters::check_attachable(&self.process, self.inner_pid, self.uid)
            .map_err(|why| JvmError::NotAttachable { pid: self.pid(), why })
    }

    fn socket_name(&self) -> String {
        format!(".java_pid{}", self.inner_pid)
    }

    /// Connects to its socket, if it has one and listens.
    fn try_connect(&self, folder: &TemporaryFolder, timeout: Duration) -> Result<Option<UnixStream>, JvmError> {
        let (pid, name) = (self.pid(), self.socket_name());
        let Some((socket, file_type, owner)) = folder.find(&name)? else {
            return Ok(None);
        };
        let suspicious = |why| JvmError::Suspicious { pid, path: format!("/tmp/{name}"), why };
        if file_type != FileType::Socket {
            return Err(suspicious("not a socket"));
        }
        if owner != self.uid && owner != 0 {
            return Err(suspicious("belongs to another user than the process"));
        }
        let stream = match connect_as(self.uid, self.gid, &socket, timeout) {
            Ok(stream) => stream,
            // Connections of others wait there, and it takes none: it is stopped or hangs.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(JvmError::Timeout { pid, command: "a connection".to_owned(), after: timeout });
            }
            // Left by an earlier process of the same pid.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(None),
            Err(error) => return Err(JvmError::io(pid, format!("connect to /tmp/{name}"), error)),
        };
        let peer = nix::sys::socket::getsockopt(&stream, nix::sys::socket::sockopt::PeerCredentials);
        if peer.map_err(|errno| JvmError::io(pid, "ask who listens", errno))?.pid().cast_unsigned() != pid.0 {
            return Err(suspicious("another process listens there"));
        }
        Ok(Some(stream))
    }

    /// Sends the signal, and waits until it listens.
    fn have_it_listen(&self, folder: &TemporaryFolder, timeout: Duration) -> Result<UnixStream, JvmError> {
        let pid = self.pid();
        let silent = || SILENT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if silent().iter().any(|known| known.is_same(&self.identity())) {
            return Err(JvmError::NotListening { pid });
        }
        // By default this signal ends a process.
        let status = self.process.status().map_err(|_| JvmError::Gone { pid })?;
        if !status.catches(Signal::QUIT.as_raw()) {
            return Err(JvmError::NotAJvm { pid });
        }
        let not_signalled = |errno| match errno {
            rustix::io::Errno::SRCH => JvmError::Gone { pid },
            rustix::io::Errno::PERM => {
                JvmError::OtherUser { pid, theirs: self.uid, own: rustix::process::geteuid().as_raw() }
            }
            errno => JvmError::io(pid, "signal it", errno),
        };
        // Nothing is written to its folder unless it may be signalled.
        rustix::process::test_kill_process(raw_pid(pid)?).map_err(not_signalled)?;
        let _mark = folder.mark(format!(".attach_pid{}", self.inner_pid), self.uid, self.gid)?;
        rustix::process::pidfd_send_signal(&self.handle, Signal::QUIT).map_err(not_signalled)?;
        let start = Instant::now();
        let mut pause = Duration::from_millis(2);
        let age = crate::clock::now().0.saturating_sub(self.identity().start_time.0).max(0);
        let patience = LISTENING.max(YOUNG.saturating_sub(Duration::from_nanos(age.unsigned_abs())));
        while start.elapsed() < patience {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
            if let Some(stream) = self.try_connect(folder, timeout)? {
                return Ok(stream);
            }
            self.process.check_same().map_err(|_| JvmError::Gone { pid })?;
        }
        let mut silent = silent();
        if silent.len() >= SILENT_MAX {
            silent.remove(0);
        }
        silent.push(self.identity());
        Err(JvmError::NotListening { pid })
    }
}

fn raw_pid(pid: Pid) -> Result<rustix::process::Pid, JvmError> {
    i32::try_from(pid.0).ok().and_then(rustix::process::Pid::from_raw).ok_or(JvmError::Gone { pid })
}

/// Connects as a user and group: older JVMs answer only their own user.
fn connect_as(uid: u32, gid: u32, socket: &OwnedFd, timeout: Duration) -> std::io::Result<UnixStream> {
    // By this name a socket is reached whose folder has none for us.
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}", socket.as_raw_fd()))?;
    if rustix::process::geteuid().as_raw() == uid {
        return connect(&address, timeout);
    }
    let connect = || {
        rustix::thread::set_thread_res_gid(None, Gid::from_raw(gid), None)?;
        rustix::thread::set_thread_res_uid(None, Uid::from_raw(uid), None)?;
        connect(&address, timeout)
    };
    in_thread(connect)
}

/// Calls a function as a user and group, without any capability: what it writes in the tree of a process, that process
/// may write, whatever is mounted there.
pub(super) fn as_user<T: Send>(
    uid: u32,
    gid: u32,
    function: impl FnOnce() -> std::io::Result<T> + Send,
) -> std::io::Result<T> {
    if rustix::process::geteuid().as_raw() == uid {
        return function();
    }
    in_thread(move || {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)?;
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
        function()
    })
}

/// Calls a function in a thread of its own: credentials are those of a thread.
fn in_thread<T: Send>(function: impl FnOnce() -> std::io::Result<T> + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("jvm-user".to_owned()).spawn_scoped(scope, function)?;
        thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread of another user failed")))
    })
}

/// Errs with `WouldBlock` if the listener takes no connection in that time, and as many wait as may.
fn connect(address: &SocketAddrUnix, timeout: Duration) -> std::io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    rustix::net::connect(&socket, address)?;
    Ok(UnixStream::from(socket))
}
