//! Taking an index in: bytes to a file beside the others, checked, then kept.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use procprof_files::NewFile;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout_at;

use super::record::{Owner, Record};
use super::symbol_store::{Put, Room, SymbolStore, SymbolStoreError};
use super::{SymbolKey, index};
use crate::clock::now;
use crate::config::Config;
use crate::shares::{NoShare, Requester, Shares, UploadPace};

/// Longest upload.
const LENGTH_MAX: Duration = Duration::from_secs(3600);
/// Uploads at a time, of which a requester has a quarter and operators a quarter for themselves.
const AT_A_TIME: u64 = 8;

/// The places for uploads.
#[derive(Default)]
pub struct Intakes(Shares);

/// The origin of an index.
pub struct Origin<F> {
    /// The user who uploads it.
    pub by: String,
    /// The requester whose share of the places it takes.
    pub requester: Requester,
    /// Its size as the sender declares it.
    pub declared: Option<u64>,
    /// The standing of the sender for the file of a key.
    pub owner: F,
}

/// Why an index was not taken in; nothing is stored then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IntakeError {
    /// There are uploads enough.
    #[error("{limit} symbol indexes are being taken in; try again in a moment")]
    Busy {
        /// As many as may be, without what is kept for others.
        limit: u64,
    },
    /// There are uploads enough of its requester.
    #[error("{limit} symbol indexes of yours are being taken in; try again in a moment")]
    OwnBusy {
        /// As many as may be.
        limit: u64,
    },
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
    #[error("the index came too slowly: {}, or took more than {} s", UploadPace::rule(), LENGTH_MAX.as_secs())]
    Slow,
    /// It is no index, or a damaged one.
    #[error("no symbol index: {0}")]
    Invalid(String),
    /// The sender speaks for a host that does not run the file.
    #[error(
        "no profile of the host that {by} speaks for has the file {key}; an operator, or the token of a host that runs \
         it, may send its symbols"
    )]
    NotRunning {
        /// The sender.
        by: String,
        /// The key of the index.
        key: SymbolKey,
    },
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
pub async fn receive<E: std::error::Error, F: FnOnce(&SymbolKey) -> Option<Owner> + Send + 'static>(
    symbol_store: &Arc<SymbolStore>,
    intakes: &Intakes,
    config: &Config,
    origin: Origin<F>,
    pieces: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> Result<Put, IntakeError> {
    let _place = intakes.0.take(&origin.requester, 1, AT_A_TIME).map_err(|full| match full {
        NoShare::Own { limit } => IntakeError::OwnBusy { limit },
        NoShare::Pool { limit, .. } => IntakeError::Busy { limit },
    })?;
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
        let Some(owner) = (origin.owner)(&facts.key) else {
            return Err(IntakeError::NotRunning { by: origin.by, key: facts.key });
        };
        let record = Record {
            key: facts.key,
            name: facts.name,
            bytes,
            functions: facts.functions,
            detail: facts.detail,
            stored: now().0,
            by: origin.by,
            owner,
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
    let (mut got, mut pace): (u64, _) = (0, UploadPace::begin());
    while let Some(piece) = timeout_at(pace.deadline(), pieces.next()).await.map_err(|_| IntakeError::Slow)? {
        let piece = piece.map_err(|error| IntakeError::CutShort { got, why: crate::error::chain(&error) })?;
        got += piece.len() as u64;
        pace.advance(piece.len() as u64);
        if got > limit {
            return Err(IntakeError::TooLarge { declared: None, limit });
        }
        file.write_all(&piece).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    Ok(got)
}
