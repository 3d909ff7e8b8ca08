//! Binds the address and accepts connections: TLS, limits, graceful end.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::newcomers::{Newcomer, Newcomers};
use crate::error::{Error, Result};

/// Ports tried after the wanted one when the caller left the choice to us.
const NEXT_PORTS: u16 = 100;
const STREAMS_MAX: u32 = 64;

/// The other end of a connection, an extension of every request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

/// Limits of the accept loop.
pub(crate) struct Limits {
    pub(crate) connections: usize,
    pub(crate) header: Duration,
    /// Time open requests have when the server stops.
    pub(crate) drain: Duration,
}

/// Binds the wanted address, or, if the caller left it open, the next free port after it.
///
/// # Errors
/// [`Error::PortTaken`] with the process that holds it, or [`Error::Bind`].
pub(crate) async fn bind(wanted: SocketAddr, explicit: bool, flag: &'static str) -> Result<TcpListener> {
    match TcpListener::bind(wanted).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && !explicit => bind_next(wanted, flag).await,
        Err(error) => Err(bind_error(wanted, error, flag)),
    }
}

async fn bind_next(wanted: SocketAddr, flag: &'static str) -> Result<TcpListener> {
    let mut address = wanted;
    for step in 1..=NEXT_PORTS {
        let Some(port) = wanted.port().checked_add(step) else { break };
        address.set_port(port);
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(bind_error(address, error, flag)),
        }
    }
    Err(bind_error(wanted, io::ErrorKind::AddrInUse.into(), flag))
}

/// The error for an address that cannot be bound; a taken port is said together with the process that holds it.
pub fn bind_error(address: SocketAddr, source: io::Error, flag: &'static str) -> Error {
    if source.kind() != io::ErrorKind::AddrInUse {
        return Error::Bind { address: address.to_string(), cause: source };
    }
    let listeners = procprof_process::listeners_on(address.port()).unwrap_or_default();
    let owner =
        listeners.iter().filter(|listener| listener.accepts(address.ip()) || address.ip().is_unspecified()).find_map(|l| l.owners.first());
    let holder = match owner {
        Some(owner) => format!(" by {} (pid {})", owner.name, owner.pid),
        None if listeners.is_empty() => String::new(),
        None => format!(" by a process of user {}", listeners[0].uid),
    };
    Error::PortTaken { address: address.to_string(), holder, flag }
}

/// Reads certificate and key for HTTPS.
///
/// # Errors
/// A file that cannot be read or holds no PEM of that sort, or a key that does not fit.
pub(crate) fn tls_acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor> {
    let failed = |path: &Path, why: &dyn std::fmt::Display| Error::Tls(format!("{}: {why}", path.display()));
    let certs: std::result::Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_file_iter(cert).map_err(|error| failed(cert, &error))?.collect();
    let certs = certs.map_err(|error| failed(cert, &error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(certs, private);
    let mut config = config.map_err(|error| failed(key, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections until `stop`, then lets open requests finish within the drain time.
///
/// When there are as many as may be, the one that has longest asked for nothing is dropped for the next: connections with half a request keep
/// nobody out.
pub(crate) async fn serve(listener: TcpListener, router: Router, tls: Option<TlsAcceptor>, limits: Limits, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let newcomers = Newcomers::default();
    let graceful = GracefulShutdown::new();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header);
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
                // Out of descriptors or the like: others may close theirs meanwhile.
                tracing::warn!("accept: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        if slots.available_permits() == 0 {
            newcomers.drop_oldest();
        }
        let slot = tokio::select! {
            () = stop.cancelled() => break,
            slot = Arc::clone(&slots).acquire_owned() => slot,
        };
        let newcomer = newcomers.enter();
        let connection = Connection {
            newcomer: Arc::clone(&newcomer),
            router: router.clone(),
            builder: Arc::clone(&builder),
            peer,
            watcher: graceful.watcher(),
        };
        let tls = tls.clone();
        let handshake = limits.header;
        tokio::spawn(async move {
            tokio::select! {
                () = newcomer.dropped() => tracing::debug!("connection from {peer}: dropped for others before its first request"),
                () = connection.run(stream, tls, handshake) => {}
            }
            drop(slot);
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.drain, graceful.shutdown()).await.is_err() {
        tracing::info!("stopped with requests still open");
    }
}

struct Connection {
    newcomer: Arc<Newcomer>,
    router: Router,
    builder: Arc<auto::Builder<TokioExecutor>>,
    peer: SocketAddr,
    watcher: hyper_util::server::graceful::Watcher,
}

impl Connection {
    async fn run(self, stream: TcpStream, tls: Option<TlsAcceptor>, handshake: Duration) {
        // Answers are small and complete; waiting to fill packets would only delay them.
        let _ = stream.set_nodelay(true);
        match tls {
            None => self.answer(stream).await,
            Some(acceptor) => match tokio::time::timeout(handshake, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => self.answer(stream).await,
                Ok(Err(error)) => tracing::debug!("tls handshake with {}: {error}", self.peer),
                Err(_) => tracing::debug!("tls handshake with {}: too slow", self.peer),
            },
        }
    }

    async fn answer<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let (router, peer, newcomer) = (self.router, Peer(self.peer), self.newcomer);
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            newcomer.arrived();
            let mut request: Request = request.map(axum::body::Body::new);
            request.extensions_mut().insert(peer);
            router.clone().oneshot(request)
        });
        let connection = self.builder.serve_connection(TokioIo::new(stream), service).into_owned();
        if let Err(error) = self.watcher.watch(connection).await {
            tracing::debug!("connection from {}: {error}", self.peer);
        }
    }
}
