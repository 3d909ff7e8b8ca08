//! Permissions: users, their names, and the addresses of their clients.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mysql_async::prelude::Queryable;
use procprof_server::auth::{Methods, UserRole, add_token, add_user, remove_user};
use procprof_server::{Server, ServerOptions, SqlAddress, SqlLogin};
use reqwest::Method;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::{PATIENCE, TestServer, cpu_profile, options, quiet};
use crate::raw::exchange;

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
        (Method::POST, "/proc_profile/heap".to_owned()),
        (Method::GET, "/api/nodes/1/heap".to_owned()),
        (Method::POST, "/api/nodes/1/heap/activate".to_owned()),
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
async fn a_token_of_the_role_push_reads_and_changes_nothing() {
    let (mut server, users) = with_users().await;
    let token = add_token(&users.path().join("users"), "host-1").unwrap().to_string();
    let mut config = quiet();
    config.users_file = Some(users.path().join("users"));
    server.handle.as_ref().unwrap().reload(config.clone()).unwrap();
    let status = async |method: Method, path: &str| {
        server.client.request(method, server.url(path)).bearer_auth(&token).send().await.unwrap().status().as_u16()
    };
    for path in ["/", "/api/nodes", "/api/profiles", "/metrics", "/api/symbols", "/api/openapi.json", "/p/1"] {
        assert_eq!(status(Method::GET, path).await, 403, "{path}");
    }
    for path in ["/api/captures", "/api/pause", "/api/push?node=procprof&type=cpu", "/proc_profile/pause"] {
        assert_eq!(status(Method::POST, path).await, 403, "{path}");
    }
    assert_eq!(status(Method::POST, "/api/symbols/offer?key=00ff&detail=lines").await, 200);
    assert_eq!(status(Method::POST, "/api/symbols").await, 422, "an empty index");
    log_in(&mut server, "vic", "vic's secret");
    assert_eq!(server.status(Method::POST, "/api/symbols/offer?key=00ff&detail=lines").await, 403);
    remove_user(&users.path().join("users"), "host-1").unwrap();
    server.handle.as_ref().unwrap().reload(config).unwrap();
    let gone = server.client.post(server.url("/api/symbols/offer?key=00ff&detail=lines")).bearer_auth(&token);
    assert_eq!(gone.send().await.unwrap().status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn bearer_works_and_guessing_is_slowed_down() {
    let (mut server, _users) = with_users().await;
    let bearer = server.client.get(server.url("/api/nodes")).bearer_auth("vic.vic's secret").send().await.unwrap();
    assert_eq!(bearer.status(), 200);
    log_in(&mut server, "ann", "wrong");
    // Side by side: they are counted anew after a minute.
    let wrong = (0..10).map(|_| server.status(Method::GET, "/api/nodes"));
    assert_eq!(futures_util::future::join_all(wrong).await, [401; 10]);
    for _ in 0..2 {
        assert_eq!(server.status(Method::GET, "/api/nodes").await, 429);
    }
    // Others from there are not held up, nor is one whose password is known to be right.
    log_in(&mut server, "vic", "vic's secret");
    assert_eq!(server.status(Method::GET, "/api/nodes").await, 200);
    log_in(&mut server, "vic", "wrong");
    let wrong = (0..12).map(|_| server.status(Method::GET, "/api/nodes"));
    let refused = futures_util::future::join_all(wrong).await;
    assert_eq!(refused.iter().filter(|status| **status == 429).count(), 2, "{refused:?}");
    log_in(&mut server, "vic", "vic's secret");
    assert_eq!(server.status(Method::GET, "/api/nodes").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_wrong_passwords_are_checked_at_once_as_one_after_another() {
    let (server, _users) = with_users().await;
    let guess = async |number: usize| {
        let request = server.client.get(server.url("/api/nodes")).basic_auth("ann", Some(format!("guess {number}")));
        request.send().await.unwrap().status().as_u16()
    };
    let right = async || {
        let request = server.client.get(server.url("/api/nodes")).basic_auth("vic", Some("vic's secret"));
        request.send().await.unwrap().status().as_u16()
    };
    let (statuses, vic) = tokio::join!(futures_util::future::join_all((0..100).map(guess)), right());
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((count(401), count(429), vic), (10, 90, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_names_one_host() {
    let server = TestServer::start(quiet()).await;
    for (hosts, status) in [
        ("Host: localhost\r\n", "200"),
        ("", "400"),
        ("Host: localhost\r\nHost: localhost\r\n", "400"),
        ("Host: localhost\r\nHost: evil.example\r\n", "400"),
        ("Host: evil.example\r\nHost: localhost\r\n", "400"),
    ] {
        let request = format!("GET /api/nodes HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n");
        let answer = exchange(server.address, request.as_bytes()).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{hosts:?}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_others_can_change_are_refused() {
    let set = |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let (server, users) = with_users().await;
    let file = users.path().join("users");
    let mut config = quiet();
    config.users_file = Some(file.clone());
    let handle = server.handle.as_ref().unwrap();
    handle.reload(config.clone()).unwrap();
    set(&file, 0o666);
    let refused = handle.reload(config.clone()).unwrap_err().to_string();
    assert!(refused.contains("users: other users of this machine may write it (mode 666)"), "{refused}");
    let data = tempfile::tempdir().unwrap();
    assert!(Server::start(options(config, data.path().to_owned())).await.is_err());

    let mysql = SqlAddress { address: "127.0.0.1:0".parse().unwrap(), explicit: true, login: SqlLogin::Users };
    let start =
        async || Server::start(ServerOptions { mysql: Some(mysql), ..options(quiet(), data.path().to_owned()) }).await;
    assert!(start().await.unwrap().stop(PATIENCE).await);
    let password = data.path().join("mysql-password");
    for (mode, may) in [(0o606, "write"), (0o644, "read")] {
        set(&password, mode);
        let refused = start().await.err().unwrap().to_string();
        assert!(refused.contains(&format!("may {may} it (mode {mode:o})")), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_site_starts_no_capture() {
    let server = TestServer::start(quiet()).await;
    let own = server.url("/proc_profile");
    const BROWSER: (&str, &str) = ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)");
    for path in ["/debug/pprof/profile?seconds=1", "/pprof/profile?seconds=1", "/debug/pprof/heap"] {
        for headers in [
            &[("sec-fetch-site", "cross-site")][..],
            &[("sec-fetch-site", "same-site"), BROWSER],
            &[BROWSER],
            &[BROWSER, ("referer", "http://evil.example/")],
        ] {
            let request = headers
                .iter()
                .fold(server.request(Method::GET, path), |request, (name, value)| request.header(*name, *value));
            assert_eq!(request.send().await.unwrap().status(), 403, "{path} {headers:?}");
        }
    }
    for headers in [
        &[][..],
        &[("user-agent", "curl/8.5.0")],
        &[("sec-fetch-site", "none"), BROWSER],
        &[("sec-fetch-site", "same-origin"), BROWSER],
        &[BROWSER, ("referer", own.as_str())],
    ] {
        let request = server.request(Method::GET, "/debug/pprof/cmdline");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        assert_eq!(request.send().await.unwrap().status(), 200, "{headers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_sites_may_link_here_and_load_nothing() {
    let server = TestServer::start(quiet()).await;
    let status = async |method: Method, path: &str, site: &str, mode: &str, dest: &str| {
        let request = server.request(method, path);
        let headers = [("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)];
        let request = headers
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .fold(request, |request, (name, value)| request.header(*name, *value));
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["cross-origin-resource-policy"], "same-origin");
        answer.status().as_u16()
    };
    for path in ["/", "/api/profiles", "/api/nodes", "/metrics", "/healthz", "/nowhere"] {
        for site in ["cross-site", "same-site"] {
            for (mode, dest) in [
                ("no-cors", "image"),
                ("no-cors", "script"),
                ("no-cors", "style"),
                ("cors", "empty"),
                ("navigate", "object"),
                ("navigate", "embed"),
                ("", ""),
            ] {
                assert_eq!(status(Method::GET, path, site, mode, dest).await, 403, "{path} {site} {mode} {dest}");
            }
            assert_eq!(status(Method::HEAD, path, site, "no-cors", "empty").await, 403, "HEAD {path} {site}");
            for dest in ["document", "iframe", ""] {
                assert_ne!(status(Method::GET, path, site, "navigate", dest).await, 403, "{path} {site} {dest}");
            }
        }
        for (site, mode, dest) in [
            ("same-origin", "no-cors", "image"),
            ("same-origin", "cors", "empty"),
            ("none", "navigate", "document"),
            ("", "", ""),
        ] {
            assert_ne!(status(Method::GET, path, site, mode, dest).await, 403, "{path} {site} {mode} {dest}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_were_taken_away_end_on_open_sql_connections() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    for name in ["ann", "bob", "eve"] {
        add_user(&file, name, UserRole::Operator, "secret", Methods::Modern).unwrap();
    }
    let natively =
        |password: &str| add_user(&file, "old", UserRole::Operator, password, Methods::WithMysqlNative).unwrap();
    natively("secret");
    add_user(&file, "amy", UserRole::Push, "secret", Methods::WithMysqlNative).unwrap();
    let mut config = quiet();
    config.users_file = Some(file.clone());
    let data = tempfile::tempdir().unwrap();
    let mysql = SqlAddress { address: "127.0.0.1:0".parse().unwrap(), explicit: true, login: SqlLogin::Users };
    let handle = Server::start(ServerOptions { mysql: Some(mysql), ..options(config.clone(), data.path().to_owned()) })
        .await
        .unwrap();
    let connect = async |name: &str| {
        let port = handle.mysql().unwrap().port();
        let options = mysql_async::OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(port);
        mysql_async::Conn::new(options.prefer_socket(false).user(Some(name)).pass(Some("secret"))).await
    };
    assert!(connect("amy").await.is_err(), "a token reads nothing, so it may not log in");
    let (mut ann, mut bob) = (connect("ann").await.unwrap(), connect("bob").await.unwrap());
    let (mut eve, mut old) = (connect("eve").await.unwrap(), connect("old").await.unwrap());
    let act = "KILL QUERY 999999";
    let number =
        async |connection: &mut mysql_async::Conn, statement: &str| match connection.query_drop(statement).await {
            Ok(()) => 0,
            Err(mysql_async::Error::Server(error)) => error.code,
            Err(error) => panic!("{statement}: {error}"),
        };
    let collect = "COLLECT CPU ON 999999";
    let before = (number(&mut ann, act).await, number(&mut bob, collect).await);
    assert_eq!((before.0, before.1 == 1227), (1094, false), "operators both");

    remove_user(&file, "ann").unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("bob:operator:", "bob:viewer:")).unwrap();
    add_user(&file, "eve", UserRole::Operator, "another", Methods::Modern).unwrap();
    natively("another");
    assert_eq!((number(&mut eve, act).await, number(&mut old, act).await), (1094, 1094), "not before the reload");
    handle.reload(config.clone()).unwrap();
    for (connection, name) in [(&mut eve, "eve"), (&mut old, "old")] {
        assert_eq!((number(connection, "SELECT 1").await, number(connection, act).await), (1045, 1045), "{name}");
        assert!(connect(name).await.is_err(), "{name} has another password");
    }
    assert_eq!((number(&mut ann, "SELECT 1").await, number(&mut ann, act).await), (1045, 1045), "no user any more");
    assert_eq!((number(&mut bob, "SELECT 1").await, number(&mut bob, collect).await), (0, 1227), "a viewer now");
    assert!(connect("ann").await.is_err());

    // Without the key everyone would be let in.
    let refused = handle.reload(quiet()).unwrap_err().to_string();
    assert!(refused.contains("users_file"), "{refused}");
    std::fs::write(&file, "garbage\n").unwrap();
    assert!(handle.reload(config.clone()).is_err());
    std::fs::remove_file(&file).unwrap();
    assert!(handle.reload(config).is_err());
    assert_eq!(
        (number(&mut bob, "SELECT 1").await, number(&mut bob, collect).await),
        (0, 1227),
        "the former users stay"
    );
    handle.stop(PATIENCE).await;
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
    // A client without TLS gets no answer, and disturbs no other.
    let plain = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    assert!(plain.get(url.replace("https", "http")).send().await.is_err());
    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    assert!(handle.stop(PATIENCE).await);

    config.tls_cert = Some(key);
    let data = tempfile::tempdir().unwrap();
    let refused = Server::start(options(config, data.path().to_owned())).await.err().unwrap();
    assert!(refused.to_string().starts_with("tls: "), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn half_sent_requests_do_not_block_others() {
    let mut config = quiet();
    (config.http_connections_max, config.http_header_seconds_max) = (8, 600);
    let server = TestServer::start(config).await;
    let mut half_sent = Vec::new();
    for _ in 0..20 {
        let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: loc").await.unwrap();
        half_sent.push(stream);
    }
    for path in ["/healthz", "/readyz", "/api/nodes"] {
        let answer = tokio::time::timeout(PATIENCE, server.client.get(server.url(path)).send());
        assert_eq!(answer.await.expect("an answer in time").unwrap().status(), 200, "{path}");
    }
    // Who came last is still served.
    let mut last = half_sent.pop().unwrap();
    last.write_all(b"alhost\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
