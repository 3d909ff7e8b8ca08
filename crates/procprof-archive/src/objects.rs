//! The storage of an archive: named byte strings that exist whole or not at all.

use std::fmt::Debug;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use procprof_files::{EntryKind, Folder, NewFile};

use crate::{Error, Result};

/// Mode of new files: others than owner and group cannot read them.
const MODE: u32 = 0o640;

/// An object as a listing has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its path, steps separated by `/`.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// A storage of objects. Paths have steps separated by `/`, none of which is empty or begins with a dot.
pub trait Objects: Debug + Send + Sync {
    /// Writes an object as a whole; replaces one of that path. It survives a power cut when this returns.
    ///
    /// # Errors
    /// The storage's; the old content stays then.
    fn put(&self, path: &str, content: &[u8]) -> Result<()>;

    /// The size of an object.
    ///
    /// # Errors
    /// Also when there is none.
    fn size(&self, path: &str) -> Result<u64>;

    /// A range of an object.
    ///
    /// # Errors
    /// Also when the object ends before the range.
    fn read(&self, path: &str, start: u64, length: usize) -> Result<Vec<u8>>;

    /// All objects below a path, in the order of their paths.
    ///
    /// # Errors
    /// The storage's; a path without objects has none.
    fn list(&self, below: &str) -> Result<Vec<Object>>;

    /// Removes an object; one that is not there is none.
    ///
    /// # Errors
    /// The storage's.
    fn delete(&self, path: &str) -> Result<()>;
}

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

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|step| !step.is_empty())
}

impl Objects for ObjectFolder {
    fn put(&self, path: &str, content: &[u8]) -> Result<()> {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut folder = Folder::open_through_links(&self.root)?;
        for step in steps(folders) {
            folder = folder.make_folder(step)?;
        }
        let temporary = format!(".{name}.tmp");
        // Left by a process that was killed.
        folder.remove(&temporary)?;
        let mut file = NewFile::begin(&folder, temporary, MODE)?;
        file.write(content)?;
        Ok(file.replace(name)?)
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
                let path = format!("{prefix}{name}");
                match kind {
                    // One without a size was removed meanwhile.
                    EntryKind::File if !name.starts_with('.') => {
                        found.extend(folder.size(&name).map(|bytes| Object { path, bytes }));
                    }
                    EntryKind::Folder => open.push((folder.folder(&name)?, format!("{path}/"))),
                    EntryKind::File | EntryKind::Other => {}
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
