//! A minimal HTTP client for measurements: one request per connection, with the time to the first byte.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Longest wait for any byte.
const PATIENCE: Duration = Duration::from_secs(60);

/// A response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// From before connecting to the first byte of the answer.
    pub(crate) first_byte: Duration,
}

/// Sends a request to `address` (`host:port`).
pub(crate) fn request(method: &str, address: &str, path: &str) -> Result<Answer> {
    send(method, address, path, "", &[])
}

/// Sends a request to `address` with further header lines, each ended by CR and LF, and a body.
pub(crate) fn send(method: &str, address: &str, path: &str, headers: &str, body: &[u8]) -> Result<Answer> {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // HTTP/1.0: the answer ends with the connection and is never chunked.
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: {address}\r\n{headers}Content-Length: {}\r\n\r\n", body.len())?;
    stream.write_all(body)?;
    let mut bytes = vec![0; 1];
    stream.read_exact(&mut bytes).with_context(|| format!("{path}: no answer"))?;
    let first_byte = start.elapsed();
    stream.read_to_end(&mut bytes).with_context(|| format!("{path}: the answer broke off"))?;
    let end = bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .with_context(|| format!("{path}: no end of the head"))?;
    let body = bytes.split_off(end + 4);
    let head = String::from_utf8_lossy(&bytes);
    let status =
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).with_context(|| format!("{path}: no status"))?;
    let length = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let is_whole = length.is_none_or(|(_, length)| length.trim().parse() == Ok(body.len()));
    ensure!(is_whole || method == "HEAD", "{path}: the answer broke off after {} bytes", body.len());
    Ok(Answer { status, body, first_byte })
}

/// The JSON of a GET that must succeed.
pub(crate) fn json(address: &str, path: &str) -> Result<Value> {
    let answer = request("GET", address, path)?;
    let text = String::from_utf8_lossy(&answer.body);
    ensure!(answer.status == 200, "{path}: {}: {text}", answer.status);
    serde_json::from_str(&text).with_context(|| format!("{path}: {text}"))
}
