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
    let count = async |query: &str| server.json(&format!("/api/profiles?{query}")).await["profiles"].as_array().unwrap().len();
    assert_eq!(count("type=cpu").await, 4);
    assert_eq!(count("type=cpu&type=heap&node=1").await, 7);
    assert_eq!(count("text=hot_70").await, 7);
    assert_eq!(count("label=zone%3Deu").await, 0);
    assert_eq!(count("from=2023-11-14T22:13:22Z&to=1700000005").await, 3);
    for wrong in ["limit=0", "limit=x", "cursor=x", "type=CPU!", "node=nobody", "from=yesterday", "label=zone", "unknown=1", "text=%FF"] {
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
    assert_eq!((pushed["trigger"].as_str(), pushed["means"].as_str()), (Some("push"), Some("CPU time of all threads during the capture")));
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
        let filled = path.replace("{id}", "01930c5e-7d1a-7000-8000-0123456789ab").replace("{report}", "top").replace("{action}", "list");
        let filled = filled.replace("{node}", "1").replace("{file}", "none.css").replace("{endpoint}", "symbol");
        for (method, operation) in item.as_object().unwrap() {
            assert!(operations.insert(operation["operationId"].as_str().unwrap().to_owned()), "{path}: operationId twice");
            for name in path.split(['{', '}']).skip(1).step_by(2) {
                let known = operation["parameters"].as_array().unwrap().iter().any(|param| param["name"] == name && param["in"] == "path");
                assert!(known, "{path}: {name} is not among the parameters");
            }
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let response = server.request(method.clone(), &filled).send().await.unwrap();
            let status = response.status().as_u16();
            let text = response.text().await.unwrap();
            // Without arguments some are refused; what is not there at all says so in these words.
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
    assert_eq!(
        (missing.status().as_u16(), missing.text().await.unwrap()),
        (404, r#"{"code":"not_found","error":"there is nothing here"}"#.to_owned())
    );
}

/// Whether a value has the shape of a schema: every key declared, every declared key there, every type as said.
pub(crate) fn agree(schemas: &Value, schema: &Value, value: &Value, place: &str) {
    if let Some(name) = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/components/schemas/")) {
        return agree(schemas, &schemas[name], value, &format!("{place} ({name})"));
    }
    if let Some(choices) = schema["oneOf"].as_array() {
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
    let said = &schema["type"];
    assert!(*said == kind || said.as_array().is_some_and(|kinds| kinds.contains(&kind.into())), "{place}: {said} is {value}");
    for item in value.as_array().into_iter().flatten() {
        agree(schemas, &schema["items"], item, place);
    }
    let (Some(fields), Some(declared)) = (value.as_object(), schema["properties"].as_object()) else { return };
    let undeclared: Vec<&String> = fields.keys().filter(|key| !declared.contains_key(*key)).collect();
    assert!(undeclared.is_empty(), "{place}: {undeclared:?} is not declared");
    for (key, schema) in declared {
        agree(schemas, schema, fields.get(key).unwrap_or_else(|| panic!("{place} has no {key}: {value}")), &format!("{place}.{key}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_have_the_fields_the_document_names_and_no_others() {
    let config =
        "self_interval_seconds = 3600\n[[node]]\nname = \"away\"\nhttp = \"127.0.0.1:1\"\nschedule.cpu = { seconds = 1, every = 1 }";
    let server = TestServer::start(crate::harness::parsed(config)).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    server.error("away", std::time::Duration::from_secs(20)).await;
    let document = server.json("/api/openapi.json").await;
    let (_, job) = server.post("/api/captures", json!({ "node": 1, "type": "cpu", "seconds": 1 })).await;
    let (_, failed) = server.post("/api/captures", json!({ "node": "away", "type": "cpu", "seconds": 2 })).await;
    server.ended(failed["id"].as_str().unwrap()).await;
    let (id, job) = (pushed["id"].as_str().unwrap(), job["id"].as_str().unwrap());
    let mut checked = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        let schema = &item["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        if schema.is_null() {
            continue;
        }
        let filled = if path.starts_with("/api/captures") { path.replace("{id}", job) } else { path.replace("{id}", id) };
        let answer = server.json(&filled.replace("{node}", "away").replace("{action}", "list")).await;
        agree(&document["components"]["schemas"], schema, &answer, path);
        checked += 1;
    }
    assert_eq!(checked, 11, "answers in JSON");
    let pushed_as = json!({ "$ref": "#/components/schemas/Profile" });
    agree(&document["components"]["schemas"], &pushed_as, &pushed, "POST /api/push");
    let missing: Value = serde_json::from_str(&server.text("/api/profiles/nonsense").await).unwrap();
    agree(&document["components"]["schemas"], &json!({ "$ref": "#/components/schemas/Error" }), &missing, "an error");
}
