//! The pages in Chromium, driven through chromedriver by plain WebDriver over loopback HTTP.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::{Client, Method};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{TestServer, cpu_profile, quiet};

const FLAGS: [&str; 8] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// Longest wait for anything: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// A headless browser with one window; ended when dropped, with its process group and all its files.
pub(crate) struct Browser {
    driver: Child,
    /// Kept open, since the driver goes on writing to it.
    _output: BufReader<ChildStdout>,
    _folder: TempDir,
    client: Client,
    base: String,
}

impl Browser {
    pub(crate) async fn start() -> Browser {
        let folder = tempfile::tempdir().unwrap();
        let mut driver = Command::new("chromedriver")
            .args(["--port=0", "--allowed-ips=127.0.0.1"])
            .env("TMPDIR", folder.path())
            .env("HOME", folder.path())
            .env("LC_ALL", "C.UTF-8")
            .env("LANGUAGE", "en")
            // Chromium outlives the driver's death.
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver (Debian's chromium-driver) is needed for this test");
        let mut output = BufReader::new(driver.stdout.take().unwrap());
        let mut line = String::new();
        let port = loop {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "chromedriver ended without naming its port");
            if let Some((_, rest)) = line.split_once("successfully on port ") {
                break rest.trim().trim_end_matches('.').to_owned();
            }
        };
        let mut flags: Vec<String> = FLAGS.map(str::to_owned).to_vec();
        flags.push(format!("--user-data-dir={}", folder.path().join("profile").display()));
        let wanted = json!({ "goog:chromeOptions": { "args": flags }, "goog:loggingPrefs": { "browser": "ALL" } });
        let client = Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let mut browser = Browser {
            driver,
            _output: output,
            _folder: folder,
            client,
            base: format!("http://127.0.0.1:{port}/session"),
        };
        let session = browser.call(Method::POST, "", json!({ "capabilities": { "alwaysMatch": wanted } })).await;
        browser.base = format!("{}/{}", browser.base, session["sessionId"].as_str().unwrap());
        browser
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: Value) -> Value {
        let answer =
            self.client.request(method, format!("{}{path}", self.base)).body(body.to_string()).send().await.unwrap();
        let mut answer: Value = serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap();
        let value = answer["value"].take();
        assert!(value.get("error").is_none(), "{path}: {value}");
        value
    }

    pub(crate) async fn open(&self, url: &str) {
        self.call(Method::POST, "/url", json!({ "url": url })).await;
    }

    pub(crate) async fn resize(&self, width: u32, height: u32) {
        self.call(Method::POST, "/window/rect", json!({ "width": width, "height": height })).await;
    }

    pub(crate) async fn run(&self, script: &str) -> Value {
        self.call(Method::POST, "/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Runs a script until it gives that: the page a click leads to comes when it comes.
    pub(crate) async fn expect(&self, script: &str, wanted: &str) {
        let mut given = Value::Null;
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            given = self.run(script).await;
            if given == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(given, wanted, "{script}");
    }

    /// The path of the first element that a CSS selector finds.
    pub(crate) async fn find(&self, selector: &str) -> Value {
        self.call(Method::POST, "/element", json!({ "using": "css selector", "value": selector })).await
    }

    pub(crate) async fn click(&self, selector: &str) {
        let element = self.find(selector).await;
        self.call(Method::POST, &format!("/element/{}/click", id(&element)), json!({})).await;
    }

    pub(crate) async fn write(&self, selector: &str, text: &str) {
        let element = self.find(selector).await;
        self.call(Method::POST, &format!("/element/{}/value", id(&element)), json!({ "text": text })).await;
    }

    /// The console's output since the last call.
    pub(crate) async fn console(&self) -> Value {
        self.call(Method::POST, "/se/log", json!({ "type": "browser" })).await
    }

    pub(crate) async fn end(self) {
        self.call(Method::DELETE, "", json!({})).await;
    }
}

fn id(element: &Value) -> String {
    element.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = format!("-{}", self.driver.id());
        drop(Command::new("kill").args(["-KILL", "--", &group]).status());
        drop(self.driver.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_looked_at_and_deleted() {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let browser = Browser::start().await;
    browser.resize(1400, 1000).await;
    browser.open(&server.url(&format!("/p/{}", pushed["id"].as_str().unwrap()))).await;
    let status = "return document.querySelector('.pv-status bdi')?.textContent ?? ''";
    browser.expect(status, "all").await;
    browser.write(".pv-find input", "hot_70").await;
    browser.expect("return document.querySelector('.pv-found').textContent", "70.00% in 1 function").await;
    browser.click("details.confirm summary").await;
    browser.click("button.danger").await;
    // The form's answer is another page.
    browser.expect("return location.pathname + location.search", "/proc_profile?node=1").await;
    assert_eq!(server.status(Method::GET, &format!("/p/{}", pushed["id"].as_str().unwrap())).await, 404);
    assert_eq!(browser.console().await, json!([]));
    browser.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_with_name_and_password_shows_the_flame_graph() {
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", cpu_profile(1_700_000_000)).await;
    let browser = Browser::start().await;
    let page = server.url(&format!("/p/{}", pushed["id"].as_str().unwrap()));
    browser.open(&page.replace("http://", "http://name:password@")).await;
    browser.expect("return document.querySelector('.pv-status bdi')?.textContent ?? ''", "all").await;
    browser.end().await;
}
