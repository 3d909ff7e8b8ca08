//! Accepts clients, as many as may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use procprof_core::connection_slots::ConnectionSlots;
use procprof_core::throttle::Throttle;
use tokio::net::TcpListener;
use tokio::sync::{OnceCell, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Bounds, Entrance, full, refuse, run};
use super::login::{Handshakes, LoginFailure, pending};
use super::service::{Accounts, Service};

/// Log lines of refused logins within [`LOGGED`]; one that connections cannot be accepted.
const REFUSALS: u32 = 60;
const LOGGED: Duration = Duration::from_secs(60);

/// The limits of all connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections that are logged in at a time; one more is refused.
    pub(crate) connections: usize,
    /// Connections on their way in at a time: the one that has been so the longest, silent ones first, gives way to one
    /// more.
    pub(crate) logins: usize,
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
    let refusals = Throttle::new(REFUSALS, LOGGED);
    let handshakes = Arc::new(Handshakes { accounts, tls, key: OnceCell::new(), refusals });
    let slots = Arc::new(Semaphore::new(limits.connections));
    let (logins, not_taken) = (ConnectionSlots::new(limits.logins), Throttle::new(1, LOGGED));
    let (numbers, tasks) = (AtomicU32::new(1), TaskTracker::new());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(connection) => connection,
            Err(error) => {
                logins.not_accepted(&error, "SQL", &not_taken).await;
                continue;
            }
        };
        // Answers are small and waited for; without it the option only costs speed.
        let _ = stream.set_nodelay(true);
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = logins.enter() => place,
        };
        let mut pending = pending(stream, peer, limits.patience, Arc::clone(place.activity()));
        if slots.available_permits() == 0 {
            let handshakes = Arc::clone(&handshakes);
            tasks.spawn(async move {
                let given_up = place.given_up().clone();
                tokio::select! {
                    () = given_up.cancelled() => {}
                    () = refuse(&handshakes.refusals, &mut pending, LoginFailure::Refused(full(limits.connections))) => drop(place),
                }
            });
            continue;
        }
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        let (service, handshakes, stop, slots) =
            (Arc::clone(&service), Arc::clone(&handshakes), stop.clone(), Arc::clone(&slots));
        tasks.spawn(async move {
            let bounds = Bounds {
                login: limits.login,
                idle: limits.idle,
                packet: limits.packet,
                connections: limits.connections,
            };
            run(&service, &handshakes, pending, Entrance { number, place, slots }, bounds, stop).await;
        });
    }
    tasks.close();
    tasks.wait().await;
}
