//! Accepts clients, as many as may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{OnceCell, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::put_failure;
use super::connection::{Bounds, run};
use super::failure::{Failure, FailureKind};
use super::login::{Desk, arrival};
use super::service::{Accounts, Service};

/// What all connections are bound by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at a time; one more is told so and closed.
    pub(crate) connections: usize,
    /// Longest packet taken from who has logged in, in bytes.
    pub(crate) packet: usize,
    /// Time for the whole login.
    pub(crate) login: Duration,
    /// Time without a command until a connection is closed.
    pub(crate) idle: Duration,
    /// Time a client has to take a piece of an answer, or to send the rest of a packet.
    pub(crate) patience: Duration,
}

/// Accepts connections until `stop`; returns when all have ended.
pub(crate) async fn serve<S: Service, A: Accounts>(
    listener: TcpListener,
    service: Arc<S>,
    accounts: Arc<A>,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    stop: CancellationToken,
) {
    let desk = Arc::new(Desk { accounts, tls, key: OnceCell::new() });
    let slots = Arc::new(Semaphore::new(limits.connections));
    let (numbers, tasks) = (AtomicU32::new(1), TaskTracker::new());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(connection) => connection,
            Err(error) => {
                // Out of descriptors or the like: others may close theirs meanwhile.
                tracing::warn!("accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Answers are small and waited for; without it the option only costs speed.
        let _ = stream.set_nodelay(true);
        let mut arrival = arrival(stream, peer, limits.patience);
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            tasks.spawn(async move {
                let text = format!("all {} connections are taken", limits.connections);
                put_failure(&mut arrival.wire, &Failure::new(FailureKind::TooManyConnections, text));
                let _ = arrival.wire.send().await;
                arrival.wire.close().await;
            });
            continue;
        };
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let (service, desk, stop) = (Arc::clone(&service), Arc::clone(&desk), stop.clone());
        tasks.spawn(async move {
            let bounds = Bounds { login: limits.login, idle: limits.idle, packet: limits.packet };
            run(&service, &desk, arrival, number, bounds, stop).await;
            drop(slot);
        });
    }
    tasks.close();
    tasks.wait().await;
}
