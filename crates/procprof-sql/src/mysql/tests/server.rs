//! The accept loop and its limits, tested by a client that sends raw bytes: too many, too long, too slow, out of order,
//! disconnected.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use procprof_core::auth::Principal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::mysql::fuzz::Everyone;
use crate::mysql::greeting::can;
use crate::mysql::{
    Caller, Column, Limits, Prepared, Rows, Service, Session, SqlError, SqlErrorKind, StatementResult, Transaction,
    Value, serve,
};

const LIMITS: Limits = Limits {
    connections: 8,
    logins: 100,
    packet: 1 << 20,
    login: Duration::from_secs(3600),
    idle: Duration::from_secs(3600),
    patience: Duration::from_secs(3600),
};

/// The longest wait of the tests.
const WAIT: Duration = Duration::from_secs(180);

/// Answers a few words, and sends the result of each statement that has ended.
struct Echo {
    ended: mpsc::UnboundedSender<Result<u64, SqlError>>,
}

struct EchoSession {
    transaction: Transaction,
    ended: mpsc::UnboundedSender<Result<u64, SqlError>>,
    killed: CancellationToken,
}

impl Service for Echo {
    type Session = EchoSession;

    fn session(&self, _caller: Caller) -> EchoSession {
        EchoSession {
            transaction: Transaction { autocommit: true, open: false },
            ended: self.ended.clone(),
            killed: CancellationToken::new(),
        }
    }
}

impl Session for EchoSession {
    async fn query(&mut self, text: &str, parameters: &[Value]) -> Result<StatementResult, SqlError> {
        match text {
            "begin" => {
                self.transaction.open = true;
                Ok(StatementResult::done())
            }
            "wait" => std::future::pending().await,
            "kill" => {
                self.killed.cancel();
                Ok(StatementResult::done())
            }
            // Rows without end.
            "flood" => {
                let (batches, rows) = mpsc::channel(1);
                tokio::spawn(async move {
                    while batches.send(Ok(vec![vec!["x".repeat(1000).into()]; 1000])).await.is_ok() {}
                });
                Ok(StatementResult::Rows { columns: vec![Column::text("c")], rows: Rows::Stream(rows), warnings: 0 })
            }
            "fail" => Err(SqlError::new(SqlErrorKind::Syntax, "near 'fail'")),
            text => {
                Ok(StatementResult::rows(vec![Column::text("c")], vec![vec![format!("{text} {parameters:?}").into()]]))
            }
        }
    }

    async fn prepare(&mut self, text: &str) -> Result<Prepared, SqlError> {
        Ok(Prepared { parameters: text.matches('?').count(), columns: Vec::new() })
    }

    async fn columns(&mut self, table: &str) -> Result<Vec<Column>, SqlError> {
        Ok(vec![Column { table: table.to_owned(), ..Column::text("c") }])
    }

    fn use_database(&mut self, name: &str) -> Result<(), SqlError> {
        if name == "procprof" { Ok(()) } else { Err(SqlError::new(SqlErrorKind::UnknownDatabase, "unknown database")) }
    }

    fn rights(&mut self, _principal: Principal) {}

    fn reset(&mut self) {}

    fn transaction(&self) -> Transaction {
        self.transaction
    }

    fn database(&self) -> &str {
        "procprof"
    }

    fn killed(&self) -> CancellationToken {
        self.killed.clone()
    }

    fn ended(&mut self, rows: u64, outcome: Result<(), &SqlError>) {
        // A test that looks away does not mind.
        let _ = self.ended.send(outcome.map(|()| rows).map_err(Clone::clone));
    }
}

struct TestServer {
    address: SocketAddr,
    ended: mpsc::UnboundedReceiver<Result<u64, SqlError>>,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

impl TestServer {
    async fn open(limits: Limits) -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, ended) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let served = tokio::spawn(serve(
            listener,
            Arc::new(Echo { ended: sender }),
            Arc::new(Everyone),
            None,
            limits,
            stop.clone(),
        ));
        TestServer { address, ended, stop, served }
    }

    async fn connect(&self) -> Raw {
        Raw { stream: TcpStream::connect(self.address).await.unwrap(), sequence: 0 }
    }

    /// A client that has logged in.
    async fn enter(&self) -> Raw {
        self.enter_with(0).await
    }

    /// One with further capabilities.
    async fn enter_with(&self, capabilities: u32) -> Raw {
        self.enter_as("ann", capabilities).await
    }

    async fn enter_as(&self, user: &str, capabilities: u32) -> Raw {
        let mut client = self.connect().await;
        assert_eq!(client.read().await.unwrap()[0], 10);
        let mut hello = hello(user);
        let own = u32::from_le_bytes([hello[0], hello[1], hello[2], hello[3]]);
        hello[..4].copy_from_slice(&(own | capabilities).to_le_bytes());
        client.send(&hello).await;
        assert_eq!(client.read().await.unwrap()[0], 0);
        client
    }
}

