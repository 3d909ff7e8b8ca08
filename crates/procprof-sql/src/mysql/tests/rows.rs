//! Answers byte by byte: OK, errors, columns, rows of both forms.

use tokio::io::{AsyncReadExt, duplex};
use tokio::sync::mpsc;

use super::style;
use crate::mysql::column::{Form, put_row};
use crate::mysql::greeting::can;
use crate::mysql::response::{put_failure, put_ok, send};
use crate::mysql::wire::Wire;
use crate::mysql::{Column, ColumnType, Rows, SqlError, SqlErrorKind, StatementResult, Value};

const TYPES: [ColumnType; 4] = [ColumnType::Integer, ColumnType::Real, ColumnType::Text, ColumnType::Blob];

fn columns() -> Vec<Column> {
    TYPES.into_iter().map(|column_type| Column::new("c", column_type)).collect()
}

fn row(form: Form, row: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    put_row(&mut out, form, &columns(), row);
    out
}

fn filled() -> Vec<Value> {
    vec![Value::Integer(-2), Value::Real(1.5), "größe".into(), Value::Blob(vec![0, 255])]
}

#[test]
fn rows_stand_in_both_forms() {
    assert_eq!(row(Form::Text, &filled()), b"\x02-2\x031.5\x07gr\xc3\xb6\xc3\x9fe\x02\0\xff");
    assert_eq!(row(Form::Text, &vec![Value::Null; 4]), [0xfb; 4]);
    let binary =
        [&[0, 0][..], &(-2_i64).to_le_bytes(), &1.5_f64.to_le_bytes(), b"\x07gr\xc3\xb6\xc3\x9fe\x02\0\xff"].concat();
    assert_eq!(row(Form::Binary, &filled()), binary);
    assert_eq!(row(Form::Binary, &vec![Value::Null; 4]), [0, 0b0011_1100], "bits of NULL begin at the third");
    assert_eq!(row(Form::Binary, &[Value::Null, 7.into(), Value::Null, "x".into()])[..2], [0, 0b0001_0100]);
}

#[test]
fn the_bits_of_null_take_as_many_bytes_as_they_need() {
    for (count, bytes) in [(1, 1), (6, 1), (7, 2), (14, 2), (15, 3)] {
        let columns = vec![Column::text("c"); count];
        let mut out = Vec::new();
        put_row(&mut out, Form::Binary, &columns, &vec![Value::Null; count]);
        assert_eq!(out.len(), 1 + bytes, "{count}");
    }
}

#[test]
fn doubles_are_written_as_mysql_writes_them() {
    for (value, text) in [
        (0.0, "0"),
        (1.0, "1"),
        (-0.25, "-0.25"),
        (1e14, "100000000000000"),
        (1e20, "1e20"),
        (1e-20, "1e-20"),
        (1.0 / 3.0, "0.3333333333333333"),
    ] {
        let row = row(Form::Text, &[Value::Null, Value::Real(value), Value::Null, Value::Null]);
        assert_eq!(&row[2..row.len() - 2], text.as_bytes());
    }
}

/// All that is sent for an answer, as payloads.
async fn sent(capabilities: u32, form: Form, answer: StatementResult) -> (Vec<Vec<u8>>, (u64, Result<(), SqlError>)) {
    let (ours, mut theirs) = duplex(1 << 20);
    let mut wire = Wire::new(Box::new(ours), 1000, std::time::Duration::from_secs(180));
    let ended = send(&mut wire, style(capabilities, form), "procprof", answer).await.unwrap();
    drop(wire);
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).await.unwrap();
    let (mut payloads, mut left) = (Vec::new(), bytes.as_slice());
    while let Some((head, rest)) = left.split_first_chunk::<4>() {
        let [a, b, c, sequence] = *head;
        assert_eq!(usize::from(sequence), payloads.len());
        let (payload, rest) = rest.split_at(u32::from_le_bytes([a, b, c, 0]) as usize);
        payloads.push(payload.to_vec());
        left = rest;
    }
    (payloads, ended)
}

const EOF: &[u8] = &[0xfe, 0, 0, 2, 0];
const OK_END: &[u8] = &[0xfe, 0, 0, 2, 0, 0, 0];

