//! A client of bare packets, of one kind of statement only: it can stop in the middle of anything, which no real client
//! does on request.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longest wait for a packet; the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(300);

/// Protocol 4.1, method by name, rows that end in an OK packet.
const CAPABILITIES: u32 = 1 << 9 | 1 << 15 | 1 << 19 | 1 << 24;

/// An error that the server answers with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SqlError {
    pub(crate) number: u16,
    /// SQL state and message.
    text: String,
}

/// A connection that is logged in where everyone is let in. Dropping it is vanishing: nothing is said.
pub(crate) struct Raw(BufReader<TcpStream>);

impl Raw {
    pub(crate) fn connect(port: u16) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        stream.set_nodelay(true).expect("an option");
        let mut raw = Raw(BufReader::new(stream));
        let greeting = raw.packet().expect("a greeting");
        assert_eq!(greeting[0], 10, "{}", String::from_utf8_lossy(&greeting));
        let hello =
            [&CAPABILITIES.to_le_bytes()[..], &[0, 0, 0, 1, 45], &[0; 23], b"soak\0\0mysql_native_password\0"].concat();
        raw.send(1, &hello).expect("it reads");
        let welcome = raw.packet().expect("a welcome");
        assert_eq!(welcome[0], 0, "{}", String::from_utf8_lossy(&welcome));
        raw
    }

    /// Sends a statement without waiting for its answer.
    pub(crate) fn ask(&mut self, statement: &str) {
        self.send(0, &[b"\x03", statement.as_bytes()].concat()).expect("it reads");
    }

    /// Sends the beginning of a statement only.
    pub(crate) fn begin(&mut self, statement: &str) {
        let [a, b, c, _] = (statement.len() as u32 * 2).to_le_bytes();
        self.0.get_mut().write_all(&[&[a, b, c, 0, 3], statement.as_bytes()].concat()).expect("it reads");
    }

    /// The whole answer: its number of rows, or the error.
    pub(crate) fn answer(&mut self) -> Result<usize, SqlError> {
        let first = self.packet().expect("an answer");
        match first[0] {
            0 => return Ok(0),
            0xff => return Err(error(&first)),
            _ => {}
        }
        for _ in 0..first[0] {
            self.packet().expect("a column");
        }
        let mut rows = 0;
        loop {
            let packet = self.packet().expect("a row");
            match packet[0] {
                0xff => return Err(error(&packet)),
                0xfe if packet.len() < 0xff_ffff => return Ok(rows),
                _ => rows += 1,
            }
        }
    }

    /// A statement and its whole answer.
    pub(crate) fn query(&mut self, statement: &str) -> Result<usize, SqlError> {
        self.ask(statement);
        self.answer()
    }

    fn send(&mut self, sequence: u8, payload: &[u8]) -> io::Result<()> {
        let [a, b, c, _] = (payload.len() as u32).to_le_bytes();
        self.0.get_mut().write_all(&[&[a, b, c, sequence], payload].concat())
    }

    pub(crate) fn packet(&mut self) -> io::Result<Vec<u8>> {
        let mut head = [0; 4];
        self.0.read_exact(&mut head)?;
        let mut payload = vec![0; u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize];
        self.0.read_exact(&mut payload)?;
        Ok(payload)
    }
}

fn error(packet: &[u8]) -> SqlError {
    SqlError {
        number: u16::from_le_bytes([packet[1], packet[2]]),
        text: String::from_utf8_lossy(&packet[3..]).into_owned(),
    }
}
