//! Prepared statements: their answers, and every form a parameter has.

use tokio::io::{AsyncReadExt, duplex};

use super::style;
use crate::mysql::column::Form;
use crate::mysql::greeting::can;
use crate::mysql::prepared::Statements;
use crate::mysql::wire::Wire;
use crate::mysql::{Column, Prepared, SqlError, SqlErrorKind, Value};

fn wire() -> (Wire, tokio::io::DuplexStream) {
    let (ours, theirs) = duplex(1 << 20);
    (Wire::new(Box::new(ours), 1000, std::time::Duration::from_secs(180)), theirs)
}

fn keep(statements: &mut Statements, text: &str, parameters: usize) -> Result<(), SqlError> {
    let style = style(can::DEPRECATE_EOF, Form::Binary);
    statements.keep(&mut wire().0, style, "procprof", text.to_owned(), &Prepared { parameters, columns: Vec::new() })
}

/// One statement, number 1.
fn statements(parameters: usize) -> Statements {
    let mut statements = Statements::default();
    keep(&mut statements, "SELECT", parameters).unwrap();
    statements
}

/// An execution with types.
fn execution(nulls: &[u8], types: &[[u8; 2]], values: &[u8]) -> Vec<u8> {
    [&[0, 1, 0, 0, 0][..], nulls, &[1], types.concat().as_slice(), values].concat()
}

#[test]
fn parameters_of_every_type_are_read() {
    let text = |text: &str| Value::Text(text.to_owned());
    for (kind, value, expected) in [
        ([1, 0], &[0xff][..], Value::Integer(-1)),
        ([1, 0x80], &[0xff], Value::Integer(255)),
        ([2, 0], &[0xfe, 0xff], Value::Integer(-2)),
        ([2, 0x80], &[0xfe, 0xff], Value::Integer(65_534)),
        ([3, 0], &[0xfd, 0xff, 0xff, 0xff], Value::Integer(-3)),
        ([3, 0x80], &[0xfd, 0xff, 0xff, 0xff], Value::Integer(4_294_967_293)),
        ([8, 0], &[0xff; 8], Value::Integer(-1)),
        ([8, 0x80], &[1, 0, 0, 0, 0, 0, 0, 0], Value::Integer(1)),
        ([4, 0], &1.5_f32.to_le_bytes(), Value::Real(1.5)),
        ([5, 0], &(-0.1_f64).to_le_bytes(), Value::Real(-0.1)),
        ([6, 0], &[], Value::Null),
        ([0xfd, 0], b"\x07gr\xc3\xb6\xc3\x9fe", text("größe")),
        ([0xfc, 0], b"\x01\xff", Value::Blob(vec![0xff])),
        ([0, 0], b"\x041.50", text("1.50")),
        ([0x0c, 0], b"\0", text("0000-00-00")),
        ([0x0a, 0], b"\x04\xe9\x07\x0b\x15", text("2025-11-21")),
        ([0x0c, 0], b"\x07\xe9\x07\x0b\x15\x01\x02\x03", text("2025-11-21 01:02:03")),
        ([0x07, 0], b"\x0b\xe9\x07\x0b\x15\x01\x02\x03\x40\xe2\x01\0", text("2025-11-21 01:02:03.123456")),
        ([0x0b, 0], b"\0", text("00:00:00")),
        ([0x0b, 0], b"\x08\x01\x02\0\0\0\x03\x04\x05", text("-51:04:05")),
        ([0x0b, 0], b"\x0c\0\0\0\0\0\x03\x04\x05\x01\0\0\0", text("03:04:05.000001")),
    ] {
        let sent = execution(&[0], &[kind], value);
        assert_eq!(statements(1).execution(1, &sent), Ok(("SELECT".to_owned(), vec![expected])), "{kind:?}");
        super::every_beginning(&sent, |bytes| statements(1).execution(1, bytes).map(drop));
    }
}

#[test]
fn nulls_and_kept_types() {
    let mut statements = statements(9);
    let types = [[1, 0]; 9];
    let (_, values) = statements.execution(1, &execution(&[0b1111_1110, 1], &types, &[5])).unwrap();
    assert_eq!(values, [vec![Value::Integer(5)], vec![Value::Null; 8]].concat());
    // The second time the types are not sent again.
    let again = [&[0, 1, 0, 0, 0, 0b1111_1111, 0, 0][..], &[6]].concat();
    assert_eq!(statements.execution(1, &again).unwrap().1[8], Value::Integer(6));
}

