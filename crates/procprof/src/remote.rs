//! Asking a running server to do something, over its HTTP API.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::cli::RemoteArgs;

/// How long the server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Posts to a path of the server's API and prints its answer.
pub(crate) fn post(arguments: &RemoteArgs, path: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    runtime.block_on(post_async(arguments, path))
}

async fn post_async(arguments: &RemoteArgs, path: &str) -> Result<()> {
    let url = format!("{}{path}", arguments.server.trim_end_matches('/'));
    ensure!(
        url.starts_with("http://") || url.starts_with("https://"),
        "--server {}: expected http://HOST:PORT or https://HOST:PORT",
        arguments.server
    );
    let client = client(arguments.ca_file.as_deref())?;
    let mut request = client.post(&url);
    if let (Some(user), Some(file)) = (&arguments.user, &arguments.password_file) {
        let password = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        request = request.basic_auth(user, Some(password.trim_end_matches(['\r', '\n'])));
    }
    let response = request.send().await.with_context(|| format!("ask {url}"))?;
    let status = response.status();
    let text = response.text().await.with_context(|| format!("read the answer of {url}"))?;
    if !status.is_success() {
        bail!("{url}: {status}: {}", text.trim());
    }
    let answer: serde_json::Value =
        serde_json::from_str(&text).ok().filter(|answer: &serde_json::Value| answer["paused"].is_boolean()).with_context(|| {
            let first: String = text.chars().take(80).collect();
            format!("{url}: this is no procprof server; it answered {first:?}")
        })?;
    println!("{}", if answer["paused"] == true { "scheduled captures are paused" } else { "scheduled captures run" });
    Ok(())
}

/// A client that trusts the system's authorities, or only those of a file.
fn client(ca_file: Option<&Path>) -> Result<reqwest::Client> {
    let builder = reqwest::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none()).no_proxy();
    let Some(path) = ca_file else { return builder.build().context("set up HTTP") };
    let pem = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let certificates = reqwest::Certificate::from_pem_bundle(&pem).with_context(|| format!("read certificates of {}", path.display()))?;
    ensure!(!certificates.is_empty(), "{}: no certificate in it", path.display());
    builder.tls_certs_only(certificates).build().context("set up HTTP")
}
