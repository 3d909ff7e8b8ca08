//! Errors, `Debug` and logs of buckets have no keys, tokens or signatures, whatever a server answers.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use procprof_archive::{BucketLimits, Environment, Error, Objects, Place};

use super::emulators::{ACCOUNT_KEY, Emulator, SECRET, TOKEN, azure_environment, s3_environment};
use super::failing::{Reply, Request, server};
use super::limits;

/// What is logged, at every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The errors of all operations.
fn errors(objects: &dyn Objects) -> Vec<Error> {
    let results = [
        objects.put("a/b", b"content").err(),
        objects.create("a/b", b"content").err(),
        objects.size("a/b").err(),
        objects.read("a/b", 0, 7).err(),
        objects.list("a").err(),
        objects.delete("a/b").err(),
    ];
    results.into_iter().flatten().collect()
}

/// Everything that the request had, and all secrets, as an answer of a server that means harm.
fn echo(request: &Request) -> String {
    let code = format!(
        "<Error><Code>{SECRET}</Code><Message>{} {SECRET} {TOKEN} {ACCOUNT_KEY}</Message></Error>",
        request.head
    );
    code.replace(SECRET, if request.head.contains(TOKEN) { TOKEN } else { "AccessDenied" })
}

fn environments(address: std::net::SocketAddr) -> [(&'static str, Environment); 3] {
    let s3 = Environment::new([
        ("AWS_ENDPOINT_URL", format!("http://{address}").as_str()),
        ("AWS_ACCESS_KEY_ID", "tester"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", TOKEN),
    ]);
    let google =
        Environment::new([("GOOGLE_BASE_URL", format!("http://{address}").as_str()), ("GOOGLE_BEARER_TOKEN", TOKEN)]);
    [("s3://bucket/x", s3), ("gs://bucket/x", google), ("az://bucket/x", azure_environment(address))]
}

type Case = (&'static str, fn(&Request, usize) -> Reply, &'static str);

const CASES: &[Case] = &[
    ("refused", |request, _| Reply::Answer("403 Forbidden", echo(request)), "403 Forbidden"),
    ("not known", |request, _| Reply::Answer("401 Unauthorized", echo(request)), "401 Unauthorized"),
    ("internal", |request, _| Reply::Answer("500 Internal Server Error", echo(request)), "500 Internal Server Error"),
    ("busy", |request, _| Reply::Answer("503 Slow Down", echo(request)), "503 Service Unavailable"),
    ("bad", |request, _| Reply::Answer("400 Bad Request", echo(request)), "400 Bad Request"),
    ("moved", |request, _| Reply::Answer("301 Moved Permanently", echo(request)), "301 Moved Permanently"),
    ("closed", |_, _| Reply::Raw(Vec::new()), "the connection ended early"),
    ("no HTTP", |_, _| Reply::Raw(b"220 mail.example ESMTP\r\n".to_vec()), ""),
    ("silent", |_, _| Reply::Silence, "silent for too long"),
];

#[test]
fn what_fails_is_told_without_secrets() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // The threads of the buckets log, too.
    tracing_subscriber::util::SubscriberInitExt::init(subscriber);
    let limits = BucketLimits { retries: 1, silence: Duration::from_millis(300), ..limits() };
    for (name, reply, expected) in CASES {
        let address = server(reply);
        for (url, environment) in environments(address) {
            let objects = url.parse::<Place>().unwrap().open(&environment, limits).unwrap();
            let errors = errors(&*objects);
            assert_eq!(errors.len(), 6, "{name}: {url}: {errors:?}");
            for error in errors {
                let text = error.to_string();
                assert!(text.contains(&format!("{url}/a")) && text.contains(&address.to_string()), "{name}: {text}");
                assert!(text.contains(expected), "{name}: {url}: {text}");
                check(&format!("{error} {error:?} {:?} {objects:?}", std::error::Error::source(&error)));
            }
        }
    }
    check(&String::from_utf8_lossy(&log.0.lock().unwrap()));
}

fn check(text: &str) {
    for secret in ["hunter2", ACCOUNT_KEY, "Signature=", "SharedKey"] {
        let at = text.find(secret);
        assert_eq!(at, None, "{secret} in {}", &text[at.unwrap_or(0).saturating_sub(300)..]);
    }
}

#[test]
fn cut_answers_are_told_apart_from_objects() {
    let s3 = Emulator::s3();
    let real = s3.address;
    let content = vec![7; 100_000];
    super::opened("s3://bucket/x", &s3_environment(real)).put("a", &content).unwrap();
    let cut = server(move |_, _| {
        let head = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-99999/100000\r\nETag: \"1\"\r\n\
                    Last-Modified: Tue, 24 Nov 2026 15:00:00 GMT\r\nContent-Length: 100000\r\n\r\n";
        Reply::Raw([head.as_bytes(), &[7; 5000]].concat())
    });
    let objects = super::opened("s3://bucket/x", &s3_environment(cut));
    let error = objects.read("a", 0, 100_000).unwrap_err();
    assert!(matches!(error, Error::Bucket { .. }), "{error}");
    check(&format!("{error} {error:?}"));
}

#[test]
fn settings_that_cannot_be_used_are_named_without_their_values() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("account.json");
    std::fs::write(&file, "{\"private_key\": \"hunter2\", \"client_email\": 7}").unwrap();
    let cases = [
        ("s3://bucket", Environment::new([("AWS_ACCESS_KEY_ID", "hunter2")]), "AWS_ACCESS_KEY_ID"),
        ("s3://bucket", Environment::new([("AWS_UNSIGNED_PAYLOAD", "hunter2")]), "AWS_UNSIGNED_PAYLOAD"),
        (
            "gs://bucket",
            Environment::new([("GOOGLE_SERVICE_ACCOUNT", file.to_str().unwrap())]),
            "GOOGLE_SERVICE_ACCOUNT",
        ),
        ("gs://bucket", Environment::new([("GOOGLE_SERVICE_ACCOUNT_KEY", "hunter2")]), "GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("az://bucket", Environment::new([]), "no AZURE_…"),
    ];
    for (url, environment, expected) in cases {
        let error = url.parse::<Place>().unwrap().open(&environment, limits()).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(expected) && !shown.contains("hunter2"), "{shown}");
    }
}
