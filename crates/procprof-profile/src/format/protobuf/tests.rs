use super::*;

fn faults(bytes: &[u8]) -> Option<Fault> {
    let mut reader = Reader::new(bytes);
    loop {
        match reader.field() {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(fault) => return Some(fault),
        }
    }
}

#[test]
fn numbers_of_every_length_are_read_back() {
    let mut numbers: Vec<u64> = (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) - 1]).collect();
    numbers.push(u64::MAX);
    let mut writer = Writer::default();
    writer.packed(7, numbers.iter().copied());
    for number in &numbers {
        writer.explicit_number(8, *number);
    }
    let mut reader = Reader::new(writer.as_bytes());
    let mut seen = Vec::new();
    reader.field().unwrap().unwrap().numbers(|number| seen.push(number)).unwrap();
    assert_eq!(seen, numbers);
    for number in numbers {
        assert_eq!(reader.field().unwrap().unwrap().varint().unwrap(), number);
    }
    assert!(reader.field().unwrap().is_none());
}

#[test]
fn broken_fields_name_their_offset() {
    let cases: &[(&[u8], usize, FaultKind)] = &[
        (&[0x08], 1, FaultKind::Cut("a varint")),
        (&[0x08, 0x80], 1, FaultKind::Cut("a varint")),
        (&[0x0a, 5, 1], 1, FaultKind::Cut("a field with a length")),
        (&[0x08, 1, 0x0b], 2, FaultKind::Wrong("wire type not allowed")),
        (&[0x00, 1], 0, FaultKind::Wrong("field number out of range")),
        (&[0x09, 1, 2, 3], 1, FaultKind::Cut("a fixed number")),
        (&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1], 1, FaultKind::Wrong("varint past 64 bits")),
    ];
    for (bytes, offset, kind) in cases {
        assert_eq!(faults(bytes), Some(Fault { offset: *offset, kind: *kind }), "{bytes:x?}");
    }
}
