//! Answers with reports and stored files: media type, policy, file name; and what all answers have in common: tags and
//! compression.

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::BodyExt;
use hyper::body::Frame;
use sha2::{Digest, Sha256};

use super::policy::SANDBOX_POLICY;
use super::problem::{ApiResult, Problem};

/// The media type of the viewer's slices, which are worth compressing as texts are.
pub(crate) const SLICE: &str = "application/vnd.procprof.tree";
/// Smaller answers are not worth compressing.
const COMPRESS_MIN: usize = 4 << 10;
/// Bytes compressed at a time.
const PIECE: usize = 64 << 10;
/// zstd's own default.
const ZSTD_LEVEL: i32 = 3;
/// Larger answers have no tag: to hash them takes longer than a worker of the runtime may be busy.
const TAGGED_MAX: usize = 8 << 20;
/// Larger answers are sent as they are.
const WHOLE_MAX: u64 = 256 << 20;

/// An answer with bytes.
pub(crate) struct Document {
    pub(crate) bytes: Bytes,
    pub(crate) media_type: &'static str,
    /// Name to save it under; shown in the browser if there is none.
    pub(crate) file_name: Option<String>,
    /// Whether it stays what it is for ever.
    pub(crate) unchanging: bool,
}

impl Document {
    /// The response. Pages and pictures bring their own scripts, so they are shut off from everything else of ours; so
    /// are texts, which pages show in frames, too.
    pub(crate) fn answer(self) -> ApiResult<Response> {
        let mut response = Response::new(Body::from(self.bytes));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        if ["image/svg", "text/html", "text/plain"].iter().any(|framed| self.media_type.starts_with(framed)) {
            headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX_POLICY));
        }
        if self.unchanging {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600"));
        }
        if let Some(name) = self.file_name {
            // Names in the store are letters, digits, `_`, `-` and `.`, so they need no escaping.
            let value = HeaderValue::try_from(format!("attachment; filename=\"{name}\""))
                .map_err(|_| Problem::internal("a file name"))?;
            headers.insert(header::CONTENT_DISPOSITION, value);
        }
        Ok(response)
    }
}

/// Completes an answer to `GET`: nothing is sent that the client has already, and text is compressed for clients that
/// take it.
///
/// Only what is here whole: what is streamed, and what has a tag or an encoding of its own, is left alone.
pub(super) async fn economical(request: Request, next: Next) -> Response {
    let is_read = matches!(*request.method(), Method::GET);
    let asked =
        Asked { known: list(request.headers(), &header::IF_NONE_MATCH), coding: Coding::best(request.headers()) };
    let response = next.run(request).await;
    let is_known = response.headers().get(header::ETAG).is_some_and(|tag| asked.knows(tag.to_str().unwrap_or("")));
    if is_read && response.status() == StatusCode::OK && is_known {
        return not_modified(response.into_parts().0);
    }
    let own = [header::ETAG, header::CONTENT_ENCODING].iter().any(|name| response.headers().contains_key(name));
    let is_whole = response.body().size_hint().exact().is_some_and(|length| length <= WHOLE_MAX);
    if !is_read || response.status() != StatusCode::OK || own || !is_whole {
        return response;
    }
    complete(response, asked).await.unwrap_or_else(IntoResponse::into_response)
}

/// What a client has and takes.
struct Asked {
    known: String,
    coding: Option<Coding>,
}

impl Asked {
    fn knows(&self, tag: &str) -> bool {
        !tag.is_empty() && self.known.split(',').any(|known| known.trim() == tag || known.trim() == "*")
    }
}

fn not_modified(mut parts: Parts) -> Response {
    parts.status = StatusCode::NOT_MODIFIED;
    for name in [header::CONTENT_LENGTH, header::CONTENT_ENCODING] {
        parts.headers.remove(name);
    }
    Response::from_parts(parts, Body::empty())
}

/// How an answer is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Zstd,
    Gzip,
}

impl Coding {
    fn name(self) -> &'static str {
        match self {
            Coding::Zstd => "zstd",
            Coding::Gzip => "gzip",
        }
    }

    /// The best that a client takes.
    fn best(headers: &HeaderMap) -> Option<Coding> {
        [Coding::Zstd, Coding::Gzip].into_iter().find(|coding| takes(headers, coding.name()))
    }
}

