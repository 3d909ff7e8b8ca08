//! The limits a store is opened with.

/// Limits of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Largest file of one profile, in bytes, when written, imported or opened.
    pub profile_bytes_max: u64,
    /// Largest size of one profile after unpacking, in bytes.
    pub unpacked_bytes_max: u64,
    /// Largest sum of pinned files, in bytes; pinning beyond it is refused.
    pub pinned_bytes_max: u64,
    /// Largest sum of cached renderings, in bytes; the oldest are removed.
    pub cache_bytes_max: u64,
    /// Size of the journal, in bytes, at which it is compacted to at most half of that.
    pub journal_bytes_max: u64,
    /// Error rows kept; the oldest are forgotten.
    pub errors_max: usize,
    /// Idle connections kept open for reading the catalog.
    pub readers: usize,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            profile_bytes_max: 256 << 20,
            unpacked_bytes_max: 256 << 20,
            pinned_bytes_max: 1 << 30,
            cache_bytes_max: 256 << 20,
            journal_bytes_max: 8 << 20,
            errors_max: 10_000,
            readers: 4,
        }
    }
}
