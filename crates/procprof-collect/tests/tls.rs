//! HTTPS with an authority of our own, with none, and switched off.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use procprof_collect::{HttpClient, Request, Target, Tls, Watch, collect, endpoints};
use procprof_profile::ProfileType;
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

const CPU: &[u8] = include_bytes!("../../../testdata/brpc/cpu.gperftools");

/// An authority, and a server of its making; gives the port and the authority's certificate in PEM.
async fn serve() -> (u16, String) {
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().unwrap();
    let leaf =
        CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()]).unwrap().signed_by(&key, &issuer).unwrap();
    (serve_as(&leaf, &key).await, authority.pem())
}

/// Serves one profile for every request, over TLS.
async fn serve_as(certificate: &Certificate, key: &KeyPair) -> u16 {
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
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
    port
}

/// A target at that port that trusts a file of this content.
fn trusting(host: &str, port: u16, file: &Path) -> Target {
    let mut target = Target::new(&endpoints::PPROF, format!("https://{host}:{port}").parse().unwrap());
    target.urls.insert(ProfileType::Cpu, format!("https://{host}:{port}/profile").parse().unwrap());
    target.tls = Tls { ca_file: Some(file.to_owned()), ..Tls::default() };
    target
}

#[tokio::test]
async fn only_a_trusted_certificate_is_accepted() {
    let (port, pem) = serve().await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(pem.as_bytes()).unwrap();
    let check = async |tls: Tls, host: &str, wanted: Option<&str>| {
        let mut target = trusting(host, port, file.path());
        target.tls = tls;
        let result =
            collect(&HttpClient::new(), &target, &Request::new(ProfileType::Cpu).seconds(1), &Watch::default()).await;
        assert_eq!(result.as_ref().err().map(|error| error.code()), wanted, "{result:?}");
    };
    let ca_file = Some(file.path().to_owned());
    check(Tls { ca_file: ca_file.clone(), insecure: false, ..Tls::default() }, "localhost", None).await;
    check(Tls { ca_file, insecure: false, ..Tls::default() }, "127.0.0.1", None).await;
    check(Tls { ca_file: None, insecure: true, ..Tls::default() }, "localhost", None).await;
    check(Tls::default(), "localhost", Some("connect")).await;
    check(
        Tls { ca_file: Some("/nonexistent.pem".into()), insecure: false, ..Tls::default() },
        "localhost",
        Some("bad_ca_file"),
    )
    .await;
    check(
        Tls { ca_file: Some("/proc/self/cmdline".into()), insecure: false, ..Tls::default() },
        "localhost",
        Some("bad_ca_file"),
    )
    .await;
    check(
        Tls { ca_file: Some("/dev/zero".into()), insecure: false, ..Tls::default() },
        "localhost",
        Some("bad_ca_file"),
    )
    .await;
}

/// The certificates that a server presents.
struct Shown {
    names: &'static [&'static str],
    marked_as_authority: bool,
    years: (i32, i32),
}

impl Shown {
    const USUAL: Shown = Shown { names: &["localhost", "127.0.0.1"], marked_as_authority: true, years: (1990, 2200) };

    fn params(&self) -> CertificateParams {
        let mut params =
            CertificateParams::new(self.names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        params.is_ca = if self.marked_as_authority { IsCa::Ca(BasicConstraints::Unconstrained) } else { IsCa::NoCa };
        (params.not_before, params.not_after) = (date_time_ymd(self.years.0, 1, 1), date_time_ymd(self.years.1, 1, 1));
        params
    }

    fn self_signed(&self) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (self.params().self_signed(&key).unwrap(), key)
    }
}

/// curl's opinion of a server.
async fn curl_accepts(host: &str, port: u16, file: &Path) -> bool {
    let url = format!("https://{host}:{port}/profile");
    let mut command = tokio::process::Command::new("curl");
    command.args([
        "--silent",
        "--show-error",
        "--noproxy",
        "*",
        "--max-time",
        "60",
        "--output",
        "/dev/null",
        "--cacert",
    ]);
    let output = command.arg(file).arg(url).output().await.expect("curl is installed");
    // 60: the certificate is refused. All else is no opinion.
    match output.status.code() {
        Some(0) => true,
        Some(60) => false,
        _ => panic!("{output:?}"),
    }
}

/// Connects to a server that presents `own` while `trusted` is in the file, and compares with curl.
async fn check_own(own: &(Certificate, KeyPair), trusted: &[&Certificate], host: &str, refused: Option<&str>) {
    let port = serve_as(&own.0, &own.1).await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(trusted.iter().map(|certificate| certificate.pem()).collect::<String>().as_bytes()).unwrap();
    let target = trusting(host, port, file.path());
    let request = Request::new(ProfileType::Cpu).seconds(1);
    let result = collect(&HttpClient::new(), &target, &request, &Watch::default()).await;
    match (&result, refused) {
        (Ok(_), None) => {}
        (Err(error), Some(why)) => assert!(error.code() == "connect" && error.to_string().contains(why), "{error}"),
        _ => panic!("{result:?} instead of {refused:?}"),
    }
    assert_eq!(curl_accepts(host, port, file.path()).await, refused.is_none(), "curl differs");
}

#[tokio::test]
async fn a_servers_own_certificate_is_trusted_if_it_is_in_the_file() {
    let other = Shown::USUAL.self_signed();
    for marked_as_authority in [true, false] {
        let usual = Shown { marked_as_authority, ..Shown::USUAL };
        let own = usual.self_signed();
        check_own(&own, &[&own.0], "localhost", None).await;
        check_own(&own, &[&other.0, &own.0], "127.0.0.1", None).await;
        check_own(&own, &[&other.0], "localhost", Some("UnknownIssuer")).await;
        let elsewhere = Shown { names: &["profiles.example"], marked_as_authority, ..Shown::USUAL }.self_signed();
        check_own(&elsewhere, &[&elsewhere.0], "localhost", Some("not valid for name")).await;
        let expired = Shown { years: (1990, 2020), marked_as_authority, ..Shown::USUAL }.self_signed();
        check_own(&expired, &[&expired.0], "localhost", Some("expired")).await;
        let early = Shown { years: (2190, 2200), marked_as_authority, ..Shown::USUAL }.self_signed();
        check_own(&early, &[&early.0], "localhost", Some("not valid yet")).await;
    }
}

#[tokio::test]
async fn a_certificate_of_an_authority_is_trusted_if_it_is_in_the_file_alone() {
    let authority = Shown::USUAL.self_signed();
    let issuer = Issuer::new(Shown::USUAL.params(), authority.1);
    let usual = Shown { marked_as_authority: false, ..Shown::USUAL };
    let made = || {
        let key = KeyPair::generate().unwrap();
        (usual.params().signed_by(&key, &issuer).unwrap(), key)
    };
    let (own, sibling) = (made(), made());
    check_own(&own, &[&own.0], "localhost", None).await;
    check_own(&own, &[&sibling.0], "localhost", Some("UnknownIssuer")).await;
}
