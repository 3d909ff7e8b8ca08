//! The little HTTP that measuring needs: one request a connection, with the time to the first byte.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Longest wait for any byte.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// From before connecting to the first byte of the answer.
    pub(crate) first_byte: Duration,
}

/// Asks `address` (`host:port`).
pub(crate) fn request(method: &str, address: &str, path: &str) -> Result<Answer> {
    let start = Instant::now();
    let mut stream = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0: the answer ends with the connection and is never chunked.
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: 0\r\n\r\n")?;
    let mut bytes = vec![0; 1];
    stream.read_exact(&mut bytes).with_context(|| format!("{path}: no answer"))?;
    let first_byte = start.elapsed();
    stream.read_to_end(&mut bytes).with_context(|| format!("{path}: the answer broke off"))?;
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").with_context(|| format!("{path}: no end of the head"))?;
    let status = std::str::from_utf8(&bytes[..end]).ok().and_then(|head| head.split(' ').nth(1)?.parse().ok());
    let status = status.with_context(|| format!("{path}: no status"))?;
    Ok(Answer { status, body: bytes.split_off(end + 4), first_byte })
}

/// The JSON of a GET that must succeed.
pub(crate) fn json(address: &str, path: &str) -> Result<Value> {
    let answer = request("GET", address, path)?;
    let text = String::from_utf8_lossy(&answer.body);
    ensure!(answer.status == 200, "{path}: {}: {text}", answer.status);
    serde_json::from_str(&text).with_context(|| format!("{path}: {text}"))
}
