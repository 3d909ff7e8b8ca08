//! The pages and what StarRocks' own callers ask for.

use std::io::Write;

use reqwest::Method;
use reqwest::header::ACCEPT;

use crate::harness::{TestServer, cpu_profile, quiet};

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_a_table_of_four_columns_without_scripts() {
    let server = TestServer::start(quiet()).await;
    assert!(server.text("/proc_profile").await.contains("No profiles"));
    let old = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let new = server.push("cpu", cpu_profile(1_700_000_100)).await;
    let response = server.get("/proc_profile?node=FE").await;
    let policy = response.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
    let page = response.text().await.unwrap();
    let heads: Vec<&str> = page.split("<th ").skip(1).map(|rest| rest.split(['>', '<']).nth(1).unwrap()).collect();
    assert_eq!(heads, ["Type", "Timestamp", "File Size", "View"]);
    let place = |profile: &serde_json::Value| page.find(profile["file_name"].as_str().unwrap()).unwrap();
    assert!(place(&new) < place(&old), "newest first");
    assert!(page.contains("title=\"2023-11-14 22:15:01 UTC\">2023-11-14 22:15:01 UTC</time>"), "completion, in UTC: {page}");
    assert!(page.contains("target=\"_blank\""));
    assert!(!page.contains("<script>") && !page.contains("style=") && !page.contains(" onclick"), "nothing inline");
    for asset in page.split("\"/assets/").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        let served = server.get(&format!("/assets/{asset}")).await;
        assert_eq!(served.status(), 200, "{asset}");
        assert!(served.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    }
    let home = server.get("/").await;
    assert_eq!((home.status().as_u16(), home.headers()["location"].to_str().unwrap()), (303, "/proc_profile"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_a_flame_graph_by_default() {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let base = format!("/proc_profile/file?filename={}&node=1", pushed["file_name"].as_str().unwrap());
    for (format, media_type, content) in [
        ("", "image/svg+xml", "hot_70"),
        ("&format=svg", "image/svg+xml", "<svg"),
        ("&format=html", "text/html; charset=utf-8", "<html"),
        ("&format=top", "text/plain; charset=utf-8", "hot_70"),
        ("&format=collapsed", "text/plain; charset=utf-8", "main;hot_70"),
    ] {
        let response = server.get(&format!("{base}{format}")).await;
        assert_eq!((response.status().as_u16(), response.headers()["content-type"].to_str().unwrap()), (200, media_type), "{format}");
        if !media_type.starts_with("text/plain") {
            assert!(response.headers()["content-security-policy"].to_str().unwrap().starts_with("sandbox allow-scripts;"));
        }
        assert!(response.text().await.unwrap().contains(content), "{format}");
    }
    let zipped = server.request(Method::GET, &base).header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(zipped.headers()["content-encoding"], "gzip");
    let page = server.text(&format!("/p/{}", pushed["id"].as_str().unwrap())).await;
    assert!(page.contains("What is known") && page.contains("<iframe") && !page.contains("Top functions"), "{page}");
    assert!(
        page.contains("<dt>Started (UTC)</dt><dd>2023-11-14 22:13:20</dd><dt>Completed (UTC)</dt><dd>2023-11-14 22:13:21</dd>"),
        "{page}"
    );
    let framed = page.split("<iframe ").nth(1).unwrap().split("src=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    let framed = server.text(&framed).await;
    assert!(framed.contains("Top functions") && framed.contains("hot_70"), "{framed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_pin_and_delete_with_forms() {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let id = pushed["id"].as_str().unwrap();
    let page = server.text(&format!("/p/{id}")).await;
    let (pin, delete) = (format!("/p/{id}/pin"), format!("/p/{id}/delete"));
    assert!(
        page.contains(&format!("action=\"{pin}\"")) && page.contains(">Pin</button>") && page.contains("<details class=\"confirm\">"),
        "{page}"
    );
    let send = async |path: &str, body: &'static str, origin: &str| {
        let response = server.request(Method::POST, path).header("origin", origin).body(body).send().await.unwrap();
        let place = response.headers().get("location").map(|place| place.to_str().unwrap().to_owned());
        (response.status().as_u16(), place)
    };
    let own = format!("http://{}", server.address);
    for path in [&pin, &delete] {
        assert_eq!(send(path, "pinned=yes", "http://evil.example").await.0, 403, "{path}");
    }
    assert_eq!(send(&pin, "pinned=perhaps", &own).await.0, 400);
    assert_eq!(send(&pin, "", &own).await.0, 400);
    assert_eq!(send(&pin, "pinned=yes", &own).await, (303, Some(format!("/p/{id}"))));
    let page = server.text(&format!("/p/{id}")).await;
    assert!(page.contains(">Unpin</button>") && !page.contains(&delete), "{page}");
    assert!(server.text("/proc_profile?node=1").await.contains("class=\"tag pin\""));
    assert_eq!(send(&delete, "", &own).await.0, 409, "a pinned one stays");
    assert_eq!(send(&pin, "pinned=no", &own).await.0, 303);
    assert!(!server.text("/proc_profile?node=1").await.contains("class=\"tag pin\""));
    assert_eq!(send(&delete, "", &own).await, (303, Some("/proc_profile?node=1".to_owned())));
    assert_eq!(server.status(Method::GET, &format!("/p/{id}")).await, 404);
    assert_eq!(send(&delete, "", &own).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_errors_stand_beside_the_list_and_all_on_a_page_of_their_own() {
    let logs = tempfile::tempdir().unwrap();
    let folder = logs.path().join("proc_profile");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..120 {
        std::fs::write(
            folder.join(format!("cpu-profile-20251120-12{:02}{:02}-pprof.gz", number / 60, number % 60)),
            format!("no profile {number}"),
        )
        .unwrap();
    }
    let mut config = quiet();
    config.sys_log_dir = Some(logs.path().to_owned());
    let server = TestServer::start(config).await;
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while server.json("/api/errors?node=imported&limit=1000").await["errors"].as_array().unwrap().len() < 120 {
        assert!(std::time::Instant::now() < until);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let rows = |page: &str| page.matches("class=\"reason\"").count();
    let list = server.text("/proc_profile?node=imported").await;
    let all = list.split("href=\"").find(|rest| rest.starts_with("/proc_profile/errors?")).unwrap().split('"').next().unwrap();
    assert_eq!(rows(&list), 10);
    let first = server.text(all).await;
    let next = first.split("href=\"").find(|rest| rest.contains("cursor=")).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    let second = server.text(&next).await;
    assert_eq!((rows(&first), rows(&second), second.contains("Older")), (100, 20, false));
    assert_eq!(rows(&server.text("/proc_profile/errors?node=procprof").await), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tricks_with_names_get_nothing() {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let name = pushed["file_name"].as_str().unwrap();
    for (trick, status) in [
        ("", 400),
        ("../catalog.sqlite", 403),
        ("..%2Fcatalog.sqlite", 403),
        ("%2e%2e%2f%2e%2e%2fetc%2fpasswd", 403),
        ("/etc/passwd", 403),
        ("cpu-profile-x'$(id)'-pprof.gz", 403),
        ("cpu-profile-%00-pprof.gz", 403),
        ("cpu-profile-20231114-221320-pprof.gz%0d%0aX-Evil:1", 403),
        ("%3Cscript%3E-profile-", 403),
        (".cpu-profile-20231114-221320-pprof.gz", 403),
        ("cpu-profile-20231114-221321-pprof.gz", 404),
        ("cpu-profile-20231114-221320-pprof.gz/", 403),
        ("%ff", 400),
    ] {
        assert_eq!(server.status(Method::GET, &format!("/proc_profile/file?filename={trick}&node=1")).await, status, "{trick}");
    }
    assert_eq!(server.status(Method::GET, &format!("/proc_profile/file?filename={name}&node=1")).await, 200);
    assert_eq!(server.status(Method::GET, &format!("/proc_profile/file?filename={name}&node=evil:80")).await, 400);
    assert_eq!(server.status(Method::GET, &format!("/proc_profile/file?filename={name}&node=1&format=nonsense")).await, 400);
    let page = server
        .request(Method::GET, "/proc_profile?node=%3Cscript%3Ealert(1)%3C/script%3E")
        .header(ACCEPT, "text/html")
        .send()
        .await
        .unwrap();
    assert_eq!(page.status(), 400);
    let page = page.text().await.unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && !page.contains("<script>alert"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_made_elsewhere_are_shown_sandboxed_by_their_content() {
    let logs = tempfile::tempdir().unwrap();
    let folder = logs.path().join("proc_profile");
    std::fs::create_dir(&folder).unwrap();
    let gzip = |content: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    };
    std::fs::write(folder.join("cpu-profile-20251120-120000-flame.html.gz"), gzip(b"<?xml version=\"1.0\"?><svg>one</svg>")).unwrap();
    std::fs::write(folder.join("cpu-profile-20251120-120001-flame.html.gz"), gzip(b"<!DOCTYPE html><html><svg></svg></html>")).unwrap();
    let mut config = quiet();
    config.sys_log_dir = Some(logs.path().to_owned());
    let server = TestServer::start(config).await;
    let rows = server.profiles("node=imported", 2, std::time::Duration::from_secs(10)).await;
    let media = async |row: &serde_json::Value| {
        let path = format!("/proc_profile/file?filename={}&node=imported", row["file_name"].as_str().unwrap());
        let response = server.get(&path).await;
        assert!(response.headers()["content-security-policy"].to_str().unwrap().starts_with("sandbox allow-scripts;"));
        response.headers()["content-type"].to_str().unwrap().to_owned()
    };
    assert_eq!(media(&rows[0]).await, "text/html; charset=utf-8");
    assert_eq!(media(&rows[1]).await, "image/svg+xml");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_backend_list_is_as_starrocks_gives_it() {
    let server = TestServer::start(quiet()).await;
    assert_eq!(server.json("/api/proc_profile/list").await, serde_json::json!({ "profiles": [] }));
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let list = server.json("/api/proc_profile/list?node=1").await;
    assert_eq!(
        list["profiles"][0],
        serde_json::json!({
            "filename": "cpu-profile-20231114-221320-pprof.gz",
            "type": "CPU",
            "format": "Pprof",
            "timestamp": "20231114-221320",
            "size": pushed["bytes"],
            "start": "2023-11-14T22:13:20.000Z",
            "end": "2023-11-14T22:13:21.000Z",
        })
    );
    assert_eq!(server.status(Method::GET, "/api/proc_profile/other").await, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_own_endpoints_answer() {
    let server = TestServer::start(quiet()).await;
    assert_eq!(server.status(Method::GET, "/debug/pprof/").await, 200);
    for path in ["/debug/pprof", "/pprof", "/pprof/"] {
        let answer = server.get(path).await;
        assert_eq!((answer.status().as_u16(), answer.headers()["location"].to_str().unwrap()), (303, "/debug/pprof/"), "{path}");
    }
    assert!(server.text("/pprof/cmdline").await.contains("main-"));
    let symbol = server.request(Method::HEAD, "/pprof/symbol").send().await.unwrap();
    assert_eq!(symbol.status(), 200);
    let profile = server.get("/debug/pprof/profile?seconds=1").await;
    assert_eq!(profile.status(), 200);
    let bytes = profile.bytes().await.unwrap();
    let decoded = procprof_profile::format::decode(&bytes, &procprof_profile::format::Limits::default()).unwrap();
    assert_eq!(decoded.format, "pprof");
    assert_eq!(server.status(Method::GET, "/debug/pprof/nonsense").await, 404);
}
