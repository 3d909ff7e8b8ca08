use super::*;

const DUMP: &str = "\
heap_v2/524288
  t*: 9: 786432 [0: 0]
  t1: 9: 786432 [0: 0]
@ 0x10 0x20 0x30
  t*: 3: 300 [0: 0]
  t1: 3: 300 [0: 0]
@ 0x11 x 0x20 0x30
  t*: 2: 200 [0: 0]
  t1: 1: 100 [0: 0]
  t2: 1: 100 [0: 0]
@ 0x10 0x20 0x30
  t*: 1: 100 [0: 0]
@ 0x30
@ 0x40 0x30
  t*: 1: 700 [0: 0]

MAPPED_LIBRARIES:
00400000-00500000 r-xp 00000000 00:00 0 /bin/a
@ 0x50
  t*: 1: 1 [0: 0]
";

fn settings() -> Settings {
    Settings { by_thread: true, ..Settings::default() }
}

/// Reads in pieces of `size` bytes and what follows up to a border, by several readers in turn.
fn in_pieces(text: &[u8], size: usize, readers: usize) -> (Reading, Pcs) {
    let mut pcs = Pcs::default();
    let mut dump = HeapDump::open(text, &settings()).unwrap().unwrap();
    let mut readers: Vec<_> = (0..readers).map(|_| dump.reader()).collect();
    let (mut start, mut map, mut number) = (0, None, 0);
    while start < text.len() && map.is_none() {
        let end = HeapDump::border(text, start + size).unwrap_or(text.len());
        let count = readers.len();
        let piece = readers[number % count].read(&text[start..end]);
        dump.add(&piece, &mut pcs);
        map = piece.map.map(|map| &text[start + map..]);
        (start, number) = (end, number + 1);
    }
    (dump.finish(map.unwrap_or_default()), pcs)
}

fn listed(stacks: &Stacks) -> Vec<(Vec<PcId>, f64)> {
    stacks.iter().map(|(stack, value)| (stack.to_vec(), value)).collect()
}

#[test]
fn pieces_give_what_the_whole_does() {
    let mut pcs = Pcs::default();
    let whole = super::super::read(DUMP.as_bytes(), &settings(), &mut pcs).unwrap();
    assert_eq!(pcs.addresses(), [0x10, 0x1f, 0x2f, 0x11, 0x30, 0x40]);
    assert_eq!(listed(&whole.stacks).len(), 3);
    assert_eq!(whole.map, DUMP.split_once("MAPPED_LIBRARIES:\n").unwrap().1);
    for size in 1..DUMP.len() {
        for readers in 1..4 {
            let (reading, ids) = in_pieces(DUMP.as_bytes(), size, readers);
            assert_eq!(ids.addresses(), pcs.addresses(), "{size} {readers}");
            assert_eq!(listed(&reading.stacks), listed(&whole.stacks), "{size} {readers}");
            let threads = |reading: &Reading| -> Vec<_> {
                reading.threads.iter().flatten().map(|(thread, stacks)| (*thread, listed(stacks))).collect()
            };
            assert_eq!(threads(&reading), threads(&whole), "{size} {readers}");
            assert_eq!(reading.map, whole.map, "{size} {readers}");
        }
    }
}

#[test]
fn other_profiles_are_not_opened() {
    let open = |text: &str| HeapDump::open(text.as_bytes(), &Settings::default()).map(|dump| dump.is_some());
    assert_eq!(open("heap_v2/1\n@ 0x1\n"), Ok(true));
    assert_eq!(open("%warn odd\nheap_v2/1\n@ 0x1\n"), Ok(true));
    assert_eq!(open("heap_v2/1"), Ok(false));
    assert_eq!(open("heap profile: 1: 1 [1: 1] @ heap_v2/1\n"), Ok(false));
    assert_eq!(open("--- symbol\n"), Ok(false));
    assert_eq!(open(""), Ok(false));
    assert_eq!(open("heap/1\n@ 0x1\n"), Err(ReadError::NoRate));
}
