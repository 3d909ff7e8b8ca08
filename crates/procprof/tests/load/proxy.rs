//! A proxy between a client and a server that stops after a number of bytes from the client.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use crate::harness::PATIENCE;

/// A proxy of one connection.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    /// Bytes that the client has sent.
    sent: Arc<AtomicU64>,
    stopped: mpsc::Receiver<()>,
    resume: mpsc::Sender<()>,
}

impl Proxy {
    /// Stops the client's bytes after `limit` of them; the connection stays.
    pub(super) fn start(server: SocketAddr, limit: u64) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sent: Arc<AtomicU64> = Arc::default();
        let (stop, stopped) = mpsc::channel();
        let (resume, resumed) = mpsc::channel();
        let counted = Arc::clone(&sent);
        thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let server = TcpStream::connect(server).unwrap();
            let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || {
                // A client that is killed, or a test that has ended.
                let _ = std::io::copy(&mut from_server, &mut to_client);
                let _ = to_client.shutdown(Shutdown::Both);
            });
            forward(client, &server, limit, &counted, &stop, &resumed);
            let _ = server.shutdown(Shutdown::Both);
        });
        Proxy { address, sent, stopped, resume }
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// Waits until the limit is reached; whether the client has sent as much before it ended.
    pub(super) fn is_stopped(&self) -> bool {
        match self.stopped.recv_timeout(PATIENCE) {
            Ok(()) => true,
            Err(mpsc::RecvTimeoutError::Disconnected) => false,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("the client neither sends nor ends"),
        }
    }

    /// Lets the other bytes through.
    pub(super) fn resume(&self) {
        self.resume.send(()).unwrap();
    }
}

fn forward(
    mut client: TcpStream,
    mut server: &TcpStream,
    limit: u64,
    sent: &AtomicU64,
    stop: &mpsc::Sender<()>,
    resumed: &mpsc::Receiver<()>,
) {
    let mut buffer = [0; 1 << 14];
    let mut has_stopped = false;
    loop {
        let Ok(count @ 1..) = client.read(&mut buffer) else { return };
        let before = sent.fetch_add(count as u64, Ordering::SeqCst);
        let passed = if has_stopped { count } else { count.min((limit - before) as usize) };
        let Ok(()) = server.write_all(&buffer[..passed]) else { return };
        if passed == count {
            continue;
        }
        has_stopped = true;
        let _ = stop.send(());
        // The proxy is dropped when the test kills the client.
        let Ok(()) = resumed.recv() else { return };
        let Ok(()) = server.write_all(&buffer[passed..count]) else { return };
    }
}
