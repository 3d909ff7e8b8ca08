//! Limits on what a report of a hostile profile takes from the server, and from other readers.

use std::time::Duration;

use procprof_profile::format::pprof::encode_gzip;
use procprof_profile::{Addr, Function, Line, Location, ProfileBuilder};
use procprof_server::Config;
use serde_json::Value;

use crate::harness::{TestServer, cpu_profile, quiet, until};
use crate::mysql_select;

/// A few hundred bytes whose collapsed line is 130 MB.
fn recursion() -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let frame = builder.frame(&"n".repeat(2_000));
    builder.sample(&vec![frame; 65_000], &[1], &[]);
    encode_gzip(&builder.finish().unwrap()).unwrap()
}

/// One location of inlined functions in many samples: a call tree of 200 million nodes from a few kilobytes.
fn inlined() -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let mut line = |index: usize| {
        let name = builder.intern(&format!("f{index}"));
        Line { function: builder.function(Function { name, ..Function::default() }), line: 1, column: 0 }
    };
    let lines: Vec<Line> = (0..20_000).map(&mut line).collect();
    let inlined = builder.location(Location::new(None, Addr(1)), &lines);
    let root = builder.frame("root");
    for _ in 0..10_000 {
        builder.sample(&[inlined, root], &[1], &[]);
    }
    encode_gzip(&builder.finish().unwrap()).unwrap()
}

async fn pushed(server: &TestServer, bytes: Vec<u8>) -> String {
    server.push("cpu", bytes).await["id"].as_str().unwrap().to_owned()
}

async fn rendered(server: &TestServer, id: &str, report: &str) -> (u16, Value) {
    let answer = server.get(&format!("/api/profiles/{id}/render/{report}")).await;
    let status = answer.status().as_u16();
    (status, serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_would_be_too_large_is_refused_with_the_limiting_key() {
    let config = Config { render_bytes_max: 1 << 20, render_memory_bytes_max: 1 << 20, ..quiet() };
    let server = mysql_select::start(config).await;
    let id = pushed(&server, recursion()).await;
    let (status, problem) = rendered(&server, &id, "collapsed").await;
    let message = "the report has more than 1048576 bytes, which is the limit; narrow it by focus, ignore or show (render_bytes_max)";
    assert_eq!(
        (status, problem["code"].as_str(), problem["error"].as_str()),
        (422, Some("report_too_large"), Some(message))
    );
    let (status, problem) = rendered(&server, &id, "json").await;
    assert!(status == 422 && problem["error"].as_str().unwrap().contains("the call tree"), "{problem}");
    assert_eq!(rendered(&server, &id, "top").await.0, 200);
    let refused = mysql_select::refusal(&server, &format!("SELECT COUNT(*) FROM stacks('{id}')")).await;
    assert!(refused.contains("render_bytes_max"), "{refused}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_takes_too_long_is_stopped() {
    let config = Config { render_seconds_max: 1, render_memory_bytes_max: 1 << 40, ..quiet() };
    let server = TestServer::start(config).await;
    let (slow, small) = (pushed(&server, inlined()).await, pushed(&server, cpu_profile(1_700_000_000)).await);
    let (status, problem) = rendered(&server, &slow, "tree").await;
    assert_eq!((status, problem["code"].as_str()), (503, Some("render_stopped")), "{problem}");
    // On a busy machine a second may be too short for that, too.
    until("a report", async || (rendered(&server, &small, "tree").await.0 == 200).then_some(())).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_reader_leaves_a_slot_to_others_and_the_server_stops_all_the_same() {
    let users = tempfile::NamedTempFile::new().unwrap();
    for name in ["vic", "olga"] {
        let methods = procprof_server::auth::Methods::Modern;
        procprof_server::auth::add_user(
            users.path(),
            name,
            procprof_server::auth::UserRole::Operator,
            "a-long-password",
            methods,
        )
        .unwrap();
    }
    let config = Config {
        render_concurrency_max: 2,
        render_seconds_max: 600,
        render_memory_bytes_max: 1 << 40,
        users_file: Some(users.path().to_owned()),
        ..quiet()
    };
    let mut server = TestServer::start(config).await;
    let as_user = |name: &str| Some((name.to_owned(), "a-long-password".to_owned()));
    server.credentials = as_user("olga");
    let (slow, small) = (pushed(&server, inlined()).await, pushed(&server, cpu_profile(1_700_000_000)).await);
    for focus in 0..33 {
        let request = server.request(reqwest::Method::GET, &format!("/api/profiles/{slow}/render/tree?focus=f{focus}"));
        tokio::spawn(request.timeout(Duration::from_secs(600)).send());
    }
    // Once 32 are under way, the most for one user, one renders, and the others wait for the same user's slot.
    until("one too many is refused", async || {
        server.text("/metrics").await.contains("procprof_refused_total{reason=\"renders\"} 1").then_some(())
    })
    .await;
    let small_of = |name: &str| {
        let request = server.client.get(server.url(&format!("/api/profiles/{small}/render/top?focus={name}")));
        let (name, password) = as_user(name).unwrap();
        request.basic_auth(name, Some(password)).timeout(Duration::from_secs(300)).send()
    };
    assert_eq!(small_of("vic").await.unwrap().status(), 200);
    server.credentials = None;
    server.stop().await;
}
