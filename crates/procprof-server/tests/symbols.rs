//! Uploaded symbols: what is accepted, what is refused, which profiles they symbolize, and how pages list missing ones.

use std::process::Command;
use std::sync::Arc;

use procprof_archive::{Archive, ObjectFolder, ReadLimits, Selection};
use procprof_process::BuildId;
use procprof_profile::format::pprof::encode_gzip;
use procprof_profile::{Addr, FileOffset, Mapping, Nanos, ProfileBuilder};
use procprof_server::auth::{Methods, UserRole, add_user};
use procprof_server::{Config, Server};
use procprof_symbolize::{Image, ImageOptions, SymbolIndex};
use reqwest::{Body, Method, header};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api::agree;
use crate::archive::{wait_for, wait_until};
use crate::harness::{TestServer, options, quiet, until};
use crate::hosts::{Agent, agent, frame, token};

const SOURCE: &str = "\
__attribute__((noinline)) int cold(int x) { return x * 3 + 1; }
__attribute__((noinline)) int hot(int x) { return cold(x) ^ 5; }
int main(int argc, char **argv) { return hot(argc); }
";

/// A program with debug information, the same with symbols only, and profiles of it.
struct Program {
    folder: TempDir,
    build_id: String,
    hot: u64,
    cold: u64,
}

impl Program {
    fn new() -> Program {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("program.c"), SOURCE).unwrap();
        run("gcc", &["-O1", "-g", "-no-pie", "-Wl,--build-id", "-o", "program", "program.c"], &folder);
        run("objcopy", &["--strip-debug", "program", "no-lines"], &folder);
        let symbols = run("nm", &["program"], &folder);
        let address = |name: &str| {
            let line = symbols.lines().find(|line| line.ends_with(&format!(" T {name}"))).unwrap();
            u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
        };
        let file = std::fs::File::open(folder.path().join("program")).unwrap();
        let build_id = BuildId::of_file(&file).unwrap().unwrap().to_string();
        Program { hot: address("hot"), cold: address("cold"), build_id, folder }
    }

    fn index(&self, name: &str) -> Vec<u8> {
        SymbolIndex::build(&Image::open(&self.folder.path().join(name), &ImageOptions::default()).unwrap()).unwrap()
    }

    /// A profile of it by addresses only, from a machine where it lies somewhere else; `hot` has 70 % for itself.
    fn profile(&self, start_seconds: i64) -> Vec<u8> {
        let mut builder = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        let (filename, build_id) = (builder.intern("/opt/nowhere/program"), builder.intern(&self.build_id));
        let place = (Addr(0x40_0000), Addr(0x41_0000), FileOffset(0));
        let mapping =
            Mapping { start: place.0, limit: place.1, file_offset: place.2, filename, build_id, ..Mapping::default() };
        let mapping = builder.mapping(mapping);
        let [hot, cold] = [self.hot, self.cold].map(|address| builder.address(Some(mapping), Addr(address + 1)));
        let named = builder.frame("named_already");
        builder.sample(&[hot, named], &[60, 600_000_000], &[]);
        builder.sample(&[cold, hot], &[30, 300_000_000], &[]);
        builder.sample(&[named], &[10, 100_000_000], &[]);
        builder.time(Nanos(start_seconds * 1_000_000_000), Nanos(1_000_000_000));
        encode_gzip(&builder.finish().unwrap()).unwrap()
    }
}

fn run(program: &str, arguments: &[&str], folder: &TempDir) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder.path()).output();
    let output = output.unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn send(server: &TestServer, body: impl Into<Body>) -> (u16, Value) {
    let response = server.request(Method::POST, "/api/symbols").body(body).send().await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null))
}

