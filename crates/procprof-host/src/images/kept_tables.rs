//! Unwind tables of files that no process has mapped any more, kept for the next process that runs them.
//!
//! Where programs come and go, each start would otherwise make the tables of their files anew. They are kept by build id
//! and by what the file system tells of the file: a build id alone is what a file states of itself, and another one with
//! the same could lead the unwinding of all processes astray.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use foldhash::HashMap;
use procprof_process::BuildId;
use procprof_unwind::Table;

use super::content::MadeTable;

/// The identity of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileKey {
    build_id: BuildId,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileKey {
    /// The identity of a file with that build id.
    pub(super) fn new(file: &File, build_id: &BuildId) -> Option<Self> {
        let metadata = file.metadata().ok()?;
        Some(Self {
            build_id: build_id.clone(),
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}

/// The tables made of a file.
#[derive(Clone, Debug)]
pub(super) struct FileTables {
    /// The compiled regions.
    pub(super) table: Arc<Table>,
    /// The search table, if the file has none.
    pub(super) made: Option<MadeTable>,
    /// The cut before which it was used last.
    pub(super) used: u64,
}

impl FileTables {
    /// Bytes that it takes.
    pub(super) fn memory(&self) -> usize {
        self.table.memory() + self.made.as_ref().map_or(0, |(table, _)| table.len())
    }
}

/// The tables of files that are not mapped now.
#[derive(Debug, Default)]
pub(super) struct KeptTables(HashMap<FileKey, FileTables>);

impl KeptTables {
    pub(super) fn keep(&mut self, key: FileKey, tables: FileTables) {
        self.0.insert(key, tables);
    }

    pub(super) fn take(&mut self, key: &FileKey) -> Option<FileTables> {
        self.0.remove(key)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Bytes that all of them take.
    pub(super) fn memory(&self) -> usize {
        self.0.values().map(FileTables::memory).sum()
    }

    /// Forgets the least recently used ones until the rest takes at most so many bytes.
    pub(super) fn shrink(&mut self, bytes_max: usize) {
        let mut bytes = self.memory();
        if bytes <= bytes_max {
            return;
        }
        let mut by_use: Vec<(u64, FileKey)> = self.0.iter().map(|(key, tables)| (tables.used, key.clone())).collect();
        by_use.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in by_use {
            if bytes <= bytes_max {
                break;
            }
            bytes -= self.0.remove(&key).map_or(0, |tables| tables.memory());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_go_first_and_a_build_id_alone_is_no_identity() {
        let files = [(); 3].map(|()| tempfile::tempfile().unwrap());
        let build_id = BuildId::new(&[7; 20]).unwrap();
        let keys = files.each_ref().map(|file| FileKey::new(file, &build_id).unwrap());
        let mut kept = KeptTables::default();
        for (key, used) in keys.iter().zip([2, 1, 3]) {
            let made = Some((vec![0; 1000].into(), 0));
            kept.keep(key.clone(), FileTables { table: Arc::new(Table::new(0..1 << 16)), made, used });
        }
        let all = kept.memory();
        kept.shrink(all);
        assert_eq!(kept.memory(), all);
        kept.shrink(all - 1);
        assert!(kept.take(&keys[1]).is_none(), "used before the others");
        kept.shrink(all / 3);
        assert!(kept.take(&keys[0]).is_none() && kept.take(&keys[2]).is_some_and(|tables| tables.used == 3));
        assert_eq!(kept.memory(), 0);
        files[0].set_len(1).unwrap();
        assert_ne!(FileKey::new(&files[0], &build_id).unwrap(), keys[0], "another content");
    }
}
