//! The one file of a form with a file field, `multipart/form-data` (RFC 7578).
//!
//! ```text
//! --BOUNDARY\r\n
//! Content-Disposition: form-data; name="file"; filename="cpu.pb.gz"\r\n
//! \r\n
//! the file\r\n
//! --BOUNDARY--\r\n
//! ```

use bytes::Bytes;
use procprof_core::without_controls;

/// Largest head of a part.
const HEAD_MAX: usize = 8 << 10;
/// Longest name that is kept.
const NAME_MAX: usize = 200;

/// The name and the content of the file; `None` if the body is no form with one file.
pub(crate) fn only_file(content_type: &str, body: &Bytes) -> Option<(String, Bytes)> {
    let (kind, rest) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = rest.split(';').find_map(|part| part.trim().strip_prefix("boundary="))?.trim_matches('"');
    let first = format!("--{boundary}\r\n");
    let last = format!("\r\n--{boundary}--");
    let after = body.strip_prefix(first.as_bytes())?;
    let head_end = find(&after[..after.len().min(HEAD_MAX)], b"\r\n\r\n")?;
    let head = std::str::from_utf8(&after[..head_end]).ok()?;
    let name = head.split("filename=\"").nth(1)?.split('"').next()?;
    let start = first.len() + head_end + 4;
    // The closing line may be followed by an end of line.
    let end = body.len().checked_sub(last.len() + 2).into_iter().chain(body.len().checked_sub(last.len()));
    let end = end.clone().find(|end| *end >= start && body[*end..].starts_with(last.as_bytes()))?;
    let next = format!("\r\n--{boundary}\r\n");
    let content = body.slice(start..end);
    match content.windows(next.len()).any(|window| window == next.as_bytes()) {
        true => None,
        false => Some((without_controls(name).chars().take(NAME_MAX).collect(), content)),
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::only_file;

    const TYPE: &str = "multipart/form-data; boundary=x-y";

    fn file(content_type: &str, body: &str) -> Option<(String, String)> {
        let (name, content) = only_file(content_type, &Bytes::from(body.to_owned()))?;
        Some((name, String::from_utf8(content.to_vec()).unwrap()))
    }

    #[test]
    fn the_file_of_a_form_is_found() {
        let head = "--x-y\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a b.pb\"\r\nContent-Type: text/plain\r\n\r\n";
        for (content, end) in [("two\r\nlines", "\r\n"), ("", ""), ("--x-y--\r\n--x-", "\r\n")] {
            let body = format!("{head}{content}\r\n--x-y--{end}");
            assert_eq!(file(TYPE, &body), Some(("a b.pb".to_owned(), content.to_owned())), "{body:?}");
            assert_eq!(file("multipart/form-data; boundary=\"x-y\"", &body).unwrap().1, content);
        }
        let two = format!("{head}one\r\n{head}two\r\n--x-y--\r\n");
        let cut = format!("{head}one");
        for (content_type, body) in
            [("text/plain", head), (TYPE, &two), (TYPE, &cut), (TYPE, "--x-y--"), (TYPE, ""), (TYPE, "--x-y\r\n")]
        {
            assert_eq!(file(content_type, body), None, "{body:?}");
        }
    }
}
