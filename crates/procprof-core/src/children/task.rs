//! The task and the input of a child, as it reads them.
//!
//! ```text
//! last argument      {"limits": {"memory": BYTES, "seconds": N}, "work": ...}
//! standard input     frames: length in 8 bytes, little endian, then so many bytes
//! ```

use std::io::{self, Read};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::limits::ChildLimits;

/// The last argument of a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildTask<W> {
    /// The limits that it sets before it reads anything else.
    pub(super) limits: ChildLimits,
    /// The rest, by the kind of the child.
    pub work: W,
}

impl<W: DeserializeOwned> ChildTask<W> {
    /// Reads the task of this process, a child, and sets its limits.
    ///
    /// # Errors
    /// An argument that is no task, or a limit that the system refuses.
    pub fn begin(argument: &str) -> io::Result<W> {
        let task: ChildTask<W> = serde_json::from_str(argument)?;
        task.limits.set()?;
        Ok(task.work)
    }
}

/// The work of the child that draws in jeprof's grammar; the frames of its input are the dumps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JeprofWords {
    /// The words of jeprof's command line; `{0}` and `{1}` are replaced by the dumps.
    pub words: Vec<String>,
}

/// A frame as the two pieces it is written in.
pub(crate) fn frame(bytes: Bytes) -> [Bytes; 2] {
    [Bytes::copy_from_slice(&(bytes.len() as u64).to_le_bytes()), bytes]
}

/// The first frame of some bytes, and the rest; `None` if it is cut short.
pub(crate) fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
}

/// The length of the next frame of `input`; `None` at its end.
///
/// # Errors
/// Input that cannot be read, or ends within the length.
pub fn frame_length(input: &mut dyn Read) -> io::Result<Option<u64>> {
    let mut length = Vec::with_capacity(8);
    input.take(8).read_to_end(&mut length)?;
    match <[u8; 8]>::try_from(length.as_slice()) {
        Ok(length) => Ok(Some(u64::from_le_bytes(length))),
        Err(_) if length.is_empty() => Ok(None),
        Err(_) => Err(io::Error::other("the input ends within a length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_are_written() {
        let written = [frame(Bytes::from_static(b"head")).concat(), frame(Bytes::new()).concat(), vec![7]].concat();
        assert_eq!(split_frame(&written), Some((&b"head"[..], &written[12..])));
        let mut input = &written[..];
        assert_eq!(frame_length(&mut input).unwrap(), Some(4));
        input = &input[4..];
        assert_eq!(frame_length(&mut input).unwrap(), Some(0));
        assert!(frame_length(&mut input).is_err(), "a length is cut short");
        assert_eq!(frame_length(&mut input).unwrap(), None);
        assert_eq!(split_frame(&written[..10]), None);
        assert_eq!(split_frame(&u64::MAX.to_le_bytes()), None);
    }
}