#[tokio::test]
async fn results_end_as_the_client_requires() {
    let answer = || {
        StatementResult::rows(
            vec![Column { table: "t".into(), nullable: false, ..Column::new("n", ColumnType::Integer) }],
            vec![vec![7.into()]],
        )
    };
    let column = b"\x03def\x08procprof\x01t\x01t\x01n\x01n\x0c\x3f\0\x14\0\0\0\x08\x81\x80\0\0\0".to_vec();
    let (old, ended) = sent(0, Form::Text, answer()).await;
    assert_eq!(old, [vec![1], column.clone(), EOF.to_vec(), b"\x017".to_vec(), EOF.to_vec()]);
    assert_eq!(ended, (1, Ok(())));
    let (new, _) = sent(can::DEPRECATE_EOF, Form::Text, answer()).await;
    assert_eq!(new, [vec![1], column, b"\x017".to_vec(), OK_END.to_vec()]);
    let (done, _) = sent(0, Form::Text, StatementResult::Done { affected: 300, warnings: 1 }).await;
    assert_eq!(done, [[0, 0xfc, 0x2c, 1, 0, 2, 0, 1, 0]]);
}

#[tokio::test]
async fn streamed_rows_end_in_their_failure() {
    let (batches, rows) = mpsc::channel(4);
    batches.send(Ok(vec![vec!["a".into()], vec!["b".into()]])).await.unwrap();
    batches.send(Err(SqlError::new(SqlErrorKind::TimedOut, "too long"))).await.unwrap();
    let answer = StatementResult::Rows { columns: vec![Column::text("c")], rows: Rows::Stream(rows), warnings: 0 };
    let (payloads, (count, ended)) = sent(can::DEPRECATE_EOF, Form::Text, answer).await;
    assert_eq!(payloads[2..], [b"\x01a".to_vec(), b"\x01b".to_vec(), b"\xff\xd0\x0b#HY000too long".to_vec()]);
    assert!(count == 2 && ended.unwrap_err().kind == SqlErrorKind::TimedOut);
}

#[tokio::test]
async fn a_value_that_does_not_fit_its_column_ends_the_rows() {
    let answer =
        StatementResult::rows(vec![Column::new("n", ColumnType::Integer)], vec![vec![1.into()], vec!["x".into()]]);
    let (payloads, (count, ended)) = sent(can::DEPRECATE_EOF, Form::Binary, answer).await;
    assert!(payloads.len() == 4 && payloads[3][0] == 0xff && count == 1);
    assert!(ended.unwrap_err().text.contains("row 2") && String::from_utf8_lossy(&payloads[3]).contains("\"n\""));
}

#[tokio::test]
async fn a_row_of_16_mib_arrives_whole() {
    let text = "x".repeat(0x100_0000 + 10);
    let (ours, mut theirs) = duplex(1 << 20);
    let sending = tokio::spawn(async move {
        let mut wire = Wire::new(Box::new(ours), 1000, std::time::Duration::from_secs(180));
        let answer = StatementResult::rows(vec![Column::text("c")], vec![vec![text.into()]]);
        send(&mut wire, style(can::DEPRECATE_EOF, Form::Text), "procprof", answer).await.unwrap().1.unwrap();
    });
    let mut bytes = Vec::new();
    theirs.read_to_end(&mut bytes).await.unwrap();
    sending.await.unwrap();
    let row = bytes.windows(9).position(|window| window == [0xff, 0xff, 0xff, 2, 0xfe, 10, 0, 0, 1]).unwrap();
    let second = &bytes[row + 4 + 0xff_ffff..];
    assert_eq!(second[..4], [20, 0, 0, 3], "9 bytes of length and the text are split at 2^24 - 1");
    assert_eq!(bytes.iter().filter(|byte| **byte == b'x').count(), 0x100_0000 + 10);
}

#[test]
fn errors_have_their_number_and_state() {
    let (ours, _theirs) = duplex(1000);
    let mut wire = Wire::new(Box::new(ours), 1000, std::time::Duration::from_secs(180));
    put_ok(&mut wire, style(0, Form::Text), 0, 0);
    put_failure(&mut wire, &SqlError::new(SqlErrorKind::Login, "no"));
    assert_eq!(SqlError::new(SqlErrorKind::Login, "no").to_string(), "1045 (28000): no");
}
