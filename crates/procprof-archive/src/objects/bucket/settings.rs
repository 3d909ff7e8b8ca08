//! Settings and credentials of buckets, from the environment, the files that it names, and instances' roles.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ClientOptions, CredentialProvider, ObjectStore, RetryConfig};

use super::BucketLimits;
use super::answers::Connector;
use crate::objects::place::{BucketPlace, Provider};

/// The file with the keys of S3, in the home folder.
const AWS_FILE: &str = ".aws/credentials";
/// Bytes of that file.
const AWS_FILE_BYTES_MAX: u64 = 1 << 20;

/// Environment variables. `Debug` shows their names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, String>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Environment {
    /// Those of this process that are valid Unicode.
    pub fn of_process() -> Environment {
        let pairs = std::env::vars_os();
        Environment(
            pairs.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect(),
        )
    }

    /// These alone.
    pub fn new<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Environment {
        Environment(variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The settings of a provider: the variables whose names begin with its prefix and that it knows.
    fn settings<K: std::str::FromStr>(&self, prefix: &str) -> impl Iterator<Item = (K, &str)> {
        let ours = self.0.iter().filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty());
        ours.filter_map(|(name, value)| Some((name.to_ascii_lowercase().parse().ok()?, value.as_str())))
    }

    /// The names of those settings, for errors.
    pub(super) fn names(&self, provider: Provider) -> String {
        let ours = self.0.keys().filter(|name| name.starts_with(prefix(provider)));
        let names: Vec<&str> = ours.map(String::as_str).take(20).collect();
        if names.is_empty() { format!("no {}…", prefix(provider)) } else { names.join(", ") }
    }

    /// Whether a server that is named by one of the variables is to be reached without TLS.
    fn is_plain(&self, names: &[&str]) -> bool {
        names.iter().filter_map(|name| self.get(name)).any(|url| url.starts_with("http://"))
    }
}

fn prefix(provider: Provider) -> &'static str {
    match provider {
        Provider::S3 => "AWS_",
        Provider::Google => "GOOGLE_",
        Provider::Azure => "AZURE_",
    }
}

/// The client of a bucket.
pub(super) fn client(
    place: &BucketPlace,
    environment: &Environment,
    limits: &BucketLimits,
) -> object_store::Result<Arc<dyn ObjectStore>> {
    let connector = Connector { connect: limits.connect, silence: limits.silence };
    let retry = RetryConfig {
        backoff: BackoffConfig { init_backoff: limits.pause, max_backoff: limits.pause * 32, base: 2.0 },
        max_retries: limits.retries,
        retry_timeout: limits.operation,
    };
    let options = |endpoints: &[&str]| ClientOptions::new().with_allow_http(environment.is_plain(endpoints));
    match place.provider {
        Provider::S3 => {
            let options = options(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]);
            let mut builder = AmazonS3Builder::new().with_client_options(options);
            for (key, value) in environment.settings::<AmazonS3ConfigKey>("AWS_") {
                if !matches!(key, AmazonS3ConfigKey::Bucket | AmazonS3ConfigKey::ConditionalPut) {
                    builder = builder.with_config(key, value);
                }
            }
            if let Some(keys) = KeyFile::find(environment) {
                builder = builder.with_credentials(Arc::new(keys));
            }
            // Not every server has deletes of many, and one at a time is all that is needed.
            let builder = builder.with_disable_bulk_delete(true).with_bucket_name(&place.bucket);
            Ok(Arc::new(builder.with_http_connector(connector).with_retry(retry).build()?))
        }
        Provider::Google => {
            let mut builder = GoogleCloudStorageBuilder::new().with_client_options(options(&["GOOGLE_BASE_URL"]));
            for (key, value) in environment.settings::<GoogleConfigKey>("GOOGLE_") {
                if !matches!(key, GoogleConfigKey::Bucket) {
                    builder = builder.with_config(key, value);
                }
            }
            let builder = builder.with_bucket_name(&place.bucket);
            Ok(Arc::new(builder.with_http_connector(connector).with_retry(retry).build()?))
        }
        Provider::Azure => {
            let options = options(&["AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"]);
            let mut builder = MicrosoftAzureBuilder::new().with_client_options(options);
            for (key, value) in environment.settings::<AzureConfigKey>("AZURE_") {
                if !matches!(key, AzureConfigKey::ContainerName) {
                    builder = builder.with_config(key, value);
                }
            }
            let builder = builder.with_container_name(&place.bucket);
            Ok(Arc::new(builder.with_http_connector(connector).with_retry(retry).build()?))
        }
    }
}

