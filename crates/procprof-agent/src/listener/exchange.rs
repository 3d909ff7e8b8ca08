//! One connection: read a request, answer it, close.

use super::head::{self, Head, MAX_HEAD};
use super::{Answering, Service};
use crate::endpoints::MAX_BODY;
use crate::request::{Method, Request, Response};
use crate::site::Site;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// How long a client may take to send its request.
const READ_TIME: Duration = Duration::from_secs(10);
/// How long a client may not take what is written.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// Serves the connection; a client that leaves or stalls ends it.
pub(super) fn run(mut stream: TcpStream, client: &str, service: &Service) {
    // An error means that the client is gone, so it can't be reported to it.
    let _ = exchange(&mut stream, client, service);
}

/// Answers that there is no room, and why.
pub(super) fn refuse(mut stream: TcpStream, why: String) {
    let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
    // As above.
    let _ = write(&mut stream, &Response::text(503, why), true);
    close(stream);
}

fn exchange(stream: &mut TcpStream, client: &str, service: &Service) -> io::Result<()> {
    stream.set_write_timeout(Some(WRITE_TIME))?;
    let mut method = Method::Get;
    let received = receive(stream)?;
    let _answering = Answering::begin(&service.shared);
    let response = match received {
        Ok((head, body)) => {
            method = head.method();
            answer(&head, &body, stream, client, service)
        }
        Err(refusal) => refusal,
    };
    write(stream, &response, method != Method::Head)?;
    close(stream.try_clone()?);
    Ok(())
}

fn answer(head: &Head, body: &[u8], stream: &TcpStream, client: &str, service: &Service) -> Response {
    let site = Site { host: head.host.as_deref(), origin: head.origin.as_deref() };
    if let Err(refusal) = site.check(service.loopback) {
        return refusal;
    }
    let waits = || !has_left(stream);
    let request = Request {
        method: head.method(),
        path: &head.path,
        query: &head.query,
        body,
        authorization: head.authorization.as_deref(),
        client,
        waits: Some(&waits),
    };
    if let Err(refusal) = service.agent.admit(request.authorization) {
        return refusal;
    }
    let extra = service.extra.as_ref().and_then(|extra| extra(&request));
    extra.unwrap_or_else(|| service.agent.handle(&request))
}

/// Whether the client has closed its side. A client that has only ended its sending looks the same, but does not do so
/// before it has the answer.
fn has_left(stream: &TcpStream) -> bool {
    if stream.set_nonblocking(true).is_err() {
        return false;
    }
    let left = match stream.peek(&mut [0]) {
        Ok(length) => length == 0,
        Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
    };
    // What can't be set back would make the answer fail half written: then the client counts as gone.
    left || stream.set_nonblocking(false).is_err()
}

/// Reads a whole request, or what to answer to a broken one.
fn receive(stream: &mut TcpStream) -> io::Result<Result<(Head, Vec<u8>), Response>> {
    let deadline = Instant::now() + READ_TIME;
    let mut bytes = Vec::new();
    let end = loop {
        match head::end(&bytes) {
            Some(end) if end <= MAX_HEAD => break end,
            None if bytes.len() <= MAX_HEAD => read_more(stream, &mut bytes, deadline)?,
            _ => return Ok(Err(Response::text(431, format!("a head of more than {MAX_HEAD} bytes")))),
        }
    };
    let head = match head::parse(&bytes[..end]) {
        Ok(head) if head.content_length > MAX_BODY => {
            return Ok(Err(Response::text(413, format!("a body of more than {MAX_BODY} bytes"))));
        }
        Ok(head) => head,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut body = bytes.split_off(end);
    if head.expects_continue && body.len() < head.content_length {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    while body.len() < head.content_length {
        read_more(stream, &mut body, deadline)?;
    }
    body.truncate(head.content_length);
    Ok(Ok((head, body)))
}

fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.set_read_timeout(Some(left))?;
    let mut part = [0; 8 << 10];
    match stream.read(&mut part) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(length) => {
            bytes.extend_from_slice(&part[..length]);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(error) => Err(error),
    }
}

fn write(stream: &mut TcpStream, response: &Response, with_body: bool) -> io::Result<()> {
    let Response { status, content_type, headers, body } = response;
    let mut head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
        reason(*status),
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    if with_body {
        stream.write_all(body)?;
    }
    stream.flush()
}

/// Closes so that the client reads the answer even when it was still sending: data left unread would make a reset of
/// it.
fn close(mut stream: TcpStream) {
    const LINGER: Duration = Duration::from_millis(200);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.set_read_timeout(Some(LINGER));
    let deadline = Instant::now() + LINGER;
    let mut rest = [0; 4 << 10];
    while Instant::now() < deadline && matches!(stream.read(&mut rest), Ok(length) if length > 0) {}
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        507 => "Insufficient Storage",
        505 => "HTTP Version Not Supported",
        _ => "Answer",
    }
}
