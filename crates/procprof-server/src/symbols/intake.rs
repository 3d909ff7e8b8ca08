//! Taking an index in: bytes to a file beside the others, checked, then kept.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use super::index;
use super::record::Record;
use super::shelf::{Put, Room, Shelf, ShelfError, Upload};
use crate::config::Config;
use crate::ingest::now;

/// Longest pause between two pieces of an upload.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Longest upload.
const LENGTH_MAX: Duration = Duration::from_secs(3600);
/// Uploads at a time.
const AT_A_TIME: usize = 2;

/// The places for uploads.
pub(crate) struct Intakes(Semaphore);

impl Default for Intakes {
    fn default() -> Intakes {
        Intakes(Semaphore::new(AT_A_TIME))
    }
}

/// Where an index comes from.
pub(crate) struct Origin {
    /// Who sends it.
    pub(crate) by: String,
    /// Its size as the sender declares it.
    pub(crate) declared: Option<u64>,
}

/// Why an index was not taken in; nothing is stored then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum IntakeError {
    /// There are uploads enough.
    #[error("{AT_A_TIME} symbol indexes are being taken in; try again in a moment")]
    Busy,
    /// It is larger than one may be.
    #[error("the index has {}more than symbols_file_bytes_max = {limit} bytes", declared.map(|bytes| format!("{bytes} bytes, ")).unwrap_or_default())]
    TooLarge {
        /// What the sender declares, if that is too much already.
        declared: Option<u64>,
        /// The limit.
        limit: u64,
    },
    /// It did not come whole.
    #[error("the index ended after {got} bytes: {why}")]
    CutShort {
        /// Bytes that came.
        got: u64,
        /// What happened.
        why: String,
    },
    /// It came too slowly.
    #[error("the index did not arrive: no byte for {} s, or more than {} s in all", PAUSE_MAX.as_secs(), LENGTH_MAX.as_secs())]
    Slow,
    /// It is no index, or a damaged one.
    #[error("no symbol index: {0}")]
    Invalid(String),
    /// It cannot be kept.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// A part of the server ended meanwhile.
    #[error("the server is stopping")]
    Stopping,
}

/// Takes an index in.
///
/// # Errors
/// Nothing of it is left then.
pub(crate) async fn receive(
    shelf: &Arc<Shelf>,
    intakes: &Intakes,
    config: &Config,
    origin: Origin,
    body: Body,
) -> Result<Put, IntakeError> {
    let _place = intakes.0.try_acquire().map_err(|_| IntakeError::Busy)?;
    let limit = config.symbols_file_bytes_max.min(config.symbols_bytes_max);
    if let Some(declared) = origin.declared.filter(|declared| *declared > limit) {
        return Err(IntakeError::TooLarge { declared: Some(declared), limit });
    }
    let upload = shelf.upload();
    let bytes = tokio::time::timeout(LENGTH_MAX, write(&upload, body, limit)).await.map_err(|_| IntakeError::Slow)??;
    if let Some(declared) = origin.declared.filter(|declared| *declared != bytes) {
        return Err(IntakeError::CutShort { got: bytes, why: format!("{declared} were declared") });
    }
    let room = Room { bytes_max: config.symbols_bytes_max, free_min: config.data_free_bytes_min };
    let shelf = Arc::clone(shelf);
    let kept = tokio::task::spawn_blocking(move || {
        let facts = index::check(upload.path()).map_err(IntakeError::Invalid)?;
        let record = Record {
            key: facts.key,
            name: facts.name,
            bytes,
            functions: facts.functions,
            detail: facts.detail,
            stored: now().0,
            by: origin.by,
            last_used: None,
        };
        Ok(shelf.put(&upload, record, room)?)
    });
    kept.await.map_err(|_| IntakeError::Stopping)?
}

/// Writes a body into the upload's file; returns its length.
async fn write(upload: &Upload, body: Body, limit: u64) -> Result<u64, IntakeError> {
    let failed = |cause| ShelfError::Io { path: upload.path().to_owned(), cause };
    let mut options = tokio::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o640).open(upload.path()).await.map_err(failed)?;
    let mut pieces = body.into_data_stream();
    let mut got: u64 = 0;
    while let Some(piece) = tokio::time::timeout(PAUSE_MAX, pieces.next()).await.map_err(|_| IntakeError::Slow)? {
        let piece = piece.map_err(|error| IntakeError::CutShort { got, why: crate::http::chain(&error) })?;
        got += piece.len() as u64;
        if got > limit {
            return Err(IntakeError::TooLarge { declared: None, limit });
        }
        file.write_all(&piece).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    Ok(got)
}
