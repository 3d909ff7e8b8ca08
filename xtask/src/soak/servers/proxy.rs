//! A proxy between the servers and their bucket that is away, slow, or answers with an error, when told to.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// Bytes of a request's head that are read before an error is answered.
const HEAD_MAX: usize = 16 << 10;

/// What it does with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Passes them on.
    Pass,
    /// Closes each connection.
    Away,
    /// Passes each piece on after this time.
    Slow(Duration),
    /// Answers with this status.
    Status(u16),
}

/// The proxy; it ends with this program.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    mode: Mode,
    open: Vec<TcpStream>,
}

impl Proxy {
    /// Before a server at an address.
    pub(super) fn start(upstream: SocketAddr) -> Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen")?;
        let address = listener.local_addr().context("find a port")?;
        let state = Arc::new(Mutex::new(State { mode: Mode::Pass, open: Vec::new() }));
        let own = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(std::result::Result::ok) {
                let state = Arc::clone(&own);
                // A connection that breaks is what a client is to stand.
                thread::spawn(move || serve(stream, upstream, &state).unwrap_or_default());
            }
        });
        Ok(Proxy { address, state })
    }

    /// From here on; open connections are cut.
    pub(super) fn set(&self, mode: Mode) {
        eprintln!("xtask: the bucket: {mode:?}");
        let mut state = lock(&self.state);
        state.mode = mode;
        for stream in state.open.drain(..) {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(mut client: TcpStream, upstream: SocketAddr, state: &Mutex<State>) -> std::io::Result<()> {
    let delay = {
        let mut state = lock(state);
        state.open.push(client.try_clone()?);
        match state.mode {
            Mode::Pass => Duration::ZERO,
            Mode::Slow(delay) => delay,
            Mode::Away => return client.shutdown(Shutdown::Both),
            Mode::Status(status) => {
                drop(state);
                return refuse(client, status);
            }
        }
    };
    let mut server = TcpStream::connect(upstream)?;
    lock(state).open.push(server.try_clone()?);
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let back = thread::spawn(move || copy(&mut from_server, &mut to_client, delay));
    copy(&mut client, &mut server, delay)?;
    back.join().unwrap_or(Ok(()))
}

fn copy(from: &mut TcpStream, to: &mut TcpStream, delay: Duration) -> std::io::Result<()> {
    let mut piece = vec![0; 64 << 10];
    loop {
        let length = from.read(&mut piece)?;
        if length == 0 {
            return to.shutdown(Shutdown::Write);
        }
        thread::sleep(delay);
        to.write_all(&piece[..length])?;
    }
}

fn refuse(mut client: TcpStream, status: u16) -> std::io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    while !head.windows(4).any(|window| window == b"\r\n\r\n") && head.len() < HEAD_MAX {
        match client.read(&mut piece)? {
            0 => return Ok(()),
            length => head.extend_from_slice(&piece[..length]),
        }
    }
    write!(client, "HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    client.shutdown(Shutdown::Write)
}
