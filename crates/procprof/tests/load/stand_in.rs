//! A stand-in for a StarRocks cluster: a frontend over the MySQL protocol and HTTP, and a backend over HTTP, as
//! StarRocks documents them. Rows are kept as JSON by their primary key.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use base64::Engine as _;
use regex::Regex;
use serde_json::{Map, Value};

/// The user and password of HTTP requests.
pub(super) const LOGIN: (&str, &str) = ("loader", super::mariadb::PASSWORD);

/// What goes wrong with the next load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing.
    None,
    /// The rows are there, the answer is not.
    LostAnswer,
    /// The same, and the job runs for a while.
    LostAnswerWhileRunning,
    /// A row is left out.
    Filtered,
    /// An error of the server.
    Status500,
    /// The load fails.
    Fail,
    /// Nothing happens any more; [`State::hangs`] says so.
    Hang,
}

/// A table as it was made.
#[derive(Clone)]
pub(super) struct Declared {
    /// Names and types.
    columns: Vec<(String, String)>,
    key: Vec<String>,
}

/// What the cluster has.
#[derive(Default)]
pub(super) struct State {
    pub(super) tables: BTreeMap<String, Declared>,
    pub(super) rows: BTreeMap<String, BTreeMap<Vec<i64>, Map<String, Value>>>,
    /// Names of parts that are loaded, by their first id.
    pub(super) parts: BTreeMap<i64, String>,
    /// Those that are being loaded.
    pub(super) begun: BTreeMap<i64, String>,
    pub(super) labels: BTreeSet<String>,
    pub(super) faults: VecDeque<Fault>,
    /// Whether a load hangs.
    pub(super) hangs: bool,
    /// Answers that a job of a label runs.
    running: u32,
    pub(super) loads: u32,
}

/// A running stand-in; it ends with the test process.
pub(super) struct StandIn {
    pub(super) mysql: SocketAddr,
    pub(super) http: SocketAddr,
    pub(super) backend: SocketAddr,
    pub(super) state: Arc<Mutex<State>>,
}

impl StandIn {
    pub(super) fn start() -> StandIn {
        let state: Arc<Mutex<State>> = Arc::default();
        let (of_backend, of_mysql) = (Arc::clone(&state), Arc::clone(&state));
        let backend = listen(move |stream| take_rows(stream, &of_backend));
        let http = listen(move |stream| redirect(stream, backend));
        let mysql = listen(move |stream| answer_statements(stream, &of_mysql));
        StandIn { mysql, http, backend, state }
    }
}

fn listen(serve: impl Fn(TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.unwrap(), Arc::clone(&serve));
            // A client that has gone ends its connection only.
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A request without its body.
struct Head {
    line: String,
    fields: BTreeMap<String, String>,
}

impl Head {
    fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Head>> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let line = lines.remove(0);
        let field = |line: &String| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Ok(Some(Head { line, fields: lines.iter().map(field).collect() }))
    }

    fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// Why the request is refused by any server, if it is.
    fn refusal(&self) -> Option<&'static str> {
        let login = base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", LOGIN.0, LOGIN.1));
        match () {
            () if self.field("authorization") != format!("Basic {login}") => Some("Access denied for loader"),
            () if self.field("expect") != "100-continue" => Some("There is no 100-continue header"),
            () => None,
        }
    }
}

