//! A profile all of whose texts are markup is shown as its twin with plain texts is: the same elements, the same shape.

use procprof_profile::format::pprof::encode_gzip;
use procprof_profile::{
    Addr, Addresses, FileOffset, Function, FunctionId, Label, LabelValue, Line, Location, LocationId, Mapping,
    MappingId, Nanos, Parts, Profile, Sampling, StringTable, ValueType,
};
use procprof_report::REPORTS;
use procprof_server::protocol::{Heartbeat, HostFacts, OfferedType, ServiceFacts};
use serde_json::Value;

use crate::harness::{TestServer, quiet};
use crate::hosts::{agent, frame};

/// Ends whatever it may stand in, and begins a form that acts on a click.
const MARKUP: &str = "</title></rect></a></svg></script></style>]]>--><form action=/proc_profile/pause>\
                      <button id=evil name=paused value=yes>&amp;\"'\u{202e}";
/// Moment of the profiles, in seconds since 1970.
const START: i64 = 1_700_000_000;

/// A profile with every text that one may have. All parts are written out, so that a new one has to be added here.
fn profile(text: &dyn Fn(&str) -> String) -> Profile {
    let mut strings = StringTable::default();
    let mut string = |name: &str| strings.push(&text(name)).unwrap();
    let value_type = |kind, unit| ValueType { kind, unit };
    let kinds = [value_type(string("samples"), string("count")), value_type(string("cpu"), string("widgets"))];
    let line = |at: u32| Line { function: FunctionId(at), line: i64::from(at) + 7, column: 3 };
    let mut parts = Parts {
        sample_types: kinds.to_vec(),
        default_sample_type: kinds[1].kind,
        values: vec![3, 30, 5, 50],
        raw_values: Vec::new(),
        stacks: vec![LocationId(0), LocationId(1), LocationId(1)],
        stack_ends: vec![2, 3],
        labels: vec![
            Label { key: string("thread"), value: LabelValue::Text(string("worker")) },
            Label { key: string("size"), value: LabelValue::Number(4096, string("pages")) },
        ],
        label_ends: vec![2, 2],
        mappings: vec![Mapping {
            start: Addr(0x1000),
            limit: Addr(0x9000),
            file_offset: FileOffset(0),
            filename: string("/srv/program"),
            build_id: string("c0ffee"),
            has_functions: true,
            has_filenames: true,
            has_line_numbers: true,
            has_inline_frames: true,
        }],
        locations: Vec::new(),
        lines: Vec::new(),
        functions: ["leaf", "main"]
            .map(|name| Function {
                name: string(name),
                system_name: string(&format!("_Z{name}")),
                filename: string(&format!("/src/{name}.cc")),
                start_line: 5,
            })
            .to_vec(),
        // Expressions have a grammar, so that other texts are refused or match nothing.
        drop_frames: string("nothing"),
        keep_frames: string("all"),
        time: Nanos(START * 1_000_000_000),
        duration: Nanos(1_000_000_000),
        period_type: value_type(string("cpu"), string("widgets")),
        period: 10,
        comments: vec![string("a comment")],
        doc_url: string("https://example.org/doc"),
        sampling: Sampling::default(),
        addresses: Addresses::default(),
        captured: Addresses::default(),
        strings: StringTable::default(),
    };
    for at in 0..2 {
        let location = Location::new(Some(MappingId(0)), Addr(0x1100 + 0x100 * u64::from(at)));
        parts.push_location(location, &[line(at)]).unwrap();
    }
    parts.strings = strings;
    parts.finish().unwrap()
}

/// The elements of a page in order, with the names of their attributes.
fn elements(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let Some(end) = tag_end(rest) else { break };
        let tag = &rest[..end];
        // Of values only the quotes are looked at.
        let names: Vec<&str> = tag.split('"').step_by(2).collect();
        found.push(names.join("\""));
        rest = &rest[end..];
        // A script or a style has no elements.
        for raw in ["script", "style"].into_iter().filter(|raw| tag.starts_with(raw)) {
            rest = rest.find(&format!("</{raw}")).map_or("", |end| &rest[end..]);
        }
    }
    found
}

/// Where a tag ends, outside quotes.
fn tag_end(tag: &str) -> Option<usize> {
    let mut is_quoted = false;
    tag.find(|c| {
        is_quoted ^= c == '"';
        c == '>' && !is_quoted
    })
}

/// The shape of JSON: its keys and kinds.
fn shape(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(shape).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let fields: Vec<String> = fields.iter().map(|(key, value)| format!("{key}:{}", shape(value))).collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::String(_) => "text".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Null => "null".to_owned(),
    }
}

/// Checks that the answers of two servers have the same elements, shapes and lines, path by path.
async fn compare(hostile: &TestServer, harmless: &TestServer, paths: impl Iterator<Item = [String; 2]>) {
    for [path, twin] in paths {
        let [shown, expected] = [(hostile, &path), (harmless, &twin)].map(|(server, path)| async move {
            let answer = server.get(path).await;
            let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
            (answer.status(), kind.unwrap_or_default(), answer.bytes().await.unwrap())
        });
        let ((status, kind, shown), (expected_status, expected_kind, expected)) = (shown.await, expected.await);
        assert_eq!((status, &kind), (expected_status, &expected_kind), "{path}");
        let [shown, expected] = [shown, expected].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        if kind.starts_with("text/html") || kind.starts_with("image/svg") {
            assert_eq!(elements(&shown), elements(&expected), "{path}");
            assert!(!shown.contains("<form action=/proc_profile/pause>"), "{path}");
            assert!(!shown.contains('\u{202e}'), "{path} reverses its text");
        } else if kind.starts_with("application/json") {
            let [shown, expected] = [&shown, &expected].map(|text| shape(&serde_json::from_str(text).unwrap()));
            assert_eq!(shown, expected, "{path}");
        } else if kind.starts_with("text/plain") {
            assert_eq!(shown.lines().count(), expected.lines().count(), "{path}");
            assert!(!shown.contains('\u{202e}'), "{path} reverses its text");
        }
    }
}

