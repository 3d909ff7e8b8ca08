//! Reads an answer's body: bounded while it streams in, unpacked if the server packed it for the way.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use reqwest::Response;

use crate::client::cause;
use crate::{Admit, CollectError, Progress, Result, Watch};

/// Bytes of an error answer that are looked at.
const MAX_ERROR_BYTES: usize = 4096;

/// The value of the `Content-Type` header, at most 200 characters.
pub(crate) fn content_type(response: &Response) -> Option<String> {
    let value = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    Some(value.chars().take(200).collect())
}

/// Reads the whole body, at most `limit` bytes on the way and unpacked.
pub(crate) async fn read(mut response: Response, url: &str, limit: u64, watch: &Watch) -> Result<Vec<u8>> {
    let too_large = || CollectError::TooLarge { url: url.to_owned(), limit };
    let total = response.content_length();
    if total.is_some_and(|total| total > limit) {
        return Err(too_large());
    }
    let kept = Capped { bytes: Vec::new(), limit, admit: watch.admit.clone(), stop: None };
    let mut sink = Sink::for_encoding(&response, url, kept)?;
    let mut received = 0_u64;
    loop {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|error| CollectError::Broken {
            url: url.to_owned(),
            received,
            why: cause(&error.without_url()),
        })?;
        let Some(chunk) = chunk else { break };
        received += chunk.len() as u64;
        if received > limit {
            return Err(too_large());
        }
        sink.push(&chunk).map_err(|error| stopped(sink.kept(), error, url, received))?;
        watch.report(Progress::Receiving { bytes: received, total });
    }
    sink.finish(url, received)
}

/// Reads the beginning of an error answer; what cannot be read is left out.
pub(crate) async fn read_message(mut response: Response) -> Vec<u8> {
    let packed = response.headers().contains_key(CONTENT_ENCODING);
    let mut message = Vec::new();
    while message.len() < MAX_ERROR_BYTES {
        match response.chunk().await {
            Ok(Some(chunk)) => message.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    if packed {
        let kept = Capped { bytes: Vec::new(), limit: MAX_ERROR_BYTES as u64, admit: None, stop: None };
        let mut decoder = MultiGzDecoder::new(kept);
        // A sentence that is cut off or damaged is still worth its beginning.
        drop(decoder.write_all(&message).and_then(|()| decoder.flush()));
        message = decoder.get_ref().bytes.clone();
    }
    message.truncate(MAX_ERROR_BYTES);
    message
}

/// The destination of the body.
enum Sink {
    Plain(Capped),
    Gzip(Box<MultiGzDecoder<Capped>>),
}

impl Sink {
    fn for_encoding(response: &Response, url: &str, kept: Capped) -> Result<Sink> {
        let Some(encoding) = response.headers().get(CONTENT_ENCODING) else {
            return Ok(Sink::Plain(kept));
        };
        match encoding.as_bytes() {
            b"identity" => Ok(Sink::Plain(kept)),
            b"gzip" | b"x-gzip" => Ok(Sink::Gzip(Box::new(MultiGzDecoder::new(kept)))),
            other => Err(CollectError::NotAProfile {
                url: url.to_owned(),
                reason: format!("its content encoding {:?} was not asked for", String::from_utf8_lossy(other)),
                first_bytes: Vec::new(),
            }),
        }
    }

    fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(kept) => kept.write_all(chunk),
            Sink::Gzip(decoder) => decoder.write_all(chunk),
        }
    }

    fn kept(&self) -> &Capped {
        match self {
            Sink::Plain(kept) => kept,
            Sink::Gzip(decoder) => decoder.get_ref(),
        }
    }

    fn finish(self, url: &str, received: u64) -> Result<Vec<u8>> {
        match self {
            Sink::Plain(kept) => Ok(kept.bytes),
            Sink::Gzip(mut decoder) => {
                let done = decoder.try_finish();
                done.map_err(|error| stopped(decoder.get_ref(), error, url, received))?;
                Ok(std::mem::take(&mut decoder.get_mut().bytes))
            }
        }
    }
}

/// Why the body cannot be kept: a decoder wraps its sink's error, so what the sink noted counts.
fn stopped(kept: &Capped, error: io::Error, url: &str, received: u64) -> CollectError {
    let url = url.to_owned();
    match &kept.stop {
        Some(Stop::Full) => CollectError::TooLarge { url, limit: kept.limit },
        Some(Stop::NoRoom(why)) => CollectError::NoRoom { url, why: why.clone() },
        None => CollectError::NotAProfile {
            url,
            reason: format!("its gzip transfer encoding is broken within {received} bytes: {error}"),
            first_bytes: Vec::new(),
        },
    }
}

/// A buffer with a limit, so that a small answer cannot unpack to all of memory; room for each piece is reserved before
/// it is taken.
struct Capped {
    bytes: Vec<u8>,
    limit: u64,
    admit: Option<Admit>,
    stop: Option<Stop>,
}

/// Why a buffer takes no more.
enum Stop {
    Full,
    NoRoom(String),
}

impl Write for Capped {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let more = piece.len() as u64;
        self.stop = match &self.admit {
            _ if self.bytes.len() as u64 + more > self.limit => Some(Stop::Full),
            Some(admit) => admit(more).err().map(Stop::NoRoom),
            None => None,
        };
        if self.stop.is_some() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
