//! `/api/servers`: the servers of the archive, and what they ask each other; the protocol is that of
//! `procprof_core::servers::hot`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use procprof_core::chain;
use procprof_core::servers::ServerState;
use procprof_core::servers::hot::{
    FILES_MAX, FilesQuestion, HotAnswer, HotQuestion, QUESTION_BYTES_MAX, frame_head, hot_profiles,
};
use procprof_profile::ProfileId;
use procprof_store::Store;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Web;
use crate::problem::{ApiResult, Problem};
use crate::time::Time;

/// Time that a question has to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// The servers of the archive.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Servers")]
pub(crate) struct ServerList {
    /// This one first; none without an archive.
    servers: Vec<ServerRow>,
    /// What keeps this server from sharing nodes with others.
    problem: Option<String>,
}

/// A server of the archive.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Server")]
struct ServerRow {
    /// The name under which it writes to the archive.
    id: String,
    url: String,
    version: String,
    started: Option<Time>,
    /// Whether it is the one that answers.
    this: bool,
    /// Whether its heartbeat is younger than its lease.
    alive: bool,
    /// Whether its disk is full, so that others capture its nodes.
    full: bool,
    /// Nodes configured here that it captures on schedule.
    nodes: usize,
}

impl From<ServerState> for ServerRow {
    fn from(server: ServerState) -> ServerRow {
        ServerRow {
            id: server.server.to_string(),
            url: server.url,
            version: server.version,
            started: server.started.map(Time::from),
            this: server.is_own,
            alive: server.is_alive,
            full: server.is_full,
            nodes: server.nodes,
        }
    }
}

/// `GET /api/servers`
pub(crate) async fn list(State(web): State<Arc<Web>>) -> Json<ServerList> {
    let servers = web.servers.as_ref().map(|servers| servers.all()).unwrap_or_default();
    let problem = web.servers.as_ref().and_then(|servers| servers.problem());
    Json(ServerList { servers: servers.into_iter().map(ServerRow::from).collect(), problem })
}

/// `POST /api/servers/profiles`
pub(crate) async fn profiles(State(web): State<Arc<Web>>, body: Body) -> ApiResult<Json<HotAnswer>> {
    let question: HotQuestion = read(body).await?;
    let archiver = web.archiver.as_ref().ok_or_else(|| Problem::not_found("this server has no archive"))?;
    let (store, known) = (Arc::clone(&web.store), Arc::clone(&archiver.archive().known));
    let answer = tokio::task::spawn_blocking(move || hot_profiles(&store, &known, &question)).await;
    let answer = answer.map_err(|error| Problem::internal(error.to_string()))?;
    Ok(Json(answer.map_err(|error| Problem::internal(chain(&error)))?))
}

/// `POST /api/servers/files`
pub(crate) async fn files(State(web): State<Arc<Web>>, body: Body) -> ApiResult<Response> {
    let question: FilesQuestion = read(body).await?;
    if question.ids.len() > FILES_MAX {
        return Err(Problem::bad_request(format!("{} ids, and at most {FILES_MAX} are answered", question.ids.len())));
    }
    let ids: Result<Vec<ProfileId>, _> = question.ids.iter().map(|id| id.parse()).collect();
    let ids = ids.map_err(|error| Problem::bad_request(chain(&error)))?;
    let store = Arc::clone(&web.store);
    // One file at a time is in memory. An error breaks the answer off, which its reader notices.
    let frames = stream::iter(ids).then(move |id| {
        let store = Arc::clone(&store);
        async move { tokio::task::spawn_blocking(move || frame(&store, id)).await.map_err(std::io::Error::other)? }
    });
    let frames = frames.inspect_err(|error| tracing::warn!("files for another server: {error}"));
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], Body::from_stream(frames)).into_response())
}

/// The frame of a profile's file; empty if the profile is gone.
fn frame(store: &Store, id: ProfileId) -> std::io::Result<Bytes> {
    let file = match store.open_bytes(id) {
        Ok(file) => file,
        Err(procprof_store::Error::NotFound { .. } | procprof_store::Error::Gone { .. }) => return Ok(Bytes::new()),
        Err(error) => return Err(std::io::Error::other(format!("profile {id}: {}", chain(&error)))),
    };
    let length = u32::try_from(file.len()).map_err(|_| std::io::Error::other(format!("profile {id}: above 4 GiB")))?;
    Ok([&frame_head(id, length)[..], &file[..]].concat().into())
}

async fn read<T: DeserializeOwned>(body: Body) -> ApiResult<T> {
    let collected = tokio::time::timeout(PATIENCE, Limited::new(body, QUESTION_BYTES_MAX).collect());
    let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "the question did not arrive in time");
    let broken = |error: Box<dyn std::error::Error + Send + Sync>| match error.is::<LengthLimitError>() {
        true => {
            let why = format!("a question has at most {QUESTION_BYTES_MAX} bytes");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", why)
        }
        false => Problem::bad_request(format!("the body broke off: {error}")),
    };
    let bytes = collected.await.map_err(late)?.map_err(broken)?.to_bytes();
    serde_json::from_slice(&bytes).map_err(|error| Problem::bad_request(format!("body: {error}")))
}
