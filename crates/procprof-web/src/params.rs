//! The parameters of a query or a form, read strictly: a name the route does not have is an error.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use procprof_core::nodes::Node;
use procprof_profile::{Nanos, ProfileType};

use super::problem::{ApiResult, Problem};
use crate::Web;

/// Most parameters one request may have.
const PARAMS_MAX: usize = 100;

/// Name and value pairs, in order.
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads `name=value&...`, percent-decoded.
    pub(crate) fn parse(text: &str) -> ApiResult<Params> {
        let pairs: Vec<(String, String)> =
            text.split('&').filter(|pair| !pair.is_empty()).take(PARAMS_MAX + 1).map(pair).collect::<ApiResult<_>>()?;
        if pairs.len() > PARAMS_MAX {
            return Err(Problem::bad_request(format!("more than {PARAMS_MAX} parameters")));
        }
        Ok(Params(pairs))
    }

    /// Refuses names that are not in `known`.
    pub(crate) fn only(self, known: &[&str]) -> ApiResult<Params> {
        match self.0.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(self),
            Some((name, _)) => {
                let name: String = name.chars().take(100).collect();
                let known = if known.is_empty() {
                    "there are none here".to_owned()
                } else {
                    format!("known are {}", known.join(", "))
                };
                Err(Problem::bad_request(format!("unknown parameter {name:?}; {known}")))
            }
        }
    }

    /// The first value of a name; an empty one counts as left out.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// All values of a name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, value)| key == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// The value of a name that must be there.
    pub(crate) fn need(&self, name: &str) -> ApiResult<&str> {
        self.get(name).ok_or_else(|| Problem::bad_request(format!("{name} is missing")))
    }

    /// All `label=key=value`.
    pub(crate) fn labels(&self) -> ApiResult<Vec<(String, String)>> {
        let pair = |label: &str| label.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labels = self.all("label").map(|label| {
            pair(label).ok_or_else(|| Problem::bad_request(format!("label {label:?}: expected key=value")))
        });
        labels.collect()
    }

    /// A place on this server to lead to: a path, of no other host.
    pub(crate) fn own_place(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|place| {
            place.starts_with('/') && !place[1..].starts_with(['/', '\\']) && !place.contains(char::is_control)
        })
    }

    /// All pairs except those of `names`.
    pub(crate) fn except<'a>(&'a self, names: &'a [&'a str]) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0
            .iter()
            .filter(|(key, _)| !names.contains(&key.as_str()))
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// A whole number in a range.
    pub(crate) fn number(&self, name: &str, low: u64, high: u64) -> ApiResult<Option<u64>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if (low..=high).contains(&number) => Ok(Some(number)),
            _ => Err(Problem::bad_request(format!("{name}: expected a whole number from {low} to {high}"))),
        }
    }

    /// A profile type.
    pub(crate) fn profile_type(&self, name: &str) -> ApiResult<Option<ProfileType>> {
        Ok(self.get(name).map(str::parse).transpose()?)
    }

    /// A moment: RFC 3339, the same without a zone (UTC), or seconds since the epoch.
    pub(crate) fn time(&self, name: &str) -> ApiResult<Option<Nanos>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let seconds = text.parse::<i64>().ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
        let moment = seconds.or_else(|| i64::try_from(timestamp(text)?.as_nanosecond()).ok());
        let wrong = || {
            Problem::bad_request(format!(
                "{name}: expected a time such as 2026-11-20T22:25:34Z, or seconds since the epoch"
            ))
        };
        moment.map(Nanos).map(Some).ok_or_else(wrong)
    }

    /// The node of the parameter `node`; without one, the first FE or the server itself.
    pub(crate) fn node(&self, web: &Web) -> ApiResult<Arc<Node>> {
        let Some(name) = self.get("node") else { return Ok(web.registry.default_node()) };
        let shown: String = name.chars().take(200).collect();
        web.registry.find(name).ok_or_else(|| Problem::bad_request(format!("no node {shown:?} is registered")))
    }
}

/// A time with its zone or offset, or in UTC.
fn timestamp(text: &str) -> Option<Timestamp> {
    let in_utc = || Some(text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    text.parse().ok().or_else(in_utc)
}

fn pair(text: &str) -> ApiResult<(String, String)> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    Ok((decode(name)?, decode(value)?))
}

/// Undoes `+` and `%XX`.
fn decode(text: &str) -> ApiResult<String> {
    let wrong = || Problem::bad_request("a parameter is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
                let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
                if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                    return Err(wrong());
                }
                bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
                rest = after;
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// A text encoded for a query: everything but letters, digits and `-._~` as `%XX`.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_zone_or_is_in_utc() {
        let time = |text: &str| Params::parse(&format!("at={}", encode(text))).unwrap().time("at");
        let expected = Some(Nanos(1_763_678_400_000_000_000));
        for text in [
            "1763678400",
            "2025-11-20T22:40:00Z",
            "2025-11-20T22:40:00",
            "2025-11-20 22:40",
            "2025-11-21T00:40:00+02:00",
        ] {
            assert_eq!(time(text).unwrap(), expected, "{text}");
        }
        for text in ["yesterday", "2025-13-20T22:40:00", "99999999999999999", "9999-12-31T23:59:59"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
