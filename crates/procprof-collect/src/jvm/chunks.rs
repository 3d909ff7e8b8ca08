//! Recordings as sequences of chunks, each with its size: checks that a file is complete, and removes the overlap of two
//! files.

/// The chunks of a recording: the start of each as the JVM has it (nanoseconds since the Unix epoch), and its bytes.
///
/// ```text
/// 0 "FLR\0"   4 version   8 size of the chunk, u64   …   32 start, ns, u64   40 duration, ns, u64   …     big-endian
/// ```
/// Source: `jdk.jfr.internal.consumer.ChunkHeader`.
pub(super) fn chunks(bytes: &[u8]) -> impl Iterator<Item = Result<(u64, &[u8]), String>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let at = bytes.len() - rest.len();
        let number = |offset: usize| {
            rest.get(offset..offset + 8).and_then(|eight| Some(u64::from_be_bytes(eight.try_into().ok()?)))
        };
        let chunk = match (rest.starts_with(b"FLR\0"), number(8), number(32)) {
            (true, Some(size), Some(start)) => {
                match usize::try_from(size).ok().filter(|size| *size >= 68).and_then(|size| rest.split_at_checked(size))
                {
                    Some((chunk, behind)) => {
                        rest = behind;
                        return Some(Ok((start, chunk)));
                    }
                    None => format!("the chunk at byte {at} has {size} bytes, of which {} are there", rest.len()),
                }
            }
            _ => format!("no chunk begins at byte {at} of {}", bytes.len()),
        };
        rest = &[];
        Some(Err(chunk))
    })
}

/// Checks that all chunks are complete; the error names what is missing.
pub(super) fn check_whole(bytes: &[u8]) -> Result<(), String> {
    if bytes.is_empty() {
        return Err("an empty file".to_owned());
    }
    chunks(bytes).try_for_each(|chunk| chunk.map(drop))
}

/// The part of a recording that the previous one, whose last chunk began at `before`, does not contain; and the start
/// of the last chunk of this one. Starting and stopping any recording begins a new chunk, so two that overlap have whole chunks in common.
pub(super) fn without_overlap(bytes: &[u8], before: Option<u64>) -> (Vec<u8>, Option<u64>) {
    let mut kept = Vec::with_capacity(bytes.len());
    let mut last = before;
    for (start, chunk) in chunks(bytes).map_while(Result::ok) {
        if before.is_none_or(|before| start > before) {
            kept.extend_from_slice(chunk);
        }
        last = Some(start);
    }
    (kept, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(start: u64) -> Vec<u8> {
        let mut chunk = vec![0; 80];
        chunk[..4].copy_from_slice(b"FLR\0");
        chunk[8..16].copy_from_slice(&80_u64.to_be_bytes());
        chunk[32..40].copy_from_slice(&start.to_be_bytes());
        chunk
    }

    #[test]
    fn a_file_that_was_cut_is_no_recording() {
        let whole = [chunk(1), chunk(2)].concat();
        assert_eq!(check_whole(&whole), Ok(()));
        for length in (0..whole.len()).filter(|length| *length != 80) {
            assert!(check_whole(&whole[..length]).is_err(), "{length} bytes");
        }
        assert!(check_whole(b"<html>").is_err());
    }

    #[test]
    fn chunks_of_two_recordings_are_taken_once() {
        let first = [chunk(10), chunk(20)].concat();
        let second = [chunk(20), chunk(30), chunk(40)].concat();
        let (kept, last) = without_overlap(&first, None);
        assert_eq!((kept == first, last), (true, Some(20)));
        assert_eq!(without_overlap(&second, last), ([chunk(30), chunk(40)].concat(), Some(40)));
    }
}
