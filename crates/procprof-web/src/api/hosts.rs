//! `/api/hosts`: heartbeats and pushes of host agents; the protocol is that of `procprof_core::hosts::protocol`.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::{Bytes, BytesMut};
use procprof_core::auth::Principal;
use procprof_core::chain;
use procprof_core::hosts::protocol::{
    HEARTBEAT_BYTES_MAX, Heartbeat, HeartbeatAnswer, Outcome, PUSH_MEDIA_TYPE, PushAnswer, Pushed, PushedProfile,
};
use procprof_core::hosts::{
    AdmissionError, Admitted, FrameError, FramePart, Frames, HeartbeatError, PushError, RateError,
};
use procprof_core::ingest::{Full, Reserved};
use procprof_core::shares::Requester;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::push::refused;
use crate::Web;
use crate::caller::{Caller, ShareRequester};
use crate::problem::{ApiResult, Problem};
use crate::upload::Upload;

/// Most build ids that the answer to a push names.
const WANTED_MAX: usize = 256;
/// Seconds after which a profile for which there was no room may be sent again.
const FULL_SECONDS: u32 = 5;

/// `POST /api/hosts/heartbeat`
pub(crate) async fn heartbeat(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    ShareRequester(requester): ShareRequester,
    body: Body,
) -> ApiResult<Json<HeartbeatAnswer>> {
    let heartbeat = read_heartbeat(&web, &requester.with_priority(), body).await?;
    let answer = web.hosts.heartbeat(&principal, heartbeat).await.map_err(|error| match error {
        HeartbeatError::Admission(error) => not_admitted(&error),
        HeartbeatError::Revoked => revoked(),
        error => Problem::internal(chain(&error)),
    })?;
    Ok(Json(answer))
}

async fn read_heartbeat(web: &Web, requester: &Requester, body: Body) -> ApiResult<Heartbeat> {
    let reserved = web.ingest.reserve(requester).map_err(|full| refused(full.into()))?;
    let (mut bytes, mut upload) = (BytesMut::new(), Upload::new(body, "the heartbeat"));
    while let Some(piece) = upload.piece().await? {
        if bytes.len() + piece.len() > HEARTBEAT_BYTES_MAX {
            let why = format!("a heartbeat has at most {HEARTBEAT_BYTES_MAX} bytes");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", why));
        }
        reserved.grow(piece.len() as u64).map_err(|full| refused(full.into()))?;
        bytes.extend_from_slice(&piece);
    }
    serde_json::from_slice(&bytes).map_err(|error| Problem::bad_request(format!("body: {error}")))
}

fn not_admitted(error: &AdmissionError) -> Problem {
    match error {
        AdmissionError::HostId => Problem::bad_request(error.to_string()),
        AdmissionError::OtherHost { .. } | AdmissionError::OtherToken { .. } => Problem::forbidden(error.to_string()),
        AdmissionError::TooManyHosts => Problem::busy(error.to_string()),
        error => Problem::internal(chain(error)),
    }
}

fn revoked() -> Problem {
    Problem { message: "the token was revoked".to_owned(), ..Problem::unauthorized() }
}

/// `POST /api/hosts/push`
pub(crate) async fn push(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    ShareRequester(requester): ShareRequester,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<Json<PushAnswer>> {
    let known = |given: &HeaderValue| [PUSH_MEDIA_TYPE, "application/octet-stream"].iter().any(|known| given == known);
    if !headers.get(header::CONTENT_TYPE).is_some_and(known) {
        let why = format!("Content-Type: expected {PUSH_MEDIA_TYPE} or application/octet-stream");
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", why));
    }
    let mut reader = PushReader {
        web: &web,
        principal: &principal,
        requester: &requester,
        upload: Upload::new(body, "a frame"),
        frames: Frames::default(),
    };
    let mut answer = PushAnswer::default();
    while let Some((id, outcome, wanted)) = reader.frame().await? {
        answer.profiles.push(Pushed { id, outcome });
        for build_id in wanted {
            if answer.wanted_symbols.len() < WANTED_MAX && !answer.wanted_symbols.contains(&build_id) {
                answer.wanted_symbols.push(build_id);
            }
        }
    }
    Ok(Json(answer))
}

/// A push that is being read, one frame after the other.
struct PushReader<'a> {
    web: &'a Web,
    principal: &'a Principal,
    requester: &'a Requester,
    upload: Upload,
    frames: Frames,
}

