//! A server that does what a test says: passes requests on, answers anything, or nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A request that has arrived.
pub(crate) struct Request {
    /// The first line and the headers.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn method(&self) -> &str {
        self.head.split(' ').next().unwrap_or_default()
    }
}

/// What is done with a request.
pub(crate) enum Reply {
    /// A status line's end such as `403 Forbidden`, and a body.
    Answer(&'static str, String),
    /// These bytes, and then the end of the connection.
    Raw(Vec<u8>),
    /// The other server's answer.
    Pass(SocketAddr),
    /// The same request is executed, and this is its answer.
    PassAndAnswer(SocketAddr, &'static str),
    /// The same request is executed, and the connection ends.
    PassAndEnd(SocketAddr),
    /// Nothing, as long as the client waits.
    Silence,
    /// A byte at a time, without an end.
    Drip,
}

/// A server that answers by a function of the request and its number, until the process ends.
pub(crate) fn server(reply: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (reply, count) = (Arc::new(reply), Arc::new(AtomicUsize::new(0)));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (reply, count) = (Arc::clone(&reply), Arc::clone(&count));
            std::thread::spawn(move || {
                let Some(request) = read(&stream) else { return };
                let number = count.fetch_add(1, Ordering::SeqCst);
                answer(stream, &request, reply(&request, number));
            });
        }
    });
    address
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    let mut length = 0;
    loop {
        let before = head.len();
        reader.read_line(&mut head).ok().filter(|bytes| *bytes > 0)?;
        let line = head[before..].trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { head, body })
}

/// Failures of writing are those of clients that have gone.
fn answer(mut stream: TcpStream, request: &Request, reply: Reply) {
    let whole = |status: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").into_bytes()
    };
    match reply {
        Reply::Answer(status, body) => drop(stream.write_all(&whole(status, &body))),
        Reply::Raw(bytes) => drop(stream.write_all(&bytes)),
        Reply::Pass(other) => drop(stream.write_all(&passed(other, request))),
        Reply::PassAndAnswer(other, status) => {
            passed(other, request);
            let _ = stream.write_all(&whole(status, ""));
        }
        Reply::PassAndEnd(other) => drop(passed(other, request)),
        Reply::Silence => {
            // Ends when the client closes.
            let _ = stream.read(&mut [0; 1]);
        }
        Reply::Drip => {
            let mut bytes: &[u8] =
                b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-99999/1000000\r\nETag: \"1\"\r\n\
                Last-Modified: Tue, 24 Nov 2026 15:00:00 GMT\r\nContent-Length: 100000\r\n\r\n";
            while stream.write_all(bytes).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
                bytes = b"x";
            }
        }
    }
}

pub(crate) fn passed(other: SocketAddr, request: &Request) -> Vec<u8> {
    let mut stream = TcpStream::connect(other).unwrap();
    // The other one closes the connection, so that its answer has an end.
    let head = request.head.trim_end().to_owned() + "\r\nconnection: close\r\n\r\n";
    // At once: a server that refuses by the head alone closes the connection before the rest.
    stream.write_all(&[head.as_bytes(), &request.body].concat()).unwrap();
    let mut answer = Vec::new();
    // What was answered before a reset is the answer.
    let _ = stream.read_to_end(&mut answer);
    answer
}
