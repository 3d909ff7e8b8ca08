//! The endpoints on an axum server, over real sockets.

use crate::isolated::isolated;
use crate::work::{LONGER_AND_LONGER, wait_until};
use procprof_agent::{Agent, Config, ENDPOINTS, Method, open_router, router, start};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// An axum server with one worker thread, at a free loopback port; ends with its runtime.
struct Server {
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

fn agent() -> Agent {
    start(Config::default()).unwrap()
}

fn with_token() -> Agent {
    start(Config { token: Some("secret".into()), ..Config::default() }).unwrap()
}

impl Server {
    /// Serves, with clients' addresses for the router.
    fn start(profiles: axum::Router) -> Self {
        Self::run(profiles, |listener, app| async move {
            axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await.unwrap();
        })
    }

    fn run<F: Future<Output = ()> + Send + 'static>(
        profiles: axum::Router,
        serve: impl FnOnce(TcpListener, axum::Router) -> F,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let app = profiles.route("/ping", axum::routing::get(|| async { "pong" }));
        runtime.spawn(serve(listener, app));
        Self { address, _runtime: runtime }
    }

    fn open(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let length = body.len();
        write!(stream, "{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        stream
    }

    /// The whole answer to a request of this machine.
    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        self.ask_with(&format!("{method} {path} HTTP/1.1\r\nHost: localhost"), body)
    }

    fn ask_with(&self, head: &str, body: &str) -> String {
        let mut answer = Vec::new();
        self.open(head, body).read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn every_row_is_routed_as_in_the_table() {
    isolated("router::every_row_is_routed_as_in_the_table", || {
        let server = Server::start(router(agent()));
        for endpoint in ENDPOINTS {
            let head = server.ask("HEAD", endpoint.path, "");
            assert_eq!(status(&head) == 405, !endpoint.methods.contains(&Method::Head), "{}: {head}", endpoint.path);
            assert!(head.ends_with("\r\n\r\n"), "{}: a body after HEAD: {head}", endpoint.path);
            assert_eq!(status(&server.ask("PUT", endpoint.path, "")), 405, "{}", endpoint.path);
        }
        assert_eq!(status(&server.ask("GET", "/debug/pprof/nothing", "")), 404);
        let posted = server.ask("POST", "/pprof/symbol", "0x10+0x20");
        assert!(status(&posted) == 200 && posted.contains("cache-control: no-store"), "{posted}");
        let long = server.ask("POST", "/pprof/symbol", &"+".repeat((8 << 20) + 1));
        assert_eq!(status(&long), 413, "{long}");
    });
}

#[test]
fn a_capture_leaves_the_only_worker_free() {
    isolated("router::a_capture_leaves_the_only_worker_free", || {
        let server = Server::start(router(agent()));
        let mut answer = Vec::new();
        // On a busy machine other answers may be slow.
        let is_free = LONGER_AND_LONGER.into_iter().any(|seconds| {
            let head = format!("GET /debug/pprof/profile?seconds={seconds} HTTP/1.1\r\nHost: localhost");
            let mut capture = server.open(&head, "");
            for _ in 0..3 {
                assert!(server.ask("GET", "/ping", "").ends_with("pong"));
            }
            capture.set_nonblocking(true).unwrap();
            let goes_on = capture.peek(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
            capture.set_nonblocking(false).unwrap();
            answer.clear();
            capture.read_to_end(&mut answer).unwrap();
            goes_on
        });
        assert!(is_free, "an answer had to wait for the capture");
        let split = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8_lossy(&answer[..split]).into_owned();
        assert!(
            status(&head) == 200 && head.contains("content-disposition: attachment; filename=\"profile.pb.gz\""),
            "{head}"
        );
        procprof_profile::format::decode(&answer[split..], &Default::default()).unwrap();
    });
}

#[test]
fn a_client_that_leaves_ends_its_capture() {
    isolated("router::a_client_that_leaves_ends_its_capture", || {
        let server = Server::start(router(agent()));
        let ask = || server.ask("GET", "/debug/pprof/wall?seconds=1&symbolize=0", "");
        let mut first = None;
        // The first one is refused if the second one begins before it.
        wait_until("a capture that is refused", || {
            first = Some(server.open("GET /debug/pprof/wall?seconds=300 HTTP/1.1\r\nHost: localhost", ""));
            let answer = ask();
            let is_refused = status(&answer) == 409;
            assert!(!is_refused || answer.contains("by 127.0.0.1:") && answer.contains(" until 2"), "{answer}");
            is_refused
        });
        drop(first);
        let left = Instant::now();
        wait_until("the end of the capture of a client that has left", || status(&ask()) == 200);
        assert!(left.elapsed() < Duration::from_secs(250), "it goes on for a client that has left");
    });
}

#[test]
fn without_a_token_only_this_machine_is_served() {
    let server = Server::start(router(agent()));
    let with = |more: &str| server.ask_with(&format!("GET /debug/pprof/cmdline HTTP/1.1\r\n{more}"), "");
    for (headers, expected) in [
        ("Host: localhost", 200),
        ("Host: 127.0.0.1:1234", 200),
        ("Host: evil.example", 403),
        ("Host: localhost\r\nOrigin: http://evil.example", 403),
        ("Host: localhost\r\nX-Forwarded-For: 10.0.0.7", 403),
        ("Host: localhost\r\nForwarded: for=10.0.0.7", 403),
    ] {
        let answer = with(headers);
        assert_eq!(status(&answer), expected, "{headers}: {answer}");
    }
}

#[test]
fn a_server_without_clients_addresses_gets_an_error_with_the_remedy() {
    let unknown =
        Server::run(router(agent()), |listener, app| async move { axum::serve(listener, app).await.unwrap() });
    let refused = unknown.ask("GET", "/debug/pprof/", "");
    assert!(status(&refused) == 403 && refused.contains("into_make_service_with_connect_info"), "{refused}");
    let guarded =
        Server::run(open_router(agent()), |listener, app| async move { axum::serve(listener, app).await.unwrap() });
    let from_afar = "GET /debug/pprof/ HTTP/1.1\r\nHost: some.host\r\nX-Forwarded-For: 10.0.0.7";
    assert_eq!(status(&guarded.ask_with(from_afar, "")), 200);
    let token =
        Server::run(router(with_token()), |listener, app| async move { axum::serve(listener, app).await.unwrap() });
    assert_eq!(status(&token.ask_with(from_afar, "")), 401);
    assert_eq!(status(&token.ask_with(&format!("{from_afar}\r\nAuthorization: Bearer secret"), "")), 200);
}

#[test]
fn the_index_leads_to_the_endpoints_wherever_it_is_nested() {
    let server = Server::start(axum::Router::new().nest("/internal", router(agent())));
    for (page, link) in
        [("/internal/debug/pprof/", "\"../../pprof/cmdline\""), ("/internal/debug/pprof", "\"../pprof/cmdline\"")]
    {
        let page = server.ask("GET", page, "");
        assert!(status(&page) == 200 && page.contains(link), "{page}");
    }
    assert_eq!(status(&server.ask("GET", "/internal/pprof/cmdline", "")), 200);
}
