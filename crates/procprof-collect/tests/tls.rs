//! HTTPS with an authority of our own, with none, and switched off.

use std::io::Write;
use std::sync::Arc;

use procprof_collect::{Client, Kind, Request, Target, Tls, Watch, collect};
use procprof_profile::ProfileType;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const CPU: &[u8] = include_bytes!("../../../testdata/brpc/cpu.gperftools");

/// Serves one profile for every request, over TLS; gives the port and the authority's certificate in PEM.
async fn serve() -> (u16, String) {
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).unwrap().signed_by(&key, &issuer).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            drop(stream.read(&mut [0; 4096]).await);
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", CPU.len());
            drop(stream.write_all(&[head.as_bytes(), CPU].concat()).await);
            drop(stream.shutdown().await);
        }
    });
    (port, authority.pem())
}

#[tokio::test]
async fn only_a_trusted_certificate_is_accepted() {
    let (port, pem) = serve().await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(pem.as_bytes()).unwrap();
    let check = async |tls: Tls, host: &str, wanted: Option<&str>| {
        let mut target = Target::new(Kind::Pprof, format!("https://{host}:{port}").parse().unwrap());
        target.urls.insert(ProfileType::Cpu, format!("https://{host}:{port}/profile").parse().unwrap());
        target.tls = tls;
        let result = collect(&Client::new(), &target, &Request::new(ProfileType::Cpu).seconds(1), &Watch::default()).await;
        assert_eq!(result.as_ref().err().map(|error| error.code()), wanted, "{result:?}");
    };
    let ca_file = Some(file.path().to_owned());
    check(Tls { ca_file: ca_file.clone(), insecure: false, ..Tls::default() }, "localhost", None).await;
    check(Tls { ca_file, insecure: false, ..Tls::default() }, "127.0.0.1", None).await;
    check(Tls { ca_file: None, insecure: true, ..Tls::default() }, "localhost", None).await;
    check(Tls::default(), "localhost", Some("connect")).await;
    check(Tls { ca_file: Some("/nonexistent.pem".into()), insecure: false, ..Tls::default() }, "localhost", Some("bad_ca_file")).await;
    check(Tls { ca_file: Some("/proc/self/cmdline".into()), insecure: false, ..Tls::default() }, "localhost", Some("bad_ca_file")).await;
    check(Tls { ca_file: Some("/dev/zero".into()), insecure: false, ..Tls::default() }, "localhost", Some("bad_ca_file")).await;
}