/// Credentials that cannot be used; the text has none of them.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct CredentialsError(String);

/// A profile of the file with keys of S3, which is read for each request, so that new keys count at once.
#[derive(Debug)]
struct KeyFile {
    path: PathBuf,
    profile: String,
}

impl KeyFile {
    /// The file that has the keys, unless variables have them or name another source of them.
    fn find(environment: &Environment) -> Option<KeyFile> {
        let others =
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE"];
        if others.into_iter().any(|name| environment.get(name).is_some()) {
            return None;
        }
        let profile = environment.get("AWS_PROFILE").unwrap_or("default").to_owned();
        if let Some(path) = environment.get("AWS_SHARED_CREDENTIALS_FILE") {
            return Some(KeyFile { path: path.into(), profile });
        }
        let path = Path::new(environment.get("HOME")?).join(AWS_FILE);
        path.is_file().then_some(KeyFile { path, profile })
    }

    fn read(&self) -> Result<AwsCredential, CredentialsError> {
        let wrong = |why: &str| CredentialsError(format!("credentials file {}: {why}", self.path.display()));
        let size = std::fs::metadata(&self.path).map_err(|error| wrong(&error.kind().to_string()))?.len();
        if size > AWS_FILE_BYTES_MAX {
            return Err(wrong("too large"));
        }
        let text = std::fs::read_to_string(&self.path).map_err(|error| wrong(&error.kind().to_string()))?;
        let found = keys(&text, &self.profile).ok_or_else(|| wrong(&format!("no profile {:?}", self.profile)))?;
        let key = |name: &str| found.get(name).map(|value| (*value).to_owned());
        let needed = |name: &str| key(name).ok_or_else(|| wrong(&format!("profile {:?} has no {name}", self.profile)));
        Ok(AwsCredential {
            key_id: needed("aws_access_key_id")?,
            secret_key: needed("aws_secret_access_key")?,
            token: key("aws_session_token"),
        })
    }
}

#[async_trait]
impl CredentialProvider for KeyFile {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        match self.read() {
            Ok(credential) => Ok(Arc::new(credential)),
            Err(error) => Err(object_store::Error::Generic { store: "S3", source: error.into() }),
        }
    }
}

/// The keys of a profile of a file such as `[default]\naws_access_key_id = AKIA…`.
fn keys<'a>(text: &'a str, profile: &str) -> Option<BTreeMap<&'a str, &'a str>> {
    let mut found: Option<BTreeMap<&str, &str>> = None;
    let mut is_ours = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            is_ours = name.trim() == profile;
            if is_ours {
                found.get_or_insert_default();
            }
        } else if let (true, false, Some((key, value))) = (is_ours, line.starts_with(['#', ';']), line.split_once('='))
        {
            found.get_or_insert_default().insert(key.trim(), value.trim());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Environment, keys};

    #[test]
    fn profiles_of_a_file_are_told_apart() {
        let text =
            "[default]\naws_access_key_id = A\n# aws_access_key_id = X\n\n[other]\n aws_access_key_id=B=\n[empty]\n";
        let key = |profile| keys(text, profile).map(|keys| keys.get("aws_access_key_id").copied());
        assert_eq!(key("default"), Some(Some("A")));
        assert_eq!(key("other"), Some(Some("B=")));
        assert_eq!(key("empty"), Some(None));
        assert_eq!(key("none"), None);
    }

    #[test]
    fn an_environment_shows_no_values() {
        let environment = Environment::new([("AWS_SECRET_ACCESS_KEY", "hunter2")]);
        assert_eq!(format!("{environment:?}"), r#"{"AWS_SECRET_ACCESS_KEY"}"#);
    }
}
