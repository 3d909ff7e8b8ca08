//! Accepts clients, as many as may be.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use procprof_core::connection_slots::ConnectionSlots;
use procprof_core::shares::Shares;
use procprof_core::throttle::{SharedThrottle, Throttle};
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Admission, Limits, full, refuse, run};
use super::login::{Handshakes, LoginFailure, pending};
use super::service::{Accounts, Service};

/// Log lines of refused logins within [`LOGGED`], of which an address has a quarter; one that connections cannot be
/// accepted.
const REFUSALS: u32 = 60;
const LOGGED: Duration = Duration::from_secs(60);

/// Accepts connections until `stop`; returns when all have ended.
pub(crate) async fn serve<S: Service, A: Accounts>(
    listener: TcpListener,
    service: Arc<S>,
    accounts: Arc<A>,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    stop: CancellationToken,
) {
    let refusals = SharedThrottle::new(REFUSALS, LOGGED);
    let handshakes = Arc::new(Handshakes { accounts, tls, key: OnceCell::new(), refusals });
    let shares = Shares::default();
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
        if shares.used() >= limits.connections {
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
        let (service, handshakes, stop, shares) =
            (Arc::clone(&service), Arc::clone(&handshakes), stop.clone(), shares.clone());
        tasks.spawn(async move {
            run(&service, &handshakes, pending, Admission { number, place, shares }, limits, stop).await;
        });
    }
    tasks.close();
    tasks.wait().await;
}
