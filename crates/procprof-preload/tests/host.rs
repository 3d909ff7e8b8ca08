//! A program with the library in it, listening.

use crate::build::library;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) struct Host {
    child: Child,
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
    /// Starts a program that listens on a free port and reports it.
    pub(crate) fn start(mut command: Command) -> Self {
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
        let mut host = Self { child, stdin, stdout, errors, address: String::new() };
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
        self.child.id()
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
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("process {} does not end", self.child.id());
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It has ended, or the test has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    let start = Instant::now();
    loop {
        match get(address, path) {
            Ok(answer) => return answer,
            Err(error) if start.elapsed() > PATIENCE => panic!("{address}{path}: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}
