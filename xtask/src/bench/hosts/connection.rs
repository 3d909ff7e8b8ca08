//! A connection that stays open from one request to the next, as that of a host agent does (HTTP/1.1).

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// Longest wait for any byte; a heartbeat is held for 20 s.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to the server, opened by the first request, and anew after a failure.
pub(super) struct Connection {
    address: String,
    stream: Option<BufReader<TcpStream>>,
    /// Connections opened so far.
    pub(super) opened: u64,
}

impl Connection {
    pub(super) fn new(address: &str) -> Connection {
        Connection { address: address.to_owned(), stream: None, opened: 0 }
    }

    /// Posts a body; status and body of the answer.
    pub(super) fn post(&mut self, path: &str, media_type: &str, body: &[u8]) -> Result<(u16, Vec<u8>)> {
        let answer = self.exchange(path, media_type, body);
        if answer.is_err() {
            self.stream = None;
        }
        answer
    }

    fn exchange(&mut self, path: &str, media_type: &str, body: &[u8]) -> Result<(u16, Vec<u8>)> {
        let address = self.address.clone();
        let stream = self.open()?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        stream.get_mut().write_all(&request).context("send a request")?;
        let (status, length, closes) = read_head(stream)?;
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).context("read an answer")?;
        if closes {
            self.stream = None;
        }
        Ok((status, answer))
    }

    /// The connection, or a new one if the server has closed it, which it does with idle ones.
    fn open(&mut self) -> Result<&mut BufReader<TcpStream>> {
        if self.stream.as_ref().is_none_or(|stream| !is_idle(stream.get_ref())) {
            let stream = TcpStream::connect(&self.address).with_context(|| format!("connect to {}", self.address))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
            self.opened += 1;
            self.stream = Some(BufReader::with_capacity(4096, stream));
        }
        self.stream.as_mut().context("a connection")
    }
}

/// Whether a connection is open, and nothing has come on it.
fn is_idle(stream: &TcpStream) -> bool {
    let looked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let is_idle = looked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    is_idle && stream.set_nonblocking(false).is_ok()
}

/// Status and length of an answer, and whether the connection ends with it.
fn read_head(stream: &mut impl BufRead) -> Result<(u16, usize, bool)> {
    let (mut status, mut length, mut closes) = (None, None, false);
    loop {
        let mut line = String::new();
        ensure!(stream.read_line(&mut line).context("read a head")? > 0, "the connection was closed");
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        match line.split_once(": ") {
            None => status = line.split(' ').nth(1).and_then(|status| status.parse().ok()),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok(),
            Some((name, value)) if name.eq_ignore_ascii_case("connection") => {
                closes = value.eq_ignore_ascii_case("close");
            }
            Some(_) => {}
        }
    }
    match (status, length) {
        (Some(status), Some(length)) => Ok((status, length, closes)),
        _ => bail!("an answer without status or length"),
    }
}