fn hello(user: &str) -> Vec<u8> {
    let capabilities = can::PROTOCOL_41 | can::SECURE_CONNECTION | can::PLUGIN_AUTH | can::DEPRECATE_EOF;
    let mut hello = [&capabilities.to_le_bytes()[..], &[0, 0, 0, 1, 45], &[0; 23], user.as_bytes(), &[0, 0]].concat();
    hello.extend_from_slice(b"mysql_native_password\0");
    hello
}

struct Raw {
    stream: TcpStream,
    sequence: u8,
}

impl Raw {
    async fn send(&mut self, payload: &[u8]) {
        let [a, b, c, _] = (payload.len() as u32).to_le_bytes();
        let packet = [&[a, b, c, self.sequence], payload].concat();
        self.stream.write_all(&packet).await.unwrap();
        self.sequence = self.sequence.wrapping_add(1);
    }

    async fn command(&mut self, payload: &[u8]) {
        self.sequence = 0;
        self.send(payload).await;
    }

    /// The next payload; `None` at the end.
    async fn read(&mut self) -> Option<Vec<u8>> {
        let read = async {
            let mut head = [0; 4];
            self.stream.read_exact(&mut head).await.ok()?;
            let [a, b, c, sequence] = head;
            self.sequence = sequence.wrapping_add(1);
            let mut payload = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
            self.stream.read_exact(&mut payload).await.ok()?;
            Some(payload)
        };
        tokio::time::timeout(WAIT, read).await.expect("an answer in time")
    }

    /// The number of the error that comes next.
    async fn error(&mut self) -> u16 {
        let payload = self.read().await.unwrap();
        assert_eq!(payload[0], 0xff, "{}", String::from_utf8_lossy(&payload));
        u16::from_le_bytes([payload[1], payload[2]])
    }
}

#[tokio::test]
async fn statements_are_answered_and_their_ends_reported() {
    let mut server = TestServer::open(LIMITS).await;
    let mut client = server.enter().await;
    client.command(b"\x03hello").await;
    assert_eq!(client.read().await.unwrap(), [1]);
    client.read().await.unwrap();
    assert_eq!(client.read().await.unwrap(), b"\x08hello []");
    assert_eq!(client.read().await.unwrap()[0], 0xfe);
    assert_eq!(server.ended.recv().await, Some(Ok(1)));
    client.command(b"\x03fail").await;
    assert_eq!(client.error().await, 1064);
    assert_eq!(server.ended.recv().await.unwrap().unwrap_err().kind, SqlErrorKind::Syntax);
    client.command(b"\x7f").await;
    assert_eq!(client.error().await, 1047, "an unknown command ends nothing");
    client.command(b"\x16SELECT ?").await;
    let number = client.read().await.unwrap();
    assert_eq!(number[..9], [0, 1, 0, 0, 0, 0, 0, 1, 0]);
    client.read().await.unwrap();
    client.command(b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x08\0\x07\0\0\0\0\0\0\0").await;
    client.read().await.unwrap();
    client.read().await.unwrap();
    assert_eq!(client.read().await.unwrap(), [&[0, 0, 21][..], b"SELECT ? [Integer(7)]"].concat());
    client.read().await.unwrap();
    client.command(b"\x02nowhere").await;
    assert_eq!(client.error().await, 1049);
    client.command(b"\x01").await;
    assert_eq!(client.read().await, None);
}

#[tokio::test]
async fn answers_carry_the_state_of_the_transaction() {
    let server = TestServer::open(LIMITS).await;
    let mut client = server.enter().await;
    for (command, status) in [(&b"\x0e"[..], 2), (b"\x03begin", 3), (b"\x0e", 3)] {
        client.command(command).await;
        assert_eq!(client.read().await.unwrap(), [0, 0, 0, status, 0, 0, 0], "{command:?}");
    }
    // Several statements in a packet, switched on and off: its answer is an end of rows, not OK.
    for option in [0, 1] {
        client.command(&[0x1b, option, 0]).await;
        assert_eq!(client.read().await.unwrap(), [0xfe, 0, 0, 3, 0, 0, 0]);
    }
    client.command(&[0x1b, 9, 0]).await;
    assert_eq!(client.error().await, 1047);
    let mut old = server.connect().await;
    old.read().await.unwrap();
    let mut hello = hello("ann");
    hello[3] &= !((can::DEPRECATE_EOF >> 24) as u8);
    old.send(&hello).await;
    assert_eq!(old.read().await.unwrap()[0], 0);
    old.command(&[0x1b, 0, 0]).await;
    assert_eq!(old.read().await.unwrap(), [0xfe, 0, 0, 2, 0]);
}

#[tokio::test]
async fn a_connection_may_be_compressed() {
    let server = TestServer::open(LIMITS).await;
    let mut client = server.enter_with(can::COMPRESS).await;
    // Two commands, one in two pieces, and answers that are worth deflating.
    let statement = "hello, ".repeat(12);
    let command = [&[statement.len() as u8 + 1, 0, 0, 0, 3], statement.as_bytes()].concat();
    for pieces in [vec![&command[..9], &command[9..]], vec![&command[..]]] {
        for (number, piece) in pieces.iter().enumerate() {
            let head = [piece.len() as u8, 0, 0, number as u8, 0, 0, 0];
            client.stream.write_all(&[&head, *piece].concat()).await.unwrap();
        }
        let mut head = [0; 7];
        client.stream.read_exact(&mut head).await.unwrap();
        assert_eq!(usize::from(head[3]), pieces.len(), "numbers go on");
        assert!(head[4] > head[0], "{head:?}: deflated");
        let mut deflated = vec![0; usize::from(head[0])];
        client.stream.read_exact(&mut deflated).await.unwrap();
        let mut answer = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::ZlibDecoder::new(&deflated[..]), &mut answer).unwrap();
        assert_eq!(answer.len(), usize::from(head[4]));
        assert!(String::from_utf8_lossy(&answer).contains(&format!("{statement} []")), "{answer:?}");
    }
}

