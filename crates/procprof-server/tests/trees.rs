//! Call trees over HTTP: slices, search, table and sandwich of stored profiles, of differences and of sums.

use procprof_profile::ProfileBuilder;
use procprof_profile::format::pprof::encode_gzip;
use procprof_server::Config;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{TestServer, cpu_profile, quiet};

const START: i64 = 1_700_000_000;

/// The same functions as `cpu_profile`, with other values, and one that is new.
fn slower(start_seconds: i64) -> Vec<u8> {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let frames = ["hot_70", "added", "main"].map(|name| builder.frame(name));
    builder.sample(&[frames[0], frames[2]], &[140, 1_400_000_000], &[]);
    builder.sample(&[frames[1], frames[2]], &[60, 600_000_000], &[]);
    builder.time(procprof_profile::Nanos(start_seconds * 1_000_000_000), procprof_profile::Nanos(1_000_000_000));
    encode_gzip(&builder.finish().unwrap()).unwrap()
}

async fn pushed(server: &TestServer, bytes: Vec<u8>) -> String {
    server.push("cpu", bytes).await["id"].as_str().unwrap().to_owned()
}

/// The header of a slice.
async fn header(server: &TestServer, path: &str) -> Value {
    let answer = server.get(path).await;
    assert_eq!(answer.status(), 200, "{path}: {}", answer.text().await.unwrap());
    assert_eq!(answer.headers()["content-type"], "application/vnd.procprof.tree", "{path}");
    parsed(&answer.bytes().await.unwrap())
}

fn parsed(slice: &[u8]) -> Value {
    let rest = slice.strip_prefix(b"PPT1").unwrap();
    let length = u32::from_le_bytes(*rest.first_chunk().unwrap()) as usize;
    serde_json::from_slice(&rest[4..4 + length]).unwrap()
}

