//! Requests to a running server, over its HTTP API.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueHint};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;

/// How long the server may take to answer, by default.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How to reach a running server.
#[derive(Debug, Args)]
pub(crate) struct RemoteArgs {
    /// Address of the server
    #[arg(long, value_name = "URL", env = "PROCPROF_SERVER", default_value = "http://127.0.0.1:8030")]
    pub(crate) server: String,
    /// Certificates (PEM) to trust instead of the system's: the server's authority, or its own (self-signed)
    /// certificate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) ca_file: Option<PathBuf>,
    /// User to log in as
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub(crate) user: Option<String>,
    /// File with the user's password
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) password_file: Option<PathBuf>,
}

/// A running server.
pub(crate) struct Remote {
    client: reqwest::Client,
    base: String,
    /// Name and password.
    login: Option<(String, String)>,
}

/// The password in a file, without the end of its line.
pub(crate) fn password(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

impl Remote {
    /// The server that was named.
    pub(crate) fn from_arguments(arguments: &RemoteArgs) -> Result<Remote> {
        let base = arguments.server.trim_end_matches('/').to_owned();
        let is_url = base.starts_with("http://") || base.starts_with("https://");
        ensure!(is_url, "--server {}: expected http://HOST:PORT or https://HOST:PORT", arguments.server);
        let login = match (&arguments.user, &arguments.password_file) {
            (Some(user), Some(file)) => Some((user.clone(), password(file)?)),
            _ => None,
        };
        Ok(Remote { client: client(arguments.ca_file.as_deref())?, base, login })
    }

    /// Its address, without a path.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// A request to a path of its API.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.base));
        match &self.login {
            Some((user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        }
    }

    /// Sends a request and gives the JSON of the answer; null if there is none.
    ///
    /// # Errors
    /// It cannot be reached, refuses, or is no procprof server.
    pub(crate) async fn ask(&self, request: RequestBuilder) -> Result<Value> {
        let response = request.send().await.with_context(|| format!("ask {}", self.base))?;
        let (status, url) = (response.status(), response.url().clone());
        let text = response.text().await.with_context(|| format!("read the answer of {url}"))?;
        let answer: Option<Value> = if text.is_empty() { Some(Value::Null) } else { serde_json::from_str(&text).ok() };
        if !status.is_success() {
            let why = answer.as_ref().and_then(|answer| answer["error"].as_str()).unwrap_or(text.trim());
            bail!("{url}: {status}: {}", why.chars().take(2000).collect::<String>());
        }
        answer.with_context(|| {
            let first: String = text.chars().take(80).collect();
            format!("{url}: this is no procprof server; it answered {first:?}")
        })
    }
}

/// Posts to the switch of the server's schedule and prints its state.
pub(crate) fn post(arguments: &RemoteArgs, path: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let remote = Remote::from_arguments(arguments)?;
    let answer = runtime.block_on(remote.ask(remote.request(Method::POST, path)))?;
    let paused =
        answer["paused"].as_bool().with_context(|| format!("{}: this is no procprof server", remote.base()))?;
    println!("{}", if paused { "scheduled captures are paused" } else { "scheduled captures run" });
    Ok(())
}

/// A client that trusts the system's authorities, or only those of a file.
pub(crate) fn client(ca_file: Option<&Path>) -> Result<reqwest::Client> {
    let builder = reqwest::Client::builder().timeout(TIMEOUT).redirect(reqwest::redirect::Policy::none()).no_proxy();
    let Some(path) = ca_file else { return builder.build().context("set up HTTP") };
    let pem = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let tls = procprof_collect::trust_only(path, &pem, None)?;
    builder.tls_backend_preconfigured(tls).build().context("set up HTTP")
}