#[tokio::test]
async fn one_connection_too_many_gets_an_error() {
    let server = TestServer::open(Limits { connections: 2, ..LIMITS }).await;
    let first = server.enter().await;
    let mut second = server.enter_as("bob", 0).await;
    assert_eq!(server.connect().await.error().await, 1040);
    drop(first);
    let began = std::time::Instant::now();
    // The place is free once the server has seen the first go.
    while server.connect().await.read().await.unwrap()[0] == 0xff {
        assert!(began.elapsed() < WAIT);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    second.command(b"\x0e").await;
    assert_eq!(second.read().await.unwrap()[0], 0, "others do not notice");
}

#[tokio::test]
async fn a_user_has_a_quarter_of_the_connections() {
    let server = TestServer::open(LIMITS).await;
    let refused = async |user: &str| {
        let mut client = server.connect().await;
        client.read().await.unwrap();
        client.send(&hello(user)).await;
        client.error().await
    };
    let mut held = vec![server.enter().await, server.enter().await];
    assert_eq!(refused("ann").await, 1203);
    for user in ["bob", "cid"] {
        held.extend([server.enter_as(user, 0).await, server.enter_as(user, 0).await]);
        assert_eq!(refused(user).await, 1203);
    }
    // The last quarter is for operators.
    assert_eq!(refused("dan").await, 1040);
    let operator = server.enter_as("olga", 0).await;
    // One who becomes another user takes a connection of that user's share.
    held[0].command(b"\x11olga\0\0").await;
    let answer = held[0].read().await.unwrap();
    assert_eq!(answer[0], 0xfe, "{answer:?}");
    held[0].send(&[]).await;
    assert_eq!(held[0].read().await.unwrap()[0], 0);
    let _again = server.enter().await;
    assert_eq!(server.connect().await.error().await, 1040, "all are taken");
    drop(operator);
}

#[tokio::test]
async fn silent_connections_do_not_block_others() {
    let server = TestServer::open(Limits { logins: 4, login: Duration::from_secs(3600), ..LIMITS }).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(server.connect().await);
    }
    let mut first = server.enter().await;
    for _ in 0..20 {
        silent.push(server.connect().await);
    }
    first.command(b"\x0e").await;
    assert_eq!(first.read().await.unwrap()[0], 0, "who has logged in is not touched");
    let mut oldest = silent.swap_remove(0);
    while oldest.read().await.is_some() {}
    // One that has begun its login stays, whatever silent ones come.
    let mut second = server.connect().await;
    second.read().await.unwrap();
    second.send(&hello("locked")).await;
    second.read().await.unwrap();
    for _ in 0..20 {
        silent.push(server.connect().await);
        silent.last_mut().unwrap().read().await.unwrap();
    }
    second.send(&[]).await;
    assert_eq!(second.error().await, 1045, "it is refused for its password, not for others");
}

