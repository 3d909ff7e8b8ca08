//! Hosts, credentials, parameters and the route table.

use std::net::SocketAddr;

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::guard::{credentials, known_host};
use super::listen::{Limits, serve};
use super::openapi::openapi_path;
use super::params::{Params, encode};
use super::route::Route;
use super::routes::ROUTES;

/// Longest wait for anything that must happen.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long clients may rest: no busy machine keeps one that reads or sends from it for so long.
const STALLED: Duration = Duration::from_secs(8);

/// A listener whose clients may rest for [`STALLED`]; its stop.
async fn impatient(router: Router) -> (SocketAddr, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
    let limits = Limits { connections: 10, header: PATIENCE, stalled: STALLED, drain: Duration::from_millis(100) };
    tokio::spawn(serve(listener, router, None, limits, stop.clone()));
    (address, stop)
}

/// The bytes until the server closes the connection.
async fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Closed with something unread, it ends in an error.
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("it is closed");
    bytes
}

#[tokio::test]
async fn clients_that_neither_read_nor_send_are_given_up_and_slow_work_is_not() {
    const LARGE: usize = 64 << 20;
    let large = Bytes::from(vec![b'x'; LARGE]);
    let (own, slow) = (large.clone(), async || {
        tokio::time::sleep(STALLED + Duration::from_secs(2)).await;
        "done"
    });
    let router = Router::new()
        .route("/large", get(async move || large))
        .route("/slow", get(slow))
        .route("/body", post(async |body: Bytes| body.len().to_string()));
    let (address, stop) = impatient(router).await;
    let ask = async |request: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    };
    let deaf = ask("GET /large HTTP/1.1\r\nHost: x\r\n\r\n").await;
    // All readers share the answer's bytes: none but the route and this test are left when the connection is gone.
    let gone = async {
        while !own.is_unique() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let half = ask("POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf").await;
    let slow = ask("GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    let whole = rest(ask("GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await).await;
    assert!(whole.len() > LARGE && whole.starts_with(b"HTTP/1.1 200") && whole.ends_with(b"xxxx"));
    let (half, slow) = tokio::join!(rest(half), rest(slow));
    assert!(half.is_empty(), "{}", String::from_utf8_lossy(&half));
    assert!(slow.ends_with(b"done"));
    let cut = rest(deaf).await;
    assert!(cut.len() < LARGE, "{} bytes", cut.len());
    stop.cancel();
    tokio::time::timeout(PATIENCE, gone).await.expect("nothing holds the answer");
}

#[test]
fn hosts_are_names_that_only_this_server_can_have() {
    let check = |bound: &str, name: &str, wanted: bool| {
        let bound: SocketAddr = bound.parse().unwrap();
        assert_eq!(known_host(name, bound, &["profiles.example".to_owned()], "box-7"), wanted, "{name} at {bound}");
    };
    let loopback = "127.0.0.1:8030";
    for name in ["localhost", "127.0.0.1", "::1", "127.8.9.1", "Profiles.Example", "me.localhost"] {
        check(loopback, name, true);
    }
    for name in ["", "evil.example", "192.0.2.7", "0.0.0.0", "box-7", "localhost.evil.example", "127.0.0.1.nip.example"]
    {
        check(loopback, name, false);
    }
    check("0.0.0.0:8030", "192.0.2.7", true);
    check("0.0.0.0:8030", "box-7", true);
    check("0.0.0.0:8030", "evil.example", false);
    check("192.0.2.7:8030", "192.0.2.7", true);
    check("192.0.2.7:8030", "192.0.2.8", false);
}

#[test]
fn credentials_are_read_from_both_schemes() {
    let check = |value: &str, wanted: Option<(&str, &str)>| {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        let found = credentials(&headers);
        assert_eq!(found.as_ref().map(|found| (found.name.as_str(), found.password.as_str())), wanted, "{value}");
    };
    check("Basic YW5uOmE6Yg==", Some(("ann", "a:b")));
    check("basic YW5uOg==", Some(("ann", "")));
    check("Bearer ann.a.b", Some(("ann", "a.b")));
    for wrong in ["", "Basic", "Basic !!", "Basic YW5u", "Bearer ann", "Digest a.b"] {
        check(wrong, None);
    }
}

#[test]
fn parameters_are_decoded_strictly() {
    let params = Params::parse("a=1+2&b=%41%c3%a4&a=3&empty=&flag").unwrap();
    assert_eq!(
        (params.get("a"), params.get("b"), params.get("empty"), params.get("flag")),
        (Some("1 2"), Some("Aä"), None, None)
    );
    assert_eq!(params.all("a").collect::<Vec<_>>(), ["1 2", "3"]);
    for wrong in ["a=%", "a=%4", "a=%zz", "a=%ff", "a=%+1"] {
        assert!(Params::parse(wrong).is_err(), "{wrong}");
    }
    assert!(Params::parse(&"a=1&".repeat(101)).is_err());
    let told = |known: &[&str]| Params::parse("title=x").unwrap().only(known).err().unwrap().message;
    assert_eq!(told(&[]), "unknown parameter \"title\"; there are none here");
    assert_eq!(told(&["node", "type"]), "unknown parameter \"title\"; known are node, type");
    let text = "a b&c=ä/\"<";
    assert_eq!(Params::parse(&format!("x={}", encode(text))).unwrap().get("x"), Some(text));
}

#[test]
fn the_document_names_the_refusals_of_the_agent_and_empty_texts() {
    let document = super::openapi_document();
    let missing = |path: &str| &document["paths"][path]["get"]["responses"]["404"]["content"];
    assert!(missing("/debug/pprof/{endpoint}")["text/plain"].is_object());
    assert!(missing("/api/profiles/{id}")["text/plain"].is_null());
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["CaptureRequest"]["properties"]["type"]["minLength"], 1);
}

#[test]
fn every_route_is_in_the_document_under_a_name_of_its_own() {
    let document = super::openapi_document();
    let mut names: Vec<&str> = ROUTES.iter().map(|route| route.name).collect();
    let is_documented = |route: &&Route| route.path == "/" || !route.path.ends_with('/');
    let (documented, led_on): (Vec<&Route>, Vec<&Route>) = ROUTES.iter().partition(is_documented);
    for route in led_on {
        let without = route.path.trim_end_matches('/');
        assert!(documented.iter().any(|other| other.path == without), "{}", route.path);
    }
    for route in &documented {
        let operation = &document["paths"][openapi_path(route.path)][route.verb.name()];
        assert_eq!(operation["operationId"], route.name, "{}", route.path);
    }
    let count: usize =
        document["paths"].as_object().unwrap().values().map(|item| item.as_object().unwrap().len()).sum();
    assert_eq!(count, documented.len());
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ROUTES.len());
}
