//! Trust in the certificates of one file, and in nothing else: authorities as usual, and a server's own certificate if
//! it is in the file.
//!
//! A server that made its certificate itself (`openssl req -x509`) has no authority to name; its certificate is the
//! file, and is mostly marked as an authority's, which webpki refuses from a server. OpenSSL, and with it curl, accepts
//! a certificate that equals one in the file byte for byte; so does this, once the period of validity and the server's
//! name are checked, and the handshake is signed with its key.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use crate::{ClientCertificate, CollectError, Result};

/// Largest file of certificates or of a key, in bytes.
const MAX_PEM_BYTES: u64 = 4 << 20;

/// A TLS client for HTTP that trusts what is signed by a certificate of `pem`, and those certificates themselves.
/// `ca_file` is named in errors.
///
/// # Errors
/// [`CollectError::CaFile`] for what has no certificate or one that cannot be used, and for a client's certificate and
/// key likewise.
pub fn trust_only(ca_file: &Path, pem: &[u8], client: Option<&ClientCertificate>) -> Result<ClientConfig> {
    let wrong = |why: String| CollectError::CaFile { path: ca_file.to_owned(), why };
    let provider = Arc::new(default_provider());
    let verifier = Arc::new(FileVerifier::new(ca_file, pem, &provider)?);
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match client {
        None => config.with_no_client_auth(),
        Some(client) => {
            let (certificates, key) =
                (certificates(&client.cert_file, &read_pem(&client.cert_file)?)?, key(&client.key_file)?);
            let refused =
                |error: Error| CollectError::CaFile { path: client.cert_file.clone(), why: error.to_string() };
            config.with_client_auth_cert(certificates, key).map_err(refused)?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The bytes of a file of certificates or of a key.
pub(crate) fn read_pem(path: &Path) -> Result<Vec<u8>> {
    let wrong = |why: String| CollectError::CaFile { path: path.to_owned(), why };
    // A device or pipe in its place would be read for ever.
    let file = procprof_process::open_regular(path).map_err(|error| wrong(error.to_string()))?;
    let mut pem = Vec::new();
    file.take(MAX_PEM_BYTES + 1).read_to_end(&mut pem).map_err(|error| wrong(error.to_string()))?;
    if pem.len() as u64 > MAX_PEM_BYTES {
        return Err(wrong(format!("longer than {MAX_PEM_BYTES} bytes")));
    }
    Ok(pem)
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let wrong = |why: String| CollectError::CaFile { path: path.to_owned(), why };
    let read: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = read.map_err(|error| wrong(error.to_string()))?;
    if certificates.is_empty() {
        return Err(wrong("no certificate in it".to_owned()));
    }
    Ok(certificates)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let wrong =
        |error: rustls::pki_types::pem::Error| CollectError::CaFile { path: path.to_owned(), why: error.to_string() };
    PrivateKeyDer::from_pem_slice(&read_pem(path)?).map_err(wrong)
}

/// Checks servers by the certificates of one file.
#[derive(Debug)]
struct FileVerifier {
    certificates: Vec<CertificateDer<'static>>,
    webpki: Arc<WebPkiServerVerifier>,
}

impl FileVerifier {
    fn new(ca_file: &Path, pem: &[u8], provider: &Arc<CryptoProvider>) -> Result<FileVerifier> {
        let wrong = |why: String| CollectError::CaFile { path: ca_file.to_owned(), why };
        let certificates = certificates(ca_file, pem)?;
        let mut roots = RootCertStore::empty();
        for (index, certificate) in certificates.iter().enumerate() {
            let added = roots.add(certificate.clone());
            added.map_err(|error| wrong(format!("certificate {} of {}: {error}", index + 1, certificates.len())))?;
        }
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let webpki = builder.build().map_err(|error| wrong(error.to_string()))?;
        Ok(FileVerifier { certificates, webpki })
    }
}

impl ServerCertVerifier for FileVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        let refused = match self.webpki.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Ok(verified) => return Ok(verified),
            Err(refused) => refused,
        };
        if !is_only_about_the_issuer(&refused) {
            return Err(refused);
        }
        if !self.certificates.contains(end_entity) {
            // Whatever it is marked as: neither it nor who signed it is in the file.
            return Err(CertificateError::UnknownIssuer.into());
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// Whether a certificate lacks nothing but an issuer that fits. webpki looks at the period of validity before it looks
/// at any of these.
fn is_only_about_the_issuer(refused: &Error) -> bool {
    match refused {
        Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => true,
        Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) => {
            matches!(cause.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
        }
        _ => false,
    }
}
