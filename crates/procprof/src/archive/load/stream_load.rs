//! [`StreamLoad`]: rows sent to StarRocks over HTTP.
//!
//! ```text
//! PUT /api/DATABASE/TABLE/_stream_load      to the frontend, without rows: 307 to a backend that takes them
//! PUT …                                     to that backend, with the rows and a label
//! {"Status": "Success", "NumberLoadedRows": 7, "NumberFilteredRows": 0, …}
//! ```
//!
//! A load with a label takes place once: when an answer was lost, the same label is tried again, and `Label Already
//! Exists` with a finished job is a success. The first request has no label, so that a backend whose address was given
//! in place of a frontend's does not use it up without rows.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use reqwest::{Client, Method, Response, StatusCode, Url, header};
use serde::Deserialize;

use super::connection::Unreachable;
use super::target::{Address, HttpAddress, Security, Target};

/// Time to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// Time of a load, at most; the backend has the same limit.
const LOAD: Duration = Duration::from_secs(600);
/// Time between two tries.
const PAUSE: Duration = Duration::from_secs(1);
/// Tries of a load whose answer was lost.
const TRIES: u32 = 3;
/// Tries while a load of the same label runs.
const WAITS: u32 = 600;
/// Redirections of a load, at most.
const REDIRECTIONS: u32 = 3;
/// Bytes of an answer, at most.
const ANSWER_MAX: usize = 1 << 20;

/// The way of rows into a database of StarRocks.
pub(super) struct StreamLoad {
    client: Client,
    frontend: String,
    database: String,
    user: String,
    password: Option<String>,
    /// Whether hosts other than this one are connected to without TLS.
    no_tls: bool,
}

/// The answer of a backend, or of a frontend that refuses.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Answer {
    #[serde(alias = "status")]
    status: String,
    #[serde(alias = "msg")]
    message: String,
    existing_job_status: String,
    number_loaded_rows: u64,
    number_filtered_rows: u64,
    number_unselected_rows: u64,
    #[serde(rename = "ErrorURL")]
    error_url: String,
}

/// How a try has ended that brought no answer of a load.
enum Lost {
    /// The connection failed, or the answer was cut: the load may have taken place.
    Try(String),
    /// It did not.
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Lost {
    fn from(error: anyhow::Error) -> Lost {
        Lost::Failed(error)
    }
}

impl StreamLoad {
    pub(super) fn new(target: &Target, http: &HttpAddress, security: &Security) -> Result<StreamLoad> {
        ensure!(
            http.is_tls || http.address.is_loopback() || security.no_tls,
            "{}: the password would go there without TLS; give https=, or --no-tls",
            http.address
        );
        let builder = Client::builder()
            .connect_timeout(CONNECT)
            .timeout(LOAD)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        let builder = match &security.ca_file {
            Some(path) => {
                let pem = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
                builder.tls_backend_preconfigured(procprof_collect::trust_only(path, &pem, None)?)
            }
            None => builder,
        };
        let scheme = if http.is_tls { "https" } else { "http" };
        Ok(StreamLoad {
            client: builder.build().context("set up HTTP")?,
            frontend: format!("{scheme}://{}", http.address),
            database: target.database.clone(),
            user: target.user.clone(),
            password: security.password.clone(),
            no_tls: security.no_tls,
        })
    }

