//! Tells a profile from everything else a process may answer: HTTP statuses, error sentences with HTTP 200, pages,
//! broken bytes.

use procprof_profile::format::{Decoded, Limits, decode_events};
use procprof_profile::{Error, Nanos, Profile, ProfileType};

use crate::CollectError;

/// Bytes of a refused answer kept with the error.
const FIRST_BYTES: usize = 256;

/// Messages of profilers that another one is active, in lower case: brpc and gperftools, Go, pprof-rs.
const BUSY: &[&str] = &["another profiler is running", "profiling already in use", "start running cpu profiler error"];

/// The error for an HTTP status, if it is no success. `retry_after` is the time at which the server permits a retry.
pub(crate) fn of_status(url: &str, status: u16, message: &[u8], retry_after: Option<Nanos>) -> Option<CollectError> {
    if (200..300).contains(&status) {
        return None;
    }
    let url = url.to_owned();
    let is_busy = is_busy_message(message) || matches!(status, 409 | 429);
    let message = first_line(message);
    if is_busy {
        return Some(CollectError::Busy { url, by: None, until: retry_after, message });
    }
    Some(match status {
        401 => CollectError::Unauthorized { url },
        403 => CollectError::Forbidden { url, message },
        404 => CollectError::NotFound { url, message },
        500.. => CollectError::Server { url, status, message },
        _ => CollectError::Refused { url, status, message },
    })
}

/// Why the body of a successful answer is no profile of the requested type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// A message that another profiler is active.
    Busy,
    /// It is a heap profile without a single sample.
    NoSamples,
    /// It is no profile, or one of another type: what it is instead.
    NotAProfile(String),
}

impl Unfit {
    /// The error of a capture from `url` that was answered with `bytes`.
    pub fn error(self, url: &str, bytes: &[u8]) -> CollectError {
        let url = url.to_owned();
        match self {
            Unfit::Busy => CollectError::Busy { url, by: None, until: None, message: String::new() },
            Unfit::NoSamples => CollectError::NoSamples { url },
            Unfit::NotAProfile(reason) => {
                CollectError::NotAProfile { url, reason, first_bytes: bytes[..bytes.len().min(FIRST_BYTES)].to_vec() }
            }
        }
    }
}

/// Decodes the body of a successful answer, at most `unpacked_bytes` after unpacking; only the profile of the
/// requested type.
///
/// # Errors
/// A description of the other content.
pub fn decode_answer(
    bytes: &[u8],
    requested: &ProfileType,
    unpacked_bytes: u64,
) -> std::result::Result<Decoded, Unfit> {
    decode_answers(bytes, requested, unpacked_bytes).map(|(decoded, _)| decoded)
}

/// The same with the further profiles that the body holds, in a format for several.
///
/// # Errors
/// As [`decode_answer`].
pub fn decode_answers(
    bytes: &[u8],
    requested: &ProfileType,
    unpacked_bytes: u64,
) -> std::result::Result<(Decoded, Vec<Decoded>), Unfit> {
    let limits = Limits { unpacked_bytes, ..Limits::default() };
    let mut all = match decode_events(bytes, &limits) {
        Ok(all) => all,
        // Real heap and contention texts are long; only a short text is searched for the sentence.
        Err(_) if bytes.len() <= 4096 && is_busy_message(bytes) => return Err(Unfit::Busy),
        Err(error) => return Err(Unfit::NotAProfile(what_else(bytes, &error))),
    };
    let fitting = all.iter().position(|decoded| another_type(&decoded.profile, requested).is_none());
    let decoded = all.remove(fitting.unwrap_or(0));
    if let Some(other) = another_type(&decoded.profile, requested) {
        return Err(Unfit::NotAProfile(format!("{other} where a {requested} profile was requested")));
    }
    if *requested == ProfileType::Heap && decoded.profile.sample_count() == 0 {
        return Err(Unfit::NoSamples);
    }
    Ok((decoded, all))
}

