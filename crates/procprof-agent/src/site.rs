//! Admission where no token is set: programs and pages of this machine, and no requests that a browser or a proxy
//! relays from elsewhere.

use crate::request::Response;

/// The headers of a request that describe its origin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Site<'a> {
    /// `Host`
    pub(crate) host: Option<&'a str>,
    /// `Origin`
    pub(crate) origin: Option<&'a str>,
}

impl Site<'_> {
    /// Refuses what a browser would send for a page that is not ours: where only this machine is served, a host name
    /// that is not its own; anywhere, a foreign origin.
    pub(crate) fn check(self, only_this_machine: bool) -> Result<(), Response> {
        let host = self.host.unwrap_or_default();
        if only_this_machine && self.host.is_some() && !is_loopback_name(host) {
            return Err(Response::text(403, format!("Host {host}: expected a loopback name")));
        }
        let same_site = |origin: &str| origin.split_once("://").is_some_and(|(_, authority)| authority == host);
        match self.origin {
            Some(origin) if !same_site(origin) => Err(Response::text(403, format!("Origin {origin}: another site"))),
            _ => Ok(()),
        }
    }
}

/// `localhost` or a loopback address, with or without a port.
fn is_loopback_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_not_led_here_by_another_site() {
        let with = |host: &str, origin: Option<&str>| Site { host: Some(host), origin }.check(true).is_ok();
        for host in ["127.0.0.1:80", "localhost", "LOCALHOST:1", "[::1]:8", "[::1]", "127.8.8.8"] {
            assert!(with(host, None), "{host}");
        }
        for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", ""] {
            assert!(!with(host, None), "{host}");
        }
        assert!(with("localhost:1", Some("http://localhost:1")));
        assert!(!with("localhost:1", Some("http://localhost:2")));
        assert!(!with("localhost:1", Some("null")));
        assert!(Site { host: Some("10.0.0.1"), origin: None }.check(false).is_ok());
        assert!(Site { host: Some("10.0.0.1"), origin: Some("http://evil.example") }.check(false).is_err());
    }
}
