//! Chromium, driven through chromedriver by plain WebDriver over loopback HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) const ESCAPE: &str = "\u{e00c}";
pub(crate) const ENTER: &str = "\u{e007}";
pub(crate) const UP: &str = "\u{e013}";
pub(crate) const LEFT: &str = "\u{e012}";

/// Longest wait for anything: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A headless browser with one window; ended when dropped, with its process group and all its files.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    /// Kept open, since the driver continues to write to it.
    _output: BufReader<ChildStdout>,
    session: String,
    _folder: tempfile::TempDir,
}

impl Browser {
    pub(crate) fn start() -> Browser {
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
            .expect("`chromedriver` (and `chromium`) must be installed for this test");
        let mut output = BufReader::new(driver.stdout.take().unwrap());
        let port = output
            .by_ref()
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.split("successfully on port ").nth(1)?.trim_end_matches('.').parse().ok());
        let mut browser = Browser {
            driver,
            port: port.expect("chromedriver names its port"),
            _output: output,
            session: String::new(),
            _folder: folder,
        };
        let mut arguments: Vec<String> = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1200,800",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.push(format!("--user-data-dir={}", browser._folder.path().join("profile").display()));
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}});
        browser.session = browser.call("POST", "/session", &wanted)["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    pub(crate) fn open(&self, url: &str) {
        self.command("url", &json!({ "url": url }));
    }

    pub(crate) fn run(&self, script: &str, arguments: &[&str]) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": arguments}))
    }

    pub(crate) fn text(&self, script: &str) -> String {
        self.run(script, &[]).as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn number(&self, script: &str) -> i64 {
        self.run(script, &[]).as_i64().unwrap()
    }

    /// Types each character as a key.
    pub(crate) fn keys(&self, keys: &str) {
        let strokes: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()})))
            .collect();
        self.command("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]}));
    }

    pub(crate) fn click(&self, x: f64, y: f64) {
        let steps = json!([
            {"type": "pointerMove", "duration": 0, "x": x.round() as i64, "y": y.round() as i64},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]);
        self.command("actions", &json!({"actions": [{"type": "pointer", "id": "mouse", "actions": steps}]}));
    }

    fn command(&self, name: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}/{name}", self.session), body)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.to_string();
        write!(
            &stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(reader.read_line(&mut line).unwrap() > 0, "{method} {path}: the answer ends in its head");
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mut answer: Value = serde_json::from_slice(&body).unwrap();
        let value = answer["value"].take();
        assert!(value.get("error").is_none(), "{method} {path}: {value}");
        value
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let group = format!("-{}", self.driver.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
        let _ = self.driver.wait();
    }
}
