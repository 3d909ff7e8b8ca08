//! A query string as typed to options as meant.

use crate::options::CpuEngine;
use crate::request::Response;
use std::time::Duration;

/// The longest capture, seconds.
pub const MAX_SECONDS: u64 = 300;

/// The longest time something is switched for before it goes back by itself.
const MAX_SWITCH_SECONDS: u64 = 24 * 3600;

/// The parameters of a query, decoded.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

/// Which form of a profile is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// gzip'd `profile.proto`.
    Proto,
    /// gperftools' CPU binary or jemalloc's heap text.
    Legacy,
}

impl Query {
    /// Decodes a query; unknown parameters are kept and have no effect, as in Go's and brpc's servers.
    pub(super) fn parse(query: &str) -> Result<Self, Response> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let (Some(key), Some(value)) = (decode(key), decode(value)) else {
                return Err(bad(format!("{part}: expected a name and a value in percent-encoded UTF-8")));
            };
            if parameters.iter().any(|(known, _)| *known == key) {
                return Err(bad(format!("{key}: given twice")));
            }
            parameters.push((key, value));
        }
        Ok(Self(parameters))
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// A whole number within bounds, or `default` when it is not given.
    pub(super) fn number(
        &self,
        key: &str,
        bounds: std::ops::RangeInclusive<u64>,
        default: u64,
    ) -> Result<u64, Response> {
        let Some(text) = self.get(key) else { return Ok(default) };
        let wrong =
            || bad(format!("{key}={text}: expected a whole number from {} to {}", bounds.start(), bounds.end()));
        let number = text.parse().map_err(|_| wrong())?;
        if bounds.contains(&number) { Ok(number) } else { Err(wrong()) }
    }

    /// `0` or `1`, or `default` when it is not given.
    pub(super) fn switch(&self, key: &str, default: bool) -> Result<bool, Response> {
        Ok(self.number(key, 0..=1, u64::from(default))? == 1)
    }

    /// A time such as `90s`, `30m` or `2h`, at most a day, where one is given.
    pub(super) fn length(&self, key: &str) -> Result<Option<Duration>, Response> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let seconds = || -> Option<u64> {
            let unit = match text.as_bytes().last()? {
                b's' => 1,
                b'm' => 60,
                b'h' => 3600,
                _ => return None,
            };
            let number: u64 = text[..text.len() - 1].parse().ok()?;
            number.checked_mul(unit).filter(|seconds| (1..=MAX_SWITCH_SECONDS).contains(seconds))
        };
        let error = || bad(format!("{key}={text}: expected a time from 1s to 24h, such as 90s, 30m or 2h"));
        seconds().map(|seconds| Some(Duration::from_secs(seconds))).ok_or_else(error)
    }

    /// `engine=auto|perf|tick`, or `default` when it is not given.
    pub(super) fn engine(&self, default: CpuEngine) -> Result<CpuEngine, Response> {
        let Some(name) = self.get("engine") else { return Ok(default) };
        CpuEngine::of_name(name).ok_or_else(|| bad(format!("engine={name}: expected auto, perf or tick")))
    }

    /// `format=proto|legacy`, or `default` when it is not given.
    pub(super) fn form(&self, default: Form) -> Result<Form, Response> {
        match self.get("format") {
            None => Ok(default),
            Some("proto") => Ok(Form::Proto),
            Some("legacy") => Ok(Form::Legacy),
            Some(other) => Err(bad(format!("format={other}: expected proto or legacy"))),
        }
    }
}

/// Rejects a bad request.
pub(super) fn bad(line: String) -> Response {
    Response::text(400, line)
}

/// `+` and `%41` decoded; `None` for broken encoding.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, tail) = tail.split_at_checked(2)?;
                let digits = std::str::from_utf8(digits)
                    .ok()
                    .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = tail;
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<T: std::fmt::Debug>(result: Result<T, Response>) -> String {
        let response = result.unwrap_err();
        assert_eq!(response.status, 400);
        String::from_utf8(response.body).unwrap()
    }

    #[test]
    fn numbers_are_bounded_and_named_when_wrong() {
        let query = Query::parse("seconds=5&frequency=0x10&big=99999999999999999999&none=&a+b=%41%2b").unwrap();
        assert_eq!(query.number("seconds", 1..=300, 30).unwrap(), 5);
        assert_eq!(query.number("absent", 1..=300, 30).unwrap(), 30);
        assert_eq!(refusal(query.number("seconds", 6..=9, 6)), "seconds=5: expected a whole number from 6 to 9\n");
        for key in ["frequency", "big", "none"] {
            assert!(refusal(query.number(key, 1..=1000, 99)).starts_with(&format!("{key}=")));
        }
        assert_eq!(query.get("a b"), Some("A+"));
    }

    #[test]
    fn broken_queries_are_refused_with_the_part_that_is_broken() {
        for broken in ["seconds=%", "seconds=%zz", "seconds=%+1", "a=%ff", "s=1&s=2"] {
            let error = refusal(Query::parse(broken));
            assert!(error.starts_with(&broken[..1]), "{error}");
        }
        assert!(Query::parse("&&=&x").is_ok());
    }

    #[test]
    fn times_have_a_unit_and_an_end() {
        let length = |text: &str| Query::parse(&format!("for={text}")).unwrap().length("for");
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("24h", 86_400)] {
            assert_eq!(length(text).unwrap(), Some(Duration::from_secs(seconds)));
        }
        for wrong in ["", "0s", "30", "m", "-1s", "25h", "1d", "99999999999999999999s", "\u{e9}"] {
            assert!(refusal(length(wrong)).starts_with(&format!("for={wrong}: expected a time")));
        }
        assert_eq!(Query::parse("").unwrap().length("for").unwrap(), None);
    }

    #[test]
    fn forms_are_a_closed_set() {
        assert_eq!(Query::parse("").unwrap().form(Form::Legacy).unwrap(), Form::Legacy);
        assert_eq!(Query::parse("format=proto").unwrap().form(Form::Legacy).unwrap(), Form::Proto);
        assert_eq!(
            refusal(Query::parse("format=svg").unwrap().form(Form::Proto)),
            "format=svg: expected proto or legacy\n"
        );
    }
}
