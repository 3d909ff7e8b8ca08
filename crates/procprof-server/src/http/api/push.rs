//! `POST /api/push?node=&type=`: a profile in any known format.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use procprof_profile::format::{self, Limits};
use procprof_profile::{Meta, Nanos};
use serde_json::Value;

use crate::app::App;
use crate::http::base::Base;
use crate::http::params::Params;
use crate::http::problem::{Answer, Problem, chain};
use crate::ingest::{Arrival, Finding, IngestError, guess_type, ingest, now};

/// Time a profile has to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

pub(in crate::http) async fn push(
    State(app): State<Arc<App>>,
    base: Base,
    RawQuery(query): RawQuery,
    body: Body,
) -> Answer<(StatusCode, Json<Value>)> {
    let params = Params::parse(&query.unwrap_or_default())?.only(&["node", "type"])?;
    let node = params.need("node")?;
    let node = app.registry.find(node).ok_or_else(|| Problem::bad_request("no such node is registered"))?;
    let wanted = params.profile_type("type")?;
    let limit = app.config().profile_bytes_max;
    let body = to_bytes(body, usize::try_from(limit).unwrap_or(usize::MAX));
    let slow =
        |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", format!("the profile did not arrive within {} s", PATIENCE.as_secs()));
    let bytes = tokio::time::timeout(PATIENCE, body).await.map_err(slow)?.map_err(|_| too_large(limit))?;
    let copy = bytes.clone();
    let decoded = tokio::task::spawn_blocking(move || format::decode(&copy, &Limits::default())).await;
    let decoded = decoded.map_err(|error| Problem::internal(error.to_string()))?.map_err(|error| refused(error.into()))?;
    let profile_type =
        wanted.or_else(|| Meta::from_comments(decoded.profile.comments()).profile_type).or_else(|| guess_type(&decoded.profile));
    let profile_type = profile_type.ok_or_else(|| Problem::bad_request("type: the profile does not tell it, so give it"))?;
    let arrived = now();
    let meta = Meta {
        node: Some(node.id),
        node_name: node.name().to_owned(),
        role: node.role().name().to_owned(),
        kind: node.kind().name().to_owned(),
        cluster: node.cluster.clone(),
        labels: node.config.labels.clone(),
        profile_type: Some(profile_type),
        trigger: "push".to_owned(),
        ..Meta::default()
    };
    let finding = Finding { binary: node.config.binary.clone(), ..Finding::default() };
    let arrival = Arrival { meta, bytes, decoded: Some(decoded), window: (arrived, Nanos(0)), finding };
    let entry = ingest(&app, arrival).await.map_err(refused)?;
    Ok((StatusCode::CREATED, Json(super::profiles::object(&app, &entry, &base))))
}

fn too_large(limit: u64) -> Problem {
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", format!("the profile has more than profile_bytes_max = {limit} bytes"))
}

fn refused(error: IngestError) -> Problem {
    match error {
        IngestError::Full(full) => Problem::busy(full.to_string()),
        IngestError::Profile(error) => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not_a_profile", error.to_string()),
        IngestError::Store(error) => Problem::from(error),
        error => Problem::internal(chain(&error)),
    }
}
