//! A replayed StarRocks frontend: its list of both shapes, flame graphs of the real async-profiler, and what goes wrong
//! there.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use flate2::Compression;
use flate2::write::GzEncoder;
use procprof_collect::frontend::{FrontendOptions, FrontendSource};
use procprof_collect::{Auth, CollectError, RecordingData, Recordings, Request, Secret, Source, Watch, endpoints};
use procprof_profile::format::{Limits, decode};
use procprof_profile::{Nanos, ProfileType};

use crate::target;

const OLD: &[u8] = include_bytes!("../../../testdata/formats/async-profiler-html/work-4.0.html");
const NEW: &[u8] = include_bytes!("../../../testdata/formats/async-profiler-html/work-4.5.html");

/// File names with what is answered for them; an empty answer is a file that is gone.
type Files = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// A frontend that lets `root` with the password `secret` in; it lives as long as the test process.
struct Frontend {
    port: u16,
    files: Files,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Frontend {
    fn start(has_tabs: bool) -> Frontend {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (files, asked) = (Files::default(), Arc::<Mutex<Vec<String>>>::default());
        let (served, noted) = (Arc::clone(&files), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = answer(stream, has_tabs, &served, &noted);
            }
        });
        Frontend { port, files, asked }
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        self.files.lock().unwrap().push((name.to_owned(), bytes.to_vec()));
    }

    fn source_of(&self, user: &str) -> FrontendSource {
        let (port, user) = (self.port, user.to_owned());
        let make = move || {
            let mut target = target(&endpoints::STARROCKS_FE, port);
            target.auth = Auth::Basic { user: user.clone(), password: Secret::new("secret") };
            Box::pin(std::future::ready(Ok(target))) as procprof_collect::Pending<'static, _>
        };
        let seconds = |text: &str| text[9..].parse::<i64>().ok().map(|number| Nanos(number * 1_000_000_000));
        FrontendSource::new(FrontendOptions {
            target: Arc::new(make),
            time: Arc::new(seconds),
            length: Nanos(120_000_000_000),
        })
    }

    fn source(&self) -> FrontendSource {
        self.source_of("root")
    }
}

fn answer(mut stream: TcpStream, has_tabs: bool, files: &Files, asked: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut headers = String::new();
    while reader.read_line(&mut headers)? > 2 {}
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    asked.lock().unwrap().push(path.clone());
    let mut send = |head: &str, body: &[u8]| {
        stream.write_all(
            format!("HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(),
        )?;
        stream.write_all(body)
    };
    if !headers.contains("Basic cm9vdDpzZWNyZXQ=") {
        return send("401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"\"", b"");
    }
    let files = files.lock().unwrap();
    match path.strip_prefix("/proc_profile/file?filename=") {
        Some(name) => match files.iter().find(|(known, _)| known == name).map(|(_, bytes)| bytes) {
            Some(bytes) if bytes == b"broken" => send("500 Internal Server Error", b"no .html entry"),
            Some(bytes) if !bytes.is_empty() => send("200 OK\r\nContent-Type: text/html; charset=utf-8", bytes),
            _ => send("404 Not Found", b"Profile file not found"),
        },
        None if path == "/proc_profile?node=FE" => {
            let tabs = if has_tabs { "<ul><li><a href=\"/proc_profile?node=FE\">FE</a></li></ul>" } else { "" };
            let node = if has_tabs { "node=FE&amp;" } else { "" };
            let mut page = format!("<html>{tabs}<h2>Process Profiles</h2><table id=\"table_id\"><tbody>");
            for (name, _) in files.iter().rev() {
                page += &format!(
                    "<tr><td><a href=\"/proc_profile/file?{node}filename={name}\" target=\"_blank\">View</a></td></tr>"
                );
            }
            send("200 OK\r\nContent-Type: text/html", page.as_bytes())
        }
        None => send("404 Not Found", b""),
    }
}

/// The archive that a frontend keeps on its disk.
fn archive(page: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(page.len() as u64);
    header.set_cksum();
    builder.append_data(&mut header, "cpu-profile-20261120-000001.html", page).unwrap();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&builder.into_inner().unwrap()).unwrap();
    encoder.finish().unwrap()
}

