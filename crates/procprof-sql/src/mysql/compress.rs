//! The compressed protocol: the stream of packets in pieces that may be deflated.
//!
//! ```text
//! piece   u24 length, u8 sequence, u24 length before deflating (0: not deflated), zlib stream or bytes
//! ```
//! Pieces are numbered anew from 0 for each command; ours go on where the client's end. What is inflated is handed on
//! as it comes, so a piece takes no memory in proportion to what it announces.

use std::io::{self, ErrorKind, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use flate2::write::ZlibEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A piece's head.
const HEAD: usize = 7;
/// Bytes read at a time of a piece that is deflated.
const IN: usize = 16 * 1024;
/// Most bytes of ours in a piece, before deflating: what is written at once stays together, as there are clients that
/// take no packet in three pieces.
const PIECE: usize = 0xff_ffff;
/// Fewer bytes are not deflated.
const SMALL: usize = 50;

/// The piece that is read.
enum Piece {
    /// Its bytes as they are; so many are to come.
    Plain(usize),
    /// A zlib stream: bytes of it to come, and bytes it has yet to give.
    Deflated { left: usize, plain: usize, stream: Box<Decompress> },
}

/// A stream inside the compressed protocol.
pub(super) struct Compressed<S> {
    inner: S,
    head: [u8; HEAD],
    have: usize,
    piece: Piece,
    /// Bytes of a deflated piece that were read and not inflated yet.
    input: Vec<u8>,
    /// Number of our next piece.
    sequence: u8,
    /// A piece of ours on its way.
    out: Vec<u8>,
    sent: usize,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("compressed packet: {what}"))
}

impl<S> Compressed<S> {
    pub(super) fn new(inner: S) -> Compressed<S> {
        Compressed {
            inner,
            head: [0; HEAD],
            have: 0,
            piece: Piece::Plain(0),
            input: Vec::new(),
            sequence: 0,
            out: Vec::new(),
            sent: 0,
        }
    }

    /// Puts bytes into a piece; deflated, if that is shorter.
    fn enclose(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.clear();
        self.sent = 0;
        self.out.extend_from_slice(&[0; HEAD]);
        let mut plain = 0;
        if bytes.len() >= SMALL {
            let mut deflated = ZlibEncoder::new(&mut self.out, Compression::fast());
            deflated.write_all(bytes)?;
            deflated.finish()?;
            plain = bytes.len();
        }
        if plain == 0 || self.out.len() - HEAD >= bytes.len() {
            self.out.truncate(HEAD);
            self.out.extend_from_slice(bytes);
            plain = 0;
        }
        let length = self.out.len() - HEAD;
        self.out[..3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
        self.out[3] = self.sequence;
        self.out[4..HEAD].copy_from_slice(&(plain as u32).to_le_bytes()[..3]);
        self.sequence = self.sequence.wrapping_add(1);
        Ok(())
    }

    /// Begins the piece whose head has come.
    fn begin(&mut self) {
        let [a, b, c, sequence, d, e, f] = self.head;
        self.have = 0;
        self.sequence = sequence.wrapping_add(1);
        let (left, plain) = (u32::from_le_bytes([a, b, c, 0]) as usize, u32::from_le_bytes([d, e, f, 0]) as usize);
        self.piece = match plain {
            0 => Piece::Plain(left),
            plain => Piece::Deflated { left, plain, stream: Box::new(Decompress::new(true)) },
        };
    }
}

impl<S: AsyncRead + Unpin> Compressed<S> {
    /// Reads into a buffer of ours; an end of the stream is one in the middle of a piece.
    fn poll_fill(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(into);
        ready!(Pin::new(&mut self.inner).poll_read(context, &mut buffer))?;
        match buffer.filled().len() {
            0 => Poll::Ready(Err(ErrorKind::UnexpectedEof.into())),
            count => Poll::Ready(Ok(count)),
        }
    }

