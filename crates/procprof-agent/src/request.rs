//! A request and a response, independent of any HTTP server.

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`: answered as `GET`, the caller leaves the body out.
    Head,
    /// `POST`
    Post,
    /// Any other; always refused.
    Other,
}

impl Method {
    /// The method of that name, case-sensitive as in HTTP.
    pub fn from_name(name: &str) -> Self {
        match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            _ => Self::Other,
        }
    }

    /// Its name; `OTHER` for one that is never served.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Other => "OTHER",
        }
    }
}

/// A request to an endpoint.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// The path, not decoded, without the query.
    pub path: &'a str,
    /// The text behind `?`, not decoded; empty when there is none.
    pub query: &'a str,
    /// The body; empty when there is none.
    pub body: &'a [u8],
    /// The `Authorization` header, if any.
    pub authorization: Option<&'a str>,
    /// The client, named to others that have to wait: an address or a user's name.
    pub client: &'a str,
    /// Returns whether the client still waits for the answer, where that can be known: called a few times a second
    /// while a capture runs, which ends when it returns false.
    pub waits: Option<&'a dyn Fn() -> bool>,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the token.
        let Self { method, path, query, client, .. } = self;
        formatter
            .debug_struct("Request")
            .field("method", method)
            .field("path", path)
            .field("query", query)
            .field("client", client)
            .finish_non_exhaustive()
    }
}

impl<'a> Request<'a> {
    /// A `GET` of `path`, which may carry a query.
    pub fn get(path: &'a str) -> Self {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Self { method: Method::Get, path, query, body: &[], authorization: None, client: "a caller", waits: None }
    }

    /// A `POST` of `body` to `path`, which may carry a query.
    pub fn post(path: &'a str, body: &'a [u8]) -> Self {
        Self { method: Method::Post, body, ..Self::get(path) }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The media type of the body.
    pub content_type: &'static str,
    /// Further headers: name and value.
    pub headers: Vec<(&'static str, String)>,
    /// The body, also for `HEAD`, whose caller sends its length and leaves it out.
    pub body: Vec<u8>,
}

impl Response {
    /// One line of text with a status.
    pub fn text(status: u16, line: impl Into<String>) -> Self {
        let mut body = line.into();
        body.push('\n');
        Self { status, content_type: "text/plain; charset=utf-8", headers: Vec::new(), body: body.into_bytes() }
    }

    pub(crate) fn ok(content_type: &'static str, body: Vec<u8>) -> Self {
        Self { status: 200, content_type, headers: Vec::new(), body }
    }

    pub(crate) fn with_file_name(mut self, name: &str) -> Self {
        self.headers.push(("Content-Disposition", format!("attachment; filename=\"{name}\"")));
        self
    }
}