impl PushReader<'_> {
    /// Reads the next frame and takes its profile in: its id, what became of it, and build ids of files whose symbols
    /// are lacking. `None` at the end of the body.
    async fn frame(&mut self) -> ApiResult<Option<(String, Outcome, Vec<String>)>> {
        self.upload.begin_part();
        let Some(FramePart::Header(header, length)) = self.part().await? else { return Ok(None) };
        let id: String = header.id.chars().take(64).collect();
        let (admitted, reserved) = match begin(self.web, self.principal, self.requester, *header, length).await? {
            Ok(begun) => begun,
            Err(outcome) => {
                self.pass_over().await?;
                return Ok(Some((id, outcome, Vec::new())));
            }
        };
        let bytes = match self.profile(&reserved).await? {
            Ok(bytes) => bytes,
            Err(full) => {
                self.pass_over().await?;
                return Ok(Some((id, self.later(full), Vec::new())));
            }
        };
        let node = Arc::clone(admitted.node());
        let (outcome, wanted) = self.web.hosts.push(admitted, bytes, reserved).await;
        if outcome == Outcome::Stored {
            self.web.audit.push(self.principal, format_args!("profile {id} of {} pushed", node.name()));
        }
        Ok(Some((id, outcome, wanted)))
    }

    /// The bytes of a profile, each piece of which takes its room before it is kept; a length that is only claimed
    /// takes none.
    async fn profile(&mut self, reserved: &Reserved) -> ApiResult<Result<Bytes, Full>> {
        let mut bytes = BytesMut::new();
        while let Some(FramePart::Piece(piece)) = self.part().await? {
            if let Err(full) = reserved.grow(piece.len() as u64) {
                return Ok(Err(full));
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(Ok(bytes.freeze()))
    }

    fn later(&self, full: Full) -> Outcome {
        self.web.metrics.refuse(full.reason());
        Outcome::Later { reason: full.to_string(), seconds: FULL_SECONDS }
    }

    /// Reads the rest of a frame without keeping it.
    async fn pass_over(&mut self) -> ApiResult<()> {
        while let Some(FramePart::Piece(_)) = self.part().await? {}
        Ok(())
    }

    /// The next part; `None` at the end of the body.
    async fn part(&mut self) -> ApiResult<Option<FramePart>> {
        let broken = |error: FrameError| Problem::bad_request(error.to_string());
        loop {
            if let Some(part) = self.frames.part().map_err(broken)? {
                return Ok(Some(part));
            }
            match self.upload.piece().await? {
                Some(piece) => self.frames.push(&piece),
                None => {
                    self.frames.finish().map_err(broken)?;
                    return Ok(None);
                }
            }
        }
    }
}

/// Whether the profile of a header is wanted, and has room.
async fn begin(
    web: &Web,
    principal: &Principal,
    requester: &Requester,
    header: PushedProfile,
    length: u32,
) -> ApiResult<Result<(Admitted, Arc<Reserved>), Outcome>> {
    let admitted = match web.hosts.begin_push(principal, header).await {
        Ok(Ok(admitted)) => admitted,
        Ok(Err(outcome)) => return Ok(Err(outcome)),
        Err(PushError::Revoked) => return Err(revoked()),
        Err(error) => return Err(Problem::internal(chain(&error))),
    };
    let limit = web.config().profile_bytes_max;
    if u64::from(length) > limit {
        let full = Full::Profile { bytes: u64::from(length), limit };
        web.metrics.refuse(full.reason());
        return Ok(Err(web.hosts.refuse_push(&admitted, &full.to_string())));
    }
    Ok(match web.ingest.reserve(requester) {
        Ok(reserved) => Ok((admitted, Arc::new(reserved))),
        Err(full) => Err(Outcome::Later { reason: full.to_string(), seconds: FULL_SECONDS }),
    })
}

/// A rate that is asked for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RateRequest")]
pub(crate) struct RateBody {
    /// Samples for each second of CPU time; null for the rate of the agent's configuration.
    #[schemars(range(min = 1, max = 1000))]
    hz: Option<u32>,
}

/// A rate that the agent is asked for by its next heartbeat.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Rate")]
pub(crate) struct RateAnswer {
    hz: Option<u32>,
}

/// `POST /api/nodes/{node}/rate`
pub(crate) async fn rate(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    Path(node): Path<String>,
    body: Bytes,
) -> ApiResult<(StatusCode, Json<RateAnswer>)> {
    let RateBody { hz } =
        serde_json::from_slice(&body).map_err(|error| Problem::bad_request(format!("body: {error}")))?;
    set_rate(&web, &principal, &node, hz).await?;
    Ok((StatusCode::ACCEPTED, Json(RateAnswer { hz })))
}

/// Asks for a rate, for the API and the page alike; the id of the node.
pub(crate) async fn set_rate(web: &Web, principal: &Principal, node: &str, hz: Option<u32>) -> ApiResult<u64> {
    let node = web.registry.find(node).ok_or_else(|| Problem::not_found("no such node is registered"))?;
    web.hosts.set_rate(&node, hz).await.map_err(|error| match error {
        RateError::NoAgent | RateError::Range => Problem::bad_request(error.to_string()),
        RateError::Full => Problem::busy(error.to_string()),
        error => Problem::internal(chain(&error)),
    })?;
    let rate = hz.map_or_else(|| "as configured".to_owned(), |hz| format!("of {hz} Hz"));
    web.audit.act(principal, format_args!("rate {rate} asked of {}", node.name()));
    Ok(node.id)
}