/// A server with a profile, the id of which it gives.
async fn server_with(text: &dyn Fn(&str) -> String) -> (TestServer, String) {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", encode_gzip(&profile(text)).unwrap()).await;
    (server, pushed["id"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_of_markup_is_shown_as_its_harmless_twin() {
    let (hostile, evil) = server_with(&|text| format!("{text}{MARKUP}")).await;
    let (harmless, plain) = server_with(&|text| format!("{text}-plain")).await;
    let range = format!("from={}&to={}", START - 60, START + 60);
    let mut paths: Vec<String> =
        ["/", "/archive", "/settings", "/proc_profile/errors?node=1"].map(str::to_owned).to_vec();
    paths.extend(
        ["/proc_profile?node=1", "/heap?node=1", "/search?percent=0&function="].map(|path| format!("{path}&{range}")),
    );
    paths.extend(["/p/ID", "/p/ID?plain=true"].map(str::to_owned));
    paths.extend(["", "&plain=true"].map(|more| format!("/merge?node=procprof&type=cpu&{range}{more}")));
    paths.extend(REPORTS.iter().map(|report| format!("/p/ID?format={}", report.name)));
    let paths = paths.iter().map(|path| [path.replace("ID", &evil), path.replace("ID", &plain)]);
    compare(&hostile, &harmless, paths).await;
    hostile.stop().await;
    harmless.stop().await;
}

/// A heartbeat with every text that a host and its services may have. All fields are written out, so that a new one has
/// to be added here.
fn heartbeat(text: &dyn Fn(&str) -> String) -> Heartbeat {
    // Other keys than these are refused.
    let labels = || [("zone".to_owned(), text("value"))].into();
    let host = HostFacts {
        id: format!("{:032x}", 7),
        name: text("db7"),
        kernel: text("6.8.0"),
        cpus: 2,
        memory_bytes: 1 << 30,
        version: text("1.0.0"),
        started_nanos: 1,
        labels: labels(),
        hz: 10,
        hz_wanted: 19,
        missing: vec![text("CAP_BPF")],
        cpu_nanos: 1_000_000_000,
        resident_bytes: 50 << 20,
        spooled: (1, 1000),
        spool_lost: 1,
        samples_lost: 1,
        services_left_out: 1,
    };
    let service = ServiceFacts {
        name: text("mysqld"),
        process: (4711, 1000),
        processes: 2,
        program: text("/usr/sbin/mysqld"),
        labels: labels(),
        types: vec![OfferedType { profile_type: "cpu".to_owned(), continuous: true }],
        cpu_milli: 350,
        hints: vec![text("start it with -X perf")],
        in_host: false,
    };
    let sent_nanos = i64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap();
    Heartbeat { host, services: vec![service], sent_nanos, wait_seconds: 0 }
}

/// A server with a host and its service, and the ids of their nodes and of a profile.
async fn server_with_host(text: &dyn Fn(&str) -> String) -> (TestServer, Vec<String>) {
    let server = TestServer::start(quiet()).await;
    let agent = agent(7, None);
    agent.taken(&server, &heartbeat(text)).await;
    let header = agent.header(Some(&text("mysqld")), 1);
    let (status, answer) = agent.push(&server, frame(&header, &encode_gzip(&profile(text)).unwrap())).await;
    assert!(status == 200 && answer.contains("stored"), "{answer}");
    let nodes = server.json("/api/nodes").await;
    let of_host = nodes["nodes"].as_array().unwrap().iter().filter(|node| node["host"].is_object());
    let mut ids: Vec<String> = of_host.map(|node| node["id"].to_string()).collect();
    assert_eq!(ids.len(), 2, "{nodes}");
    let list = server.json("/api/profiles").await;
    ids.push(list["profiles"][0]["id"].as_str().unwrap().to_owned());
    (server, ids)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_markup_is_shown_as_its_harmless_twin() {
    // Names and labels have at most 128 bytes, and no characters that turn the reading direction.
    let markup = "</title></script>--><form action=/proc_profile/pause><button id=evil>&amp;\"'";
    let (hostile, evil) = server_with_host(&|text| format!("{text}{markup}")).await;
    let (harmless, plain) = server_with_host(&|text| format!("{text}-plain")).await;
    let mut paths: Vec<[String; 2]> =
        ["/", "/archive", "/settings", "/symbols", "/api/nodes", "/api/profiles", "/metrics"]
            .map(|path| [path.to_owned(), path.to_owned()])
            .to_vec();
    for (evil, plain) in evil.iter().zip(&plain) {
        let all =
            ["/proc_profile?node=ID", "/proc_profile/errors?node=ID", "/api/nodes/ID", "/p/ID", "/api/profiles/ID"];
        paths.extend(all.map(|path| [path.replace("ID", evil), path.replace("ID", plain)]));
    }
    compare(&hostile, &harmless, paths.into_iter()).await;
    hostile.stop().await;
    harmless.stop().await;
}