async fn problem(server: &TestServer, path: &str) -> (u16, String) {
    let answer = server.get(path).await;
    let status = answer.status().as_u16();
    let problem: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    (status, problem["error"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_sliced_searched_and_tabulated() {
    let server = TestServer::start(quiet()).await;
    let id = pushed(&server, cpu_profile(START)).await;
    let at = |rest: &str| format!("/p/{id}/{rest}");
    let whole = header(&server, &at("tree")).await;
    assert_eq!(whole["whole"], json!({ "nodes": 4, "total": 1_000_000_000, "depth": 2 }));
    assert_eq!((&whole["names"], &whole["node"]), (&json!(["all", "main", "hot_30", "hot_70"]), &json!(0)));
    let part = header(&server, &at("tree?at=3&wide=100&sample_index=samples")).await;
    assert_eq!(
        (&part["names"], &part["node"], &part["whole"]["total"]),
        (&json!(["all", "main", "hot_70"]), &json!(3), &json!(100))
    );

    let found = server.json(&at("search?re=hot_[37]0%7Cmain")).await;
    assert_eq!(found, json!({ "frames": [1, 2, 3], "nodes": 3, "total": 1_000_000_000 }));
    let table = server.json(&at("table?limit=1&re=hot")).await;
    let row =
        json!({ "frame": 2, "name": "hot_70", "kind": "n", "self": 700_000_000, "total": 700_000_000, "nodes": 1 });
    assert_eq!(table, json!({ "rows": [row], "all": 2 }));
    let bytes = server.get(&at("sandwich?name=hot_70")).await.bytes().await.unwrap();
    let (length, rest) = bytes.split_first_chunk::<4>().unwrap();
    let (callers, callees) = rest.split_at(u32::from_le_bytes(*length) as usize);
    assert_eq!(parsed(callers)["names"], json!(["hot_70", "main"]));
    assert_eq!(parsed(&callees[4..])["names"], json!(["hot_70"]));
    assert_eq!(server.get(&at("sandwich?frame=2")).await.bytes().await.unwrap(), bytes);
    let side = header(&server, &at("sandwich?name=hot_70&side=callers&at=1")).await;
    assert_eq!((&side["names"], &side["node"]), (&json!(["hot_70", "main"]), &json!(1)));
    // The rows that are not sent are counted by the size of the node above.
    let first = header(&server, &at("tree?rows=1")).await;
    assert_eq!((&first["names"], &first["whole"]["nodes"]), (&json!(["all", "main"]), &json!(4)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_answered_is_a_problem_with_its_place() {
    let server = TestServer::start(quiet()).await;
    let id = pushed(&server, cpu_profile(START)).await;
    let cases = [
        ("tree?at=9", 400, "the tree has 4 nodes"),
        ("tree?wide=0", 400, "wide: expected a whole number from 1"),
        ("tree?fokus=x", 400, "did you mean \"focus\"?"),
        ("search?re=a(", 400, "unclosed group"),
        ("search", 400, "re is missing"),
        ("table?sort=size", 400, "sort: expected self, total, name, self_change or change"),
        ("sandwich", 400, "frame or name is needed"),
        ("sandwich?name=main&side=up", 400, "side: expected callers or callees"),
        ("sandwich?name=main&at=1", 400, "side is missing"),
        ("tree?rows=-1", 400, "rows: expected a whole number from 0"),
        ("sandwich?name=nothing", 400, "no node of the tree has this frame"),
        ("tree?base=0193a5c8-0000-7000-8000-000000000000", 404, "base: "),
        ("tree?base=x", 400, "base: "),
    ];
    for (path, status, why) in cases {
        let (found, message) = problem(&server, &format!("/p/{id}/{path}")).await;
        assert!(found == status && message.contains(why), "{path}: {found} {message}");
    }
    assert_eq!(server.status(Method::GET, "/p/0193a5c8-0000-7000-8000-000000000000/tree").await, 404);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_has_is_not_sent_again() {
    let server = TestServer::start(quiet()).await;
    let id = pushed(&server, cpu_profile(START)).await;
    for path in ["tree", "search?re=hot", "table", "sandwich?name=main"] {
        let path = format!("/p/{id}/{path}");
        let first = server.get(&path).await;
        let tag = first.headers()["etag"].clone();
        assert_eq!(first.headers()["cache-control"], "private, max-age=3600", "{path}");
        let again = server.request(Method::GET, &path).header("if-none-match", tag).send().await.unwrap();
        assert_eq!(again.status(), 304, "{path}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_slice_of_a_root_is_sent_as_it_was_compressed_once() {
    let server = TestServer::start(quiet()).await;
    let id = pushed(&server, cpu_profile(START)).await;
    for path in [format!("/p/{id}/tree"), format!("/p/{id}/tree?wide=2048&rows=1")] {
        let plain = server.get(&path).await.bytes().await.unwrap();
        let ask = || server.request(Method::GET, &path).header("accept-encoding", "zstd");
        let mut tags = Vec::new();
        for _ in 0..2 {
            let answer = ask().send().await.unwrap();
            let headers = answer.headers().clone();
            let found = ["content-encoding", "vary", "content-type"].map(|name| headers[name].to_str().unwrap());
            assert_eq!(found, ["zstd", "accept-encoding", "application/vnd.procprof.tree"], "{path}");
            tags.push(headers["etag"].clone());
            let packed = answer.bytes().await.unwrap();
            assert!(zstd::decode_all(&packed[..]).unwrap() == plain, "{path}");
        }
        assert_eq!(tags[0], tags[1]);
        let known = ask().header("if-none-match", &tags[0]).send().await.unwrap();
        assert_eq!((known.status().as_u16(), known.headers().get("content-encoding")), (304, None), "{path}");
        assert!(known.bytes().await.unwrap().is_empty());
    }
    let refused = server.request(Method::GET, &format!("/p/{id}/tree")).header("accept-encoding", "zstd;q=0");
    assert!(refused.send().await.unwrap().headers().get("content-encoding").is_none());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_profiles_are_compared() {
    let server = TestServer::start(quiet()).await;
    let (base, id) = (pushed(&server, cpu_profile(START)).await, pushed(&server, slower(START + 60)).await);
    let whole = header(&server, &format!("/p/{id}/tree?base={base}&normalize=true")).await;
    assert_eq!(
        whole["whole"],
        json!({ "nodes": 5, "total": 2_000_000_000_i64, "base_total": 1_000_000_000, "depth": 2 })
    );
    assert_eq!(whole["diff"], json!({ "normalized": true, "scale": 2 }));
    let table = server.json(&format!("/p/{id}/table?base={base}&sort=self_change")).await;
    let rows: Vec<_> =
        table["rows"].as_array().unwrap().iter().map(|row| [&row["name"], &row["self"], &row["base_self"]]).collect();
    let expected = [
        ("hot_70", 1_400_000_000_i64, 700_000_000),
        ("added", 600_000_000, 0),
        ("hot_30", 0, 300_000_000),
        ("main", 0, 0),
    ];
    assert_eq!(json!(rows), json!(expected));
    let table = server.json(&format!("/p/{id}/table?base={base}&sort=change")).await;
    let names: Vec<_> = table["rows"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(json!(names), json!(["main", "hot_70", "added", "hot_30"]));

    // The same for reports: what is more is positive, what is less negative.
    let collapsed = server.text(&format!("/p/{id}?format=collapsed&base={base}")).await;
    assert_eq!(collapsed, "main;added 600000000\nmain;hot_30 -300000000\nmain;hot_70 700000000\n");
    let scaled = server.text(&format!("/api/profiles/{id}/render/collapsed?base={base}&normalize=true")).await;
    assert_eq!(scaled, "main;added 600000000\nmain;hot_30 -600000000\n");
    let itself = server.text(&format!("/p/{id}?format=collapsed&base={id}")).await;
    assert_eq!(itself, "");
    let top = server.text(&format!("/p/{id}?format=top&base={base}")).await;
    assert!(top.contains("700ms 70.00%") && top.contains("hot_70"), "{top}");
    assert_eq!(problem(&server, &format!("/p/{id}?format=top&base=x")).await.0, 400);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn profiles_of_a_range_are_summed() {
    let server = TestServer::start(quiet()).await;
    let mut ids = Vec::new();
    for minute in 0..4 {
        let start = START + 60 * minute;
        ids.push(pushed(&server, if minute < 3 { cpu_profile(start) } else { slower(start) }).await);
    }
    let range = |from: i64, to: i64, more: &str| {
        format!("/merge/tree?node=procprof&type=cpu&from={}&to={}{more}", START + from, START + to)
    };
    let whole = header(&server, &range(0, 130, "")).await;
    assert_eq!(whole["whole"]["total"], json!(3_000_000_000_i64));
    let compared = header(&server, &range(180, 300, &format!("&base_from={START}&base_to={}", START + 130))).await;
    let totals = json!({ "nodes": 5, "total": 2_000_000_000_i64, "base_total": 3_000_000_000_i64, "depth": 2 });
    assert_eq!(compared["whole"], totals);
    let named = format!("/merge/tree?id={}&base_id={}&base_id={}&base_id={}", ids[3], ids[0], ids[1], ids[2]);
    assert_eq!(header(&server, &named).await["whole"], totals);
    let table = server.json(&format!("/merge/table?id={}&id={}&limit=1", ids[0], ids[1])).await;
    assert_eq!(table["rows"][0]["self"], json!(1_400_000_000_i64));

    let cases = [
        (range(1_000, 2_000, ""), 404, "no such profile"),
        (range(0, 60, "&base_from=1&base_to=2"), 404, "base: "),
        ("/merge/tree?node=procprof&type=cpu".to_owned(), 400, "from is missing"),
        ("/merge/tree?node=nobody&type=cpu&from=1&to=2".to_owned(), 400, "no node \"nobody\""),
        (format!("/merge/tree?id={}&from=1", ids[0]), 400, "id names the profiles"),
    ];
    for (path, status, why) in cases {
        let (found, message) = problem(&server, &path).await;
        assert!(found == status && message.contains(why), "{path}: {found} {message}");
    }
    server.stop().await;
}

/// The number of reports and trees made so far.
async fn made(server: &TestServer) -> u64 {
    let metrics = server.text("/metrics").await;
    let line = metrics.lines().find(|line| line.starts_with("procprof_renders_total"));
    line.and_then(|line| line.split(' ').next_back()?.parse().ok()).unwrap_or_else(|| panic!("{metrics}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_made_once_and_one_that_does_not_fit_each_time() {
    for (most, expected) in [(1 << 20, 1), (0, 3)] {
        let server = TestServer::start(Config { tree_cache_bytes_max: most, ..quiet() }).await;
        let id = pushed(&server, cpu_profile(START)).await;
        let before = made(&server).await;
        for path in ["tree", "table", "search?re=hot"] {
            assert_eq!(server.status(Method::GET, &format!("/p/{id}/{path}")).await, 200);
        }
        assert_eq!(made(&server).await - before, expected);
        // Other options are another tree.
        assert_eq!(server.status(Method::GET, &format!("/p/{id}/tree?focus=hot")).await, 200);
        assert_eq!(made(&server).await - before, expected + 1);
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_would_be_too_large_is_refused_with_the_limiting_key() {
    let server = TestServer::start(Config { render_memory_bytes_max: 64 << 10, ..quiet() }).await;
    let mut builder = ProfileBuilder::new(&[("cpu", "nanoseconds")]);
    let frame = builder.frame("again");
    builder.sample(&vec![frame; 30_000], &[1], &[]);
    let id = pushed(&server, encode_gzip(&builder.finish().unwrap()).unwrap()).await;
    let (status, why) = problem(&server, &format!("/p/{id}/tree")).await;
    assert!(
        status == 422 && why.contains("the call tree") && why.contains("render_memory_bytes_max"),
        "{status} {why}"
    );
    let collapsed = header(&server, &format!("/p/{id}/tree?collapse_recursion=true")).await;
    assert_eq!(collapsed["whole"]["nodes"], json!(2));
    server.stop().await;
}
