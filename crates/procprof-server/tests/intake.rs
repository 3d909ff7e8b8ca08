//! Profiles that are hostile or large on their way in.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use procprof_profile::ProfileBuilder;
use procprof_profile::format::pprof::{encode, encode_gzip};
use procprof_server::{ChildProgram, Config, Server};
use reqwest::Method;
use serde_json::Value;

use crate::harness::{TestServer, cpu_profile, options, quiet};

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A symbolized profile that unpacks to about 3 MiB.
fn large_profile() -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    for number in 0..20_000 {
        let frame = builder.frame(&format!("function_{number}_{}", "x".repeat(100)));
        builder.sample(&[frame], &[1, 1_000_000], &[]);
    }
    let hot = builder.frame("hot");
    builder.sample(&[hot], &[1, 20_000_000_000], &[]);
    encode_gzip(&builder.finish().unwrap()).unwrap()
}

async fn push(server: &TestServer, bytes: Vec<u8>) -> (u16, Value) {
    let response = server.request(Method::POST, "/api/push?node=procprof&type=cpu").body(bytes).send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap())
}

/// A server whose child is another program.
async fn with_child(config: Config, program: &str) -> TestServer {
    let data = tempfile::tempdir().unwrap();
    let mut options = options(config, data.path().to_owned());
    options.symbolize_child = ChildProgram { program: program.into(), arguments: Vec::new() };
    TestServer::around(Server::start(options).await.unwrap(), data)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_unpacks_beyond_the_limit_is_refused_by_its_size() {
    let mut config = quiet();
    config.profile_bytes_max = 1 << 20;
    let server = TestServer::start(config).await;
    let bomb = packed(&vec![0; 16 << 20]);
    assert!(bomb.len() < 64 << 10);
    let (status, problem) = push(&server, bomb).await;
    assert_eq!((status, problem["code"].as_str()), (413, Some("too_large")), "{problem}");
    assert!(problem["error"].as_str().unwrap().contains("unpacks to more than 4194304 bytes"), "{problem}");
    let (status, problem) = push(&server, vec![b'x'; (1 << 20) + 1]).await;
    assert_eq!((status, problem["code"].as_str()), (413, Some("too_large")), "{problem}");
    assert_eq!(push(&server, cpu_profile(1_700_000_000)).await.0, 201, "the room is free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_profile_is_decoded_in_the_child() {
    let server = TestServer::start(quiet()).await;
    let (status, profile) = push(&server, large_profile()).await;
    assert_eq!((status, profile["samples"].as_u64()), (201, Some(20_001)), "{profile}");
    assert_eq!(profile["totals"][1]["value"].as_i64(), Some(40_000_000_000));
    let top = server.text(&format!("/api/profiles/{}/render/top", profile["id"].as_str().unwrap())).await;
    assert!(top.contains("hot"), "{top}");

    let mut config = quiet();
    config.symbolize = false;
    let without = with_child(config, "false").await;
    let (status, problem) = push(&without, large_profile()).await;
    assert_eq!((status, problem["code"].as_str()), (422, Some("not_decoded")), "{problem}");
    assert_eq!(push(&without, cpu_profile(1_700_000_000)).await.0, 201, "what is small needs no child");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_needs_too_much_memory_costs_a_child_and_nothing_else() {
    let mut config = quiet();
    config.symbolize_memory_bytes_max = 64 << 20;
    let server = TestServer::start(config).await;
    let mut builder = ProfileBuilder::new(&[("samples", "count")]);
    let frame = builder.frame("a");
    builder.sample(&[frame], &[1], &[]);
    let mut hostile = encode(&builder.finish().unwrap()).unwrap();
    // Empty strings: two bytes each, and more in memory.
    hostile.extend([0x32, 0].repeat(32 << 20));
    let (status, problem) = push(&server, packed(&hostile)).await;
    assert_eq!((status, problem["code"].as_str()), (422, Some("not_decoded")), "{problem}");
    let limit = "needs more than symbolize_memory_bytes_max = 64 MiB";
    assert!(problem["error"].as_str().unwrap().contains(limit), "{problem}");
    assert_eq!(push(&server, cpu_profile(1_700_000_000)).await.0, 201);
    assert_eq!(server.json("/api/profiles").await["profiles"].as_array().unwrap().len(), 1);
}
