//! A simulated node: a listener on the loopback interface that answers every request from memory.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, Result};

/// A response.
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) body: Arc<Vec<u8>>,
}

/// Answers until the program ends; `answer` gets the target of a request, such as `/debug/pprof/profile?seconds=1`, and
/// may take its time.
///
/// Returns the port.
pub(crate) fn serve(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
    let port = listener.local_addr().context("learn the port")?.port();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            // A client that disconnects ends its connection, which is no error.
            thread::spawn(move || converse(stream, &*answer).ok());
        }
    });
    Ok(port)
}

fn converse(mut stream: TcpStream, answer: &dyn Fn(&str) -> Answer) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(target) = read_request(&mut reader)? {
        let Answer { status, body } = answer(&target);
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )?;
        stream.write_all(&body)?;
    }
    Ok(())
}

/// The target of the next request, its head and body read.
fn read_request(reader: &mut impl BufRead) -> std::io::Result<Option<String>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let target = line.split_ascii_whitespace().nth(1).unwrap_or_default().to_owned();
    let mut length = 0u64;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    std::io::copy(&mut reader.take(length), &mut std::io::sink())?;
    Ok(Some(target))
}
