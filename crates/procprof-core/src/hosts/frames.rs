//! The body of a push, taken apart as it arrives: a pure function over pieces of any length.

use bytes::{Buf, Bytes, BytesMut};

use super::protocol::{FRAME_HEADER_BYTES_MAX, FRAMES_MAX, PushedProfile};

/// A part of a push.
#[derive(Clone, Debug, PartialEq)]
pub enum FramePart {
    /// A frame begins: its header, and the length of its profile in bytes.
    Header(Box<PushedProfile>, u32),
    /// Further bytes of its profile.
    Piece(Bytes),
    /// The frame is complete.
    End,
}

/// Why a body is no push.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A header's length is beyond the limit.
    #[error("frame {frame}: a header of {bytes} bytes, at most {FRAME_HEADER_BYTES_MAX} are taken")]
    HeaderTooLong {
        /// The frame, from 0.
        frame: usize,
        /// The length that it gives.
        bytes: u32,
    },
    /// A header that is not the JSON it has to be.
    #[error("frame {frame}: header: {why}")]
    Header {
        /// The frame, from 0.
        frame: usize,
        /// The parser's reason.
        why: String,
    },
    /// The body ends within a frame.
    #[error("frame {frame}: the body ends within it")]
    CutShort {
        /// The frame, from 0.
        frame: usize,
    },
    /// There are more frames than a request may have.
    #[error("more than {FRAMES_MAX} frames; send the rest in another request")]
    TooMany,
}

/// A push on its way in. Feed it by [`Frames::push`], then take parts by [`Frames::part`] until there is none; at the
/// end of the body [`Frames::finish`].
#[derive(Debug, Default)]
pub struct Frames {
    buffer: BytesMut,
    next: Next,
    /// Frames that were begun.
    frames: usize,
}

/// The place within a frame.
#[derive(Debug, Default)]
enum Next {
    #[default]
    HeaderLength,
    Header(u32),
    ProfileLength(Box<PushedProfile>),
    Profile(u32),
}

impl Frames {
    /// Adds bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next part; `None` until further bytes are there. Apart from what was pushed, it holds one header.
    ///
    /// # Errors
    /// The body is no push; nothing after this can be read.
    pub fn part(&mut self) -> Result<Option<FramePart>, FrameError> {
        loop {
            match &mut self.next {
                Next::HeaderLength => {
                    let Some(bytes) = self.take_length() else { return Ok(None) };
                    if self.frames >= FRAMES_MAX {
                        return Err(FrameError::TooMany);
                    }
                    self.frames += 1;
                    if bytes > FRAME_HEADER_BYTES_MAX {
                        return Err(FrameError::HeaderTooLong { frame: self.frames - 1, bytes });
                    }
                    self.next = Next::Header(bytes);
                }
                Next::Header(bytes) => {
                    let length = *bytes as usize;
                    if self.buffer.len() < length {
                        return Ok(None);
                    }
                    let header = self.buffer.split_to(length);
                    let header = serde_json::from_slice(&header)
                        .map_err(|error| FrameError::Header { frame: self.frames - 1, why: error.to_string() })?;
                    self.next = Next::ProfileLength(Box::new(header));
                }
                Next::ProfileLength(header) => {
                    let header = std::mem::take(header);
                    let Some(bytes) = self.take_length() else {
                        self.next = Next::ProfileLength(header);
                        return Ok(None);
                    };
                    self.next = Next::Profile(bytes);
                    return Ok(Some(FramePart::Header(header, bytes)));
                }
                Next::Profile(0) => {
                    self.next = Next::HeaderLength;
                    return Ok(Some(FramePart::End));
                }
                Next::Profile(left) => {
                    let length = self.buffer.len().min(*left as usize);
                    if length == 0 {
                        return Ok(None);
                    }
                    *left -= u32::try_from(length).unwrap_or(u32::MAX);
                    return Ok(Some(FramePart::Piece(self.buffer.split_to(length).freeze())));
                }
            }
        }
    }

    /// Checks that the body ended where a frame does.
    ///
    /// # Errors
    /// It ended within one.
    pub fn finish(&self) -> Result<(), FrameError> {
        match (&self.next, self.buffer.is_empty()) {
            (Next::HeaderLength, true) => Ok(()),
            (Next::HeaderLength, false) => Err(FrameError::CutShort { frame: self.frames }),
            _ => Err(FrameError::CutShort { frame: self.frames.saturating_sub(1) }),
        }
    }

    fn take_length(&mut self) -> Option<u32> {
        (self.buffer.len() >= 4).then(|| self.buffer.get_u32_le())
    }
}