fn respond(stream: &mut TcpStream, status: &str, fields: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

/// The frontend: it sends each load to the backend.
fn redirect(mut stream: TcpStream, backend: SocketAddr) -> std::io::Result<()> {
    let Some(head) = Head::read(&mut BufReader::new(stream.try_clone()?))? else { return Ok(()) };
    if let Some(why) = head.refusal() {
        return respond(&mut stream, "200 OK", "", &format!("{{\"status\":\"FAILED\",\"msg\":\"{why}\"}}"));
    }
    let path = head.line.split(' ').nth(1).unwrap();
    // As frontends do, with the user and the password.
    let fields = format!("Location: http://loader:hunter2@{backend}{path}\r\n");
    respond(&mut stream, "307 Temporary Redirect", &fields, "")
}

/// The backend.
fn take_rows(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let Some(head) = Head::read(&mut reader)? else { return Ok(()) };
    if let Some(why) = head.refusal() {
        return respond(&mut stream, "200 OK", "", &format!("{{\"Status\":\"Fail\",\"Message\":\"{why}\"}}"));
    }
    stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    let mut body = vec![0; head.field("content-length").parse().unwrap()];
    reader.read_exact(&mut body)?;
    let (status, answer) = load(&head, &body, state);
    match answer {
        Some(answer) => respond(&mut stream, status, "", &answer),
        None if state.lock().unwrap().hangs => reader.read_to_end(&mut Vec::new()).map(|_| ()),
        None => Ok(()),
    }
}

/// Takes the rows of a load; its answer, unless that is lost.
fn load(head: &Head, body: &[u8], state: &Mutex<State>) -> (&'static str, Option<String>) {
    let mut state = state.lock().unwrap();
    if body.is_empty() {
        assert_eq!(head.field("label"), "", "a label is used up without rows");
        return ("200 OK", Some("{\"Status\":\"Success\",\"NumberLoadedRows\":0}".to_owned()));
    }
    state.loads += 1;
    assert_eq!((head.field("format"), head.field("strip_outer_array")), ("json", "true"));
    assert_eq!((head.field("strict_mode"), head.field("max_filter_ratio")), ("true", "0"));
    let label = head.field("label").to_owned();
    let is_label = |label: &str| label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    assert!((1..=128).contains(&label.len()) && is_label(&label), "{label}");
    if state.labels.contains(&label) {
        let job = if state.running > 0 { "RUNNING" } else { "FINISHED" };
        state.running = state.running.saturating_sub(1);
        let answer = format!(
            "{{\"Status\":\"Label Already Exists\",\"ExistingJobStatus\":\"{job}\",\"Message\":\"Label {label}\"}}"
        );
        return ("200 OK", Some(answer));
    }
    let fault = state.faults.pop_front();
    match fault {
        Some(Fault::Status500) => return ("500 Internal Server Error", Some("out of memory".to_owned())),
        Some(Fault::Hang) => {
            state.hangs = true;
            return ("", None);
        }
        Some(Fault::Fail) => {
            let answer = "{\"Status\":\"Fail\",\"Message\":\"too many versions\",\"NumberLoadedRows\":0}";
            return ("200 OK", Some(answer.to_owned()));
        }
        _ => {}
    }
    let table = head.line.split('/').nth(3).unwrap().to_owned();
    let rows: Vec<Map<String, Value>> = serde_json::from_slice(body).unwrap();
    let Declared { columns, key } = state.tables[&table].clone();
    let count = rows.len();
    for row in rows {
        let names: BTreeSet<&str> = row.keys().map(String::as_str).collect();
        assert_eq!(names, columns.iter().map(|(name, _)| name.as_str()).collect(), "{table}");
        let key = key.iter().map(|name| row[name].as_i64().unwrap()).collect();
        state.rows.entry(table.clone()).or_default().insert(key, row);
    }
    state.labels.insert(label);
    let filtered = usize::from(fault == Some(Fault::Filtered));
    let answer = format!(
        "{{\"Status\":\"Success\",\"Message\":\"OK\",\"NumberTotalRows\":{count},\"NumberLoadedRows\":{},\
         \"NumberFilteredRows\":{filtered},\"NumberUnselectedRows\":0,\"ErrorURL\":\"http://be/error_log\"}}",
        count - filtered
    );
    match fault {
        Some(Fault::LostAnswer) => ("", None),
        Some(Fault::LostAnswerWhileRunning) => {
            state.running = 2;
            ("", None)
        }
        _ => ("200 OK", Some(answer)),
    }
}

/// The frontend's MySQL protocol; any password is right.
fn answer_statements(mut stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut greeting = b"\x0a8.0.33\0\x01\0\0\0abcdefgh\0".to_vec();
    // Protocol 4.1, a database at login, transactions, authentication by plugins.
    greeting.extend(b"\x08\xa2\x21\x02\0\x08\0\x15\0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native_password\0");
    send(&mut stream, 0, &greeting)?;
    receive(&mut stream)?;
    const OK: &[u8] = b"\0\0\0\x02\0\0\0";
    send(&mut stream, 2, OK)?;
    loop {
        let packet = receive(&mut stream)?;
        if packet.first() != Some(&3) {
            return Ok(());
        }
        let statement = String::from_utf8(packet[1..].to_vec()).unwrap();
        match answer(&statement, &mut state.lock().unwrap()) {
            None => send(&mut stream, 1, OK)?,
            Some((columns, rows)) => send_rows(&mut stream, columns, &rows)?,
        }
    }
}

/// Carries out a statement; its number of columns and rows, if it has any.
fn answer(statement: &str, state: &mut State) -> Option<(usize, Vec<Vec<String>>)> {
    let pattern = |pattern: &str| Regex::new(pattern).unwrap().captures(statement);
    let number = |text: &str| text.parse::<i64>().unwrap();
    if statement == "SHOW TABLES" {
        return Some((1, state.tables.keys().map(|name| vec![name.clone()]).collect()));
    }
    if let Some(found) = pattern("^SELECT `name` FROM `archive_parts`( WHERE `loaded` IS (NOT )?NULL)?$") {
        let is = |what: &str| found.get(1).is_none_or(|condition| condition.as_str() == what);
        let whole = state.parts.values().filter(|_| is(" WHERE `loaded` IS NOT NULL"));
        let begun = state.begun.values().filter(|_| is(" WHERE `loaded` IS NULL"));
        return Some((1, whole.chain(begun).map(|name| vec![name.clone()]).collect()));
    }
    if let Some(found) = pattern("^SHOW COLUMNS FROM `(.*)`$") {
        let Declared { columns, .. } = &state.tables[&found[1]];
        return Some((2, columns.iter().map(|(name, kind)| vec![name.clone(), kind.to_lowercase()]).collect()));
    }
    if let Some(found) = pattern(r"(?s)^CREATE TABLE IF NOT EXISTS `(\w+)` \(\n(.*)\n\) PRIMARY KEY \((.*)\)\nDISTR") {
        let column = |line: &str| {
            let (name, kind) = line.trim().trim_end_matches(',').split_once(' ').unwrap();
            (name.trim_matches('`').to_owned(), kind.replace(" NOT NULL", ""))
        };
        let key = found[3].split(", ").map(|name| name.trim_matches('`').to_owned()).collect();
        let columns = found[2].lines().map(column).collect();
        state.tables.insert(found[1].to_owned(), Declared { columns, key });
    } else if let Some(found) = pattern(r"^INSERT INTO `archive_parts` .* VALUES \((\d+), '(.*?)', .*, (NULL|'.*')\)$")
    {
        let State { parts, begun, .. } = state;
        let (to, from) = if &found[3] == "NULL" { (begun, parts) } else { (parts, begun) };
        from.remove(&number(&found[1]));
        to.insert(number(&found[1]), found[2].to_owned());
    } else if let Some(found) = pattern(r"^DELETE FROM `archive_parts` WHERE `part` = (\d+)$") {
        state.parts.remove(&number(&found[1]));
        state.begun.remove(&number(&found[1]));
    } else if let Some(found) = pattern(r"^DELETE FROM `(\w+)` WHERE `part` = (\d+)$") {
        let part = number(&found[2]);
        state.rows.entry(found[1].to_owned()).or_default().retain(|key, _| key[0] != part);
    } else if let Some(found) = pattern(r"^DELETE FROM `(\w+)` WHERE `\w+` >= (\d+) AND `\w+` <= (\d+)$") {
        let range = number(&found[2])..=number(&found[3]);
        state.rows.entry(found[1].to_owned()).or_default().retain(|key, _| !range.contains(&key[0]));
    } else {
        assert_eq!(statement, "SET time_zone = 'UTC'");
    }
    None
}

fn send_rows(stream: &mut TcpStream, columns: usize, rows: &[Vec<String>]) -> std::io::Result<()> {
    const EOF: &[u8] = b"\xfe\0\0\x02\0";
    let mut packets = vec![vec![columns as u8]];
    for _ in 0..columns {
        packets.push(b"\x03def\0\0\0\x01c\x01c\x0c\xff\0\0\x04\0\0\xfd\0\0\0\0\0".to_vec());
    }
    packets.push(EOF.to_vec());
    for row in rows {
        packets.push(row.iter().flat_map(|cell| [&[cell.len() as u8][..], cell.as_bytes()].concat()).collect());
    }
    packets.push(EOF.to_vec());
    packets.iter().zip(1..).try_for_each(|(packet, number)| send(stream, number, packet))
}

fn send(stream: &mut TcpStream, number: u8, packet: &[u8]) -> std::io::Result<()> {
    let length = (packet.len() as u32).to_le_bytes();
    stream.write_all(&[&length[..3], &[number], packet].concat())
}

fn receive(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let mut packet = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    stream.read_exact(&mut packet)?;
    Ok(packet)
}
