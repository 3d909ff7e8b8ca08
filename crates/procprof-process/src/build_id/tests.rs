//! Build ids of hand-made files; real ones are compared with `readelf` in the integration tests.

use super::*;

/// A 64-bit little-endian file: header, one `PT_NOTE` program header, one note.
fn elf_with_note(id: &[u8]) -> Vec<u8> {
    let mut elf = vec![0; 64];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    elf[32] = 64;
    elf[56] = 1;
    let mut segment = [0; 56];
    segment[0] = PT_NOTE as u8;
    segment[8] = 120;
    segment[32] = (16 + id.len()) as u8;
    elf.extend(segment);
    elf.extend([4, 0, 0, 0, id.len() as u8, 0, 0, 0, 3, 0, 0, 0]);
    elf.extend(b"GNU\0");
    elf.extend(id);
    elf
}

#[test]
fn finds_the_note() {
    let elf = elf_with_note(&[0xab, 0xcd, 1, 2]);
    let id = BuildId::of_bytes(&elf).unwrap();
    assert_eq!(id.to_string(), "abcd0102");
    assert_eq!("abcd0102".parse(), Ok(id));
}

#[test]
fn every_prefix_and_every_changed_byte_is_survived() {
    let elf = elf_with_note(&[7; 20]);
    for end in 0..elf.len() {
        assert_eq!(BuildId::of_bytes(&elf[..end]), None);
    }
    for index in 0..elf.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = elf.clone();
            changed[index] = value;
            BuildId::of_bytes(&changed);
        }
    }
}

#[test]
fn refuses_text_that_is_no_build_id() {
    for text in ["", "a", "xy", "0g", &"00".repeat(65)] {
        assert!(text.parse::<BuildId>().is_err(), "{text}");
    }
    assert_eq!(BuildId::new(&[]), None);
}

#[test]
fn a_file_of_nothing_but_note_headers_is_not_read_for_long() {
    const HEADERS: u16 = 2000;
    let mut elf = elf_with_note(&[1; 4])[..64].to_vec();
    elf[56..58].copy_from_slice(&HEADERS.to_le_bytes());
    for _ in 0..HEADERS {
        let mut segment = [0; 56];
        segment[0] = PT_NOTE as u8;
        segment[34] = 1; // 64 KiB.
        elf.extend(segment);
    }
    elf.resize(elf.len().max(64 << 10), 0);
    let read = std::cell::Cell::new(0);
    let source = |offset: u64, buffer: &mut [u8]| {
        read.set(read.get() + buffer.len());
        buffer.copy_from_slice(&elf[offset as usize..][..buffer.len()]);
        Ok(())
    };
    assert_eq!(Elf::read(&source).and_then(|elf| elf.build_id()).unwrap(), None);
    assert!(read.get() <= NOTES_MAX * (64 << 10) + elf.len(), "{} bytes were read", read.get());
}
