//! Asking a running server to do something, over its HTTP API.

use std::time::Duration;

use anyhow::{Context, Result, bail};

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
    let client = reqwest::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none()).no_proxy().build()?;
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
    println!("{}", text.trim());
    Ok(())
}
