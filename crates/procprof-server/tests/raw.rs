//! Connections of raw bytes, for what no proper client does: it sends nothing more, reads nothing, or sends it twice.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::PATIENCE;

/// The server's answer to these bytes until it closes the connection.
pub(crate) async fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    rest(&mut stream).await
}

/// Everything until the server closes the connection.
pub(crate) async fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer))
        .await
        .expect("the connection is closed in time");
    // Closed with something unread, it ends in an error instead.
    drop(read);
    String::from_utf8_lossy(&answer).into_owned()
}

/// An HTTP/2 connection that has requested `path` and got an answer.
pub(crate) async fn http2(address: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let frame = |kind: u8, flags: u8, id: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &id.to_be_bytes(), payload].concat()
    };
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    // GET, http, then path and authority in full.
    let head = [&[0x82, 0x86, 0x04][..], &text(path), &[0x01], &text("127.0.0.1")].concat();
    let bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[]), frame(1, 5, 1, &head)].concat();
    stream.write_all(&bytes).await.unwrap();
    let answered = async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.unwrap();
            let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            stream.read_exact(&mut payload).await.unwrap();
            if head[3] == 1 {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, answered).await.expect("an answer in time");
    stream
}
