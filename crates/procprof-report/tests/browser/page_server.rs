//! A loopback HTTP server for a few fixed answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// Serves until the test's process ends.
pub(crate) struct PageServer {
    address: SocketAddr,
}

type Page = (&'static str, &'static str, String);

impl PageServer {
    /// Answers each path with its media type and body, under that content security policy.
    pub(crate) fn start(policy: &'static str, pages: Vec<Page>) -> PageServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(answer(stream, policy, &pages))));
        PageServer { address }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn answer(mut stream: TcpStream, policy: &str, pages: &[Page]) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            read => request.extend_from_slice(&buffer[..read]),
        }
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (status, media_type, body) = match pages.iter().find(|page| page.0 == path) {
        Some((_, media_type, body)) => ("200 OK", *media_type, body.as_str()),
        None => ("404 Not Found", "text/plain", ""),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Security-Policy: {policy}\r\nX-Content-Type-Options: nosniff\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