    /// Loads the rows of a JSON array into a table.
    ///
    /// # Errors
    /// What the frontend or backend refuses, rows that were left out; [`Unreachable`] if there is no answer.
    pub(super) async fn load(&self, table: &str, label: &str, rows: u64, body: &str) -> Result<()> {
        let (mut lost, mut waited) = (0, 0);
        loop {
            let answer = match self.once(table, label, body).await {
                Ok(answer) => answer,
                Err(Lost::Failed(error)) => return Err(error),
                Err(Lost::Try(why)) if lost + 1 == TRIES => return Err(Unreachable(why).into()),
                Err(Lost::Try(_)) => {
                    lost += 1;
                    tokio::time::sleep(PAUSE * lost).await;
                    continue;
                }
            };
            match answer.status.as_str() {
                "Success" | "Publish Timeout" => return answer.check(table, rows),
                "Label Already Exists" => match answer.existing_job_status.as_str() {
                    "FINISHED" | "VISIBLE" | "COMMITTED" => return Ok(()),
                    "RUNNING" | "PREPARE" | "PREPARED" if waited < WAITS => waited += 1,
                    other => bail!("stream load into {table}: a job of the label {label} is {other:?}"),
                },
                _ => return Err(answer.refusal(table)),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn once(&self, table: &str, label: &str, body: &str) -> Result<Answer, Lost> {
        let url = format!("{}/api/{}/{table}/_stream_load", self.frontend, self.database);
        let mut url = Url::parse(&url).context("the address of a stream load")?;
        let mut response = self.put(&url, None).await?;
        for _ in 0..REDIRECTIONS {
            if response.status() != StatusCode::TEMPORARY_REDIRECT {
                break;
            }
            url = self.backend(&url, &response)?;
            response = self.put(&url, Some((label, body))).await?;
            if response.status() != StatusCode::TEMPORARY_REDIRECT {
                return answer(table, &url, response).await;
            }
        }
        let refused = answer(table, &url, response).await?;
        if refused.status == "Success" {
            return Err(anyhow!("{}: names no backend for rows; is it a frontend's HTTP port?", host(&url)).into());
        }
        Err(refused.refusal(table).into())
    }

    /// A request without rows, or with them.
    async fn put(&self, url: &Url, rows: Option<(&str, &str)>) -> Result<Response, Lost> {
        let request = self.client.request(Method::PUT, url.clone());
        let request = request
            .basic_auth(&self.user, Some(self.password.as_deref().unwrap_or_default()))
            .header(header::EXPECT, "100-continue")
            .header("format", "json")
            .header("strip_outer_array", "true")
            .header("strict_mode", "true")
            .header("max_filter_ratio", "0")
            .header("timezone", "UTC")
            .header("timeout", LOAD.as_secs());
        let request = match rows {
            Some((label, body)) => request.header("label", label).body(body.to_owned()),
            None => request.header(header::CONTENT_LENGTH, 0),
        };
        request.send().await.map_err(|error| Lost::Try(format!("{}: {}", host(url), without_url(error))))
    }

    /// Where a frontend sends rows.
    fn backend(&self, from: &Url, response: &Response) -> Result<Url> {
        let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
        let to = location.and_then(|location| from.join(location).ok());
        // It may have the user and the password, so it is not shown.
        let mut to = to.with_context(|| format!("{}: redirects to no address", host(from)))?;
        let plain = || anyhow!("{}: redirects to an address that cannot be used", host(from));
        to.set_username("").map_err(|()| plain())?;
        to.set_password(None).map_err(|()| plain())?;
        let address = Address {
            host: to.host_str().with_context(plain_text)?.trim_matches(['[', ']']).to_owned(),
            port: to.port_or_known_default().with_context(plain_text)?,
        };
        let is_safe = to.scheme() == "https"
            || (to.scheme() == "http" && from.scheme() == "http" && (address.is_loopback() || self.no_tls));
        ensure!(is_safe, "{}: redirects to {address}, where the password would go without TLS", host(from));
        Ok(to)
    }
}

fn plain_text() -> &'static str {
    "a redirection without a host"
}

impl Answer {
    fn check(&self, table: &str, rows: u64) -> Result<()> {
        let left_out = self.number_filtered_rows + self.number_unselected_rows;
        ensure!(
            left_out == 0 && self.number_loaded_rows == rows,
            "stream load into {table}: {} of {rows} rows loaded, {left_out} left out: {}{}",
            self.number_loaded_rows,
            self.message,
            self.details()
        );
        Ok(())
    }

    fn refusal(&self, table: &str) -> anyhow::Error {
        anyhow!("stream load into {table}: {}: {}{}", self.status, self.message, self.details())
    }

    fn details(&self) -> String {
        if self.error_url.is_empty() { String::new() } else { format!("; details: {}", self.error_url) }
    }
}

async fn answer(table: &str, url: &Url, mut response: Response) -> Result<Answer, Lost> {
    let status = response.status();
    let mut body = Vec::new();
    let lost = |error: reqwest::Error| Lost::Try(format!("{}: {}", host(url), without_url(error)));
    while let Some(chunk) = response.chunk().await.map_err(lost)? {
        body.extend_from_slice(&chunk);
        if body.len() > ANSWER_MAX {
            return Err(anyhow!("{}: the answer has more than {ANSWER_MAX} bytes", host(url)).into());
        }
    }
    match serde_json::from_slice::<Answer>(&body) {
        Ok(answer) if !answer.status.is_empty() && (status.is_success() || answer.status != "Success") => Ok(answer),
        _ => {
            let text: String = String::from_utf8_lossy(&body).trim().chars().take(200).collect();
            Err(anyhow!("stream load into {table}: {}: {status}: {text:?}", host(url)).into())
        }
    }
}

fn host(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default())
}

/// The innermost reason, without the URL.
fn without_url(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut source: &dyn std::error::Error = &error;
    while let Some(inner) = source.source() {
        source = inner;
    }
    source.to_string()
}
