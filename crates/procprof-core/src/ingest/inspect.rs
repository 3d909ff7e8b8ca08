//! A file that is shown without being stored: taken in like a push, with the same limits, and handed back.

use std::sync::Arc;

use bytes::Bytes;
use procprof_profile::{Meta, Nanos, ProfileId, ProfileType};
use procprof_store::Summary;

use super::prepare::{PrepareRequest, PreparedProfile, Refusal};
use super::prepare_child::{NameSource, prepare_all};
use super::{Ingest, IngestError, ROOM_WAIT, Reserved, SymbolHints, on_thread};
use crate::clock::now;

/// A profile of a file, ready to be rendered.
#[derive(Debug)]
pub struct Inspected {
    /// The metadata in the file.
    pub meta: Meta,
    /// Start of the capture; the time of its arrival where the file has none.
    pub start: Nanos,
    /// Length of the capture; 0 if unknown.
    pub duration: Nanos,
    /// Totals and top functions.
    pub summary: Summary,
    /// gzip'd pprof.
    pub encoded: Bytes,
}

/// Decodes a file of any known format in a child process; each of its profiles.
///
/// # Errors
/// The file is too large, is no profile, or the child came to no end with it.
pub async fn inspect(ingest: &Ingest, bytes: Bytes, reserved: Arc<Reserved>) -> Result<Vec<Inspected>, IngestError> {
    let (own, whole) = (Arc::clone(&reserved), bytes.clone());
    let (size, _) = on_thread(move || own.measure(&whole)).await??;
    reserved.reach(size.max(bytes.len() as u64), ROOM_WAIT).await?;
    let meta =
        Meta { id: Some(ProfileId(uuid::Uuid::now_v7().as_u128())), trigger: "open".to_owned(), ..Meta::default() };
    let arrived = now();
    let mut request = PrepareRequest {
        meta,
        window: (arrived, Nanos(0)),
        arrived: Some(arrived),
        requested: None,
        unpacked_max: reserved.unpacked_max(),
        requester: reserved.requester().clone(),
    };
    let made = match prepare(ingest, &request, &bytes, size).await? {
        // To be shown, it needs no type.
        Err(Refusal::NoType) => {
            request.meta.profile_type = Some(ProfileType::Other("profile".to_owned()));
            prepare(ingest, &request, &bytes, size).await??
        }
        made => made?,
    };
    drop(reserved);
    Ok(made.into_iter().map(Inspected::from).collect())
}

async fn prepare(
    ingest: &Ingest,
    request: &PrepareRequest,
    bytes: &Bytes,
    size: u64,
) -> Result<Result<Vec<PreparedProfile>, Refusal>, IngestError> {
    let naming =
        if ingest.config().symbolize { NameSource::files(ingest, &SymbolHints::default()) } else { NameSource::Off };
    let answers = prepare_all(ingest, request, bytes.clone(), size, naming).await.map_err(IngestError::NotDecoded)?;
    Ok(answers.map(|(first, others)| std::iter::once(first).chain(others).map(|answer| answer.made).collect()))
}

impl From<PreparedProfile> for Inspected {
    fn from(made: PreparedProfile) -> Inspected {
        let PreparedProfile { meta, start, duration, summary, encoded, .. } = made;
        Inspected { meta, start, duration, summary, encoded: encoded.into() }
    }
}
