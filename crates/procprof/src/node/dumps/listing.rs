//! Which files of a dump folder are read, as a function over values.

use procprof_files::FileState;

use super::super::decoder::FILE_BYTES_MAX;

/// Files that were written longer ago are not sent.
const AGE_HOURS_MAX: i64 = 24;
/// Shortest time since the last write to a file that is read.
const REST_NANOS: i64 = 2_000_000_000;

/// A file as a look has found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) state: FileState,
    /// The user whose files are read.
    pub(super) user: u32,
}

/// Identifies a file and what it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key(pub(super) [u64; 4]);

impl Found {
    pub(super) fn key(&self) -> Key {
        let FileState { device, inode, bytes, modified_nanos, .. } = self.state;
        Key([device, inode, bytes, modified_nanos.cast_unsigned()])
    }
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// It was sent or skipped before.
    Known,
    /// It may still be written to.
    Wait,
    /// It is never read.
    Skip(Skipped),
    /// It is read now.
    Take,
}

/// Why a file is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Skipped {
    TooLarge,
    TooOld,
    OfAnotherUser,
}

impl Skipped {
    pub(super) fn text(self) -> String {
        match self {
            Skipped::TooLarge => format!("larger than {} MiB", FILE_BYTES_MAX >> 20),
            Skipped::TooOld => format!("older than {AGE_HOURS_MAX} h when they were found"),
            Skipped::OfAnotherUser => "another user's than the process's".to_owned(),
        }
    }
}

/// What to do with a file; `was_seen` if it was sent or skipped before, `is_unchanged` if the last look has found the
/// same.
pub(super) fn choose(file: &Found, was_seen: bool, is_unchanged: bool, now_nanos: i64) -> Choice {
    let age = now_nanos.saturating_sub(file.state.modified_nanos);
    if was_seen {
        return Choice::Known;
    }
    if file.state.owner != file.user {
        return Choice::Skip(Skipped::OfAnotherUser);
    }
    if age > AGE_HOURS_MAX * 3_600_000_000_000 {
        return Choice::Skip(Skipped::TooOld);
    }
    // One that was written in the future waits as long as any other.
    if !is_unchanged || (0..REST_NANOS).contains(&age) {
        return Choice::Wait;
    }
    if file.state.bytes > FILE_BYTES_MAX { Choice::Skip(Skipped::TooLarge) } else { Choice::Take }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_once_they_are_whole() {
        const SECOND: i64 = 1_000_000_000;
        let now = 1_700_000_000 * SECOND;
        let state = FileState { device: 1, inode: 2, bytes: 10, modified_nanos: now - 5 * SECOND, owner: 1000 };
        let found = |state: FileState| Found { name: "a.heap".to_owned(), state, user: 1000 };
        let file = found(state);
        assert_eq!(choose(&file, false, false, now), Choice::Wait);
        assert_eq!(choose(&file, false, true, now), Choice::Take);
        assert_eq!(choose(&file, true, true, now), Choice::Known);
        assert_eq!(choose(&file, false, true, now - 4 * SECOND), Choice::Wait);
        assert_eq!(choose(&file, false, true, now - 3600 * SECOND), Choice::Take);
        assert_eq!(choose(&file, false, true, now + 25 * 3600 * SECOND), Choice::Skip(Skipped::TooOld));
        let large = found(FileState { bytes: FILE_BYTES_MAX + 1, ..state });
        assert_eq!(choose(&large, false, false, now), Choice::Wait);
        assert_eq!(choose(&large, false, true, now), Choice::Skip(Skipped::TooLarge));
        let other = found(FileState { owner: 0, ..state });
        assert_eq!(choose(&other, false, true, now), Choice::Skip(Skipped::OfAnotherUser));
        assert_ne!(file.key(), large.key());
        assert_ne!(file.key(), found(FileState { modified_nanos: now, ..state }).key());
    }
}
