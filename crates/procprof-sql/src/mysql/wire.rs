//! Packets on a stream: `u24 length, u8 sequence, payload`; a payload of 2^24-1 bytes or more goes on in the next
//! packet.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::compress::Compressed;

/// Longest payload of one packet; a longer one is split.
const PART: usize = 0xff_ffff;
/// Bytes of answers kept before they are sent.
const OUT: usize = 32 * 1024;
/// Room made for a payload at a time: memory follows what has come, not what a packet's head announces.
const STEP: usize = 64 * 1024;
/// Room in the output kept for the next answer; what a large answer took beyond it is given back.
const OUT_KEPT: usize = 64 * 1024;

/// A stream both ways.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// Why there is no packet.
#[derive(Debug)]
pub(super) enum Broken {
    /// The client has gone.
    Gone,
    /// The client took or sent nothing for too long.
    Slow,
    /// A packet longer than the limit of so many bytes.
    TooLarge(usize),
    /// A packet out of order.
    Sequence,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Broken {
        Broken::Gone
    }
}

/// One end of a connection.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    /// The next packet's header as far as it has come: reading it may be given up and taken up again.
    head: [u8; 4],
    have: usize,
    sequence: u8,
    out: Vec<u8>,
    /// Bytes written at once.
    piece: usize,
    /// Longest payload taken, in bytes.
    payload_max: usize,
    /// Time a client has to send the rest of a packet, or to take what is sent.
    patience: Duration,
}

impl Wire {
    pub(super) fn new(stream: Box<dyn Stream>, payload_max: usize, patience: Duration) -> Wire {
        Wire { stream, head: [0; 4], have: 0, sequence: 0, out: Vec::new(), piece: OUT, payload_max, patience }
    }

    /// Goes on with another stream and gives the old one, as TLS does. Nothing is ever read ahead, so nothing is lost.
    pub(super) fn exchange(&mut self, stream: Box<dyn Stream>) -> Box<dyn Stream> {
        std::mem::replace(&mut self.stream, stream)
    }

    /// Goes on inside the compressed protocol.
    pub(super) fn compress(&mut self) {
        let stream = self.exchange(Box::new(tokio::io::empty()));
        self.stream = Box::new(Compressed::new(stream));
        self.piece = PART;
    }

    /// Takes payloads of up to so many bytes from now on.
    pub(super) fn take_up_to(&mut self, payload_max: usize) {
        self.payload_max = payload_max;
    }

    /// A new command begins: numbers start again.
    pub(super) fn begin(&mut self) {
        self.sequence = 0;
    }

    /// Returns when the client has gone; while it is there, never. May be dropped at any moment.
    pub(super) async fn gone(&mut self) {
        if self.fill_head().await.is_ok() {
            // The next command is there already; it waits.
            std::future::pending::<()>().await;
        }
    }

    async fn fill_head(&mut self) -> Result<(), Broken> {
        while self.have < self.head.len() {
            match self.stream.read(&mut self.head[self.have..]).await? {
                0 => return Err(Broken::Gone),
                count => self.have += count,
            }
        }
        Ok(())
    }

    /// Waits for a packet's first bytes, at most so long.
    pub(super) async fn wait(&mut self, idle: Duration) -> Result<(), Broken> {
        tokio::time::timeout(idle, self.fill_head()).await.map_err(|_| Broken::Slow)?
    }

    /// The next packet's payload.
    pub(super) async fn read(&mut self) -> Result<Vec<u8>, Broken> {
        let patience = self.patience;
        tokio::time::timeout(patience, self.read_whole()).await.map_err(|_| Broken::Slow)?
    }

    async fn read_whole(&mut self) -> Result<Vec<u8>, Broken> {
        let (mut payload, mut total) = (Vec::new(), 0);
        loop {
            self.fill_head().await?;
            let [a, b, c, sequence] = self.head;
            self.have = 0;
            let length = u32::from_le_bytes([a, b, c, 0]) as usize;
            if sequence != self.sequence {
                return Err(Broken::Sequence);
            }
            self.sequence = sequence.wrapping_add(1);
            total += length;
            if total <= self.payload_max {
                self.append(&mut payload, length).await?;
            } else {
                // Read to its end all the same, so that the client reads the error.
                payload = Vec::new();
                tokio::io::copy(&mut (&mut self.stream).take(length as u64), &mut tokio::io::sink()).await?;
            }
            if length < PART {
                return if total <= self.payload_max { Ok(payload) } else { Err(Broken::TooLarge(self.payload_max)) };
            }
        }
    }

    async fn append(&mut self, payload: &mut Vec<u8>, mut left: usize) -> Result<(), Broken> {
        while left > 0 {
            let start = payload.len();
            payload.resize(start + left.min(STEP), 0);
            left -= payload.len() - start;
            self.stream.read_exact(&mut payload[start..]).await?;
        }
        Ok(())
    }

    /// Puts a packet behind those not sent yet; `write` appends its payload.
    pub(super) fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        write(&mut self.out);
        let length = self.out.len() - start - 4;
        if length < PART {
            self.head_at(start, length);
        } else {
            let payload = self.out.split_off(start + 4);
            self.out.truncate(start);
            self.put_parts(&payload);
        }
    }

    fn put_parts(&mut self, payload: &[u8]) {
        let full = payload.chunks_exact(PART);
        let last = full.remainder();
        for part in full.chain(std::iter::once(last)) {
            let start = self.out.len();
            self.out.extend_from_slice(&[0; 4]);
            self.out.extend_from_slice(part);
            self.head_at(start, part.len());
        }
    }

    fn head_at(&mut self, start: usize, length: usize) {
        self.out[start..start + 3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
        self.out[start + 3] = self.sequence;
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Sends what has gathered if it is much.
    pub(super) async fn send_much(&mut self) -> Result<(), Broken> {
        match self.out.len() < OUT {
            true => Ok(()),
            false => self.send().await,
        }
    }

    /// Sends what has gathered.
    pub(super) async fn send(&mut self) -> Result<(), Broken> {
        let sent = async {
            // In pieces, so that the time limit applies to a piece and not to a large result.
            for piece in self.out.chunks(self.piece) {
                tokio::time::timeout(self.patience, self.stream.write_all(piece)).await.map_err(|_| Broken::Slow)??;
            }
            tokio::time::timeout(self.patience, self.stream.flush()).await.map_err(|_| Broken::Slow)??;
            Ok(())
        };
        let sent = sent.await;
        self.out.clear();
        self.out.shrink_to(OUT_KEPT);
        sent
    }

    /// Closes the connection.
    pub(super) async fn close(&mut self) {
        // An error means that the client is gone.
        let _ = tokio::time::timeout(self.patience, self.stream.shutdown()).await;
    }
}
