//! The JSON API.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{TestServer, cpu_profile, quiet};

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_filtered_and_paged() {
    let server = TestServer::start(quiet()).await;
    let mut ids = Vec::new();
    for second in 0..7 {
        let kind = if second % 2 == 0 { "cpu" } else { "heap" };
        let pushed = server.push(kind, cpu_profile(1_700_000_000 + second)).await;
        ids.push(pushed["id"].as_str().unwrap().to_owned());
    }
    ids.reverse();
    let mut seen = Vec::new();
    let mut path = "/api/profiles?limit=3".to_owned();
    loop {
        let page = server.json(&path).await;
        let rows = page["profiles"].as_array().unwrap();
        assert!(rows.len() <= 3);
        seen.extend(rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => path = format!("/api/profiles?limit=3&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ids, "every profile once, newest first");
    let count =
        async |query: &str| server.json(&format!("/api/profiles?{query}")).await["profiles"].as_array().unwrap().len();
    assert_eq!(count("type=cpu").await, 4);
    assert_eq!(count("type=cpu&type=heap&node=1").await, 7);
    assert_eq!(count("text=hot_70").await, 7);
    assert_eq!(count("label=zone%3Deu").await, 0);
    assert_eq!(count("from=2023-11-14T22:13:22Z&to=1700000005").await, 3);
    for wrong in [
        "limit=0",
        "limit=x",
        "cursor=x",
        "type=CPU!",
        "node=nobody",
        "from=yesterday",
        "label=zone",
        "unknown=1",
        "text=%FF",
    ] {
        assert_eq!(server.status(Method::GET, &format!("/api/profiles?{wrong}")).await, 400, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_shown_rendered_and_downloaded() {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let id = pushed["id"].as_str().unwrap();
    assert_eq!(pushed["top"][0], json!({ "name": "hot_70", "value": 700_000_000 }));
    assert_eq!(pushed["totals"][1], json!({ "kind": "cpu", "unit": "nanoseconds", "value": 1_000_000_000 }));
    assert_eq!(
        (pushed["trigger"].as_str(), pushed["means"].as_str()),
        (Some("push"), Some("CPU time of all threads during the capture"))
    );
    assert_eq!(server.json(&format!("/api/profiles/{id}")).await, pushed);
    let collapsed = server.text(&format!("/api/profiles/{id}/render/collapsed")).await;
    assert_eq!(collapsed, "main;hot_30 300000000\nmain;hot_70 700000000\n");
    let focused = server.text(&format!("/api/profiles/{id}/render/collapsed?focus=hot_7")).await;
    assert_eq!(focused, "main;hot_70 700000000\n");
    assert_eq!(server.status(Method::GET, &format!("/api/profiles/{id}/render/nonsense")).await, 404);
    assert_eq!(server.status(Method::GET, &format!("/api/profiles/{id}/render/top?focus=(")).await, 400);
    assert_eq!(server.status(Method::GET, "/api/profiles/nonsense").await, 400);
    assert_eq!(server.status(Method::GET, "/api/profiles/01930c5e-7d1a-7000-8000-0123456789ab").await, 404);
    let download = server.get(&format!("/api/profiles/{id}/download")).await;
    let name = pushed["file_name"].as_str().unwrap();
    assert_eq!(download.headers()["content-disposition"].to_str().unwrap(), format!("attachment; filename=\"{name}\""));
    let file = server.data.path().join("profiles/1").join(name);
    assert_eq!(download.bytes().await.unwrap(), std::fs::read(&file).unwrap());
    let read = std::process::Command::new("go").args(["tool", "pprof", "-top"]).arg(&file).output();
    let read = read.unwrap_or_else(|error| panic!("go (the Go toolchain) is needed for this test: {error}"));
    assert!(String::from_utf8_lossy(&read.stdout).contains("hot_70"), "{}", String::from_utf8_lossy(&read.stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_of_one_report_get_the_same() {
    let server = TestServer::start(quiet()).await;
    let id = server.push("cpu", cpu_profile(1_700_000_000)).await["id"].as_str().unwrap().to_owned();
    let path = format!("/api/profiles/{id}/render/flamegraph");
    let answers = futures_util::future::join_all((0..40).map(|_| server.get(&path))).await;
    let mut bodies = BTreeSet::new();
    for answer in answers {
        assert_eq!(answer.status(), 200);
        bodies.insert(answer.text().await.unwrap());
    }
    assert_eq!(bodies.len(), 1);
    let made = server.text("/metrics").await;
    assert!(made.contains("procprof_renders_total 1\n"), "{made}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pushes_are_bounded_and_checked() {
    let mut config = quiet();
    config.profile_bytes_max = 1000;
    let server = TestServer::start(config).await;
    let push = async |body: Vec<u8>, query: &str| {
        let response = server.request(Method::POST, &format!("/api/push?{query}")).body(body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    assert_eq!(push(vec![0; 2000], "node=procprof").await.0, 413);
    assert_eq!(push(b"<html>no</html>".to_vec(), "node=procprof").await.0, 422);
    assert_eq!(push(Vec::new(), "node=procprof").await.0, 422);
    assert_eq!(push(cpu_profile(1), "node=nobody").await.0, 400);
    assert_eq!(push(cpu_profile(1), "").await.0, 400);
    let (status, text) = push(cpu_profile(1_700_000_000), "node=procprof").await;
    assert_eq!((status, text.contains("\"type\":\"cpu\"")), (201, true), "{text}");
    assert_eq!(server.json("/api/profiles").await["profiles"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses_and_counts() {
    let mut config = quiet();
    config.ingest_bytes_in_flight_max = 10;
    let server = TestServer::start(config).await;
    let response = server.request(Method::POST, "/api/push?node=procprof").body(cpu_profile(1)).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (429, "5"));
    assert!(server.text("/metrics").await.contains("procprof_refused_total{reason=\"bytes_in_flight\"} 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_and_the_server_agree() {
    let server = TestServer::start(quiet()).await;
    let document = server.json("/api/openapi.json").await;
    assert_eq!(document["openapi"], "3.1.0");
    let mut operations = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let filled = path
            .replace("{id}", "01930c5e-7d1a-7000-8000-0123456789ab")
            .replace("{report}", "top")
            .replace("{action}", "list");
        let filled = filled.replace("{node}", "1").replace("{file}", "none.css").replace("{endpoint}", "symbol");
        for (method, operation) in item.as_object().unwrap() {
            assert!(
                operations.insert(operation["operationId"].as_str().unwrap().to_owned()),
                "{path}: operationId twice"
            );
            for name in path.split(['{', '}']).skip(1).step_by(2) {
                let known = operation["parameters"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|param| param["name"] == name && param["in"] == "path");
                assert!(known, "{path}: {name} is not among the parameters");
            }
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let response = server.request(method.clone(), &filled).send().await.unwrap();
            let status = response.status().as_u16();
            let text = response.text().await.unwrap();
            // Without arguments some are refused; a path without a route is refused in these words.
            assert!(status != 405 && !text.contains("there is nothing here"), "{method} {path}: {status}");
        }
        let other = server.request(Method::PATCH, &filled).send().await.unwrap();
        assert_eq!(other.status(), 405, "PATCH {path}");
    }
    let text = document.to_string();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(!document["components"]["schemas"][name].is_null(), "schema {name} is missing");
    }
    let missing = server.get("/api/nonsense").await;
    let why = "there is nothing here";
    let wanted = json!({ "code": "not_found", "detail": why, "error": why, "status": 404, "title": "Not Found" });
    let status = missing.status().as_u16();
    assert_eq!((status, serde_json::from_str(&missing.text().await.unwrap()).unwrap()), (404, wanted));
}

/// Whether a value has the shape of a schema: every key declared, every declared key present, every type as declared.
pub(crate) fn agree(schemas: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/components/schemas/")) {
        return agree(schemas, &schemas[name], value, &format!("{place} ({name})"));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        assert!(choices.iter().any(|choice| choice["const"] == *value), "{place}: {value} is none of {choices:?}");
        return;
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        if !value.is_null() {
            agree(schemas, &choices[0], value, place);
        }
        return;
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let declared = &schema["type"];
    assert!(
        *declared == kind || declared.as_array().is_some_and(|kinds| kinds.contains(&kind.into())),
        "{place}: {declared} is {value}"
    );
    for item in value.as_array().into_iter().flatten() {
        agree(schemas, &schema["items"], item, place);
    }
    if let Some(minimum) = schema["minimum"].as_i64() {
        assert!(value.as_f64().is_none_or(|value| value >= minimum as f64), "{place}: {value} is less than {minimum}");
    }
    let (Some(fields), Some(declared)) = (value.as_object(), schema["properties"].as_object()) else { return };
    let undeclared: Vec<&String> = fields.keys().filter(|key| !declared.contains_key(*key)).collect();
    assert!(undeclared.is_empty(), "{place}: {undeclared:?} is not declared");
    let required = schema["required"].as_array();
    for (key, schema) in declared {
        match fields.get(key) {
            Some(field) => agree(schemas, schema, field, &format!("{place}.{key}")),
            None => assert!(
                !required.is_some_and(|required| required.contains(&key.as_str().into())),
                "{place} has no {key}: {value}"
            ),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_have_the_fields_the_document_names_and_no_others() {
    let config = "self_interval_seconds = 3600\n[[node]]\nname = \"away\"\nhttp = \"127.0.0.1:1\"\nschedule.cpu = { seconds = 1, every = 1 }";
    let server = TestServer::start(crate::harness::parsed(config)).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    server.error("away").await;
    let document = server.json("/api/openapi.json").await;
    let (_, job) = server.post("/api/captures", json!({ "node": 1, "type": "cpu", "seconds": 1 })).await;
    let (_, failed) = server.post("/api/captures", json!({ "node": "away", "type": "cpu", "seconds": 2 })).await;
    server.ended(failed["id"].as_str().unwrap()).await;
    let open = server.request(Method::POST, "/open").header("content-type", "application/octet-stream");
    let opened = open.body(cpu_profile(1_700_000_000)).send().await.unwrap();
    let opened = opened.headers()["location"].to_str().unwrap();
    let (id, job) = (pushed["id"].as_str().unwrap(), job["id"].as_str().unwrap());
    let mut checked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let schema = &item["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        let parameters = item["get"]["parameters"].as_array().into_iter().flatten();
        // The heap profiler answers through its node, which is away here; `heap` has one that is there.
        let is_remote = path == "/api/nodes/{node}/heap";
        if schema.is_null()
            || is_remote
            || parameters.filter(|param| param["in"] == "query").any(|param| param["required"] == true)
        {
            continue;
        }
        let filled =
            if path.starts_with("/api/captures") { path.replace("{id}", job) } else { path.replace("{id}", id) };
        let filled = filled.replace("{node}", "away").replace("{action}", "list").replace("{report}", "json");
        let filled = filled.replace("/open/{token}", opened);
        // A sum needs profiles, by range or by id.
        let query = if path.starts_with("/merge/") { format!("?id={id}") } else { String::new() };
        let answer = server.json(&format!("{filled}{query}")).await;
        agree(&document["components"]["schemas"], schema, &answer, path);
        checked += 1;
    }
    assert_eq!(checked, 18, "answers in JSON");
    let pushed_as = json!({ "$ref": "#/components/schemas/Profile" });
    agree(&document["components"]["schemas"], &pushed_as, &pushed, "POST /api/push");
    let missing: Value = serde_json::from_str(&server.text("/api/profiles/nonsense").await).unwrap();
    agree(&document["components"]["schemas"], &json!({ "$ref": "#/components/schemas/Problem" }), &missing, "an error");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_compressed_and_sent_once() {
    let server = TestServer::start(quiet()).await;
    for second in 0..20 {
        server.push("cpu", cpu_profile(1_700_000_000 + second)).await;
    }
    let get = async |path: &str, header: &str, value: &str| {
        server.request(Method::GET, path).header(header, value).send().await.unwrap()
    };
    let plain = server.get("/api/profiles").await;
    let tag = plain.headers()["etag"].to_str().unwrap().to_owned();
    let whole = plain.bytes().await.unwrap();
    let packed = get("/api/profiles", "accept-encoding", "br, gzip").await;
    assert_eq!(
        (packed.headers()["content-encoding"].to_str().unwrap(), packed.headers()["etag"].to_str().unwrap()),
        ("gzip", tag.as_str())
    );
    assert_eq!(
        (packed.headers()["vary"].as_bytes(), packed.headers()["cache-control"].as_bytes()),
        (&b"accept-encoding"[..], &b"private, no-cache"[..])
    );
    let packed = packed.bytes().await.unwrap();
    assert!(packed.len() * 2 < whole.len(), "{} of {}", packed.len(), whole.len());
    let mut unpacked = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(packed.as_ref()), &mut unpacked).unwrap();
    assert_eq!(unpacked, whole);

    let again = get("/api/profiles", "if-none-match", &format!("\"x\", {tag}")).await;
    assert_eq!((again.status().as_u16(), again.bytes().await.unwrap().len()), (304, 0));
    let pushed = server.push("cpu", cpu_profile(1_700_000_100)).await;
    assert_eq!(get("/api/profiles", "if-none-match", &tag).await.status(), 200, "another list");

    let path = format!("/api/profiles/{}/render", pushed["id"].as_str().unwrap());
    for (report, cached) in [("top", "private, max-age=3600"), ("list", "no-store"), ("weblist", "no-store")] {
        let answer = server.get(&format!("{path}/{report}{}", if report == "top" { "" } else { "?symbol=hot" })).await;
        assert_eq!(answer.status(), 200, "{report}");
        assert_eq!(answer.headers()["cache-control"].to_str().unwrap(), cached, "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_problem_documents_and_created_objects_have_a_location() {
    let server = TestServer::start(quiet()).await;
    for (path, status, code) in [
        ("/api/nonsense", 404, "not_found"),
        ("/api/proc_profile/nonsense", 404, "unsupported_action"),
        ("/api/profiles?limit=0", 400, "bad_request"),
        ("/api/profiles/01930c5e-7d1a-7000-8000-0123456789ab", 404, "not_found"),
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.headers()["content-type"].to_str().unwrap(), "application/problem+json", "{path}");
        let problem: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert_eq!((problem["status"].as_u64(), problem["code"].as_str()), (Some(status), Some(code)), "{problem}");
        assert_eq!(problem["detail"], problem["error"]);
    }
    let push =
        server.request(Method::POST, "/api/push?node=procprof").body(cpu_profile(1_700_000_000)).send().await.unwrap();
    let place = push.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(server.json(&place).await["type"], "cpu");
    let wanted = json!({ "node": 1, "type": "cpu", "seconds": 1 }).to_string();
    let started = server.request(Method::POST, "/api/captures").body(wanted).send().await.unwrap();
    assert_eq!(started.status(), 202);
    let place = started.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!(server.json(&place).await["type"], "cpu");
}

/// The figures after an ordinary minute: pushes, a failing node, one that answers.
#[tokio::test(flavor = "multi_thread")]
async fn promtool_accepts_the_metrics() {
    let config = "proc_profile_cpu_enable = false\n[[node]]\nname = \"away \\\"x\\\"\"\nkind = \"pprof\"\nurls = { heap = \"http://127.0.0.1:1/heap\" }\nschedule.heap = { every = 1 }";
    let server = TestServer::start(crate::harness::parsed(config)).await;
    server.push("cpu", cpu_profile(1_700_000_000)).await;
    let (_, job) = server.post("/api/captures", json!({ "node": 1, "type": "cpu", "seconds": 1 })).await;
    server.ended(job["id"].as_str().unwrap()).await;
    server.error("away%20%22x%22").await;
    let answer = server.get("/metrics").await;
    assert_eq!(answer.headers()["content-type"].to_str().unwrap(), "text/plain; version=0.0.4; charset=utf-8");
    let text = answer.text().await.unwrap();
    for wanted in [
        "# TYPE procprof_cpu_seconds_total counter",
        "procprof_node_up{node=\"away \\\"x\\\"\"} 0",
        "procprof_node_up{node=\"procprof\"} 1",
        "procprof_last_success_timestamp_seconds{node=\"procprof\",type=\"cpu\"} 1",
        "procprof_sql_connections 0",
    ] {
        assert!(text.contains(wanted), "{wanted} is not in\n{text}");
    }
    let build = format!(
        "procprof_build_info{{version=\"{}\",architecture=\"{}\"}} 1",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH
    );
    assert!(text.contains(&build), "{text}");
    let mut promtool = std::process::Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("promtool (of Prometheus) is needed for this test: {error}"));
    std::io::Write::write_all(&mut promtool.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output_text.trim().is_empty(), "{output_text}\n{text}");
    let open = server
        .request(Method::GET, "/metrics")
        .header("accept", "application/openmetrics-text; version=1.0.0")
        .send()
        .await
        .unwrap();
    assert!(open.headers()["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    assert!(open.text().await.unwrap().ends_with("# EOF\n"));
}
