//! [`Place`]: where an archive is, as users write it.
//!
//! ```text
//! archive/here   /srv/archive   file:///srv/archive    a folder
//! s3://bucket/prefix                                   S3, or a server that speaks its protocol
//! gs://bucket/prefix                                   Google Cloud Storage
//! az://container/prefix                                Azure Blob Storage
//! ```
//! A URL never has credentials in it: errors, logs and pages show it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use super::{Bucket, BucketLimits, Environment, ObjectFolder, Objects, is_step};
use crate::{Error, Result};

/// Where an archive is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A bucket, or a part of one.
    Bucket(BucketPlace),
}

/// Whose protocol a bucket is reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// Amazon S3 and what is compatible with it.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage, whose buckets are called containers.
    Azure,
}

impl Provider {
    const ALL: [Provider; 3] = [Provider::S3, Provider::Google, Provider::Azure];

    /// The scheme of its URLs.
    pub fn scheme(self) -> &'static str {
        match self {
            Provider::S3 => "s3",
            Provider::Google => "gs",
            Provider::Azure => "az",
        }
    }
}

/// A bucket and what the names of an archive's objects begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketPlace {
    /// Its provider.
    pub provider: Provider,
    /// Its name.
    pub bucket: String,
    /// Steps before the names, without a `/` at either end; empty for none.
    pub prefix: String,
}

impl BucketPlace {
    /// The whole name of an object in the bucket.
    pub(super) fn key(&self, path: &str) -> String {
        if self.prefix.is_empty() { path.to_owned() } else { format!("{}/{path}", self.prefix) }
    }

    /// The URL of an object, for errors.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}://{}/{}", self.provider.scheme(), self.bucket, self.key(path))
    }

    fn parse(provider: Provider, rest: &str) -> std::result::Result<BucketPlace, &'static str> {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        if rest.contains(['@', '?', '#']) {
            return Err("has no user, password, token or other parameters: credentials come from the environment");
        }
        if bucket.is_empty() || !bucket.chars().all(is_named) || !is_step(bucket) {
            return Err("needs the name of a bucket: letters, digits, -, . and _");
        }
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        if !prefix.is_empty() && !prefix.split('/').all(is_step) {
            return Err("has an empty step, one that begins with a dot, or a control character");
        }
        Ok(BucketPlace { provider, bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

impl fmt::Display for BucketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.provider.scheme(), self.bucket)?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Folder(folder) => write!(f, "{}", folder.display()),
            Place::Bucket(bucket) => bucket.fmt(f),
        }
    }
}

impl FromStr for Place {
    type Err = Error;

    fn from_str(text: &str) -> Result<Place> {
        let refused = |scheme: &str, why: &str| Err(Error::Place { scheme: printable(scheme), why: why.to_owned() });
        let Some((scheme, rest)) = text.split_once("://") else {
            return match text.split_once(':') {
                Some((scheme, _)) if Provider::ALL.into_iter().any(|provider| provider.scheme() == scheme) => {
                    refused(scheme, "needs two slashes after its colon, as in s3://bucket/prefix")
                }
                _ => Ok(Place::Folder(text.into())),
            };
        };
        let refused = |why: &str| refused(scheme, why);
        if scheme == "file" {
            return match rest {
                rest if !rest.starts_with('/') => refused("needs a whole path: file:///folder"),
                rest if rest.contains(['%', '?', '#']) => refused("is not decoded: give the path itself"),
                rest => Ok(Place::Folder(rest.into())),
            };
        }
        let Some(provider) = Provider::ALL.into_iter().find(|provider| provider.scheme() == scheme) else {
            return refused("is not known; an archive is a folder, s3://, gs:// or az://");
        };
        BucketPlace::parse(provider, rest).map(Place::Bucket).or_else(refused)
    }
}

fn printable(scheme: &str) -> String {
    scheme.chars().filter(char::is_ascii_alphanumeric).take(20).collect()
}

impl Place {
    /// The storage there. A folder must exist; whether a bucket does, the first use of it shows.
    ///
    /// # Errors
    /// The system's; settings of the environment that cannot be used.
    pub fn open(&self, environment: &Environment, limits: BucketLimits) -> Result<Arc<dyn Objects>> {
        match self {
            Place::Folder(folder) => Ok(Arc::new(ObjectFolder::open(folder)?)),
            Place::Bucket(place) => Ok(Arc::new(Bucket::open(place.clone(), environment, limits)?)),
        }
    }

    /// The same, with a folder that is created if it is missing; buckets are not created.
    ///
    /// # Errors
    /// The system's; settings of the environment that cannot be used.
    pub fn create(&self, environment: &Environment, limits: BucketLimits) -> Result<Arc<dyn Objects>> {
        match self {
            Place::Folder(folder) => Ok(Arc::new(ObjectFolder::create(folder)?)),
            Place::Bucket(_) => self.open(environment, limits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn places_are_read_as_written() {
        let cases = [
            ("archive", "archive"),
            ("/srv/archive", "/srv/archive"),
            ("file:///srv/archive", "/srv/archive"),
            ("s3://bucket", "s3://bucket"),
            ("s3://bucket/", "s3://bucket"),
            ("s3://bucket/a/b/", "s3://bucket/a/b"),
            ("gs://my_bucket.example.com/a b", "gs://my_bucket.example.com/a b"),
            ("az://container/x", "az://container/x"),
        ];
        for (text, shown) in cases {
            assert_eq!(text.parse::<Place>().expect(text).to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_place_is_refused_without_its_secrets() {
        let wrong = [
            "s3://",
            "s3:/bucket",
            "gs:bucket",
            "s3:///prefix",
            "s3://..",
            "s3://b/a//b",
            "s3://b/../c",
            "s3://b/.hidden",
            "s3://b/a\u{9b}31m",
            "s3://key:hunter2@bucket",
            "az://c/p?sig=hunter2",
            "https://hunter2.example/b",
            "file://host/x",
            "file:///a%20b",
            "gs://bu cket",
            "s3://b/\n",
        ];
        for text in wrong {
            let error = text.parse::<Place>().expect_err(text);
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2") && shown.is_ascii(), "{shown}");
        }
    }
}
