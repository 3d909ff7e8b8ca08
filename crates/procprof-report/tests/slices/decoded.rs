//! A decoder of slices, written by the format's description alone.

use serde_json::Value;

/// A slice.
#[derive(Clone, Debug)]
pub(super) struct Decoded {
    pub(super) header: Value,
    pub(super) rows: Vec<Row>,
}

/// A node of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) node: u64,
    pub(super) depth: u64,
    pub(super) name: String,
    /// The number of the frame in the whole tree.
    pub(super) frame: u64,
    pub(super) inlined: u64,
    pub(super) size: u64,
    pub(super) total: i64,
    pub(super) own: i64,
    pub(super) base: Option<(i64, i64)>,
}

/// Reads a slice to its last byte.
pub(super) fn decoded(bytes: &[u8]) -> Decoded {
    let mut rest = bytes.strip_prefix(b"PPT1").expect("the magic");
    let header: Value = serde_json::from_slice(part(&mut rest)).expect("the header is JSON");
    let mut columns = Vec::new();
    while !rest.is_empty() {
        columns.push(numbers(part(&mut rest)));
    }
    let count = header["nodes"].as_u64().unwrap() as usize;
    assert!(columns.iter().all(|column| column.len() == count), "a number for each node in each column");
    assert_eq!(columns.len(), if header.get("diff").is_some() { 8 } else { 6 });
    let (mut next, mut next_depth) = (0, 0);
    let row = |place: usize| {
        let node = next + columns[0][place];
        let depth = next_depth - columns[1][place];
        (next, next_depth) = (node + 1, depth + 1);
        let index = (columns[2][place] >> 2) as usize;
        Row {
            node,
            depth,
            name: header["names"][index].as_str().unwrap().to_owned(),
            frame: header["frames"][index].as_u64().unwrap(),
            inlined: columns[2][place] & 3,
            size: columns[3][place],
            total: unzigzag(columns[4][place]),
            own: unzigzag(columns[5][place]),
            base: columns.get(6).map(|base| (unzigzag(base[place]), unzigzag(columns[7][place]))),
        }
    };
    let rows = (0..count).map(row).collect();
    Decoded { header, rows }
}

fn part<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let (length, more) = rest.split_first_chunk::<4>().expect("a length");
    let (part, more) = more.split_at(u32::from_le_bytes(*length) as usize);
    *rest = more;
    part
}

fn numbers(mut bytes: &[u8]) -> Vec<u64> {
    let mut numbers = Vec::new();
    while !bytes.is_empty() {
        let length = bytes.iter().position(|byte| byte & 0x80 == 0).expect("the last byte of a number") + 1;
        let (number, rest) = bytes.split_at(length);
        numbers.push(number.iter().rev().fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f)));
        bytes = rest;
    }
    numbers
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
