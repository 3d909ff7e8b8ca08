//! A program with the library in it, listening.

use crate::build::library;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for a condition, also on a machine that is busy with much else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Seconds of captures that are repeated, each longer than the one before, until one has seen enough: a busy machine
/// leaves the program little time.
pub(crate) const LONGER_AND_LONGER: [u64; 6] = [2, 4, 8, 16, 32, 64];

/// Waits for a condition.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that is killed and waited for when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended, or the test has failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU time of a process.
fn cpu_time(pid: u32) -> Duration {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may have anything in it: fields 14 and 15 of all.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(1000 / TICKS_PER_SECOND * ticks)
}

pub(crate) struct Host {
    child: Running,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    errors: Receiver<String>,
    /// `127.0.0.1:PORT`
    pub(crate) address: String,
}

/// The command of a program under the library, with none of the caller's settings.
pub(crate) fn preloaded(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library());
    command
}

impl Host {
    /// Starts a program that listens on a free port and reports it: by a thread, unless the command says otherwise,
    /// since most programs wait for the test meanwhile.
    pub(crate) fn start(mut command: Command) -> Self {
        if !command.get_envs().any(|(name, _)| name == "PROCPROF_LISTENER") {
            command.env("PROCPROF_LISTENER", "thread");
        }
        command
            .env("PROCPROF_LISTEN", "127.0.0.1:0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, errors) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut host = Self { child: Running(child), stdin, stdout, errors, address: String::new() };
        host.address = host.reported_address();
        host
    }

    /// The address in the next line on standard error that has one.
    pub(crate) fn reported_address(&self) -> String {
        loop {
            let line = self.errors.recv_timeout(PATIENCE).expect("it listens");
            println!("{line}");
            if let Some((_, address)) = line.split_once("listens on http://") {
                return address.split('/').next().unwrap().to_owned();
            }
        }
    }

    /// Its reported lines that were not read yet.
    pub(crate) fn unread_errors(&self) -> Vec<String> {
        self.errors.try_iter().collect()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// The next line of its standard output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Gives it a line to read.
    pub(crate) fn go_on(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Gives it a line with a text.
    pub(crate) fn write_line(&mut self, text: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{text}").unwrap();
    }

    /// Its answer to a `GET`.
    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        get(&self.address, path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Ends its input and waits for its end.
    pub(crate) fn finish(mut self) -> ExitStatus {
        drop(self.stdin.take());
        let mut status = None;
        wait_until("the program's end", || {
            status = self.child.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Begins a request in a thread of its own.
    pub(crate) fn begin(&self, path: &str) -> JoinHandle<std::io::Result<Vec<u8>>> {
        let (address, path) = (self.address.clone(), path.to_owned());
        std::thread::spawn(move || get(&address, &path))
    }

    /// Waits until a profile is being taken, whose path is given.
    pub(crate) fn has_begun(&self, path: &str) {
        let thread = match path.split('?').next().unwrap().rsplit('/').next() {
            Some("profile") => "procprof-cpu",
            Some("contention") => "procprof-locks",
            // The connection's own thread takes it, by signals.
            _ => return wait_until(&format!("the handler of {path}"), || self.handles_sigprof()),
        };
        wait_until(&format!("the thread of {path}"), || {
            let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().flatten();
            let mut names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
            names.any(|name| name.trim_end() == thread)
        });
    }

    /// Whether SIGPROF has a handler.
    fn handles_sigprof(&self) -> bool {
        const SIGPROF: u64 = 1 << 26;
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(caught, 16).unwrap() & SIGPROF != 0
    }

    /// Waits until the program has used so much more CPU time.
    pub(crate) fn works_for(&self, cpu: Duration) {
        let before = cpu_time(self.pid());
        wait_until("the program's work", || cpu_time(self.pid()) >= before + cpu);
    }
}

/// A `GET` that must be answered with 200.
pub(crate) fn get(address: &str, path: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or(answer.len());
    let text = String::from_utf8_lossy(&answer[..head]).into_owned();
    if !text.starts_with("HTTP/1.1 200 ") {
        let errors = String::from_utf8_lossy(&answer[head..]).into_owned();
        return Err(std::io::Error::other(format!("{text}{errors}")));
    }
    Ok(answer.split_off(head + 4))
}

/// Repeats a request until there is an answer.
pub(crate) fn get_soon(address: &str, path: &str) -> Vec<u8> {
    let mut answer = None;
    wait_until(&format!("an answer of {address}{path}"), || {
        answer = get(address, path).ok();
        answer.is_some()
    });
    answer.unwrap()
}
