//! The functions of stored profiles that the catalog does not have: all of a folder of an earlier version or whose
//! catalog was rebuilt, and those that were copied into it.
//!
//! They are read from the files one by one, newest first, for at most half of the time, while everything else goes on.
//! Queries report how many are still missing ([`Store::uncovered`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use procprof_profile::format::{Limits, decode};
use procprof_profile::{Grammar, ProfileId};
use procprof_store::{Error, FunctionTable, Store};
use tokio_util::sync::CancellationToken;

use super::summary;
use crate::error::chain;

/// Time between two looks for profiles without functions, and after a failure of the store.
const INTERVAL: Duration = Duration::from_secs(60);
/// Profiles looked up at a time.
const TOGETHER: usize = 64;
/// Unpacked size of a profile that is read, at most.
const UNPACKED_MAX: u64 = 256 << 20;

/// Reads the functions of profiles that lack them, until `stop`.
pub async fn fill_functions(store: Arc<Store>, stop: CancellationToken) {
    loop {
        let began = Instant::now();
        let mut read = 0_u64;
        loop {
            let list = Arc::clone(&store);
            let ids = match tokio::task::spawn_blocking(move || list.without_functions(TOGETHER)).await {
                Ok(Ok(ids)) if !ids.is_empty() => ids,
                Ok(Ok(_)) => break,
                Ok(Err(error)) => {
                    tracing::error!("functions of stored profiles: {}", chain(&error));
                    break;
                }
                Err(_) => return,
            };
            if read == 0 {
                tracing::info!("reading the functions of stored profiles");
            }
            for id in ids {
                let one = Arc::clone(&store);
                let since = Instant::now();
                match tokio::task::spawn_blocking(move || fill(&one, id)).await {
                    Ok(Ok(())) => read += 1,
                    Ok(Err(error)) => {
                        tracing::error!("functions of profile {id}: {}", chain(&error));
                        if wait(INTERVAL, &stop).await.is_break() {
                            return;
                        }
                    }
                    Err(_) => return,
                }
                if wait(since.elapsed(), &stop).await.is_break() {
                    return;
                }
            }
        }
        if read > 0 {
            let seconds = began.elapsed().as_secs_f64();
            tracing::info!(profiles = read, seconds, "the functions of stored profiles are read");
        }
        if wait(INTERVAL, &stop).await.is_break() {
            return;
        }
    }
}

async fn wait(time: Duration, stop: &CancellationToken) -> std::ops::ControlFlow<()> {
    tokio::select! {
        () = stop.cancelled() => std::ops::ControlFlow::Break(()),
        () = tokio::time::sleep(time) => std::ops::ControlFlow::Continue(()),
    }
}

/// Reads the functions of a profile into the catalog; one that cannot be read is noted there.
fn fill(store: &Store, id: ProfileId) -> procprof_store::Result<()> {
    match read(store, id) {
        Ok(table) => store.put_functions(id, Some(&table)),
        Err(Unread::Gone) => Ok(()),
        Err(Unread::Because(why)) => {
            tracing::warn!("the functions of profile {id} cannot be read: {why}");
            store.put_functions(id, None)
        }
    }
}

/// Why functions are not read.
enum Unread {
    /// The profile was deleted meanwhile.
    Gone,
    Because(String),
}

fn read(store: &Store, id: ProfileId) -> Result<FunctionTable, Unread> {
    let bytes = store.open_bytes(id).map_err(|error| match error {
        Error::NotFound { .. } => Unread::Gone,
        other => Unread::Because(chain(&other)),
    })?;
    let limits = Limits { unpacked_bytes: UNPACKED_MAX, ..Limits::default() };
    let because = |error: procprof_profile::Error| Unread::Because(error.to_string());
    let profile = decode(&bytes, &limits).map_err(because)?.profile.adjusted(Grammar::Pprof).map_err(because)?;
    Ok(summary::functions(&profile))
}