async fn complete(response: Response, asked: Asked) -> ApiResult<Response> {
    let (mut parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(|error| Problem::internal(error.to_string()))?.to_bytes();
    let media_type =
        parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
    if media_type.starts_with("application/json") {
        // Asked again each time, but sent only when it is another.
        parts.headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-cache"));
    }
    let tag = if bytes.len() <= TAGGED_MAX { tag(&bytes) } else { String::new() };
    if let Some(tag) = HeaderValue::try_from(&tag).ok().filter(|tag| !tag.is_empty()) {
        parts.headers.insert(header::ETAG, tag);
    }
    parts.headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if asked.knows(&tag) {
        return Ok(not_modified(parts));
    }
    let coding = asked.coding.filter(|_| bytes.len() >= COMPRESS_MIN && is_text(&media_type));
    let Some(coding) = coding else { return Ok(Response::from_parts(parts, Body::from(bytes))) };
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    let packed = Packed::new(bytes, coding).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(Response::from_parts(parts, Body::new(packed)))
}

/// A tag of the content, weak since it is the same for both encodings.
fn tag(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    let hexadecimal: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("W/\"{hexadecimal}\"")
}

/// Whether the client takes answers that [`pack`] has compressed.
pub(crate) fn takes_packed(headers: &HeaderMap) -> bool {
    takes(headers, Coding::Zstd.name())
}

/// Compresses an answer that is kept.
pub(crate) fn pack(bytes: &[u8]) -> std::io::Result<Bytes> {
    zstd::bulk::compress(bytes, ZSTD_LEVEL).map(Bytes::from)
}

/// Marks a response with the bytes of [`pack`].
pub(crate) fn mark_packed(response: &mut Response, bytes: &[u8]) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(Coding::Zstd.name()));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    if bytes.len() <= TAGGED_MAX
        && let Ok(tag) = HeaderValue::try_from(tag(bytes))
    {
        headers.insert(header::ETAG, tag);
    }
}

/// All values of a header that is a list.
fn list(headers: &HeaderMap, name: &HeaderName) -> String {
    let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    values.join(",")
}

fn is_text(media_type: &str) -> bool {
    ["text/", "image/svg", "application/json", "application/openmetrics-text", SLICE]
        .iter()
        .any(|text| media_type.starts_with(text))
}

/// Whether the client takes answers compressed with gzip.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    takes(headers, Coding::Gzip.name())
}

fn takes(headers: &HeaderMap, wanted: &str) -> bool {
    list(headers, &header::ACCEPT_ENCODING).split(',').any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        name.trim() == wanted && weight.trim() != "q=0"
    })
}

/// Compresses while it is sent, so that of what a client does not read there is one piece in memory.
struct Packed {
    rest: Bytes,
    /// `None` once all is compressed.
    encoder: Option<Encoder>,
}

enum Encoder {
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Gzip(GzEncoder<Vec<u8>>),
}

impl Encoder {
    fn write(&mut self, piece: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Encoder::Zstd(encoder) => encoder.write_all(piece).map(|()| std::mem::take(encoder.get_mut())),
            Encoder::Gzip(encoder) => encoder.write_all(piece).map(|()| std::mem::take(encoder.get_mut())),
        }
    }

    fn finish(self) -> std::io::Result<Vec<u8>> {
        match self {
            Encoder::Zstd(encoder) => encoder.finish(),
            Encoder::Gzip(encoder) => encoder.finish(),
        }
    }
}

impl Packed {
    fn new(bytes: Bytes, coding: Coding) -> std::io::Result<Packed> {
        let encoder = match coding {
            Coding::Gzip => Encoder::Gzip(GzEncoder::new(Vec::new(), Compression::fast())),
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                // Small answers need no large tables.
                encoder.set_pledged_src_size(Some(bytes.len() as u64))?;
                Encoder::Zstd(encoder)
            }
        };
        Ok(Packed { rest: bytes, encoder: Some(encoder) })
    }

    /// The next compressed bytes; `None` at the end.
    fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        while let Some(mut encoder) = self.encoder.take() {
            let piece = self.rest.split_to(self.rest.len().min(PIECE));
            if piece.is_empty() {
                return Ok(Some(Bytes::from(encoder.finish()?)));
            }
            let made = encoder.write(&piece)?;
            self.encoder = Some(encoder);
            if !made.is_empty() {
                return Ok(Some(Bytes::from(made)));
            }
        }
        Ok(None)
    }
}

impl HttpBody for Packed {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.next().transpose().map(|made| made.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_is_compressed_piece_by_piece_is_whole() {
        let mut random = 1u32;
        let mut byte = || {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 24) as u8
        };
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 7] {
            let bytes: Vec<u8> = (0..length).map(|index| if index % 3 == 0 { byte() } else { b'x' }).collect();
            for coding in [Coding::Zstd, Coding::Gzip] {
                let mut body = Packed::new(Bytes::from(bytes.clone()), coding).unwrap();
                let mut packed = Vec::new();
                while let Some(made) = body.next().unwrap() {
                    packed.extend_from_slice(&made);
                }
                let mut unpacked = Vec::new();
                match coding {
                    Coding::Zstd => zstd::stream::copy_decode(&packed[..], &mut unpacked).unwrap(),
                    Coding::Gzip => {
                        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).map(drop).unwrap();
                    }
                }
                assert!(unpacked == bytes, "{coding:?} {length} bytes");
            }
        }
    }

    #[test]
    fn a_client_gets_the_best_coding_that_it_takes() {
        for (accepted, expected) in [
            ("gzip, deflate, br, zstd", Some(Coding::Zstd)),
            ("gzip, zstd;q=0", Some(Coding::Gzip)),
            ("gzip;q=0.5", Some(Coding::Gzip)),
            ("br", None),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted))]);
            assert_eq!(Coding::best(&headers), expected, "{accepted}");
        }
    }
}