#[tokio::test]
async fn packets_have_a_limit_and_a_smaller_one_before_the_login() {
    let server = TestServer::open(LIMITS).await;
    let mut client = server.enter().await;
    client.command(&[&b"\x03"[..], &[b'x'; 1 << 20]].concat()).await;
    assert_eq!(client.error().await, 1153);
    client.command(b"\x0e").await;
    assert_eq!(client.read().await.unwrap()[0], 0, "the connection goes on");
    let mut early = server.connect().await;
    early.read().await.unwrap();
    early.send(&hello(&"x".repeat(70_000))).await;
    assert_eq!(early.read().await, None);
}

#[tokio::test]
async fn what_breaks_the_protocol_is_turned_away() {
    let server = TestServer::open(Limits { connections: 100, ..LIMITS }).await;
    for payload in [
        &b""[..],
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n and some more bytes",
        &[0xff; 40],
        &hello("ann")[..33],
        &hello("ann")[..20],
    ] {
        let mut client = server.connect().await;
        client.read().await.unwrap();
        client.send(payload).await;
        assert_eq!(client.error().await, 1835, "{payload:?}");
        assert_eq!(client.read().await, None);
    }
    let mut client = server.connect().await;
    client.read().await.unwrap();
    client.send(&hello("locked")).await;
    assert_eq!(client.read().await.unwrap()[..10], *b"\xfecaching_s", "another method is requested");
    client.send(&[]).await;
    assert_eq!(client.error().await, 1045);
    let mut client = server.enter().await;
    client.sequence = 5;
    client.send(b"\x0e").await;
    assert_eq!(client.read().await, None, "packets out of order");
}

#[tokio::test]
async fn idle_slow_and_silent_clients_are_cut() {
    // Long enough for a login on a busy machine. All wait at the same time.
    let short = Duration::from_secs(3);
    let idle = async {
        let server = TestServer::open(Limits { idle: short, ..LIMITS }).await;
        assert_eq!(server.enter().await.read().await, None, "no statement for too long");
    };
    let silent = async {
        let server = TestServer::open(Limits { login: short, ..LIMITS }).await;
        let mut silent = server.connect().await;
        silent.read().await.unwrap();
        assert_eq!(silent.read().await, None, "no login for too long");
    };
    let slow = async {
        let server = TestServer::open(Limits { patience: short, ..LIMITS }).await;
        let mut slow = server.enter().await;
        slow.stream.write_all(&[100, 0, 0, 0, 3, b'x']).await.unwrap();
        assert_eq!(slow.read().await, None, "the rest of a packet does not come");
    };
    let deaf = async {
        let mut server = TestServer::open(Limits { patience: short, ..LIMITS }).await;
        let mut deaf = server.enter().await;
        deaf.command(b"\x03flood").await;
        let ended = tokio::time::timeout(WAIT, server.ended.recv()).await.expect("the rows are given up");
        assert_eq!(ended.unwrap().unwrap_err().kind, SqlErrorKind::Killed, "who takes nothing is cut");
    };
    tokio::join!(idle, silent, slow, deaf);
}

#[tokio::test]
async fn who_vanishes_ends_the_statement() {
    for statement in [&b"\x03wait"[..], b"\x03flood"] {
        let mut server = TestServer::open(LIMITS).await;
        let mut client = server.enter().await;
        client.command(statement).await;
        if statement == b"\x03flood" {
            client.read().await.unwrap();
        }
        drop(client);
        let ended = tokio::time::timeout(WAIT, server.ended.recv()).await.expect("it ends");
        assert_eq!(ended.unwrap().unwrap_err().kind, SqlErrorKind::Killed);
    }
}

#[tokio::test]
async fn a_killed_connection_is_closed() {
    let server = TestServer::open(LIMITS).await;
    let mut client = server.enter().await;
    client.command(b"\x03kill").await;
    assert_eq!(client.read().await.unwrap()[0], 0);
    assert_eq!(client.read().await, None);
}

#[tokio::test]
async fn the_end_of_the_server_is_announced() {
    let server = TestServer::open(LIMITS).await;
    let mut client = server.enter().await;
    server.stop.cancel();
    assert_eq!(client.error().await, 1053);
    tokio::time::timeout(WAIT, server.served).await.expect("it ends").unwrap();
}