/// A description of bytes that no format decodes, as far as possible.
fn what_else(bytes: &[u8], error: &Error) -> String {
    let start = bytes.trim_ascii_start();
    let begins = |with: &str| start.get(..with.len()).is_some_and(|head| head.eq_ignore_ascii_case(with.as_bytes()));
    match error {
        Error::Empty => "an empty body".to_owned(),
        Error::Unrecognized { .. } if start.is_empty() => "blank space only".to_owned(),
        Error::Unrecognized { .. } if begins("<!doctype html") || begins("<html") => "an HTML page".to_owned(),
        Error::Unrecognized { .. } if is_sentence(start) => format!("it says {:?}", first_line(start)),
        other => other.to_string(),
    }
}

/// The type of a profile that is not of the requested type; `None` when it may be the right one.
fn another_type(profile: &Profile, requested: &ProfileType) -> Option<&'static str> {
    let types = || (0..profile.sample_types().len()).map(|index| profile.sample_type(index));
    let bytes = types().any(|(_, unit)| unit == "bytes");
    let delay = types().any(|(kind, _)| kind == "delay" || kind == "contentions");
    let cpu = types().any(|(kind, _)| kind == "cpu");
    let (memory, waits, work) = ("a memory profile", "a contention profile", "a CPU profile");
    match requested {
        ProfileType::Cpu if bytes => Some(memory),
        ProfileType::Cpu if delay => Some(waits),
        ProfileType::Heap | ProfileType::Alloc if delay => Some(waits),
        ProfileType::Heap | ProfileType::Alloc if cpu && !bytes => Some(work),
        ProfileType::Contention | ProfileType::Mutex if bytes => Some(memory),
        ProfileType::Contention | ProfileType::Mutex if cpu && !delay => Some(work),
        _ => None,
    }
}

fn is_busy_message(message: &[u8]) -> bool {
    let text = String::from_utf8_lossy(message).to_ascii_lowercase();
    BUSY.iter().any(|sentence| text.contains(sentence))
}

/// Whether the beginning is text for people.
fn is_sentence(bytes: &[u8]) -> bool {
    let head = &bytes[..bytes.len().min(FIRST_BYTES)];
    let text = String::from_utf8_lossy(head);
    let odd =
        text.chars().filter(|c| c.is_control() && !c.is_whitespace() || *c == char::REPLACEMENT_CHARACTER).count();
    // One replacement character may be the cut at the end.
    odd <= 1
}

/// The first line with something on it, at most 200 characters, without control characters.
pub(crate) fn first_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_distinct_codes() {
        let code =
            |status: u16, message: &str| of_status("u", status, message.as_bytes(), None).map(|error| error.code());
        assert_eq!(code(200, "Another profiler is running"), None);
        assert_eq!(code(400, "[E22]You have to specify ?seconds=N."), Some("refused"));
        assert_eq!(code(401, ""), Some("unauthorized"));
        assert_eq!(code(403, ""), Some("forbidden"));
        assert_eq!(code(404, ""), Some("not_found"));
        assert_eq!(code(409, ""), Some("busy"));
        assert_eq!(code(500, "boom"), Some("server_error"));
        assert_eq!(code(500, "[E11]Another profiler is running, try again later"), Some("busy"));
        assert_eq!(code(500, "Could not enable CPU profiling: cpu profiling already in use\n"), Some("busy"));
    }

    #[test]
    fn errors_describe_other_answers() {
        let error =
            |bytes: &[u8]| decode_answer(bytes, &ProfileType::Cpu, 1 << 20).unwrap_err().error("http://a:1/p", bytes);
        let sentence = |bytes: &[u8]| error(bytes).to_string();
        assert_eq!(sentence(b""), "http://a:1/p: not a profile: an empty body");
        assert_eq!(sentence(b"\n <!DOCTYPE html><p>x"), "http://a:1/p: not a profile: an HTML page");
        assert_eq!(
            sentence(b"dump jemalloc prof file failed"),
            "http://a:1/p: not a profile: it says \"dump jemalloc prof file failed\""
        );
        assert_eq!(
            sentence(b"Another profiler is running, try again later"),
            "http://a:1/p: busy: another profiler is capturing"
        );
        assert_eq!(error(&[b'x'; 1000]).first_bytes().len(), 256);
    }
}
