//! Addresses to dial. They come from configuration, and never contain credentials.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use reqwest::Url;

use crate::{CollectError, Result};

/// The base of a process's HTTP service: scheme, host, port and perhaps a path prefix.
///
/// Written `host:port`, `http://host:port`, `https://[::1]:8443/prefix`; without a scheme it is `http`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct BaseUrl(Url);

/// The full URL of one profile, perhaps with a query.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ProfileUrl(Url);

impl BaseUrl {
    /// Host and port as people write them: `host:8040`, `[::1]:8040`.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.0.host_str().unwrap_or_default(), self.port())
    }

    /// The host without brackets.
    pub fn host(&self) -> &str {
        host_of(&self.0)
    }

    /// The port, also when it is the scheme's own.
    pub fn port(&self) -> u16 {
        self.0.port_or_known_default().unwrap_or_default()
    }

    /// Whether it is reached by TLS.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// The same host and scheme at another port, without the path prefix.
    ///
    /// # Errors
    /// [`CollectError::Target`] for a URL whose port cannot be set; no URL that was parsed is such.
    pub fn at_port(&self, port: u16) -> Result<BaseUrl> {
        let mut url = self.0.clone();
        url.set_port(Some(port)).map_err(|()| CollectError::target("address", self.to_string(), "takes no port"))?;
        url.set_path("/");
        Ok(BaseUrl(url))
    }

    /// The addresses of this machine the URL may mean: the loopback address, both of them for `localhost`; empty for
    /// any other host.
    pub fn loopback(&self) -> Vec<IpAddr> {
        if self.host().eq_ignore_ascii_case("localhost") {
            return vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1u16])];
        }
        let address: Option<IpAddr> = self.host().parse().ok();
        address.filter(IpAddr::is_loopback).into_iter().collect()
    }

    /// The URL of `path` (which begins with `/` and may have a query) below this base.
    pub(crate) fn join(&self, path: &str) -> Url {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let mut url = self.0.clone();
        url.set_path(&format!("{}{path}", self.0.path().trim_end_matches('/')));
        url.set_query(query);
        url
    }
}

impl ProfileUrl {
    /// Takes a URL that was made from one parsed here, and so carries no credentials.
    pub(crate) fn from_url(url: Url) -> ProfileUrl {
        ProfileUrl(url)
    }

    /// The service it belongs to: its scheme, host and port.
    pub fn base(&self) -> BaseUrl {
        let mut url = self.0.clone();
        url.set_path("/");
        url.set_query(None);
        BaseUrl(url)
    }

    /// The URL with its whole query, for the next request; [`Display`](fmt::Display) hides what may be secret.
    pub fn plain(&self) -> String {
        self.0.to_string()
    }

    pub(crate) fn url(&self) -> Url {
        self.0.clone()
    }
}

impl FromStr for BaseUrl {
    type Err = CollectError;

    fn from_str(text: &str) -> Result<BaseUrl> {
        let url = parse(text)?;
        if url.query().is_some() {
            return Err(CollectError::target("address", shown(&url), "expected no query"));
        }
        Ok(BaseUrl(url))
    }
}

impl FromStr for ProfileUrl {
    type Err = CollectError;

    fn from_str(text: &str) -> Result<ProfileUrl> {
        parse(text).map(ProfileUrl)
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(shown(&self.0).trim_end_matches('/'))
    }
}

impl fmt::Display for ProfileUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.0))
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BaseUrl({self})")
    }
}

impl fmt::Debug for ProfileUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProfileUrl({self})")
    }
}

/// The URL for people and logs: query values other than those we set are hidden, since tokens travel there.
pub(crate) fn shown(url: &Url) -> String {
    let mut plain = url.clone();
    plain.set_query(None);
    let pairs = url.query_pairs().map(|(key, value)| match &*key {
        "seconds" | "frequency" | "filename" | "node" => format!("{key}={value}"),
        _ => format!("{key}=***"),
    });
    let query: Vec<String> = pairs.collect();
    if query.is_empty() { plain.to_string() } else { format!("{plain}?{}", query.join("&")) }
}

fn host_of(url: &Url) -> &str {
    url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}

fn parse(text: &str) -> Result<Url> {
    let full = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    // A text that may hold a password is not repeated in the error.
    let value = if text.contains('@') { "(hidden)".to_owned() } else { text.chars().take(200).collect() };
    let wrong = |why: &str| CollectError::target("address", value.clone(), why);
    let url = Url::parse(&full).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("expected http or https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("credentials belong in the authentication settings, not in the address"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(wrong("expected a host"));
    }
    if url.port_or_known_default().is_none_or(|port| port == 0) {
        return Err(wrong("expected a port from 1 to 65535"));
    }
    if url.fragment().is_some() {
        return Err(wrong("expected no fragment"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_addresses_and_joins_paths() {
        let check = |text: &str, path: &str, joined: &str| {
            let base: BaseUrl = text.parse().unwrap();
            assert_eq!(base.join(path).as_str(), joined);
        };
        check("be1:8040", "/pprof/heap", "http://be1:8040/pprof/heap");
        check("https://db/admin/", "/debug?seconds=0", "https://db/admin/debug?seconds=0");
        check("[::1]:6060", "/x", "http://[::1]:6060/x");
        let base: BaseUrl = "https://[::1]:6060/a".parse().unwrap();
        assert_eq!((base.authority(), base.host(), base.port()), ("[::1]:6060".to_owned(), "::1", 6060));
        assert_eq!(base.at_port(8060).unwrap().to_string(), "https://[::1]:8060");
        assert_eq!(base.loopback().len(), 1);
        assert!("be1:8040".parse::<BaseUrl>().unwrap().loopback().is_empty());
    }

    #[test]
    fn refuses_what_cannot_be_dialled_and_hides_secrets() {
        for text in ["", "ftp://a/", "http://:80", "a:0", "a:99999", "file:///etc/passwd", "a:1?x=1", "a:1#b"] {
            assert!(text.parse::<BaseUrl>().is_err(), "{text}");
        }
        let error = "http://joe:hunter2@a:1".parse::<BaseUrl>().unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
        let url: ProfileUrl = "http://a:1/p?token=hunter2&seconds=5".parse().unwrap();
        assert_eq!(url.to_string(), "http://a:1/p?token=***&seconds=5");
        assert_eq!(format!("{url:?}"), "ProfileUrl(http://a:1/p?token=***&seconds=5)");
    }
}
