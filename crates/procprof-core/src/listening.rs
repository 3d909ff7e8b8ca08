//! Addresses that are listened on, for both protocols, and the certificate they are served with.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::error::{Error, Result};

/// Ports tried after the default one when the user has set none.
const NEXT_PORTS: u16 = 100;

/// Binds the address, or, unless it is `explicit`, the next free port after it.
///
/// # Errors
/// [`Error::PortTaken`] with the process that holds it, or [`Error::Bind`].
pub async fn bind(wanted: SocketAddr, explicit: bool, flag: &'static str) -> Result<TcpListener> {
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

/// The error for an address that cannot be bound; for a port in use it names the process that holds it.
pub fn bind_error(address: SocketAddr, source: io::Error, flag: &'static str) -> Error {
    if source.kind() != io::ErrorKind::AddrInUse {
        return Error::Bind { address: address.to_string(), cause: source };
    }
    let listeners = procprof_process::listeners_on(address.port()).unwrap_or_default();
    let owner = listeners
        .iter()
        .filter(|listener| listener.accepts(address.ip()) || address.ip().is_unspecified())
        .find_map(|l| l.owners.first());
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
pub fn tls_acceptor(cert: &Path, key: &Path) -> Result<TlsAcceptor> {
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