fn name(prefix: &str, second: usize) -> String {
    format!("{prefix}-profile-20261120-{second:06}.html.tar.gz")
}

async fn cpu(source: &FrontendSource) -> Result<Recordings, CollectError> {
    source.record(&Request::new(ProfileType::Cpu), &Watch::default()).await
}

/// Times in names of an answer's recordings, those that failed negative.
fn seconds(answer: &Recordings) -> Vec<i64> {
    let second = |nanos: Nanos| nanos.0 / 1_000_000_000;
    answer
        .recordings
        .iter()
        .map(|one| if one.content.is_ok() { second(one.started) } else { -second(one.started) })
        .collect()
}

#[tokio::test]
async fn pages_and_archives_of_both_shapes_become_profiles_once() {
    for has_tabs in [false, true] {
        let frontend = Frontend::start(has_tabs);
        frontend.put(&name("cpu", 1), NEW);
        frontend.put(&name("mem", 2), NEW);
        frontend.put(&name("cpu", 3), &archive(OLD));
        let source = frontend.source();
        let answer = cpu(&source).await.unwrap();
        assert_eq!(seconds(&answer), [1, 3]);
        for (recording, page) in answer.recordings.iter().zip([NEW, OLD]) {
            let Ok(RecordingData::Encoded(bytes)) = &recording.content else { panic!("{recording:?}") };
            assert_eq!(bytes, page);
            let decoded = decode(bytes, &Limits::default()).unwrap();
            assert!(decoded.profile.sample_count() > 0);
            assert!(recording.is_found && recording.finished.0 - recording.started.0 == 120_000_000_000);
        }
        let nothing = cpu(&source).await.unwrap_err();
        assert!(nothing.code() == "nothing_new" && nothing.to_string().contains(&name("cpu", 3)), "{nothing}");
        frontend.put(&name("cpu", 5), NEW);
        assert_eq!(seconds(&cpu(&source).await.unwrap()), [5]);
        let fetched = |path: &String| path.contains("filename=");
        assert_eq!(frontend.asked.lock().unwrap().iter().filter(|path| fetched(path)).count(), 3, "each once");
    }
}

#[tokio::test]
async fn a_long_list_begins_with_its_latest_and_goes_on_in_order() {
    let frontend = Frontend::start(true);
    (1..=25).for_each(|second| frontend.put(&name("cpu", second), NEW));
    let source = frontend.source();
    assert_eq!(seconds(&cpu(&source).await.unwrap()), (16..=25).collect::<Vec<_>>());
    (26..=40).for_each(|second| frontend.put(&name("cpu", second), NEW));
    assert_eq!(seconds(&cpu(&source).await.unwrap()), (26..=35).collect::<Vec<_>>());
    assert_eq!(seconds(&cpu(&source).await.unwrap()), (36..=40).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_broken_or_gone_keeps_the_others_from_nothing() {
    let frontend = Frontend::start(true);
    frontend.put(&name("cpu", 1), b"");
    frontend.put(&name("cpu", 2), b"broken");
    frontend.put(&name("cpu", 3), &archive(NEW)[..500]);
    frontend.put(&name("cpu", 4), NEW);
    let source = frontend.source();
    let answer = cpu(&source).await.unwrap();
    assert_eq!(seconds(&answer), [-2, -3, 4]);
    let error = answer.recordings[1].content.as_ref().unwrap_err();
    assert!(error.code() == "not_a_profile" && error.to_string().contains(&name("cpu", 3)), "{error}");
    assert_eq!(cpu(&source).await.unwrap_err().code(), "nothing_new", "none is fetched again");
}

#[tokio::test]
async fn errors_name_the_frontend_and_the_reason() {
    let frontend = Frontend::start(true);
    let empty = cpu(&frontend.source()).await.unwrap_err();
    assert!(empty.code() == "unavailable" && empty.to_string().contains("proc_profile_cpu_enable"), "{empty}");
    let wrong = cpu(&frontend.source_of("guest")).await.unwrap_err();
    assert!(wrong.code() == "unauthorized" && wrong.to_string().contains("/proc_profile?node=FE"), "{wrong}");
    let request = Request::new(ProfileType::Heap);
    let unsupported = frontend.source().record(&request, &Watch::default()).await.unwrap_err();
    assert_eq!(unsupported.code(), "unsupported");
}
