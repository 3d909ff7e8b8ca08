//! Reading the stacks of a text, of which one is mostly much like the one before.
//!
//! In heap dumps three quarters and more of all frames are at the same end of the line before, so that comparing the
//! two lines is most of the reading. What a word means may hang on whether it is the first of its line, and on nothing
//! else around it.

use std::ops::Range;

/// Bytes that are compared at once.
const CHUNK: usize = 16;

/// The last line of words, and the frame of each word.
#[derive(Debug)]
pub struct StackLines<'a, Id> {
    text: &'a [u8],
    frames: Vec<Id>,
    /// The word in `text` that each frame was read from.
    words: Vec<Range<usize>>,
    /// The new frames of a line.
    new_frames: Vec<Id>,
    new_words: Vec<Range<usize>>,
}

impl<Id> Default for StackLines<'_, Id> {
    /// Before the first line.
    fn default() -> Self {
        StackLines { text: &[], frames: Vec::new(), words: Vec::new(), new_frames: Vec::new(), new_words: Vec::new() }
    }
}

impl<'a, Id: Copy> StackLines<'a, Id> {
    /// Reads a line of words with blanks between them; `frame` returns the frame of a word, which is the first of its
    /// line if the second argument is true, or nothing if the word is to be skipped. Its errors are returned; then
    /// there is no last line.
    ///
    /// # Errors
    /// The error of `frame`.
    #[inline]
    pub fn read<E>(
        &mut self,
        text: &'a [u8],
        mut frame: impl FnMut(&'a [u8], bool) -> Result<Option<Id>, E>,
    ) -> Result<&[Id], E> {
        let (front, behind) = self.same_front(text);
        let mut back = self.same_back(text, front, behind);
        let before = std::mem::replace(&mut self.text, text);
        loop {
            self.new_frames.clear();
            self.new_words.clear();
            let start_of_back = self.words.get(back).map_or(text.len(), |word| word.start + text.len() - before.len());
            let mut any = front > 0;
            let mut at = behind;
            while let Some(word) = next_word(&text[..start_of_back], at) {
                at = word.end;
                match frame(&text[word.clone()], !any) {
                    Ok(Some(id)) => {
                        self.new_frames.push(id);
                        self.new_words.push(word);
                    }
                    Ok(None) => {}
                    Err(error) => {
                        *self = StackLines::default();
                        return Err(error);
                    }
                }
                any = true;
            }
            if any || back == self.words.len() {
                break;
            }
            // What would be the first word was none in the line before.
            back = self.words.len();
        }
        for word in &mut self.words[back..] {
            *word = word.start + text.len() - before.len()..word.end + text.len() - before.len();
        }
        self.frames.splice(front..back, self.new_frames.drain(..));
        self.words.splice(front..back, self.new_words.drain(..));
        Ok(&self.frames)
    }

    /// How many frames at the front are the last line's, and where the last of them ends.
    fn same_front(&self, text: &[u8]) -> (usize, usize) {
        let same = common_front(self.text, text);
        let front = self.words.partition_point(|word| word.end < same);
        (front, front.checked_sub(1).map_or(0, |last| self.words[last].end))
    }

    /// From which frame of the last line on all are at the back of this one, too; its first is not among them.
    fn same_back(&self, text: &[u8], front: usize, behind: usize) -> usize {
        let same = common_back(&self.text[behind..], &text[behind..]);
        // The blank before a word is to be the same, too.
        let first_start = self.text.len() - same + 1;
        self.words.partition_point(|word| word.start < first_start).max(front).max(1).min(self.words.len())
    }
}

/// The next word at or behind a place.
#[inline]
fn next_word(text: &[u8], at: usize) -> Option<Range<usize>> {
    let start = at + text[at..].iter().position(|byte| !byte.is_ascii_whitespace())?;
    let end = text[start..].iter().position(u8::is_ascii_whitespace).map_or(text.len(), |len| start + len);
    Some(start..end)
}

/// How many first bytes are the same.
fn common_front(one: &[u8], other: &[u8]) -> usize {
    let chunks = one.as_chunks::<CHUNK>().0.iter().zip(other.as_chunks::<CHUNK>().0);
    let whole = CHUNK * chunks.take_while(|(one, other)| one == other).count();
    whole + one[whole..].iter().zip(&other[whole..]).take_while(|(one, other)| one == other).count()
}

/// How many last bytes are the same.
fn common_back(one: &[u8], other: &[u8]) -> usize {
    let chunks = one.as_rchunks::<CHUNK>().1.iter().rev().zip(other.as_rchunks::<CHUNK>().1.iter().rev());
    let whole = CHUNK * chunks.take_while(|(one, other)| one == other).count();
    let (one, other) = (&one[..one.len() - whole], &other[..other.len() - whole]);
    whole + one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests;
