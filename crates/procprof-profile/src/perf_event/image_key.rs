//! What makes two mapped files the same.

use std::path::Path;

use super::FileIdentity;

/// What makes two mapped files the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ImageKey {
    /// A file by its build id.
    BuildId(Box<[u8]>, Box<Path>),
    /// A file by its device (major and minor number) and inode.
    Inode((u32, u32), u64, Box<Path>),
    /// A file of which nothing else is known.
    Path(Box<Path>),
    /// Memory without a file, of one process.
    Anonymous(u32),
    /// The code that the kernel gives each process.
    Vdso,
}

impl ImageKey {
    /// The key of what a process has mapped under a path, such as `/bin/x`, `//anon` and `[vdso]`.
    pub fn new(pid: u32, identity: FileIdentity<'_>, path: &Path) -> Self {
        let path = without_deleted(path);
        match identity {
            _ if path.as_os_str() == "[vdso]" => Self::Vdso,
            // A program may keep what it generates in such a file; only an image has a build id.
            FileIdentity::BuildId(id) if is_memory_file(path) => Self::BuildId(id.into(), path.into()),
            _ if !is_file(path) => Self::Anonymous(pid),
            FileIdentity::BuildId(id) => Self::BuildId(id.into(), path.into()),
            FileIdentity::Inode { device, inode } if inode != 0 => Self::Inode(device, inode, path.into()),
            _ => Self::Path(path.into()),
        }
    }

    /// The key of a file in memory, such as `/memfd:x`, that is known to be an image; `None` for all other mappings.
    pub fn memory_file(identity: FileIdentity<'_>, path: &Path) -> Option<Self> {
        let path = without_deleted(path);
        match identity {
            FileIdentity::Inode { device, inode } if inode != 0 && is_memory_file(path) => {
                Some(Self::Inode(device, inode, path.into()))
            }
            _ => None,
        }
    }

    /// The path in profiles; of what is no file, a name in brackets.
    pub fn path(&self) -> &Path {
        match self {
            Self::BuildId(_, path) | Self::Inode(_, _, path) | Self::Path(path) => path,
            Self::Anonymous(_) => Path::new("[anon]"),
            Self::Vdso => Path::new("[vdso]"),
        }
    }
}

/// The path of a file without the kernel's mark of those that are unlinked.
fn without_deleted(path: &Path) -> &Path {
    path.to_str().and_then(|text| text.strip_suffix(" (deleted)")).map_or(path, Path::new)
}

/// Whether a mapping's name is that of a file in memory, which may have a program's image or code that one generates.
fn is_memory_file(path: &Path) -> bool {
    path.starts_with("/dev/shm") || path.to_str().is_some_and(|text| text.starts_with("/memfd:"))
}

/// Whether a mapping's name is that of a file with code.
fn is_file(path: &Path) -> bool {
    const OTHERS: [&str; 5] = ["//anon", "/memfd:", "/dev/", "/SYSV", "/anon_hugepage"];
    path.to_str().is_none_or(|text| text.starts_with('/') && !OTHERS.iter().any(|other| text.starts_with(other)))
}
