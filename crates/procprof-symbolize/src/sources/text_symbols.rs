//! Reads symbols from text files with a line for each.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Largest file of symbols as text that is read, in bytes.
const TEXT_BYTES_MAX: u64 = 512 << 20;
/// Bytes of a longer line, of those that are read one by one, that are read.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Bytes read at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Reads a file of symbols; invalid UTF-8 is replaced. Errs if it is larger than 512 MiB.
pub(super) fn read(file: File, path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(too_large(path));
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Calls a function with each line of a file, the last one first, without its end and without keeping the file in
/// memory. After each piece of the file, `may_go_on` is asked.
///
/// Errs if the file is larger than `bytes_max`, before anything is read, and with the error of `may_go_on`.
pub(super) fn for_each_line_backwards(
    file: &File,
    bytes_max: u64,
    mut each: impl FnMut(&[u8]),
    mut may_go_on: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let mut end = file.metadata()?.len();
    if end > bytes_max {
        let what = format!("it has {} MiB; at most {} MiB are read", end.div_ceil(1 << 20), bytes_max >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    // The end of the line whose beginning is in the piece before.
    let (mut piece, mut rest) = (vec![0; PIECE_BYTES], Vec::new());
    while end > 0 {
        let start = end.saturating_sub(PIECE_BYTES as u64);
        let bytes = piece.get_mut(..(end - start) as usize).unwrap_or_default();
        file.read_exact_at(bytes, start)?;
        let mut unread = &*bytes;
        while let Some(newline) = unread.iter().rposition(|byte| *byte == b'\n') {
            let (before, line) = unread.split_at(newline);
            let line = line.get(1..).unwrap_or_default();
            if rest.is_empty() {
                each(line);
            } else {
                prepend(&mut rest, line);
                each(&rest);
                rest.clear();
            }
            unread = before;
        }
        prepend(&mut rest, unread);
        end = start;
        may_go_on()?;
    }
    each(&rest);
    Ok(())
}

/// Puts the beginning of a line before its end; of a line longer than the limit, the end is left out.
fn prepend(line: &mut Vec<u8>, beginning: &[u8]) {
    line.splice(..0, beginning.iter().copied());
    line.truncate(LINE_BYTES_MAX);
}

fn too_large(path: &Path) -> io::Error {
    let what = format!("{}: more than {TEXT_BYTES_MAX} bytes", path.display());
    io::Error::new(io::ErrorKind::FileTooLarge, what)
}

/// A hexadecimal number, with or without `0x`.
pub(super) fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn lines(text: &[u8]) -> Vec<Vec<u8>> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        let mut found = Vec::new();
        for_each_line_backwards(&file, u64::MAX, |line| found.push(line.to_vec()), || Ok(())).unwrap();
        found
    }

    #[test]
    fn lines_are_read_from_the_last_to_the_first_whatever_their_length() {
        let long = vec![b'x'; LINE_BYTES_MAX - 7];
        let many = b"some line\n".repeat(PIECE_BYTES / 7);
        for text in [&b""[..], b"\n", b"a", b"a\nbc", b"a\n\nbc\n", &many, &[&many, &long[..], b"\n", &many].concat()] {
            let mut expected: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
            expected.reverse();
            assert_eq!(lines(text).len(), expected.len());
            assert!(lines(text) == expected, "{} bytes", text.len());
        }
        let longer = [vec![b'y'; 9], vec![b'x'; 3 * PIECE_BYTES], b"\nz".to_vec()].concat();
        let found = lines(&longer);
        assert_eq!((found[0].as_slice(), found[1].len(), &found[1][..9]), (&b"z"[..], LINE_BYTES_MAX, &[b'y'; 9][..]));
    }

    #[test]
    fn reading_ends_at_its_limits() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&b"line\n".repeat(PIECE_BYTES)).unwrap();
        let error = for_each_line_backwards(&file, 1 << 20, |_| panic!("read"), || Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "it has 2 MiB; at most 1 MiB are read");
        let (mut read, mut pieces) = (0, 0);
        let ends = for_each_line_backwards(
            &file,
            2 << 20,
            |_| read += 1,
            || {
                pieces += 1;
                if pieces < 2 { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
            },
        );
        assert_eq!(ends.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!((pieces, read), (2, (2 * PIECE_BYTES).div_ceil(5)));
    }
}
