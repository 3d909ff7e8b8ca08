use super::*;

#[test]
fn lines_are_numbered_and_marked_when_cut() {
    let mut lines = Lines::new(b"one\r\n\n  two \nthree");
    let read: Vec<_> = lines.by_ref().map(|line| (line.text, line.number, line.is_cut)).collect();
    assert_eq!(read, [(&b"one"[..], 1, false), (b"", 2, false), (b"two", 3, false), (b"three", 4, true)]);
    assert!(lines.rest().is_empty());
}

#[test]
fn numbers_are_read_to_their_limits() {
    let integer = |text: &str| Cursor::new(text.as_bytes()).integer();
    assert_eq!(integer("9223372036854775807]"), Some(i64::MAX));
    assert_eq!(integer("-12"), Some(-12));
    for text in ["9223372036854775808", "99999999999999999999999", "", "-", "x", "+1"] {
        assert_eq!(integer(text), None, "{text}");
    }
    let address = |text: &str| Cursor::new(text.as_bytes()).address();
    assert_eq!(address("0xffffffffffffffff 0x1"), Some(u64::MAX));
    assert_eq!(address("0x000000000000000000401Ab"), Some(0x401ab));
    for text in ["0x10000000000000000", "0x", "401", "x1", ""] {
        assert_eq!(address(text), None, "{text}");
    }
}

#[test]
fn a_failed_read_leaves_the_cursor() {
    let mut cursor = Cursor::new(b"-x");
    assert_eq!(cursor.integer(), None);
    assert_eq!(cursor.rest, b"-x");
    let mut cursor = Cursor::new(b"0xyz");
    assert_eq!(cursor.address(), None);
    assert_eq!(cursor.rest, b"0xyz");
}

#[test]
fn pairs_may_have_blanks() {
    let mut cursor = Cursor::new(b"  3:  4096 [  7: 8 ] @ rest");
    assert_eq!((cursor.pair(), cursor.bracketed_pair()), (Some((3, 4096)), Some((7, 8))));
    assert_eq!(cursor.rest, b"@ rest");
}

#[test]
fn odd_lines_make_one_warning() {
    let mut odd = OddLines::default();
    let mut warnings = Vec::new();
    Lines::new(b"what\nis\n").for_each(|line| odd.note(&line));
    odd.warn("x", &mut warnings);
    assert_eq!(warnings, ["x: line 1: passed over 2 lines not understood, the first \"what\""]);
}