/// The files in the folder of symbols.
fn kept(server: &TestServer) -> Vec<String> {
    let entries = std::fs::read_dir(server.data.path().join("symbols")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_profiles_get_names_when_they_are_opened_after_symbols_came() {
    let program = Program::new();
    let server = TestServer::start(quiet()).await;
    let pushed = server.push("cpu", program.profile(1_700_000_000)).await;
    let id = pushed["id"].as_str().unwrap().to_owned();
    assert_eq!(server.status(Method::POST, &format!("/api/profiles/{id}/pin")).await, 204);
    let (profile, page) = (format!("/api/profiles/{id}"), format!("/p/{id}"));

    let wanted = &pushed["wanted"][0];
    let command = format!("procprof symbols push --server http://{} /opt/nowhere/program", server.address);
    let answer = (wanted["file"].as_str(), wanted["build_id"].as_str());
    assert_eq!(answer, (Some("/opt/nowhere/program"), Some(program.build_id.as_str())), "{pushed}");
    assert_eq!((wanted["command"].as_str(), wanted["uploaded"].as_bool()), (Some(command.as_str()), Some(false)));
    assert!((wanted["percent"].as_f64().unwrap() - 90.0).abs() < 0.05, "{wanted}");
    for place in [page.as_str(), "/proc_profile?node=1", "/symbols"] {
        let text = server.text(place).await;
        assert!(
            text.contains(&command) && text.contains("90.0\u{a0}%") && text.contains(&program.build_id),
            "{place}: {text}"
        );
    }
    let download = server.get(&format!("{profile}/download")).await;
    assert!(
        !download.headers()["cache-control"].to_str().unwrap().contains("max-age"),
        "browsers ask again for what may get names"
    );
    let before = server.get(&format!("{profile}/render/top")).await.text().await.unwrap();
    assert!(!before.contains("hot"), "{before}");

    let document = server.json("/api/openapi.json").await;
    let schemas = &document["components"]["schemas"];
    let is_as_said = |name: &str, value: &Value| {
        agree(schemas, &json!({ "$ref": format!("#/components/schemas/{name}") }), value, name)
    };
    is_as_said("SymbolList", &server.json("/api/symbols").await);

    let (status, answer) = send(&server, program.index("program")).await;
    assert_eq!((status, answer["outcome"].as_str()), (201, Some("added")), "{answer}");
    is_as_said("SymbolPush", &answer);
    is_as_said("SymbolList", &server.json("/api/symbols").await);
    let offer = format!("/api/symbols/offer?key={}&detail=lines", program.build_id);
    is_as_said("SymbolOffer", &server.post(&offer, Value::Null).await.1);
    let symbols = &answer["symbols"];
    assert_eq!((symbols["name"].as_str(), symbols["detail"].as_str()), (Some("program"), Some("lines")), "{symbols}");
    assert_eq!(
        (symbols["profiles_wanting"].as_u64(), symbols["profiles_using"].as_u64()),
        (Some(1), Some(0)),
        "{symbols}"
    );
    assert!(!server.text("/symbols").await.contains("/opt/nowhere"), "it is not wanted any more");

    let top = server.text(&format!("{profile}/render/top")).await;
    assert!(top.contains("hot") && top.contains("cold"), "{top}");
    let named = server.json(&profile).await;
    assert!(
        named["wanted"].as_array().unwrap().is_empty() && named["facts"]["unresolved-locations"].is_null(),
        "{named}"
    );
    assert_eq!(named["facts"]["symbols-uploaded"].as_str(), Some(program.build_id.as_str()));
    assert_eq!(
        (&named["id"], &named["file_name"], &named["end"]),
        (&pushed["id"], &pushed["file_name"], &pushed["end"])
    );
    assert_eq!((named["pinned"].as_bool(), named["top"][0]["name"].as_str()), (Some(true), Some("hot")), "{named}");
    let bytes = server.get(&format!("{profile}/download")).await.bytes().await.unwrap();
    let stored = procprof_profile::format::decode(&bytes, &Default::default()).unwrap().profile;
    assert!(stored.locations().iter().any(|location| location.address == Addr(program.hot + 1)), "addresses stay");
    assert!(!server.text(&page).await.contains("symbols push"));

    let list = server.json("/api/symbols").await;
    let row = &list["symbols"][0];
    assert_eq!((row["profiles_wanting"].as_u64(), row["profiles_using"].as_u64()), (Some(0), Some(1)), "{list}");
    assert!(row["last_used"].is_string() && row["bytes"] == list["bytes"], "{list}");
    let key = &program.build_id;
    let after = format!("PROGRAM&limit=1&cursor={key}");
    for (query, found, shown) in [("program&cursor=00", 1, 1), (&*after, 1, 0), (&key[4..], 1, 1), ("nothing", 0, 0)] {
        let list = server.json(&format!("/api/symbols?q={query}")).await;
        let rows = list["symbols"].as_array().unwrap().len();
        assert_eq!((list["found"].as_u64(), rows, list["next"].is_null()), (Some(found), shown, true), "{list}");
    }
    assert_eq!(server.status(Method::GET, "/api/symbols?cursor=%C3%BC").await, 400);
    assert!(server.text("/symbols?q=PROG&page=9").await.contains(&program.build_id));
    let none = server.text("/symbols?q=nothing").await;
    assert!(none.contains("No symbols match") && !none.contains(&program.build_id), "{none}");
    let newer = server.push("cpu", program.profile(1_700_000_100)).await;
    assert!(newer["top"][0]["name"] == "hot" && newer["wanted"].as_array().unwrap().is_empty(), "{newer}");

    // A restart finds them again, and without the note beside the index, too.
    let data = server.stop().await;
    std::fs::write(data.path().join("symbols/.7.upload"), "left").unwrap();
    let server = TestServer::in_folder(quiet(), data).await;
    assert_eq!(server.json("/api/symbols").await["symbols"][0]["by"], row["by"]);
    let data = server.stop().await;
    std::fs::remove_file(data.path().join(format!("symbols/{}.json", program.build_id))).unwrap();
    let server = TestServer::in_folder(quiet(), data).await;
    let again = &server.json("/api/symbols").await["symbols"][0];
    assert_eq!(
        (&again["functions"], &again["detail"], again["by"].as_str()),
        (&row["functions"], &row["detail"], Some(""))
    );

    assert_eq!(server.status(Method::DELETE, &format!("/api/symbols/{}", program.build_id)).await, 204);
    assert_eq!(server.status(Method::DELETE, &format!("/api/symbols/{}", program.build_id)).await, 404);
    assert!(kept(&server).is_empty(), "{:?}", kept(&server));
    assert!(server.text(&format!("{profile}/render/top")).await.contains("hot"), "names stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_was_damaged_on_disk_is_asked_for_anew() {
    let program = Program::new();
    let server = TestServer::start(quiet()).await;
    let index = program.index("program");
    let file = server.data.path().join(format!("symbols/{}.index", program.build_id));
    // In its head, and in its last part.
    for (number, place) in [30, index.len() - 3].into_iter().enumerate() {
        let start = 1_700_000_000 + 100 * number as i64;
        assert_eq!(send(&server, index.clone()).await.0, 201);
        let mut damaged = index.clone();
        damaged[place] ^= 0x40;
        std::fs::write(&file, damaged).unwrap();
        let pushed = server.push("cpu", program.profile(start)).await;
        let wanted = &pushed["wanted"][0];
        assert_eq!(wanted["build_id"].as_str(), Some(program.build_id.as_str()), "{pushed}");
        assert_eq!(wanted["uploaded"].as_bool(), Some(false), "{pushed}");
        assert!(kept(&server).is_empty(), "{:?}", kept(&server));
        assert_eq!(send(&server, index.clone()).await.1["outcome"].as_str(), Some("added"));
        let named = server.push("cpu", program.profile(start + 50)).await;
        assert_eq!(named["top"][0]["name"].as_str(), Some("hot"), "{named}");
        assert_eq!(server.status(Method::DELETE, &format!("/api/symbols/{}", program.build_id)).await, 204);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn archived_frames_get_names_when_their_day_is_compacted() {
    let program = Program::new();
    let archiving = || Config { archive: "archive".into(), ..quiet() };
    let server = TestServer::start(archiving()).await;
    server.push("cpu", program.profile(1_700_000_000)).await;
    wait_for(&server, 1.0).await;
    assert_eq!(send(&server, program.index("program")).await.0, 201);
    let data = server.stop().await;
    let archive = || {
        let objects = ObjectFolder::open(data.path().join("archive")).unwrap();
        Archive::new(Arc::new(objects), ReadLimits::default())
    };
    let functions = || {
        let profile = archive().merge(&Selection::default()).unwrap().unwrap().profile;
        let mut names: Vec<String> =
            profile.functions().iter().map(|function| profile.string(function.name).to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(functions(), ["named_already"]);
    let more = tempfile::tempdir().unwrap();
    let options = options(archiving(), data.path().to_owned());
    let server = TestServer::around(Server::start(options).await.unwrap(), more);
    wait_until(&server, "procprof_archive_compacted_parts_total", |parts| parts == 1.0).await;
    server.stop().await;
    assert_eq!(functions(), ["cold", "hot", "named_already"]);
    let part = archive().parts().unwrap().whole.into_keys().next().unwrap();
    assert_eq!(archive().check(part).unwrap().wrong, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn poorer_symbols_do_not_replace_richer_ones() {
    let program = Program::new();
    let server = TestServer::start(quiet()).await;
    let outcome = async |name: &str| {
        let (status, answer) = send(&server, program.index(name)).await;
        (
            status,
            answer["outcome"].as_str().unwrap().to_owned(),
            answer["symbols"]["detail"].as_str().unwrap().to_owned(),
        )
    };
    let answer = |status: u16, outcome: &str, detail: &str| (status, outcome.to_owned(), detail.to_owned());
    assert_eq!(outcome("no-lines").await, answer(201, "added", "functions"));
    assert_eq!(outcome("program").await, answer(201, "replaced", "lines"));
    assert_eq!(outcome("no-lines").await, answer(200, "kept", "lines"));
    assert_eq!(outcome("program").await, answer(200, "kept", "lines"), "equal ones do not, either");
    let offer = async |detail: &str| {
        let path = format!("/api/symbols/offer?key={}&detail={detail}&bytes=1", program.build_id);
        server.post(&path, Value::Null).await.1["take"].as_bool()
    };
    assert_eq!((offer("functions").await, offer("lines").await), (Some(false), Some(false)));
    assert_eq!(server.json("/api/symbols").await["symbols"].as_array().unwrap().len(), 1);
}

/// A body that a token sends; the status and the answer.
async fn send_by(server: &TestServer, agent: &Agent, path: &str, body: Vec<u8>) -> (u16, Value) {
    let (status, text) = agent.post(server, path, "application/octet-stream", body).await;
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}

#[tokio::test(flavor = "multi_thread")]
async fn symbols_belong_to_operators_then_to_hosts_that_run_the_file() {
    let program = Program::new();
    let key = &program.build_id;
    let evil = SOURCE.replace("hot", "blame_others").replace("cold", "harmless");
    std::fs::write(program.folder.path().join("evil.c"), evil).unwrap();
    let build_id = format!("-Wl,--build-id=0x{key}");
    run("gcc", &["-O1", "-g", "-no-pie", &build_id, "-o", "evil", "evil.c"], &program.folder);
    let users = tempfile::tempdir().unwrap();
    let file = users.path().join("users");
    add_user(&file, "ann", UserRole::Operator, "ann's secret", Methods::Modern).unwrap();
    let by = |number: u8, name: &str| agent(number, Some(token(&users, name)));
    let (runs, other, stranger) = (by(1, "agent-1"), by(2, "agent-2"), by(3, "ci"));
    let mut server = TestServer::start(Config { users_file: Some(file), ..quiet() }).await;
    server.credentials = Some(("ann".to_owned(), "ann's secret".to_owned()));
    for agent in [&runs, &other] {
        agent.taken(&server, &agent.heartbeat(&[], 0)).await;
    }
    let is = |(status, answer): (u16, Value), wanted: u16, outcome: &str, owner: &str| {
        let found = (status, answer["outcome"].as_str(), answer["symbols"]["owner"].as_str());
        assert_eq!(found, (wanted, Some(outcome), Some(owner)), "{answer}");
    };
    let upload = async |agent: &Agent, name: &str| send_by(&server, agent, "/api/symbols", program.index(name)).await;
    let is_taken = async |agent: &Agent, detail: &str| {
        let path = format!("/api/symbols/offer?key={key}&detail={detail}");
        send_by(&server, agent, &path, Vec::new()).await.1["take"].as_bool().unwrap_or(false)
    };

    is(upload(&stranger, "evil").await, 201, "added", "other");
    let (status, answer) = upload(&other, "program").await;
    assert_eq!((status, answer["code"].as_str()), (403, Some("not_running")), "{answer}");
    assert!(!is_taken(&other, "lines").await && !is_taken(&runs, "lines").await, "nothing of the host is known");
    // What a stranger has named is wanted of the host that runs it.
    let (status, text) = runs.push(&server, frame(&runs.header(None, 1), &program.profile(1_700_000_000))).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, answer["wanted_symbols"][0].as_str()), (200, Some(key.as_str())), "{text}");
    let wanted = runs.taken(&server, &runs.heartbeat(&[], 0)).await.wanted_symbols;
    assert_eq!(wanted, std::slice::from_ref(key));
    assert!(is_taken(&runs, "functions").await);
    is(upload(&runs, "no-lines").await, 201, "replaced", "host");
    assert!(runs.taken(&server, &runs.heartbeat(&[], 0)).await.wanted_symbols.is_empty());
    is(upload(&stranger, "evil").await, 200, "kept", "host");
    assert!(
        !is_taken(&stranger, "lines").await && is_taken(&runs, "lines").await && !is_taken(&runs, "functions").await
    );
    is(upload(&runs, "program").await, 201, "replaced", "host");
    is(send(&server, program.index("no-lines")).await, 201, "replaced", "operator");
    is(upload(&runs, "evil").await, 200, "kept", "operator");

    let row = &server.json("/api/symbols").await["symbols"][0];
    assert_eq!((row["by"].as_str(), row["owner"].as_str()), (Some("ann"), Some("operator")), "{row}");
    assert!(server.text("/symbols").await.contains("by ann (operator)"));
    let id = server.push("cpu", program.profile(1_700_000_100)).await["id"].as_str().unwrap().to_owned();
    let page = server.text(&format!("/p/{id}")).await;
    assert!(page.contains(&format!("Symbols {key} sent by")) && page.contains("ann (operator)"), "{page}");
    let top = server.text(&format!("/api/profiles/{id}/render/top")).await;
    assert!(top.contains("hot") && !top.contains("blame_others"), "{top}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_makes_room_with_what_it_sent_itself() {
    let program = Program::new();
    let index = program.index("program");
    let users = tempfile::tempdir().unwrap();
    let file = users.path().join("users");
    let [first, second] = ["one", "two"].map(|name| agent(1, Some(token(&users, name))));
    // Three indexes are three quarters.
    let symbols_bytes_max = 4 * index.len() as u64;
    let server = TestServer::start(Config { users_file: Some(file), symbols_bytes_max, ..quiet() }).await;
    let copy = |number: u8| {
        let name = format!("copy-{number}");
        let build_id = format!("-Wl,--build-id=0x{number:02x}{}", "00".repeat(19));
        run("gcc", &["-O1", "-g", "-no-pie", &build_id, "-o", &name, "program.c"], &program.folder);
        program.index(&name)
    };
    let upload = async |agent: &Agent, bytes: Vec<u8>| {
        let (status, answer) = send_by(&server, agent, "/api/symbols", bytes).await;
        let evicted = answer["evicted"].as_array().map(Vec::len);
        (status, evicted)
    };
    assert_eq!(upload(&first, copy(1)).await, (201, Some(0)));
    assert_eq!(upload(&second, copy(2)).await, (201, Some(0)));
    for number in 3..6 {
        assert_eq!(upload(&first, copy(number)).await, (201, Some(1)), "{number}");
    }
    let mut keys = kept(&server);
    keys.retain(|name| name.ends_with(".index"));
    assert_eq!(keys.iter().map(|name| &name[..2]).collect::<Vec<_>>(), ["02", "05"], "the other's stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_uploads_are_refused_and_leave_nothing() {
    let program = Program::new();
    let index = program.index("program");
    let mut config = quiet();
    config.symbols_file_bytes_max = 1 << 20;
    let server = TestServer::start(config).await;
    let code = async |bytes: Vec<u8>| {
        let (status, answer) = send(&server, bytes).await;
        (status, answer["code"].as_str().unwrap_or("").to_owned(), answer["error"].as_str().unwrap_or("").to_owned())
    };
    let broken = |at: usize| {
        let mut bytes = index.clone();
        bytes[at] ^= 0x40;
        bytes
    };
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("something else", b"<html>".to_vec()),
        ("cut short", index[..index.len() - 1].to_vec()),
        ("cut in the head", index[..30].to_vec()),
        ("another version", broken(8)),
        ("a wrong head", broken(30)),
        ("a wrong part", broken(index.len() - 3)),
    ] {
        let (status, code, message) = code(bytes).await;
        assert_eq!((status, code.as_str()), (422, "no_index"), "{what}: {message}");
    }
    let (status, code, message) = code(vec![0; (1 << 20) + 1]).await;
    assert_eq!((status, code.as_str()), (413, "too_large"), "{message}");
    assert!(message.contains("symbols_file_bytes_max"), "{message}");
    let endless =
        futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![0_u8; 1 << 16])).take_while_bytes(3 << 20);
    let endless = server.request(Method::POST, "/api/symbols").body(Body::wrap_stream(endless)).send().await;
    assert!(endless.is_err() || endless.is_ok_and(|response| response.status() == 413), "without a length, too");
    let offer = format!("/api/symbols/offer?key={}&detail=lines&bytes=99999999999999", program.build_id);
    assert_eq!(server.post(&offer, Value::Null).await.0, 413);
    for wrong in ["key=../x&detail=lines", "key=00ff&detail=all", "detail=lines", "key=00ff&detail=lines&bytes=-1"] {
        assert_eq!(server.post(&format!("/api/symbols/offer?{wrong}"), Value::Null).await.0, 400, "{wrong}");
    }
    assert_eq!(server.status(Method::DELETE, "/api/symbols/..%2Fnodes").await, 400);
    for (name, value) in [(header::HOST, "evil.example"), (header::ORIGIN, "http://evil.example")] {
        let request = server.request(Method::POST, "/api/symbols").header(name, value).body(index.clone());
        assert_eq!(request.send().await.unwrap().status(), 403, "{value}");
    }
    lie_about_the_length(&server, &index).await;
    assert!(kept(&server).is_empty(), "{:?}", kept(&server));
    assert!(server.json("/api/symbols").await["symbols"].as_array().unwrap().is_empty());
    assert_eq!(send(&server, index).await.0, 201, "the honest one is taken");
}

/// Declares more than it sends and goes away; the server must forget it.
async fn lie_about_the_length(server: &TestServer, index: &[u8]) {
    use tokio::io::AsyncWriteExt;
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /api/symbols HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n",
        server.address,
        index.len() + 10
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(index).await.unwrap();
    drop(stream);
    until("it is forgotten", async || kept(server).is_empty().then_some(())).await;
}

trait TakeWhileBytes: Sized {
    fn take_while_bytes(self, bytes: usize) -> futures_util::stream::Take<Self>;
}

impl<S: futures_util::Stream<Item = std::io::Result<Vec<u8>>>> TakeWhileBytes for S {
    fn take_while_bytes(self, bytes: usize) -> futures_util::stream::Take<Self> {
        futures_util::StreamExt::take(self, bytes >> 16)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_see_symbols_and_operators_change_them() {
    let program = Program::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    add_user(&file, "ann", UserRole::Operator, "ann's secret", Methods::Modern).unwrap();
    add_user(&file, "vic", UserRole::Viewer, "vic's secret", Methods::Modern).unwrap();
    let mut server = TestServer::start(Config { users_file: Some(file), ..quiet() }).await;
    let key = program.build_id.clone();
    server.credentials = Some(("vic".to_owned(), "vic's secret".to_owned()));
    assert_eq!(send(&server, program.index("program")).await.0, 403);
    assert_eq!(server.post(&format!("/api/symbols/offer?key={key}&detail=lines"), Value::Null).await.0, 403);
    assert!(kept(&server).is_empty());
    server.credentials = Some(("ann".to_owned(), "ann's secret".to_owned()));
    let (status, answer) = send(&server, program.index("program")).await;
    assert_eq!((status, answer["symbols"]["by"].as_str()), (201, Some("ann")));
    assert!(server.text("/symbols").await.contains("Remove these symbols"));
    server.credentials = Some(("vic".to_owned(), "vic's secret".to_owned()));
    assert_eq!(server.status(Method::DELETE, &format!("/api/symbols/{key}")).await, 403);
    assert_eq!(server.json("/api/symbols").await["symbols"][0]["key"].as_str(), Some(key.as_str()));
    let page = server.text("/symbols").await;
    assert!(page.contains(&key) && !page.contains("Remove these symbols"), "{page}");
    server.credentials = Some(("ann".to_owned(), "ann's secret".to_owned()));
    let origin = format!("http://{}", server.address);
    let form =
        server.request(Method::POST, "/symbols/remove").header(header::ORIGIN, origin).body(format!("key={key}"));
    assert_eq!(form.send().await.unwrap().status(), 303);
    assert!(kept(&server).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_used_longest_ago_makes_room() {
    let programs = [Program::new(), Program::new()];
    let another = std::fs::read_to_string(programs[1].folder.path().join("program.c")).unwrap()
        + "int other(void) { return 1; }\n";
    std::fs::write(programs[1].folder.path().join("program.c"), another).unwrap();
    run("gcc", &["-O1", "-g", "-no-pie", "-Wl,--build-id", "-o", "program", "program.c"], &programs[1].folder);
    let indexes = programs.each_ref().map(|program| program.index("program"));
    let mut config = quiet();
    config.symbols_bytes_max = indexes.iter().map(|index| index.len() as u64).max().unwrap() + 10;
    let server = TestServer::start(config).await;
    assert_eq!(send(&server, indexes[0].clone()).await.0, 201);
    let (status, answer) = send(&server, indexes[1].clone()).await;
    assert_eq!((status, answer["evicted"][0]["key"].as_str()), (201, Some(programs[0].build_id.as_str())), "{answer}");
    assert_eq!(kept(&server).len(), 2, "one index and its note");
}

/// A program without a build id in its profiles: as a StarRocks BE on another host is seen, by its memory map only.
struct Distant {
    folder: TempDir,
    hot: u64,
    cold: u64,
}

impl Distant {
    /// The sources with something in front, and how it is linked.
    fn new(in_front: &str, flags: &[&str]) -> Distant {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("distant.c"), format!("{in_front}\n{SOURCE}")).unwrap();
        let compile = [&["-O1", "-g", "-Wl,-z,separate-code", "-o", "distant_be", "distant.c"], flags].concat();
        run("gcc", &compile, &folder);
        run("objcopy", &["--only-keep-debug", "distant_be", "distant_be.debuginfo"], &folder);
        let symbols = run("nm", &["distant_be"], &folder);
        Distant { hot: symbol(&symbols, "hot"), cold: symbol(&symbols, "cold"), folder }
    }

    fn index(&self, name: &str) -> Vec<u8> {
        SymbolIndex::build(&Image::open(&self.folder.path().join(name), &ImageOptions::default()).unwrap()).unwrap()
    }

    /// A heap dump as jemalloc writes it: return addresses, and the map of a process in which code has that many pages
    /// and is `base` behind the file's addresses.
    fn heap(&self, base: u64, pages: u64) -> Vec<u8> {
        let [hot, cold] = [self.hot, self.cold].map(|address| base + address + 2);
        let code = base + (self.hot & !0xfff);
        let lines = [
            "heap_v2/524288".to_owned(),
            "  t*: 3: 3145728 [0: 0]".to_owned(),
            format!("@ {cold:#x} {hot:#x}"),
            "  t*: 1: 1048576 [0: 0]".to_owned(),
            format!("@ {hot:#x}"),
            "  t*: 2: 2097152 [0: 0]".to_owned(),
            String::new(),
            "MAPPED_LIBRARIES:".to_owned(),
            format!("{:x}-{code:x} r--p 00000000 fd:01 1234 /opt/nowhere/lib/distant_be", code - 0x1000),
            format!("{code:x}-{:x} r-xp 00001000 fd:01 1234 /opt/nowhere/lib/distant_be", code + pages * 0x1000),
            format!(
                "{:x}-{:x} r--p 00002000 fd:01 1234 /opt/nowhere/lib/distant_be",
                code + pages * 0x1000,
                code + (pages + 1) * 0x1000
            ),
        ];
        (lines.join("\n") + "\n").into_bytes()
    }
}

fn symbol(symbols: &str, name: &str) -> u64 {
    let line = symbols.lines().find(|line| line.ends_with(&format!(" T {name}"))).unwrap();
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
}

/// The load address of position independent code.
const BASE: u64 = 0x5581_2f3a_0000;

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_without_build_ids_is_named_by_the_only_debug_file_that_fits() {
    for (flags, base) in [(&["-pie", "-Wl,--build-id=none"], BASE), (&["-no-pie", "-Wl,--build-id"], 0)] {
        let distant = Distant::new("", flags);
        let server = TestServer::start(quiet()).await;
        let pushed = server.push("heap", distant.heap(base, 1)).await;
        let id = pushed["id"].as_str().unwrap().to_owned();
        assert_eq!(pushed["wanted"][0]["file"].as_str(), Some("/opt/nowhere/lib/distant_be"), "{pushed}");
        assert!(server.text(&format!("/p/{id}")).await.contains("symbols push"));

        let (status, answer) = send(&server, distant.index("distant_be.debuginfo")).await;
        assert_eq!(status, 201, "{answer}");
        let page = server.text(&format!("/p/{id}")).await;
        assert!(!page.contains("symbols push") && page.contains("unverified"), "{page}");
        let named = server.json(&format!("/api/profiles/{id}")).await;
        let names: Vec<&str> = named["top"].as_array().unwrap().iter().filter_map(|row| row["name"].as_str()).collect();
        assert_eq!(names, ["hot", "cold"], "{named}");
        assert_eq!(
            (&named["facts"]["symbols"], &named["facts"]["symbols-uploaded"]),
            (&json!("unverified"), &answer["symbols"]["key"])
        );

        let next = server.push("heap", distant.heap(base, 1)).await;
        assert_eq!(
            (&next["facts"]["symbols"], next["wanted"].as_array().unwrap().len()),
            (&json!("unverified"), 0),
            "{next}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_several_symbols_fit_none_is_guessed() {
    // Another build of as much code: an instruction has another constant.
    let distant = Distant::new("", &["-pie", "-Wl,--build-id"]);
    let other = Distant::new("int more(int x) { return x * 7; }", &["-pie", "-Wl,--build-id"]);
    let server = TestServer::start(quiet()).await;
    let mut keys = Vec::new();
    for program in [&distant, &other] {
        let (status, answer) = send(&server, program.index("distant_be.debuginfo")).await;
        assert_eq!(status, 201, "{answer}");
        keys.push(answer["symbols"]["key"].as_str().unwrap().to_owned());
    }
    let pushed = server.push("heap", distant.heap(BASE, 1)).await;
    let id = pushed["id"].as_str().unwrap().to_owned();
    let fitting = |profile: &Value| -> Vec<String> {
        let keys = profile["wanted"][0]["fitting"].as_array().unwrap();
        keys.iter().map(|key| key.as_str().unwrap().to_owned()).collect()
    };
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(fitting(&pushed), sorted, "{pushed}");
    assert!(pushed["facts"]["symbols"].is_null(), "{pushed}");
    let document = server.json("/api/openapi.json").await;
    agree(&document["components"]["schemas"], &json!({ "$ref": "#/components/schemas/Profile" }), &pushed, "Profile");
    let page = server.text(&format!("/p/{id}")).await;
    assert!(keys.iter().all(|key| page.contains(key)) && page.contains("Several uploaded files fit it"), "{page}");
    assert!(!server.text(&format!("/api/profiles/{id}/render/top")).await.contains("hot"));

    assert_eq!(server.status(Method::DELETE, &format!("/api/symbols/{}", keys[1])).await, 204);
    assert!(
        server.text(&format!("/api/profiles/{id}/render/top")).await.contains("hot"),
        "the one that is left is used"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn symbols_of_the_same_name_and_other_code_are_not_used() {
    let distant = Distant::new("", &["-pie", "-Wl,--build-id=none"]);
    let server = TestServer::start(quiet()).await;
    assert_eq!(send(&server, distant.index("distant_be.debuginfo")).await.0, 201);
    assert_eq!(send(&server, distant.index("distant_be")).await.0, 201);
    let pushed = server.push("heap", distant.heap(BASE, 2)).await;
    let wanted = &pushed["wanted"][0];
    assert_eq!(
        (wanted["fitting"].as_array().unwrap().len(), wanted["uploaded"].as_bool()),
        (0, Some(false)),
        "{pushed}"
    );
    let page = server.text(&format!("/p/{}", pushed["id"].as_str().unwrap())).await;
    assert!(page.contains("do not fit") && page.contains("symbols push") && !page.contains("unverified"), "{page}");
    assert!(server.json("/api/symbols").await["wanted"][0]["same_name"].as_bool().unwrap());
}
