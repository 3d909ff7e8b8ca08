//! `POST /api/push?node=&type=`: a profile in any known format.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderName, StatusCode, header};
use bytes::{Bytes, BytesMut};
use procprof_core::chain;
use procprof_core::clock::now;
use procprof_core::ingest::{Full, IncomingData, IncomingProfile, IngestError, Refusal, Reserved, SymbolHints, accept};
use procprof_core::shares::Requester;
use procprof_profile::{Meta, Nanos};

use super::profiles::ProfileRow;
use crate::Web;
use crate::caller::{Caller, ShareRequester};
use crate::params::Params;
use crate::problem::{ApiResult, Problem};
use crate::server_url::ServerUrl;
use crate::upload::Upload;

pub(crate) async fn push(
    State(web): State<Arc<Web>>,
    Caller(principal): Caller,
    ShareRequester(requester): ShareRequester,
    base: ServerUrl,
    RawQuery(query): RawQuery,
    body: Body,
) -> ApiResult<(StatusCode, [(HeaderName, String); 1], Json<ProfileRow>)> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["node", "type"])?;
    let node = params.need("node")?;
    let node = web.registry.find(node).ok_or_else(|| Problem::bad_request("no such node is registered"))?;
    let wanted = params.profile_type("type")?;
    let (bytes, reserved) = arrive(&web, &requester, body).await?;
    let arrived = now();
    let meta = Meta { profile_type: wanted, trigger: "push".to_owned(), ..node.meta() };
    let hints = SymbolHints { binary: node.config.binary.clone(), ..SymbolHints::default() };
    let content = IncomingData::Encoded(bytes, None);
    let incoming =
        IncomingProfile { meta, data: content, window: (arrived, Nanos(0)), hints, reserved: Some(reserved) };
    let entries = accept(&web.ingest, incoming).await.map_err(refused)?;
    for entry in &entries {
        web.audit
            .push(&principal, format_args!("profile {} ({} of {}) pushed", entry.id, entry.profile_type, node.name()));
    }
    let entry = entries.into_iter().next().ok_or_else(|| Problem::internal("no profile was stored"))?;
    let location = [(header::LOCATION, format!("/api/profiles/{}", entry.id))];
    Ok((StatusCode::CREATED, location, Json(ProfileRow::new(&web, &entry, &base))))
}

/// A body that is a profile, with the room it takes.
pub(crate) async fn arrive(web: &Web, requester: &Requester, body: Body) -> ApiResult<(Bytes, Arc<Reserved>)> {
    let reserved = Arc::new(web.ingest.reserve(requester).map_err(|full| refused(full.into()))?);
    let bytes = read(web, body, &reserved).await?;
    Ok((bytes, reserved))
}

/// Reads a body whose every piece takes its room before it is kept.
async fn read(web: &Web, body: Body, reserved: &Reserved) -> ApiResult<Bytes> {
    let limit = web.config().profile_bytes_max;
    let (mut bytes, mut upload) = (BytesMut::new(), Upload::new(body, "the profile"));
    while let Some(piece) = upload.piece().await? {
        let length = (bytes.len() + piece.len()) as u64;
        let room = if length > limit {
            Err(Full::Profile { bytes: length, limit })
        } else {
            reserved.grow(piece.len() as u64)
        };
        room.map_err(|full| {
            web.metrics.refuse(full.reason());
            refused(full.into())
        })?;
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.freeze())
}

/// Why a profile is not taken in.
pub(crate) fn refused(error: IngestError) -> Problem {
    match error {
        IngestError::Full(full) if full.is_for_ever() => {
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", full.to_string())
        }
        IngestError::Full(full) => Problem::busy(full.to_string()),
        IngestError::Refused(refusal @ Refusal::NoType) => Problem::bad_request(refusal.to_string()),
        IngestError::Refused(refusal) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not_a_profile", refusal.to_string())
        }
        error @ IngestError::NotDecoded(_) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not_decoded", error.to_string())
        }
        IngestError::Store(error) => Problem::from(error),
        error => Problem::internal(chain(&error)),
    }
}
