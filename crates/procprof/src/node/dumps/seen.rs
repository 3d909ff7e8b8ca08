//! The dumps that were sent or skipped before, in the file `dumps` of the spool: four hexadecimal numbers a line.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Result;
use procprof_files::Folder;

use super::listing::Key;

/// The name of the file.
const FILE: &str = "dumps";
/// Most dumps that are remembered; those that were last met the longest ago are forgotten first.
const MOST: usize = 50_000;
/// Largest file.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// The dumps that were sent or skipped before.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// With the number of the look that met them last.
    keys: HashMap<Key, u64>,
    looks: u64,
    is_changed: bool,
}

impl Seen {
    /// Reads the file; what can't be read is empty, since a dump that is sent again adds nothing.
    pub(super) fn read(spool: &Path) -> Self {
        let read = Folder::open(spool).and_then(|folder| folder.read(FILE, FILE_BYTES_MAX));
        let content = String::from_utf8_lossy(&read.unwrap_or_default()).into_owned();
        let keys = content.lines().take(MOST).filter_map(parse).map(|key| (key, 0));
        Self { keys: keys.collect(), ..Self::default() }
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.keys.contains_key(key)
    }

    /// Notes that a known dump is still there.
    pub(super) fn keep(&mut self, key: &Key) {
        if let Some(met) = self.keys.get_mut(key) {
            *met = self.looks;
        }
    }

    pub(super) fn add(&mut self, key: Key) {
        self.is_changed |= self.keys.insert(key, self.looks).is_none();
    }

    /// Writes the file if there is anything new.
    ///
    /// # Errors
    /// The file can't be written.
    pub(super) fn write(&mut self, spool: &Path) -> Result<()> {
        self.looks += 1;
        if !self.is_changed {
            return Ok(());
        }
        if self.keys.len() > MOST {
            let mut by_age: Vec<(u64, Key)> = self.keys.iter().map(|(key, met)| (*met, *key)).collect();
            by_age.sort_unstable();
            by_age.iter().take(self.keys.len() - MOST).for_each(|(_, key)| {
                self.keys.remove(key);
            });
        }
        let line =
            |Key([device, inode, bytes, modified]): &Key| format!("{device:x} {inode:x} {bytes:x} {modified:x}\n");
        let content: String = self.keys.keys().map(line).collect();
        procprof_files::replace(&spool.join(FILE), content.as_bytes(), 0o600)?;
        self.is_changed = false;
        Ok(())
    }
}

fn parse(line: &str) -> Option<Key> {
    let numbers: Option<Vec<u64>> = line.split(' ').map(|number| u64::from_str_radix(number, 16).ok()).collect();
    Some(Key(numbers?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::{Contents, Row, check, line};
    use crate::node::spool::FORMAT;

    #[test]
    fn every_version_of_the_file_is_read() {
        check(&Row { name: "dumps", version: FORMAT.version, make, read, mark: None });
    }

    fn make(spool: &Path) {
        let mut seen = Seen::default();
        seen.add(Key([0xfe01, 42, 70_123, 1_763_677_534_000_000_000]));
        seen.add(Key([1, u64::MAX, 0, 7]));
        seen.write(spool).unwrap();
    }

    fn read(spool: &Path) -> Contents {
        let mut keys: Vec<Key> = Seen::read(spool).keys.into_keys().collect();
        keys.sort_unstable();
        let mut text = String::new();
        line(&mut text, keys);
        Ok(text)
    }

    #[test]
    fn what_was_seen_is_known_to_the_next_agent() {
        let spool = tempfile::tempdir().unwrap();
        let mut seen = Seen::read(spool.path());
        let key = |number: u64| Key([number, u64::MAX, 0, 1]);
        seen.write(spool.path()).unwrap();
        assert!(!spool.path().join(FILE).exists());
        (0..3).for_each(|number| seen.add(key(number)));
        seen.write(spool.path()).unwrap();
        std::fs::write(spool.path().join(FILE), {
            let mut content = std::fs::read(spool.path().join(FILE)).unwrap();
            content.extend_from_slice(b"1 2 3\nx y z 0\n\xff\n1 2 3 4 5\n");
            content
        })
        .unwrap();
        let read = Seen::read(spool.path());
        assert!((0..3).all(|number| read.has(&key(number))) && read.keys.len() == 3 && !read.has(&key(3)));
    }

    #[test]
    fn those_that_are_gone_the_longest_are_forgotten_first() {
        let spool = tempfile::tempdir().unwrap();
        let mut seen = Seen::default();
        (0..MOST as u64).for_each(|number| seen.add(Key([number; 4])));
        seen.write(spool.path()).unwrap();
        (1..MOST as u64).for_each(|number| seen.keep(&Key([number; 4])));
        seen.add(Key([u64::MAX; 4]));
        seen.write(spool.path()).unwrap();
        assert!(!seen.has(&Key([0; 4])) && seen.has(&Key([1; 4])) && seen.has(&Key([u64::MAX; 4])));
        assert_eq!(Seen::read(spool.path()).keys.len(), MOST);
    }
}
