//! The value of a label.

/// A label's value. Texts beyond 128 bytes are cut and end in `…`; numbers beyond `i64` are shown as texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelValue<'a> {
    /// A text.
    Text(&'a str),
    /// A number, which readers may group by size.
    Number(i64),
    /// A number without sign.
    Unsigned(u64),
}

impl<'a> From<&'a str> for LabelValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for LabelValue<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for LabelValue<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for LabelValue<'_> {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u64> for LabelValue<'_> {
    fn from(number: u64) -> Self {
        Self::Unsigned(number)
    }
}

impl From<u32> for LabelValue<'_> {
    fn from(number: u32) -> Self {
        Self::Unsigned(number.into())
    }
}
