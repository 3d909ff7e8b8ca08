//! [`Answers`]: what the servers behind a bucket have answered to the requests of one operation.
//!
//! Errors are made of these alone. The texts of the libraries below quote answers, and an answer may quote what was
//! sent: keys, tokens, signatures.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use http::{Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};

/// Bytes that are read of an answer that is a refusal.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
/// Length of a code in a refusal.
const CODE_MAX: usize = 64;

tokio::task_local! {
    static ANSWERS: Arc<Answers>;
}

/// What was answered to the requests of an operation.
#[derive(Debug)]
pub(super) struct Answers {
    /// Bytes that an answer may have.
    bytes_max: usize,
    noted: Mutex<Noted>,
}

/// What is known of the requests so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted {
    pub(super) requests: u32,
    /// The host that the last one was sent to.
    host: String,
    last: Option<Answer>,
    /// Whether one that writes may have been executed although that was not its answer.
    pub(super) may_have_written: bool,
}

#[derive(Clone, Debug)]
enum Answer {
    Status(StatusCode, Option<String>),
    TooLong,
    Failed(HttpErrorKind, Option<io::ErrorKind>),
}

impl Answers {
    pub(super) fn new(bytes_max: usize) -> Arc<Answers> {
        Arc::new(Answers { bytes_max, noted: Mutex::default() })
    }

    /// An operation whose requests are noted here.
    pub(super) fn noting<F: Future>(self: Arc<Self>, operation: F) -> impl Future<Output = F::Output> {
        ANSWERS.scope(self, operation)
    }

    pub(super) fn noted(&self) -> Noted {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, answer: Answer) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).last = Some(answer);
    }

    fn note_request(&self, request: &HttpRequest) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.requests += 1;
        let port = request.uri().port().map(|port| format!(":{port}")).unwrap_or_default();
        noted.host = format!("{}{port}", request.uri().host().unwrap_or_default());
        noted.last = None;
    }

    fn note_written(&self) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).may_have_written = true;
    }

    /// Notes why a request or the rest of its answer failed.
    fn note_error(&self, error: &HttpError) {
        let mut source: Option<&(dyn StdError + 'static)> = error.source();
        let mut kind = None;
        while let Some(error) = source {
            kind = error.downcast_ref::<io::Error>().map(io::Error::kind).or(kind);
            source = error.source();
        }
        self.note(Answer::Failed(error.kind(), kind));
    }
}

impl Noted {
    /// The status of the last answer, and the code in it.
    pub(super) fn status(&self) -> Option<(StatusCode, Option<&str>)> {
        match &self.last {
            Some(Answer::Status(status, code)) => Some((*status, code.as_deref())),
            _ => None,
        }
    }
}

/// The host and its last answer: `127.0.0.1:7070: 403 Forbidden, SignatureDoesNotMatch`.
impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.requests == 0 {
            return f.write_str("nothing was sent");
        }
        write!(f, "{}: ", self.host)?;
        match &self.last {
            None => f.write_str("no answer")?,
            Some(Answer::TooLong) => f.write_str("the answer is longer than it may be")?,
            Some(Answer::Status(status, code)) => {
                write!(f, "{status}")?;
                if let Some(code) = code {
                    write!(f, ", {code}")?;
                }
                match *status {
                    status if status.is_redirection() => f.write_str(": the bucket has another endpoint or region")?,
                    status if status.is_success() => f.write_str(", with an answer that is not understood")?,
                    _ => {}
                }
            }
            Some(Answer::Failed(kind, cause)) => {
                f.write_str(match kind {
                    HttpErrorKind::Connect => "not reached",
                    HttpErrorKind::Timeout => "silent for too long",
                    HttpErrorKind::Request | HttpErrorKind::Interrupted => "the connection ended early",
                    _ => "the answer was cut or is malformed",
                })?;
                if let Some(cause) = cause {
                    write!(f, ", {cause}")?;
                }
            }
        }
        if self.requests > 1 { write!(f, " ({} requests)", self.requests) } else { Ok(()) }
    }
}

/// Makes the clients that note answers.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) connect: Duration,
    pub(super) silence: Duration,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let is_plain_allowed = options.get_config_value(&ClientConfigKey::AllowHttp).as_deref() == Some("true");
        let client = reqwest::Client::builder()
            .connect_timeout(self.connect)
            .read_timeout(self.silence)
            // Another host must not get the headers.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .http1_only()
            .https_only(!is_plain_allowed)
            .user_agent(concat!("procprof/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| object_store::Error::Generic { store: "HTTP", source: error.into() })?;
        Ok(HttpClient::new(Client(HttpClient::new(client))))
    }
}

#[derive(Debug)]
struct Client(HttpClient);

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let Ok(answers) = ANSWERS.try_with(Arc::clone) else { return self.0.execute(request).await };
        answers.note_request(&request);
        let is_write = request.method() == Method::PUT;
        let headers = request.headers().clone();
        let answered = self.0.execute(request).await.inspect_err(|error| {
            answers.note_error(error);
            if is_write && error.kind() != HttpErrorKind::Connect {
                answers.note_written();
            }
        })?;
        let (parts, body) = answered.into_parts();
        if is_write && parts.status.is_server_error() {
            answers.note_written();
        }
        if parts.status.is_success() {
            answers.note(Answer::Status(parts.status, None));
            let body = Limited::new(body, answers.bytes_max).map_err(move |error| {
                if error.is::<LengthLimitError>() {
                    answers.note(Answer::TooLong);
                    return HttpError::new_boxed(HttpErrorKind::Decode, error);
                }
                match error.downcast::<HttpError>() {
                    Ok(error) => {
                        answers.note_error(&error);
                        *error
                    }
                    Err(error) => HttpError::new_boxed(HttpErrorKind::Unknown, error),
                }
            });
            return Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)));
        }
        // A refusal that is cut or too long is one nonetheless.
        let body = Limited::new(body, REFUSAL_BYTES_MAX).collect().await;
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let given = parts.headers.get("x-ms-error-code").and_then(|code| code.to_str().ok());
        let text = String::from_utf8_lossy(&body);
        let is_ours = |code: &str| headers.values().any(|value| contains(value.as_bytes(), code.as_bytes()));
        let code = given.or_else(|| code(&text)).filter(|code| is_code(code) && !is_ours(code));
        answers.note(Answer::Status(parts.status, code.map(str::to_owned)));
        Ok(HttpResponse::from_parts(parts, body.into()))
    }
}

/// The code in a refusal: in the `Code` of XML, or the `error` of JSON.
fn code(text: &str) -> Option<&str> {
    if let Some((_, rest)) = text.split_once("<Code>") {
        return rest.split_once("</Code>").map(|(code, _)| code);
    }
    let rest = text.split_once("\"error\"")?.1.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    rest.split_once('"').map(|(code, _)| code)
}

fn is_code(code: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=CODE_MAX).contains(&code.len()) && code.chars().all(is_plain)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::{code, is_code};

    #[test]
    fn codes_of_refusals_are_found() {
        let cases = [
            ("<?xml?><Error><Code>NoSuchBucket</Code><Message>x</Message></Error>", Some("NoSuchBucket")),
            (r#"{"error": "invalid_grant", "error_description": "x"}"#, Some("invalid_grant")),
            (r#"{"error": {"code": 404}}"#, None),
            ("<Code>", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(code(text), expected, "{text}");
        }
        assert!(is_code("SignatureDoesNotMatch") && !is_code("") && !is_code("a b") && !is_code(&"x".repeat(65)));
    }
}
