//! The viewer of files in Chromium, and what it refuses.

use procprof_profile::{Profile, ProfileBuilder};
use procprof_report::Sources;
use procprof_server::{ReportServer, ReportServerHandle};
use serde_json::json;

use crate::browser::Browser;

/// 70 % in one function, 30 % in another, with odd names and two sample types.
fn profile() -> Profile {
    let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
    let (main, hot, odd) = (builder.frame("main"), builder.frame("hot_70"), builder.frame("Vec<&'a T>::push(*mut u8)"));
    builder.sample(&[hot, main], &[70, 700_000_000], &[]);
    builder.sample(&[odd, main], &[30, 300_000_000], &[]);
    builder.finish().unwrap()
}

async fn viewer(options: &[(&str, &str)]) -> ReportServerHandle {
    let server = ReportServer {
        name: "cpu.pb.gz".to_owned(),
        profile: profile(),
        compared: None,
        options: options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        sources: Box::new(|_, _, _| Ok(Sources::default())),
    };
    server.start("127.0.0.1:0".parse().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_data_of_the_flame_graph_requires_the_token() {
    let handle = viewer(&[]).await;
    let url = |path: &str| format!("http://{}{}{path}", handle.address(), handle.path());
    let get = async |path: &str| reqwest::get(url(path)).await.unwrap();
    let slice = get("/data/tree?sample_index=samples&at=1").await;
    assert_eq!(
        (slice.status().as_u16(), &slice.headers()["content-type"]),
        (200, &"application/vnd.procprof.tree".parse().unwrap())
    );
    assert!(slice.bytes().await.unwrap().starts_with(b"PPT1"));
    let found: serde_json::Value =
        serde_json::from_str(&get("/data/search?re=hot").await.text().await.unwrap()).unwrap();
    assert_eq!(found, json!({ "frames": [2], "nodes": 1, "total": 700_000_000 }));
    let refused = get("/data/search?re=a(").await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["content-type"]),
        (400, &"application/problem+json".parse().unwrap())
    );
    assert_eq!(get("/data/other").await.status(), 404);
    let elsewhere = reqwest::get(format!("http://{}/data/tree", handle.address())).await.unwrap();
    assert_eq!(elsewhere.status(), 403, "nothing is shown without the token");
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_looked_at_in_the_browser() {
    let handle = viewer(&[]).await;
    let url = |path: &str| format!("http://{}{}{path}", handle.address(), handle.path());
    let at = |path: &str| json!(format!("{}{path}", handle.path()));
    let browser = Browser::start().await;
    browser.resize(1300, 950).await;
    browser.open(&url("/")).await;
    assert_eq!(browser.run("return location.pathname").await, at("/ui/"));
    browser
        .expect(
            "return document.querySelector('.pv-status')?.textContent ?? ''",
            "all1.00 s CPU time · self 0 s (0%) · 100% of all",
        )
        .await;
    browser.open(&url("/ui/top")).await;
    let names = "return [...document.querySelectorAll('table.top td.name a')].map(name => name.textContent)";
    assert_eq!(browser.run(names).await, json!(["hot_70", "Vec<&'a T>::push(*mut u8)", "main"]));
    // By the whole, the caller comes first.
    browser.click("th:nth-child(4) a").await;
    assert_eq!(browser.run(names).await[0], "main");
    // A name leads to its callers, whatever letters are in it.
    browser
        .run("[...document.querySelectorAll('td.name a')].find(name => name.textContent.startsWith('Vec')).setAttribute('id', 'odd')")
        .await;
    browser.click("#odd").await;
    let text = browser.run("return document.querySelector('pre.report').textContent").await;
    assert!(
        text.as_str().unwrap().contains("Vec<&'a T>::push(*mut u8)") && !text.as_str().unwrap().contains("hot_70"),
        "{text}"
    );

    browser.open(&url("/ui/tree")).await;
    browser.write("input[name=focus]", "hot").await;
    browser.run("document.querySelector('select[name=sample_index]').value = 'samples'").await;
    browser.click("form.refine button").await;
    // Empty fields are not in the address.
    let place = at("/ui/tree?sample_index=samples&focus=hot");
    browser.expect("return location.pathname + location.search", place.as_str().unwrap()).await;
    let text = browser.run("return document.querySelector('pre.report').textContent").await;
    assert!(text.as_str().unwrap().contains("Active filters") && text.as_str().unwrap().contains("70"), "{text}");
    browser.click("p.marks a").await;
    // A mark takes its option back.
    browser.expect("return location.search", "?sample_index=samples").await;
    browser.open(&url("/ui/top?focus=(")).await;
    assert_eq!(
        browser.run("return document.querySelector('.empty .head').textContent").await,
        "This report can't be made"
    );

    browser.resize(480, 900).await;
    for path in ["/ui/", "/ui/top?focus=hot", "/ui/tree", "/ui/list", "/ui/traces"] {
        browser.open(&url(path)).await;
        let wider = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.run(wider).await, json!(0), "{path} is not wider than a narrow window");
    }
    assert_eq!(browser.console().await, json!([]));
    browser.end().await;
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_this_machine_is_answered_and_options_are_kept() {
    let handle = viewer(&[("focus", "hot")]).await;
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let get = async |path: &str, host: &str| {
        let request = client.get(format!("http://{}{}{path}", handle.address(), handle.path())).header("host", host);
        let answer = request.send().await.unwrap();
        let header =
            |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        let (status, location, policy) =
            (answer.status().as_u16(), header("location"), header("content-security-policy"));
        let (media_type, saved) = (header("content-type"), header("content-disposition"));
        (status, location, policy, media_type, saved, answer.text().await.unwrap_or_default())
    };
    let first = format!("{}/ui/?focus=hot", handle.path());
    for path in ["", "/", "/ui/flamegraph?focus=hot"] {
        assert_eq!(get(path, "localhost").await.1, first, "the options of the command line hold");
    }
    for (host, status) in [("localhost:1", 200), ("127.0.0.1", 200), ("evil.example", 403)] {
        assert_eq!(get("/ui/top", host).await.0, status, "{host}");
    }
    let (status, _, policy, media_type, ..) = get("/view/flamegraph", "localhost").await;
    assert!(
        status == 200 && policy.starts_with("sandbox") && media_type == "image/svg+xml",
        "{status} {policy} {media_type}"
    );
    assert!(get("/ui/top", "localhost").await.2.contains("default-src 'none'"));
    assert_eq!(get("/view/pprof?download=1", "localhost").await.4, "attachment; filename=\"cpu.pb.gz\"");
    for (path, status) in [
        ("/view/zebra", 404),
        ("/nothing", 404),
        ("/view/top?zebra=1", 400),
        ("/view/top?focus=(", 400),
        ("/ui/zebra", 404),
        ("/ui/?zebra=1", 400),
    ] {
        let answer = get(path, "localhost").await;
        assert!(answer.0 == status && answer.3.starts_with("text/html"), "{path}: {answer:?}");
    }
    // Without the token, or with another one, nothing is shown: others on this machine reach the port, too.
    let guess = format!("/{}", "0".repeat(handle.path().len() - 1));
    for path in ["/", "/ui/", "/ui/top", "/view/top", "/view/pprof", &format!("{guess}/view/top"), &handle.path()[..9]]
    {
        let answer = client.get(format!("http://{}{path}", handle.address())).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status == 403 && !text.contains("hot_70"), "{path}: {status} {text}");
    }
    handle.stop().await;
}
