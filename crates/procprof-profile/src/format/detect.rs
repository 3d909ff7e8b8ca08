//! Whether first bytes are of a format: yes, no, or too few to decide.

/// The result of detecting a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detect {
    /// The input is of this format.
    Yes,
    /// The input cannot be of this format.
    No,
    /// The bytes so far allow this format; more are needed to decide.
    NeedMore,
}

/// Answers whether bytes begin with a text, as far as they go.
pub(super) fn begins(bytes: &[u8], text: &[u8]) -> Detect {
    if bytes.starts_with(text) {
        return Detect::Yes;
    }
    if text.starts_with(bytes) { Detect::NeedMore } else { Detect::No }
}

/// The most hopeful of several answers.
pub(super) fn any(answers: impl IntoIterator<Item = Detect>) -> Detect {
    use Detect::{NeedMore, No, Yes};
    answers.into_iter().fold(No, |best, answer| match (best, answer) {
        (Yes, _) | (_, Yes) => Yes,
        (NeedMore, _) | (_, NeedMore) => NeedMore,
        (No, No) => No,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_are_three_valued() {
        assert_eq!(begins(b"heap profile: 1", b"heap profile:"), Detect::Yes);
        assert_eq!(begins(b"heap", b"heap profile:"), Detect::NeedMore);
        assert_eq!(begins(b"help", b"heap profile:"), Detect::No);
    }
}
