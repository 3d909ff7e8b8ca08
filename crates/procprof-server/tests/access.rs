//! Who may do what, under which names, from where.

use std::time::Duration;

use procprof_server::Server;
use procprof_server::auth::{Methods, UserRole, add_user};
use reqwest::Method;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{TestServer, cpu_profile, options, quiet};

/// A server with ann (operator) and vic (viewer).
async fn with_users() -> (TestServer, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    add_user(&file, "ann", UserRole::Operator, "ann's secret", Methods::Modern).unwrap();
    add_user(&file, "vic", UserRole::Viewer, "vic's secret", Methods::Modern).unwrap();
    let mut config = quiet();
    config.users_file = Some(file);
    (TestServer::start(config).await, folder)
}

fn log_in(server: &mut TestServer, name: &str, password: &str) {
    server.credentials = Some((name.to_owned(), password.to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_read_operators_change_strangers_do_neither() {
    let (mut server, _users) = with_users().await;
    log_in(&mut server, "ann", "ann's secret");
    let id = server.push("cpu", cpu_profile(1_700_000_000)).await["id"].as_str().unwrap().to_owned();
    let reads = [
        "/proc_profile".to_owned(),
        "/api/nodes".to_owned(),
        "/api/profiles".to_owned(),
        format!("/api/profiles/{id}"),
        format!("/api/profiles/{id}/render/top"),
        format!("/p/{id}"),
        "/api/errors".to_owned(),
        "/api/retention".to_owned(),
        "/api/openapi.json".to_owned(),
        "/metrics".to_owned(),
    ];
    let changes = [
        (Method::POST, "/api/captures".to_owned()),
        (Method::POST, "/api/pause".to_owned()),
        (Method::POST, "/api/resume".to_owned()),
        (Method::POST, "/api/push?node=procprof".to_owned()),
        (Method::POST, format!("/api/profiles/{id}/pin")),
        (Method::POST, format!("/p/{id}/pin")),
        (Method::POST, format!("/p/{id}/delete")),
        (Method::DELETE, format!("/api/profiles/{id}/pin")),
        (Method::DELETE, format!("/api/profiles/{id}")),
        (Method::POST, "/proc_profile/collect".to_owned()),
        (Method::POST, "/proc_profile/pause".to_owned()),
        (Method::GET, "/debug/pprof/profile?seconds=1".to_owned()),
        (Method::GET, "/pprof/heap".to_owned()),
    ];
    log_in(&mut server, "vic", "vic's secret");
    for path in &reads {
        assert_eq!(server.status(Method::GET, path).await, 200, "vic {path}");
    }
    for (method, path) in &changes {
        assert_eq!(server.status(method.clone(), path).await, 403, "vic {method} {path}");
    }
    server.credentials = None;
    for path in &reads {
        assert_eq!(server.status(Method::GET, path).await, 401, "nobody {path}");
    }
    for (method, path) in &changes {
        assert_eq!(server.status(method.clone(), path).await, 401, "nobody {method} {path}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.status(Method::GET, path).await, 200, "nobody {path}");
    }
    let challenge = server.get("/proc_profile").await;
    assert!(challenge.headers()["www-authenticate"].to_str().unwrap().starts_with("Basic "));
    log_in(&mut server, "ann", "ann's secret");
    assert_eq!(server.status(Method::POST, &format!("/api/profiles/{id}/pin")).await, 204);
    assert_eq!(server.status(Method::DELETE, &format!("/api/profiles/{id}")).await, 409, "a pinned profile");
    assert_eq!(server.status(Method::DELETE, &format!("/api/profiles/{id}/pin")).await, 204);
    assert_eq!(server.status(Method::DELETE, &format!("/api/profiles/{id}")).await, 204);
    assert_eq!(server.status(Method::GET, &format!("/api/profiles/{id}")).await, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn bearer_works_and_guessing_is_slowed_down() {
    let (mut server, _users) = with_users().await;
    let bearer = server.client.get(server.url("/api/nodes")).bearer_auth("vic.vic's secret").send().await.unwrap();
    assert_eq!(bearer.status(), 200);
    let mut statuses = Vec::new();
    log_in(&mut server, "ann", "wrong");
    for _ in 0..12 {
        statuses.push(server.status(Method::GET, "/api/nodes").await);
    }
    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses[10..], [429; 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_host_or_origin_is_refused() {
    let server = TestServer::start(quiet()).await;
    let own = server.address.to_string();
    let status = async |method: Method, headers: &[(&str, &str)]| {
        let path = if method == Method::GET { "/api/nodes" } else { "/api/resume" };
        let mut request = server.request(method, path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status().as_u16()
    };
    let origin = |host: &str| format!("http://{host}");
    assert_eq!(status(Method::GET, &[("host", "evil.example")]).await, 403);
    assert_eq!(status(Method::GET, &[("host", "evil.example:8030")]).await, 403);
    assert_eq!(status(Method::GET, &[("host", "127.0.0.1.evil.example")]).await, 403);
    assert_eq!(status(Method::GET, &[("host", "192.0.2.7")]).await, 403);
    assert_eq!(status(Method::GET, &[("host", "localhost:1")]).await, 200);
    assert_eq!(status(Method::GET, &[("host", "[::1]:1")]).await, 200);
    assert_eq!(status(Method::POST, &[]).await, 200);
    assert_eq!(status(Method::POST, &[("origin", &origin(&own))]).await, 200);
    assert_eq!(status(Method::POST, &[("origin", "http://evil.example")]).await, 403);
    assert_eq!(status(Method::POST, &[("origin", "null")]).await, 403);
    assert_eq!(status(Method::POST, &[("origin", &origin("127.0.0.1:1"))]).await, 403);
    assert_eq!(status(Method::POST, &[("sec-fetch-site", "cross-site")]).await, 403);
    assert_eq!(status(Method::GET, &[("origin", "http://evil.example")]).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn https_is_served_with_certificate_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut config = quiet();
    (config.tls_cert, config.tls_key) = (Some(cert), Some(key.clone()));
    let data = tempfile::tempdir().unwrap();
    let handle = Server::start(options(config.clone(), data.path().to_owned())).await.unwrap();
    let trusted = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]).build().unwrap();
    let url = format!("https://localhost:{}/api/nodes", handle.addr().port());
    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    // Whoever speaks no TLS is not answered, and hurts nobody.
    let plain = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    assert!(plain.get(url.replace("https", "http")).send().await.is_err());
    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    assert!(handle.stop(Duration::from_secs(5)).await);

    config.tls_cert = Some(key);
    let data = tempfile::tempdir().unwrap();
    let refused = Server::start(options(config, data.path().to_owned())).await.err().unwrap();
    assert!(refused.to_string().starts_with("tls: "), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_requests_keep_nobody_out() {
    let mut config = quiet();
    (config.http_connections_max, config.http_header_seconds_max) = (8, 60);
    let server = TestServer::start(config).await;
    let mut half_sent = Vec::new();
    for _ in 0..20 {
        let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc").await.unwrap();
        half_sent.push(stream);
    }
    for path in ["/healthz", "/readyz", "/api/nodes"] {
        let answer = tokio::time::timeout(Duration::from_secs(5), server.client.get(server.url(path)).send());
        assert_eq!(answer.await.expect("an answer in time").unwrap().status(), 200, "{path}");
    }
    // Who came last is still served.
    let mut last = half_sent.pop().unwrap();
    last.write_all(b"alhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