    /// Reads the rest of a piece's head; `false` at the end of the stream.
    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        while self.have < HEAD {
            let mut head = self.head;
            let count = match ready!(self.poll_fill(context, &mut head[self.have..])) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof && self.have == 0 => {
                    return Poll::Ready(Ok(false));
                }
                read => read?,
            };
            self.head = head;
            self.have += count;
        }
        self.begin();
        Poll::Ready(Ok(true))
    }

    /// Inflates what has been read into `out`; whether the stream has ended.
    fn inflate(&mut self, out: &mut ReadBuf<'_>) -> io::Result<bool> {
        let Piece::Deflated { left, plain, stream } = &mut self.piece else { return Ok(true) };
        let mut beyond = [0];
        let room = match *plain {
            // Only the stream's end is to come.
            0 => &mut beyond[..],
            plain => {
                let room = out.remaining().min(plain);
                &mut out.initialize_unfilled()[..room]
            }
        };
        let (read, made) = (stream.total_in(), stream.total_out());
        let status =
            stream.decompress(&self.input, room, FlushDecompress::None).map_err(|_| broken("is no zlib stream"))?;
        let (read, made) = ((stream.total_in() - read) as usize, (stream.total_out() - made) as usize);
        self.input.drain(..read);
        if made > *plain {
            return Err(broken("inflates to more than it announced"));
        }
        *plain -= made;
        let ended = status == Status::StreamEnd;
        if ended && (*plain > 0 || *left > 0 || !self.input.is_empty()) {
            return Err(broken("has another length than it announced"));
        }
        if !ended && read == 0 && made == 0 && (*left == 0 || !self.input.is_empty()) {
            return Err(broken("ends early"));
        }
        out.advance(made);
        Ok(ended)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Compressed<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let filled = out.filled().len();
        while out.filled().len() == filled && out.remaining() > 0 {
            match this.piece {
                Piece::Plain(0) => {
                    if !ready!(this.poll_head(context))? {
                        break;
                    }
                }
                Piece::Plain(left) => {
                    let most = out.remaining().min(left);
                    let count = ready!(this.poll_fill(context, &mut out.initialize_unfilled()[..most]))?;
                    out.advance(count);
                    this.piece = Piece::Plain(left - count);
                }
                Piece::Deflated { left, .. } => {
                    if this.input.is_empty() && left > 0 {
                        let mut input = vec![0; IN.min(left)];
                        let count = ready!(this.poll_fill(context, &mut input))?;
                        input.truncate(count);
                        this.input = input;
                        if let Piece::Deflated { left, .. } = &mut this.piece {
                            *left -= count;
                        }
                    }
                    if this.inflate(out)? {
                        this.piece = Piece::Plain(0);
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> Compressed<S> {
    /// Sends the piece that is on its way.
    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.out.len() {
            let count = ready!(Pin::new(&mut self.inner).poll_write(context, &self.out[self.sent..]))?;
            if count == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            self.sent += count;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Compressed<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_sent(context))?;
        let bytes = &bytes[..bytes.len().min(PIECE)];
        if !bytes.is_empty() {
            self.enclose(bytes)?;
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(context))?;
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_sent(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::{Compressed, HEAD};

    #[tokio::test]
    async fn what_is_written_is_read() {
        let (ours, theirs) = duplex(100);
        let (mut ours, mut theirs) = (Compressed::new(ours), Compressed::new(theirs));
        let mut random = 1_u64;
        let noise = (0..100_000).map(|_| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        });
        for bytes in [b"x".to_vec(), b"twelve bytes".repeat(20_000), noise.collect(), Vec::new(), b"end".to_vec()] {
            let write = async {
                ours.write_all(&bytes).await.unwrap();
                ours.flush().await.unwrap();
            };
            let mut read = vec![0; bytes.len()];
            let ((), count) = tokio::join!(write, async { theirs.read_exact(&mut read).await.unwrap() });
            assert_eq!((count, read == bytes), (bytes.len(), true));
        }
        drop(ours);
        assert_eq!(theirs.read(&mut [0; 10]).await.unwrap(), 0, "the end, between two pieces");
    }

    #[tokio::test]
    async fn pieces_are_numbered_on_from_the_clients() {
        let (mut client, server) = duplex(1000);
        let mut server = Compressed::new(server);
        client.write_all(&[3, 0, 0, 7, 0, 0, 0, b'a', b'b', b'c']).await.unwrap();
        let mut read = [0; 3];
        server.read_exact(&mut read).await.unwrap();
        for sequence in [8, 9] {
            server.write_all(&[1; 200]).await.unwrap();
            server.flush().await.unwrap();
            let mut head = [0; HEAD];
            client.read_exact(&mut head).await.unwrap();
            assert_eq!((head[3], &head[4..]), (sequence, &[200, 0, 0][..]));
            client.read_exact(&mut vec![0; usize::from(head[0])]).await.unwrap();
        }
        assert_eq!(&read, b"abc");
    }

    #[tokio::test]
    async fn what_breaks_the_rules_is_an_error() {
        let piece = |plain: u8, bytes: &[u8]| [&[bytes.len() as u8, 0, 0, 0, plain, 0, 0], bytes].concat();
        // "aaaaaaaaaa", by zlib.
        let ten = [120, 156, 75, 76, 132, 1, 0, 20, 225, 3, 203];
        let read = async |bytes: Vec<u8>| {
            let mut all = Vec::new();
            Compressed::new(bytes.as_slice()).read_to_end(&mut all).await.map(|_| all)
        };
        assert_eq!(read(piece(10, &ten)).await.unwrap(), b"aaaaaaaaaa");
        for wrong in [
            piece(9, &ten),
            piece(11, &ten),
            piece(10, &ten[..8]),
            piece(10, &[&ten[..], b"x"].concat()),
            piece(10, b"nonsense"),
            piece(10, &ten)[..12].to_vec(),
            vec![1, 0, 0],
            vec![1, 0, 0, 0, 0, 0, 0],
        ] {
            assert!(read(wrong.clone()).await.is_err(), "{wrong:?}");
        }
    }
}