#[test]
fn executions_that_cannot_be_read_are_refused() {
    for (parameters, sent, kind) in [
        (1, vec![], SqlErrorKind::Malformed),
        (1, vec![0, 1, 0, 0, 0], SqlErrorKind::Malformed),
        (1, vec![0, 1, 0, 0, 0, 0, 0], SqlErrorKind::WrongArguments),
        (1, execution(&[0], &[[0x99, 0]], &[]), SqlErrorKind::WrongArguments),
        (1, execution(&[0], &[[8, 0x80]], &[0xff; 8]), SqlErrorKind::WrongArguments),
        (1, execution(&[0], &[[0xfd, 0]], b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff"), SqlErrorKind::Malformed),
        (1, execution(&[0], &[[0x0c, 0]], &[1, 0]), SqlErrorKind::Malformed),
        (65_535, execution(&[0], &[[1, 0]], &[1]), SqlErrorKind::Malformed),
    ] {
        assert_eq!(statements(parameters).execution(1, &sent).unwrap_err().kind, kind, "{sent:?}");
    }
    assert_eq!(statements(0).execution(2, &[0, 1, 0, 0, 0]).unwrap_err().kind, SqlErrorKind::UnknownStatement);
    assert_eq!(statements(0).reset(2).unwrap_err().kind, SqlErrorKind::UnknownStatement);
}

#[test]
fn values_sent_in_pieces_are_joined_and_bounded() {
    let mut statements = statements(1);
    statements.long_data(1, 0, b"ab");
    statements.long_data(1, 0, b"cd");
    statements.long_data(1, 7, b"of no parameter");
    statements.long_data(9, 0, b"of no statement");
    let sent = execution(&[0], &[[0xfd, 0]], &[]);
    assert_eq!(statements.execution(1, &sent).unwrap().1, [Value::Text("abcd".into())]);
    assert!(statements.execution(1, &sent).is_err(), "they are of one execution");
    statements.long_data(1, 0, b"ab");
    statements.reset(1).unwrap();
    assert!(statements.execution(1, &sent).is_err());
    keep(&mut statements, "SELECT", 1).unwrap();
    for _ in 0..5 {
        statements.long_data(1, 0, &vec![b'x'; 1 << 20]);
        statements.long_data(2, 0, &vec![b'x'; 1 << 20]);
    }
    assert_eq!(
        statements.execution(1, &sent).unwrap_err().kind,
        SqlErrorKind::PacketTooLarge,
        "more than 4 MiB of both together"
    );
    statements.long_data(1, 0, b"y");
    assert_eq!(statements.execution(1, &sent).unwrap().1, [Value::Text("y".into())], "the next one is accepted again");
}

#[test]
fn statements_are_as_many_and_as_long_as_stated() {
    let mut statements = Statements::default();
    for _ in 0..256 {
        keep(&mut statements, "SELECT", 0).unwrap();
    }
    assert_eq!(keep(&mut statements, "SELECT", 0).unwrap_err().kind, SqlErrorKind::Limit);
    statements.close(7);
    keep(&mut statements, "SELECT", 0).unwrap();
    let mut statements = Statements::default();
    keep(&mut statements, &"x".repeat(3 << 20), 0).unwrap();
    assert_eq!(keep(&mut statements, &"x".repeat(2 << 20), 0).unwrap_err().kind, SqlErrorKind::Limit);
    assert_eq!(keep(&mut statements, "SELECT", 65_536).unwrap_err().kind, SqlErrorKind::Limit);
}

#[tokio::test]
async fn the_answer_to_a_preparation_counts_parameters_and_columns() {
    let (mut wire, mut client) = wire();
    let prepared = Prepared { parameters: 2, columns: vec![Column::text("c")] };
    let style = style(0, Form::Binary);
    Statements::default().keep(&mut wire, style, "procprof", "SELECT".to_owned(), &prepared).unwrap();
    wire.send().await.unwrap();
    drop(wire);
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).await.unwrap();
    assert_eq!(bytes[..16], [12, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0]);
    let eof = [5, 0, 0, 3, 0xfe, 0, 0, 2, 0];
    assert!(bytes.windows(9).any(|window| window == eof), "after the parameters");
    assert!(bytes.ends_with(&[5, 0, 0, 5, 0xfe, 0, 0, 2, 0]), "after the columns");
}
