//! [`ObjectFolder`]: a folder of this machine as storage of an archive.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use procprof_files::{EntryKind, Folder, NewFile};

use super::{Object, Objects, is_step, steps};
use crate::{Error, Result};

/// Mode of new files: others than owner and group cannot read them.
const MODE: u32 = 0o640;

/// A folder of this machine as storage.
#[derive(Debug)]
pub struct ObjectFolder {
    root: PathBuf,
}

impl ObjectFolder {
    /// The archive in a folder, which is created if it is missing; its parent must exist.
    ///
    /// # Errors
    /// The system's.
    pub fn create(root: impl AsRef<Path>) -> Result<ObjectFolder> {
        let root = root.as_ref();
        if !root.is_dir() {
            Folder::make(root)?;
        }
        ObjectFolder::open(root)
    }

    /// The archive in a folder that exists.
    ///
    /// # Errors
    /// The system's.
    pub fn open(root: impl AsRef<Path>) -> Result<ObjectFolder> {
        Folder::open_through_links(&root)?;
        Ok(ObjectFolder { root: root.as_ref().to_owned() })
    }

    /// A new file with the content, beside the place that it is for, and the name that it gets there. Of two that
    /// write one file at a time, each needs a `suffix` of its own for its temporary name.
    fn begin<'a>(&self, path: &'a str, content: &[u8], suffix: &str) -> Result<(NewFile, &'a str)> {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut folder = Folder::open_through_links(&self.root)?;
        for step in steps(folders) {
            folder = folder.make_folder(step)?;
        }
        let temporary = format!(".{name}{suffix}.tmp");
        // Left by a process that was killed.
        folder.remove(&temporary)?;
        let mut file = NewFile::begin(&folder, temporary, MODE)?;
        file.write(content)?;
        Ok((file, name))
    }

    /// The folder of an object, and the object's name in it.
    fn find<'a>(&self, path: &'a str) -> Result<(Folder, &'a str)> {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut folder = Folder::open_through_links(&self.root)?;
        for step in steps(folders) {
            folder = folder.folder(step)?;
        }
        Ok((folder, name))
    }
}

impl Objects for ObjectFolder {
    fn put(&self, path: &str, content: &[u8]) -> Result<()> {
        let (file, name) = self.begin(path, content, "")?;
        Ok(file.replace(name)?)
    }

    fn create(&self, path: &str, content: &[u8]) -> Result<bool> {
        static TURN: AtomicU64 = AtomicU64::new(0);
        let suffix = format!(".{}-{}", std::process::id(), TURN.fetch_add(1, Ordering::Relaxed));
        let (file, name) = self.begin(path, content, &suffix)?;
        Ok(file.take_free([name])?.is_some())
    }

    fn size(&self, path: &str) -> Result<u64> {
        let (folder, name) = self.find(path)?;
        Ok(folder.file(name, u64::MAX)?.1)
    }

    fn read(&self, path: &str, start: u64, length: usize) -> Result<Vec<u8>> {
        let (folder, name) = self.find(path)?;
        let (file, size) = folder.file(name, u64::MAX)?;
        if start.checked_add(length as u64).is_none_or(|end| end > size) {
            return Err(Error::malformed(path, format!("{length} bytes at {start} lie behind its end at {size}")));
        }
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, start).map_err(|source| procprof_files::Error::Io {
            doing: "read",
            path: self.root.join(path),
            source,
        })?;
        Ok(bytes)
    }

    fn list(&self, below: &str) -> Result<Vec<Object>> {
        let mut folder = Folder::open_through_links(&self.root)?;
        for step in steps(below) {
            folder = match folder.folder(step) {
                Err(error) if error.is_not_found() => return Ok(Vec::new()),
                opened => opened?,
            };
        }
        let mut found = Vec::new();
        let mut open = vec![(folder, steps(below).map(|step| format!("{step}/")).collect::<String>())];
        while let Some((folder, prefix)) = open.pop() {
            for (name, kind) in folder.entries()? {
                if !is_step(&name) {
                    continue;
                }
                let path = format!("{prefix}{name}");
                match kind {
                    // One without a size was removed meanwhile.
                    EntryKind::File => {
                        found.extend(folder.size(&name).map(|bytes| Object { path, bytes }));
                    }
                    EntryKind::Folder => open.push((folder.folder(&name)?, format!("{path}/"))),
                    EntryKind::Other => {}
                }
            }
        }
        found.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }

    fn delete(&self, path: &str) -> Result<()> {
        let (folder, name) = match self.find(path) {
            Err(Error::Files(error)) if error.is_not_found() => return Ok(()),
            found => found?,
        };
        if folder.remove(name)? {
            folder.sync()?;
        }
        Ok(())
    }
}
