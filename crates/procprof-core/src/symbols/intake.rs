//! Taking an index in: bytes to a file beside the others, checked, then kept.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use procprof_files::NewFile;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use super::index;
use super::record::Record;
use super::symbol_store::{Put, Room, SymbolStore, SymbolStoreError};
use crate::clock::now;
use crate::config::Config;

/// Longest pause between two pieces of an upload.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Longest upload.
const LENGTH_MAX: Duration = Duration::from_secs(3600);
/// Uploads at a time.
const AT_A_TIME: usize = 2;

/// The places for uploads.
pub struct Intakes(Semaphore);

impl Default for Intakes {
    fn default() -> Intakes {
        Intakes(Semaphore::new(AT_A_TIME))
    }
}

/// The origin of an index.
pub struct Origin {
    /// The user who uploads it.
    pub by: String,
    /// Its size as the sender declares it.
    pub declared: Option<u64>,
}

/// Why an index was not taken in; nothing is stored then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IntakeError {
    /// There are uploads enough.
    #[error("{AT_A_TIME} symbol indexes are being taken in; try again in a moment")]
    Busy,
    /// It is larger than one may be.
    #[error("the index has {}more than symbols_file_bytes_max = {limit} bytes", declared.map(|bytes| format!("{bytes} bytes, ")).unwrap_or_default())]
    TooLarge {
        /// The size that the sender declares, if that is too much already.
        declared: Option<u64>,
        /// The limit.
        limit: u64,
    },
    /// It did not come whole.
    #[error("the index ended after {got} bytes: {why}")]
    CutShort {
        /// Bytes that came.
        got: u64,
        /// The reason.
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
    SymbolStore(#[from] SymbolStoreError),
    /// A part of the server ended meanwhile.
    #[error("the server is stopping")]
    Stopping,
}

/// Takes an index in.
///
/// # Errors
/// Nothing of it is left then.
pub async fn receive<E: std::error::Error>(
    symbol_store: &Arc<SymbolStore>,
    intakes: &Intakes,
    config: &Config,
    origin: Origin,
    pieces: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> Result<Put, IntakeError> {
    let _place = intakes.0.try_acquire().map_err(|_| IntakeError::Busy)?;
    let limit = config.symbols_file_bytes_max.min(config.symbols_bytes_max);
    if let Some(declared) = origin.declared.filter(|declared| *declared > limit) {
        return Err(IntakeError::TooLarge { declared: Some(declared), limit });
    }
    let place = Arc::clone(symbol_store);
    let mut upload = tokio::task::spawn_blocking(move || place.upload()).await.map_err(|_| IntakeError::Stopping)??;
    let bytes =
        tokio::time::timeout(LENGTH_MAX, write(&mut upload, pieces, limit)).await.map_err(|_| IntakeError::Slow)??;
    if let Some(declared) = origin.declared.filter(|declared| *declared != bytes) {
        return Err(IntakeError::CutShort { got: bytes, why: format!("{declared} were declared") });
    }
    let room = Room { bytes_max: config.symbols_bytes_max, free_min: config.data_free_bytes_min };
    let symbol_store = Arc::clone(symbol_store);
    let kept = tokio::task::spawn_blocking(move || {
        let facts = index::check(&upload.temporary_path()).map_err(IntakeError::Invalid)?;
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
        Ok(symbol_store.put(upload, record, room)?)
    });
    kept.await.map_err(|_| IntakeError::Stopping)?
}

/// Writes the pieces into the upload's file; returns their length.
async fn write<E: std::error::Error>(
    upload: &mut NewFile,
    mut pieces: impl Stream<Item = Result<Bytes, E>> + Unpin,
    limit: u64,
) -> Result<u64, IntakeError> {
    let path = upload.temporary_path();
    let failed = |cause| SymbolStoreError::Io { path: path.clone(), cause };
    let mut file = tokio::fs::File::from_std(upload.file().try_clone().map_err(failed)?);
    let mut got: u64 = 0;
    while let Some(piece) = tokio::time::timeout(PAUSE_MAX, pieces.next()).await.map_err(|_| IntakeError::Slow)? {
        let piece = piece.map_err(|error| IntakeError::CutShort { got, why: crate::error::chain(&error) })?;
        got += piece.len() as u64;
        if got > limit {
            return Err(IntakeError::TooLarge { declared: None, limit });
        }
        file.write_all(&piece).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    Ok(got)
}
