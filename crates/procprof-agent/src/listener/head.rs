//! The head of an HTTP/1.x request: request line and headers.

use crate::request::{Method, Response};

/// The largest head, bytes.
pub(super) const MAX_HEAD: usize = 16 << 10;

const MAX_HEADERS: usize = 100;

/// A parsed head.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) host: Option<String>,
    pub(super) origin: Option<String>,
    pub(super) authorization: Option<String>,
    pub(super) content_length: usize,
    /// The client waits for leave to send its body.
    pub(super) expects_continue: bool,
}

/// The end of the head in `bytes` (behind the empty line), if it is there.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// Parses a head up to and with its empty line.
pub(super) fn parse(bytes: &[u8]) -> Result<Head, Response> {
    let text = std::str::from_utf8(bytes).map_err(|_| bad("the head is not UTF-8"))?;
    let mut lines = text.trim_end_matches("\r\n").split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(bad("expected: METHOD TARGET HTTP/1.1"));
    };
    if !version.starts_with("HTTP/1.") {
        return Err(Response::text(505, "only HTTP/1.1 is spoken here"));
    }
    let (path, query) = origin_form(target)?;
    let mut head =
        Head { method: method.to_owned(), path: path.to_owned(), query: query.to_owned(), ..Head::default() };
    for (count, line) in lines.enumerate() {
        if count == MAX_HEADERS {
            return Err(Response::text(431, format!("at most {MAX_HEADERS} headers")));
        }
        let (name, value) = line.split_once(':').ok_or_else(|| bad("a header without a colon"))?;
        head.header(name, value.trim())?;
    }
    Ok(head)
}

/// Path and query of a target; a whole URL, as sent to proxies, is an error.
fn origin_form(target: &str) -> Result<(&str, &str), Response> {
    if !target.starts_with('/') {
        return Err(bad("expected a target that begins with /"));
    }
    Ok(target.split_once('?').unwrap_or((target, "")))
}

impl Head {
    /// The method, as far as it matters here.
    pub(super) fn method(&self) -> Method {
        Method::from_name(&self.method)
    }

    fn header(&mut self, name: &str, value: &str) -> Result<(), Response> {
        let text = || Some(value.to_owned());
        match name.to_ascii_lowercase().as_str() {
            "host" if self.host.is_some() => return Err(bad("two Host headers")),
            "host" => self.host = text(),
            "origin" => self.origin = text(),
            "authorization" => self.authorization = text(),
            "content-length" => {
                let digits = value.bytes().all(|byte| byte.is_ascii_digit());
                let length = value.parse().ok().filter(|_| digits);
                self.content_length = length.ok_or_else(|| bad("Content-Length: expected a number"))?;
            }
            "transfer-encoding" => return Err(Response::text(411, "a body needs a Content-Length here")),
            "expect" => self.expects_continue = value.eq_ignore_ascii_case("100-continue"),
            _ => {}
        }
        Ok(())
    }
}

fn bad(line: &str) -> Response {
    Response::text(400, line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(head: &str) -> u16 {
        parse(head.as_bytes()).map_or_else(|refusal| refusal.status, |_| 200)
    }

    #[test]
    fn a_head_is_read() {
        let bytes = b"POST /pprof/symbol?a=1 HTTP/1.1\r\nHost: 127.0.0.1:80\r\ncontent-LENGTH: 12\r\nExpect: 100-continue\r\n\r\nbody";
        let end = end(bytes).unwrap();
        assert_eq!(&bytes[end..], b"body");
        let head = parse(&bytes[..end]).unwrap();
        assert_eq!((head.method(), head.path.as_str(), head.query.as_str()), (Method::Post, "/pprof/symbol", "a=1"));
        assert_eq!((head.content_length, head.expects_continue), (12, true));
    }

    #[test]
    fn broken_heads_are_refused() {
        for (head, expected) in [
            ("\r\n\r\n", 400),
            ("GET /\r\n\r\n", 400),
            ("GET http://evil/ HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/2\r\n\r\n", 505),
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: +5\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        ] {
            assert_eq!(status(head), expected, "{head:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(MAX_HEADERS + 1));
        assert_eq!(status(&many), 431);
    }
}
