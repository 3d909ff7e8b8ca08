//! The requested addresses.

/// Spans of addresses, ascending, that do not touch each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Zone<'a>(&'a [(u64, u64)]);

impl<'a> Zone<'a> {
    /// `spans` (begin and end) must ascend and not overlap.
    pub(crate) fn new(spans: &'a [(u64, u64)]) -> Self {
        Self(spans)
    }

    /// Whether any address of `begin..end` is in it.
    pub(crate) fn touches(self, begin: u64, end: u64) -> bool {
        self.from(begin).first().is_some_and(|(own, _)| *own < end && begin < end)
    }

    /// The spans that end behind `address`.
    pub(crate) fn from(self, address: u64) -> &'a [(u64, u64)] {
        &self.0[self.0.partition_point(|(_, end)| *end <= address)..]
    }

    /// All spans.
    pub(crate) fn spans(self) -> &'a [(u64, u64)] {
        self.0
    }
}
