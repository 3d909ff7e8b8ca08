//! Accepts connections: TLS, limits, graceful end.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::Extensions;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use procprof_core::connection_slots::{ConnectionSlot, ConnectionSlots, Overdue};
use procprof_core::throttle::Throttle;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::pace;

const STREAMS_MAX: u32 = 64;
/// Most bytes that a connection of HTTP/1 keeps for reading, and so those of a request's head: it keeps what a body has
/// made it take, and there may be thousands.
const READ_BYTES_MAX: usize = 64 << 10;
/// Time a client may send nothing of a request, or read nothing of an answer, that is under way.
pub(crate) const STALLED: Duration = Duration::from_secs(30);
/// Time a client has to leave once it is notified that its idle connection ends.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often a connection is checked for what it waits for.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two log lines that connections cannot be accepted.
const ACCEPT_LOGGED: Duration = Duration::from_secs(60);

/// The other end of a connection, an extension of every request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

/// The client's address, an extension of every request: that of a trusted proxy's client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientAddress(pub IpAddr);

/// The address that a request comes from.
pub(crate) fn peer(extensions: &Extensions) -> IpAddr {
    let client = extensions.get::<ClientAddress>().map(|client| client.0);
    client.or_else(|| Some(extensions.get::<Peer>()?.0.ip())).unwrap_or(IpAddr::from([0, 0, 0, 0]))
}

/// Limits of the accept loop.
pub(crate) struct Limits {
    pub(crate) connections: usize,
    /// Time a client has to send its first or its next request's head.
    pub(crate) header: Duration,
    /// Time a client may send nothing of a request, or read nothing of an answer, that is under way.
    pub(crate) stalled: Duration,
    /// Time open requests have when the server stops.
    pub(crate) drain: Duration,
}

/// Accepts connections until `stop`, then lets open requests finish within the drain time; no connection is left when
/// it returns.
///
/// When the limit of connections is reached, one is closed for the next as [`Room`] decides. One that waits for its
/// client for too long is closed: for the next request, whatever its version of HTTP, for more of a request, or for an
/// answer to be read.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<TlsAcceptor>,
    limits: Limits,
    stop: CancellationToken,
) {
    let slots = ConnectionSlots::new(limits.connections);
    let refusals = Throttle::new(1, ACCEPT_LOGGED);
    let (tasks, ended) = (TaskTracker::new(), CancellationToken::new());
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header).max_buf_size(READ_BYTES_MAX);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX);
    let builder = Arc::new(builder);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(connection) => connection,
            Err(error) => {
                slots.not_accepted(&error, "HTTP", &refusals).await;
                continue;
            }
        };
        let place = tokio::select! {
            () = stop.cancelled() => break,
            place = slots.enter() => place,
        };
        let connection = Connection {
            place,
            router: router.clone(),
            builder: Arc::clone(&builder),
            peer,
            idle: limits.header,
            stalled: limits.stalled,
            stop: stop.clone(),
        };
        let (tls, ended) = (tls.clone(), ended.clone());
        tasks.spawn(async move {
            let given_up = connection.place.given_up().clone();
            tokio::select! {
                () = ended.cancelled() => {}
                () = given_up.cancelled() => tracing::debug!("connection from {peer}: closed to make room for others"),
                () = connection.run(stream, tls) => {}
            }
        });
    }
    drop(listener);
    tasks.close();
    if tokio::time::timeout(limits.drain, tasks.wait()).await.is_err() {
        tracing::info!("requests that are still open are given up");
        ended.cancel();
        tasks.wait().await;
    }
}

struct Connection {
    place: ConnectionSlot,
    router: Router,
    builder: Arc<auto::Builder<TokioExecutor>>,
    peer: SocketAddr,
    idle: Duration,
    stalled: Duration,
    stop: CancellationToken,
}

impl Connection {
    async fn run(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        // Answers are small and complete; waiting to fill packets would only delay them.
        let _ = stream.set_nodelay(true);
        match tls {
            None => self.answer(stream).await,
            Some(acceptor) => match tokio::time::timeout(self.idle, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => self.answer(stream).await,
                Ok(Err(error)) => tracing::debug!("tls handshake with {}: {error}", self.peer),
                Err(_) => tracing::debug!("tls handshake with {}: too slow", self.peer),
            },
        }
    }

    async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let (router, peer, activity) = (self.router, Peer(self.peer), Arc::clone(self.place.activity()));
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            let exchange = Arc::new(activity.begin());
            let mut request: Request = request.map(|body| pace::request(body, &exchange));
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(Arc::clone(&activity));
            let answer = router.clone().oneshot(request);
            async move { answer.await.map(|answer| answer.map(|body| pace::answer(body, exchange))) }
        });
        let connection = self.builder.serve_connection(TokioIo::new(stream), service).into_owned();
        tokio::pin!(connection);
        let activity = self.place.activity();
        let mut look = tokio::time::interval(LOOK);
        let mut stopping = false;
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!("connection from {}: {error}", self.peer);
                    }
                    return;
                }
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                _ = look.tick() => match activity.overdue(self.idle, self.stalled) {
                    // Notified of the end, a client that is about to send a request takes another connection.
                    Some(Overdue::Idle) if !stopping && activity.overdue(self.idle + FAREWELL, self.stalled).is_none() => {
                        connection.as_mut().graceful_shutdown();
                    }
                    Some(overdue) => {
                        tracing::debug!("connection from {}: closed, {overdue}", self.peer);
                        return;
                    }
                    None => {}
                },
            }
        }
    }
}
