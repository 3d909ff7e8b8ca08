//! A frontend that answers from a script: just enough of the MySQL protocol's server side, over real connections.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Its answer.
pub(crate) enum Reply {
    /// A result set, all texts.
    Rows(Vec<String>, Vec<Vec<String>>),
    /// An error packet.
    Error(u16, &'static str),
    /// Half a result set, and the end of the connection.
    Half,
    /// The end of the connection.
    Close,
    /// Nothing at all.
    Silence,
}

/// A script: the statement, the connection's number from 0, and the statement's number on it.
type Script = dyn Fn(&str, usize, usize) -> Reply + Send + Sync;

/// The frontend.
pub(crate) struct Replay {
    pub(crate) port: u16,
    pub(crate) statements: Arc<Mutex<Vec<String>>>,
    pub(crate) connections: Arc<AtomicUsize>,
}

impl Replay {
    pub(crate) fn start(script: impl Fn(&str, usize, usize) -> Reply + Send + Sync + 'static) -> Replay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let replay = Replay {
            port: listener.local_addr().unwrap().port(),
            statements: Arc::default(),
            connections: Arc::default(),
        };
        let (script, statements, connections): (Arc<Script>, _, _) =
            (Arc::new(script), Arc::clone(&replay.statements), Arc::clone(&replay.connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let number = connections.fetch_add(1, Ordering::SeqCst);
                let (script, statements) = (Arc::clone(&script), Arc::clone(&statements));
                // Whatever breaks here breaks for the client, which is what tests look at.
                std::thread::spawn(move || converse(stream, &*script, number, &statements));
            }
        });
        replay
    }

    /// Statements that begin so.
    pub(crate) fn statements(&self, begin: &str) -> Vec<String> {
        self.statements.lock().unwrap().iter().filter(|statement| statement.starts_with(begin)).cloned().collect()
    }
}

fn converse(mut stream: TcpStream, script: &Script, number: usize, statements: &Mutex<Vec<String>>) -> Option<()> {
    packet(&mut stream, 0, &greeting())?;
    read(&mut stream)?;
    packet(&mut stream, 2, &[0, 0, 0, 2, 0, 0, 0])?;
    for count in 0.. {
        let command = read(&mut stream)?;
        if command.first() != Some(&3) {
            return None;
        }
        let statement = String::from_utf8_lossy(&command[1..]).into_owned();
        statements.lock().unwrap().push(statement.clone());
        match script(&statement, number, count) {
            Reply::Rows(names, rows) => result(&mut stream, &names, &rows, false)?,
            Reply::Half => return result(&mut stream, &["result".to_owned()], &[vec!["digraph".to_owned()]], true),
            Reply::Error(code, text) => {
                let error = [&[0xff][..], &code.to_le_bytes(), b"#HY000", text.as_bytes()].concat();
                packet(&mut stream, 1, &error)?;
            }
            Reply::Close => return None,
            Reply::Silence => {
                let _ = stream.read(&mut [0; 16]);
                return None;
            }
        }
    }
    None
}

/// Protocol 10, as a frontend greets: native passwords, no TLS.
fn greeting() -> Vec<u8> {
    let capabilities = 0x0008_8209_u32.to_le_bytes();
    let mut greeting = vec![10];
    greeting.extend_from_slice(b"5.1.0\0");
    greeting.extend_from_slice(&[1, 0, 0, 0]);
    greeting.extend_from_slice(b"saltsalt\0");
    greeting.extend_from_slice(&capabilities[..2]);
    greeting.extend_from_slice(&[33, 2, 0]);
    greeting.extend_from_slice(&capabilities[2..]);
    greeting.push(21);
    greeting.extend_from_slice(&[0; 10]);
    greeting.extend_from_slice(b"saltsaltsalt\0mysql_native_password\0");
    greeting
}

fn result(stream: &mut TcpStream, names: &[String], rows: &[Vec<String>], half: bool) -> Option<()> {
    let mut sequence = 1;
    let mut put = |payload: &[u8]| {
        let sent = packet(stream, sequence, payload);
        sequence = sequence.wrapping_add(1);
        sent
    };
    let eof = [0xfe, 0, 0, 2, 0];
    put(&[u8::try_from(names.len()).unwrap()])?;
    for name in names {
        let texts = ["def", "", "", "", name, name];
        let mut column: Vec<u8> = texts.iter().flat_map(|text| lengthy(text)).collect();
        column.extend_from_slice(&[0x0c, 33, 0, 255, 255, 0, 0, 0xfd, 0, 0, 0, 0, 0]);
        put(&column)?;
    }
    put(&eof)?;
    for row in rows {
        put(&row.iter().flat_map(|cell| if cell == "NULL" { vec![0xfb] } else { lengthy(cell) }).collect::<Vec<u8>>())?;
    }
    if half { None } else { put(&eof) }
}

fn lengthy(text: &str) -> Vec<u8> {
    let length = match text.len() {
        length @ ..251 => vec![length as u8],
        length => [&[0xfc][..], &u16::try_from(length).unwrap().to_le_bytes()].concat(),
    };
    [length, text.as_bytes().to_vec()].concat()
}

fn packet(stream: &mut TcpStream, sequence: u8, payload: &[u8]) -> Option<()> {
    let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
    stream.write_all(&[&length[..3], &[sequence], payload].concat()).ok()
}

fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).ok()?;
    let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
    stream.read_exact(&mut payload).ok()?;
    Some(payload)
}
