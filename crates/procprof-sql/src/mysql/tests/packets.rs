//! Integers and strings in packets, and packets on a stream.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use crate::mysql::packet::{PacketReader, put_integer, put_string};
use crate::mysql::wire::{Broken, Wire};

const PATIENCE: Duration = Duration::from_secs(180);
/// The largest content of one packet, bytes.
const PART: usize = 0xff_ffff;

#[test]
fn integers_and_strings_have_their_shortest_form() {
    for (value, bytes) in [
        (0, vec![0]),
        (0xfa, vec![0xfa]),
        (0xfb, vec![0xfc, 0xfb, 0]),
        (0xffff, vec![0xfc, 0xff, 0xff]),
        (0x1_0000, vec![0xfd, 0, 0, 1]),
        (0xff_ffff, vec![0xfd, 0xff, 0xff, 0xff]),
        (0x100_0000, vec![0xfe, 0, 0, 0, 1, 0, 0, 0, 0]),
        (u64::MAX, [vec![0xfe], vec![0xff; 8]].concat()),
    ] {
        let mut out = Vec::new();
        put_integer(&mut out, value);
        assert_eq!(out, bytes, "{value}");
        assert_eq!(PacketReader::new(&out, "it").integer(), Ok(value));
        super::every_beginning(&out, |bytes| PacketReader::new(bytes, "it").integer().map(drop));
    }
    for length in [0, 250, 251, 70_000] {
        let (text, mut out) = (vec![b'x'; length], Vec::new());
        put_string(&mut out, &text);
        assert_eq!(PacketReader::new(&out, "it").string(), Ok(text.as_slice()));
    }
}

#[test]
fn a_length_beyond_the_packet_is_refused() {
    for bytes in [&[5, 1, 2][..], &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], &[0xfb], &[0xff], &[]] {
        assert!(
            PacketReader::new(bytes, "it").string().unwrap_err().text.starts_with("malformed packet: it "),
            "{bytes:?}"
        );
    }
    assert!(PacketReader::new(b"no end", "it").until_nul().is_err());
}

fn wire(payload_max: usize) -> (Wire, DuplexStream) {
    let (ours, theirs) = duplex(1 << 20);
    (Wire::new(Box::new(ours), payload_max, PATIENCE), theirs)
}

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let [a, b, c, _] = (payload.len() as u32).to_le_bytes();
    [&[a, b, c, sequence], payload].concat()
}

#[tokio::test]
async fn payloads_are_split_where_a_packet_ends() {
    for (length, parts) in [
        (0, vec![0]),
        (1, vec![1]),
        (PART - 1, vec![PART - 1]),
        (PART, vec![PART, 0]),
        (2 * PART + 5, vec![PART, PART, 5]),
    ] {
        let payload: Vec<u8> = (0..length).map(|index| (index % 251) as u8).collect();
        let (mut wire, mut client) = wire(3 * PART);
        let sent = payload.clone();
        let sending = tokio::spawn(async move {
            wire.put(|out| out.extend_from_slice(&sent));
            wire.send().await.unwrap();
        });
        let mut together = Vec::new();
        for (sequence, part) in parts.iter().enumerate() {
            let mut head = [0; 4];
            client.read_exact(&mut head).await.unwrap();
            let [a, b, c, _] = (*part as u32).to_le_bytes();
            assert_eq!(head, [a, b, c, sequence as u8], "{length}");
            let mut bytes = vec![0; *part];
            client.read_exact(&mut bytes).await.unwrap();
            together.extend(bytes);
        }
        sending.await.unwrap();
        assert!(client.read(&mut [0]).await.unwrap() == 0 && together == payload, "{length}");
    }
}

#[tokio::test]
async fn payloads_are_joined_and_numbered_on() {
    for length in [0, 7, PART - 1, PART, PART + 3] {
        let payload = vec![7; length];
        let (mut wire, mut client) = wire(2 * PART);
        let mut sent = Vec::new();
        let full = payload.chunks_exact(PART);
        let last = full.remainder();
        full.chain([last]).enumerate().for_each(|(sequence, part)| sent.extend(packet(sequence as u8, part)));
        sent.extend(packet((length / PART + 1) as u8, b"next"));
        tokio::spawn(async move {
            client.write_all(&sent).await.unwrap();
            client
        });
        assert!(wire.read().await.unwrap() == payload, "{length}");
        assert_eq!(wire.read().await.unwrap(), b"next");
    }
}

#[tokio::test]
async fn a_packet_out_of_order_is_refused() {
    let (mut wire, mut client) = wire(1000);
    client.write_all(&[packet(0, b"a"), packet(2, b"b")].concat()).await.unwrap();
    assert_eq!(wire.read().await.unwrap(), b"a");
    assert!(matches!(wire.read().await, Err(Broken::Sequence)));
    let (mut wire, mut client) = self::wire(1000);
    client.write_all(&[packet(0, b"a"), packet(0, b"b")].concat()).await.unwrap();
    assert_eq!(wire.read().await.unwrap(), b"a");
    wire.begin();
    assert_eq!(wire.read().await.unwrap(), b"b", "a new command counts from 0");
}

#[tokio::test]
async fn a_payload_over_the_limit_is_read_past() {
    let (mut wire, mut client) = wire(1000);
    client.write_all(&[packet(0, &[1; 1001]), packet(0, &[2; 1000])].concat()).await.unwrap();
    assert!(matches!(wire.read().await, Err(Broken::TooLarge(1000))));
    wire.begin();
    assert_eq!(wire.read().await.unwrap(), [2; 1000]);
}

#[tokio::test]
async fn a_stream_that_ends_in_a_packet_is_gone() {
    let whole = packet(0, b"abcdef");
    for length in 0..whole.len() {
        let (mut wire, mut client) = wire(1000);
        client.write_all(&whole[..length]).await.unwrap();
        drop(client);
        assert!(matches!(wire.read().await, Err(Broken::Gone)), "{length}");
    }
}

#[tokio::test]
async fn looking_whether_a_client_is_there_takes_nothing_away() {
    let (mut wire, mut client) = wire(1000);
    let whole = packet(0, b"command");
    for byte in &whole[..4] {
        client.write_all(&[*byte]).await.unwrap();
        let looked = tokio::time::timeout(Duration::from_millis(5), wire.gone()).await;
        assert!(looked.is_err(), "it is there");
    }
    client.write_all(&whole[4..]).await.unwrap();
    assert_eq!(wire.read().await.unwrap(), b"command");
    drop(client);
    tokio::time::timeout(PATIENCE, wire.gone()).await.unwrap();
}
