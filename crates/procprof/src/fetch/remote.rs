//! The location of a profile: a URL as typed, with its credentials.
//!
//! ```text
//! http://user:password@host:6060/debug/pprof/heap    https+insecure://host/x (no check of the certificate)    host:8040/pprof/heap
//! ```

use std::path::PathBuf;

use procprof_collect::{Auth, ClientCertificate, CollectError, ProfileUrl, Secret, Target, Tls, endpoints};
use reqwest::Url;

/// Largest profile that is taken, in bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Files for HTTPS.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    /// Certificates to trust instead of the system's.
    pub(crate) ca: Option<PathBuf>,
    /// Our own certificate.
    pub(crate) cert: Option<PathBuf>,
    /// Its key.
    pub(crate) key: Option<PathBuf>,
}

/// A profile of a process.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    /// Its URL, without credentials.
    pub(crate) url: ProfileUrl,
    /// How to be let in.
    pub(super) target: Target,
}

impl Remote {
    /// Reads what was typed; without a scheme it is `http`.
    ///
    /// # Errors
    /// [`CollectError::Target`] for what can't be dialled.
    pub(crate) fn parse(typed: &str, files: &TlsFiles) -> Result<Remote, CollectError> {
        let insecure = typed.strip_prefix("https+insecure://");
        let full = match insecure {
            Some(rest) => format!("https://{rest}"),
            None if typed.contains("://") => typed.to_owned(),
            None => format!("http://{typed}"),
        };
        let (plain, auth) = without_credentials(&full)?;
        let url: ProfileUrl = plain.parse()?;
        let mut target = Target::new(&endpoints::PPROF, url.base());
        target.auth = auth;
        target.max_bytes = BYTES_MAX;
        target.tls = Tls { ca_file: files.ca.clone(), insecure: insecure.is_some(), client: client(files)? };
        Ok(Remote { url, target })
    }

    /// The same process, another page of it.
    ///
    /// # Errors
    /// [`CollectError::Target`] for what is no URL of a page.
    pub(crate) fn page(&self, url: &Url) -> Result<ProfileUrl, CollectError> {
        url.as_str().parse()
    }

    /// Host and port, for people.
    pub(crate) fn host(&self) -> String {
        self.url.base().authority()
    }
}

fn client(files: &TlsFiles) -> Result<Option<ClientCertificate>, CollectError> {
    let lacks = |what: &'static str, value: &PathBuf, why: &str| CollectError::Target {
        what,
        value: value.display().to_string(),
        why: why.to_owned(),
    };
    match (&files.cert, &files.key) {
        (None, None) => Ok(None),
        (Some(cert), Some(key)) => Ok(Some(ClientCertificate { cert_file: cert.clone(), key_file: key.clone() })),
        (Some(cert), None) => Err(lacks("tls_cert", cert, "needs its key, given by tls_key")),
        (None, Some(key)) => Err(lacks("tls_key", key, "needs its certificate, given by tls_cert")),
    }
}

/// The URL without user and password, and those. Text that is no URL is returned unchanged, for the next reader to
/// reject.
fn without_credentials(full: &str) -> Result<(String, Auth), CollectError> {
    let Ok(mut url) = Url::parse(full) else { return Ok((full.to_owned(), Auth::None)) };
    if url.username().is_empty() && url.password().is_none() {
        return Ok((full.to_owned(), Auth::None));
    }
    let hidden =
        |why: &str| CollectError::Target { what: "address", value: "(hidden)".to_owned(), why: why.to_owned() };
    let user = decoded(url.username()).ok_or_else(|| hidden("its user is not percent-encoded UTF-8"))?;
    let password = decoded(url.password().unwrap_or_default())
        .ok_or_else(|| hidden("its password is not percent-encoded UTF-8"))?;
    if url.set_username("").is_err() || url.set_password(None).is_err() {
        return Err(hidden("takes no credentials"));
    }
    Ok((url.to_string(), Auth::Basic { user, password: Secret::new(password) }))
}

/// Undoes `%XX`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_leave_the_url() {
        let remote = Remote::parse("http://joe:hun%74er2@a:1/p?seconds=5", &TlsFiles::default()).unwrap();
        assert_eq!(remote.url.to_string(), "http://a:1/p?seconds=5");
        assert_eq!(remote.target.auth, Auth::Basic { user: "joe".to_owned(), password: Secret::new("hunter2") });
        assert!(!format!("{remote:?}").contains("hunter2"));
        assert_eq!(Remote::parse("a:1/p", &TlsFiles::default()).unwrap().target.auth, Auth::None);
    }

    #[test]
    fn certificates_are_checked_unless_the_scheme_skips_it() {
        let tls = |typed: &str| Remote::parse(typed, &TlsFiles::default()).unwrap().target.tls;
        assert!(tls("https+insecure://a/p").insecure && !tls("https://a/p").insecure);
        let half = TlsFiles { cert: Some("c.pem".into()), ..TlsFiles::default() };
        assert!(Remote::parse("https://a/p", &half).unwrap_err().to_string().contains("tls_key"));
    }
}
