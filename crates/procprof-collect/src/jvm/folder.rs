//! Folders of the target's own file tree, as it sees it: its `/tmp`, and a private one of ours below. What is written
//! there is written as the target's user, without capabilities, so that a file system that others have mounted there
//! gets nothing that the target could not write itself.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use procprof_process::Pid;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, ResolveFlags, StatVfsMountFlags};
use rustix::io::Errno;

use super::JvmError;
use super::attach::as_user;
use crate::Admit;

/// Prefix of the names of procprof's folders.
const PREFIX: &str = "procprof-";
/// Attempts to create a folder that another procprof removes meanwhile.
const ATTEMPTS: u32 = 10;
/// Most entries of a `/tmp` that are searched for folders left behind, and most files that are removed from one.
const ENTRIES_MAX: usize = 100_000;
const FILES_MAX: usize = 1000;
/// Longer than any recording runs that is not stopped, in nanoseconds.
const LONGEST_USE: i64 = 3 * 3600 * 1_000_000_000;
/// Least space that is free in a `/tmp` where a recording begins, in bytes.
const ROOM_MIN: u64 = 8 << 20;

/// A name for a folder at `target`: `procprof-4242-817-18a3f00c1d2e3b40`, with our pid, the target's, and the time in
/// nanoseconds.
pub(super) fn folder_name(target: Pid) -> String {
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{PREFIX}{}-{target}-{nanos:x}", std::process::id())
}

/// The parts of the name of a folder of procprof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FolderName {
    /// The procprof that created it, by the pid in its own namespace.
    pub(super) maker: Pid,
    /// The process it was created for, by the pid in its maker's namespace.
    pub(super) target: Pid,
    /// When it was made, in nanoseconds since the Unix epoch.
    pub(super) made: i64,
}

impl FolderName {
    /// Reads a name that [`folder_name`] made.
    pub(super) fn read(name: &str) -> Option<FolderName> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        let (maker, target) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let made = i64::from_str_radix(parts.next()?, 16).ok()?;
        parts.next().is_none().then_some(FolderName { maker: Pid(maker), target: Pid(target), made })
    }
}

/// The folder for temporary files of a process, in its own mount namespace.
#[derive(Debug)]
pub(super) struct TemporaryFolder {
    pid: Pid,
    folder: OwnedFd,
}

impl TemporaryFolder {
    /// Opens it. A link there leads to where it would lead the process, never to a file of ours.
    pub(super) fn open(pid: Pid) -> Result<TemporaryFolder, JvmError> {
        Ok(TemporaryFolder { pid, folder: open_inside(pid, "tmp", OFlags::PATH | OFlags::DIRECTORY)? })
    }

    /// A descriptor of the file of this name, and its owner; `None` if there is none.
    pub(super) fn find(&self, name: &str) -> Result<Option<(OwnedFd, FileType, u32)>, JvmError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match rustix::fs::openat(&self.folder, name, flags, Mode::empty()) {
            Ok(found) => found,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(JvmError::io(self.pid, format!("open /tmp/{name}"), errno)),
        };
        let stat =
            rustix::fs::fstat(&found).map_err(|errno| JvmError::io(self.pid, format!("look at /tmp/{name}"), errno))?;
        Ok(Some((found, FileType::from_raw_mode(stat.st_mode), stat.st_uid)))
    }

    /// Makes an empty file for the process, removed when what is returned is dropped.
    pub(super) fn mark(&self, name: String, uid: u32, gid: u32) -> Result<Mark<'_>, JvmError> {
        let failed = |errno: Errno| JvmError::io(self.pid, format!("make /tmp/{name}"), errno);
        let made = match self.make(&name, uid, gid) {
            // Left by a process that was ended while it attached.
            Err(Errno::EXIST) => {
                remove_as((uid, gid), &self.folder, &name, AtFlags::empty()).map_err(failed)?;
                self.make(&name, uid, gid)
            }
            made => made,
        };
        Ok(made.map_err(failed)?.1)
    }

    /// Makes an empty file that belongs to the process's user, unless there is one of that name; it is removed when the
    /// mark is dropped.
    pub(super) fn make(&self, name: &str, uid: u32, gid: u32) -> rustix::io::Result<(File, Mark<'_>)> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let make = || Ok(rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?);
        let file = as_user(uid, gid, make).map_err(errno_of)?;
        let mark = Mark { folder: &self.folder, name: name.to_owned(), owner: (uid, gid) };
        Ok((File::from(file), mark))
    }

    /// Opens a regular file for reading; `None` if there is none of that name.
    pub(super) fn read(&self, name: &str) -> Result<Option<File>, JvmError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let suspicious =
            || JvmError::Suspicious { pid: self.pid, path: format!("/tmp/{name}"), why: "not a regular file" };
        let file = match rustix::fs::openat(&self.folder, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::NXIO) => return Err(suspicious()),
            Err(errno) => return Err(JvmError::io(self.pid, format!("open /tmp/{name}"), errno)),
        };
        let metadata =
            file.metadata().map_err(|error| JvmError::io(self.pid, format!("look at /tmp/{name}"), error))?;
        if metadata.is_file() { Ok(Some(file)) } else { Err(suspicious()) }
    }

    /// Errs if its file system has less space than so many bytes.
    pub(super) fn check_room(&self, needed: u64) -> Result<(), JvmError> {
        let found =
            rustix::fs::fstatvfs(&self.folder).map_err(|errno| JvmError::io(self.pid, "look at /tmp", errno))?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if free < needed { Err(JvmError::NoSpace { pid: self.pid, free, needed }) } else { Ok(()) }
    }

    /// Makes a folder that only the process and we can read, locked for as long as it is ours.
    pub(super) fn private(&self, uid: u32, gid: u32) -> Result<PrivateFolder, JvmError> {
        for _ in 0..ATTEMPTS {
            let name = folder_name(self.pid);
            let failed = |errno: Errno| JvmError::io(self.pid, format!("make the folder /tmp/{name}"), errno);
            let make = || Ok(rustix::fs::mkdirat(&self.folder, name.as_str(), Mode::RWXU)?);
            as_user(uid, gid, make).map_err(errno_of).map_err(failed)?;
            let folder = match self.open_own(&name) {
                Ok(folder) => folder,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            // Before it is locked, another procprof may take it for one that was left behind.
            if is_being_removed(&folder).map_err(failed)? {
                continue;
            }
            return self.kept(folder, name, (uid, gid));
        }
        Err(JvmError::io(
            self.pid,
            "make a folder in /tmp",
            std::io::Error::other("another procprof removes it each time"),
        ))
    }

    /// Folders that a killed procprof left behind; they are removed with their files when they are dropped. The maker
    /// of a folder that is in use holds a lock on it, in whatever namespaces it runs.
    pub(super) fn left_behind(&self, uid: u32) -> Vec<PrivateFolder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let entries = rustix::fs::openat(&self.folder, ".", flags, Mode::empty()).and_then(rustix::fs::Dir::new);
        let names = entries.into_iter().flatten().flatten().take(ENTRIES_MAX);
        let names = names.filter_map(|entry| Some(entry.file_name().to_str().ok()?.to_owned()));
        names
            .filter(|name| FolderName::read(name).is_some_and(|name| self.may_remove(&name)))
            .filter_map(|name| self.taken(name, uid))
            .collect()
    }

    /// Whether an unlocked folder may be removed: it was created for this process, for one that has ended, or long
    /// ago.
    fn may_remove(&self, name: &FolderName) -> bool {
        let age = crate::clock::now().0.saturating_sub(name.made);
        name.target == self.pid || age > LONGEST_USE || !Path::new(&format!("/proc/{}", name.target)).exists()
    }

    /// A folder of that name, if it belongs to a user to whom procprof's folders belong, and is not locked.
    fn taken(&self, name: String, uid: u32) -> Option<PrivateFolder> {
        let folder = self.open_own(&name).ok()?;
        let found = rustix::fs::fstat(&folder).ok()?;
        let is_ours = found.st_uid == uid || found.st_uid == rustix::process::geteuid().as_raw();
        let is_free = is_ours && rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_free { self.kept(folder, name, (found.st_uid, found.st_gid)).ok() } else { None }
    }

    fn open_own(&self, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.folder, name, flags, Mode::empty())
    }

    fn kept(&self, folder: OwnedFd, name: String, owner: (u32, u32)) -> Result<PrivateFolder, JvmError> {
        let parent = self.folder.try_clone().map_err(|error| JvmError::io(self.pid, "keep /tmp", error))?;
        Ok(PrivateFolder { pid: self.pid, parent, folder, path: format!("/tmp/{name}"), name, owner })
    }
}

/// Opens a file of a process's tree by its path there, without the first slash. A link leads to where it would lead the
/// process.
pub(super) fn open_inside(pid: Pid, path: &str, flags: OFlags) -> Result<OwnedFd, JvmError> {
    let root = format!("/proc/{pid}/root");
    let failed = |errno: Errno| match errno {
        Errno::NOENT | Errno::SRCH => JvmError::Gone { pid },
        errno => JvmError::io(pid, format!("open {root}/{path}"), errno),
    };
    let opened = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root.as_str(), opened, Mode::empty()).map_err(failed)?;
    let (flags, inside) = (flags | OFlags::CLOEXEC, ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS);
    let opened = match rustix::fs::openat2(&root, path, flags, Mode::empty(), inside) {
        // Before Linux 5.6, and where a filter forbids it.
        Err(Errno::NOSYS | Errno::PERM) if !path.contains('/') => {
            rustix::fs::openat(&root, path, flags | OFlags::NOFOLLOW, Mode::empty())
        }
        opened => opened,
    };
    opened.map_err(failed)
}

/// Locks a folder that was just made; true where another procprof has locked or removed it before.
fn is_being_removed(folder: &OwnedFd) -> rustix::io::Result<bool> {
    match rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(true),
        // Without locks in the file system, no folder counts as left behind.
        Ok(()) | Err(_) => Ok(rustix::fs::fstat(folder)?.st_nlink == 0),
    }
}

/// Removes a file or an empty folder as a user and group.
fn remove_as(
    (uid, gid): (u32, u32),
    folder: &OwnedFd,
    name: impl rustix::path::Arg + Send,
    flags: AtFlags,
) -> rustix::io::Result<()> {
    as_user(uid, gid, || Ok(rustix::fs::unlinkat(folder, name, flags)?)).map_err(errno_of)
}

/// The error of the kernel; those of starting a thread have one, too.
fn errno_of(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)
}

/// A file whose existence is the message.
pub(super) struct Mark<'f> {
    folder: &'f OwnedFd,
    name: String,
    owner: (u32, u32),
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        // The process removes it, too.
        let _ = remove_as(self.owner, self.folder, self.name.as_str(), AtFlags::empty());
    }
}

/// A folder of procprof in the target's tree, removed with its files when it is dropped.
#[derive(Debug)]
pub(super) struct PrivateFolder {
    pid: Pid,
    parent: OwnedFd,
    folder: OwnedFd,
    /// As the process names it.
    pub(super) path: String,
    pub(super) name: String,
    /// Its user and group.
    owner: (u32, u32),
}

impl PrivateFolder {
    /// The bytes that a recording may have, at most `wanted`: with its copy, it takes at most half of the free space.
    pub(super) fn room(&self, wanted: u64) -> Result<u64, JvmError> {
        let found = rustix::fs::fstatvfs(&self.folder)
            .map_err(|errno| JvmError::io(self.pid, format!("look at {}", self.path), errno))?;
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if free < ROOM_MIN {
            return Err(JvmError::NoSpace { pid: self.pid, free, needed: ROOM_MIN });
        }
        Ok(wanted.min(free / 4))
    }

    /// Reads a file of at most `limit` bytes and removes it, also if `admit` refuses its size. The file is not
    /// necessarily the JVM's: other processes may write to that folder.
    pub(super) fn take(&self, name: &str, limit: u64, admit: Option<&Admit>) -> Result<Vec<u8>, JvmError> {
        let failed = |source: std::io::Error| JvmError::io(self.pid, format!("read {}/{name}", self.path), source);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file =
            rustix::fs::openat(&self.folder, name, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            let path = format!("{}/{name}", self.path);
            return Err(JvmError::Suspicious { pid: self.pid, path, why: "not a regular file" });
        }
        let size = stat.st_size.cast_unsigned();
        if let Some(admit) = admit
            && let Err(why) = admit(size.min(limit))
        {
            self.remove(name);
            return Err(JvmError::NoRoom { pid: self.pid, why });
        }
        let mut bytes = Vec::new();
        // One more than the limit shows that there is more.
        File::from(file).take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
        self.remove(name);
        if bytes.len() as u64 > limit {
            return Err(JvmError::TooLarge { pid: self.pid, bytes: size, limit });
        }
        Ok(bytes)
    }

    /// Writes a file for the process to read.
    pub(super) fn put(&self, name: &str, bytes: &[u8], uid: u32, gid: u32) -> Result<(), JvmError> {
        let failed = |source: std::io::Error| JvmError::io(self.pid, format!("write {}/{name}", self.path), source);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let write = || {
            let file = rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?;
            std::io::Write::write_all(&mut File::from(file), bytes)
        };
        as_user(uid, gid, write).map_err(failed)
    }

    /// Whether its file system is mounted so that no program or library can be loaded from it.
    pub(super) fn forbids_programs(&self) -> Result<bool, JvmError> {
        let found = rustix::fs::fstatvfs(&self.folder)
            .map_err(|errno| JvmError::io(self.pid, format!("look at {}", self.path), errno))?;
        Ok(found.f_flag.contains(StatVfsMountFlags::NOEXEC))
    }

    /// Removes a file that may be there.
    pub(super) fn remove(&self, name: &str) {
        let _ = remove_as(self.owner, &self.folder, name, AtFlags::empty());
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // Only files: a folder in it is not procprof's, and then the private folder stays, too.
        let names = rustix::fs::Dir::read_from(&self.folder).map(|entries| {
            let names = entries.flatten().map(|entry| entry.file_name().to_owned());
            names.filter(|name| !matches!(name.to_bytes(), b"." | b"..")).take(FILES_MAX).collect::<Vec<_>>()
        });
        let (uid, gid) = self.owner;
        // Without a thread for it, the folder stays, and is removed by the next one who finds it.
        let _ = as_user(uid, gid, || {
            for name in names.unwrap_or_default() {
                let _ = rustix::fs::unlinkat(&self.folder, name, AtFlags::empty());
            }
            Ok(rustix::fs::unlinkat(&self.parent, self.name.as_str(), AtFlags::REMOVEDIR)?)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maker_of_a_folder_is_read_from_its_name() {
        let read = FolderName::read(&folder_name(Pid(817))).unwrap();
        assert_eq!((read.maker.0, read.target.0), (std::process::id(), 817));
        assert!(read.made > 1_500_000_000_000_000_000);
        assert_eq!(FolderName::read("procprof-7-3-ff"), Some(FolderName { maker: Pid(7), target: Pid(3), made: 255 }));
        for other in
            ["procprof-7-0", "procprof-7-0-ff-1", "procprof-x-0-ff", "procprof-7--ff", "procprof-7-0-", "other-7-0-ff"]
        {
            assert_eq!(FolderName::read(other), None, "{other}");
        }
    }

    /// The `/tmp` of this process, at `folder`.
    fn temporary(folder: &Path) -> TemporaryFolder {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        TemporaryFolder {
            pid: Pid(std::process::id()),
            folder: rustix::fs::open(folder, flags, Mode::empty()).unwrap(),
        }
    }

    fn names_in(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_folders_whose_maker_is_gone_are_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let (own, alive) = (std::process::id(), std::os::unix::process::parent_id());
        let temporary = temporary(folder.path());
        let uid = rustix::process::geteuid().as_raw();
        let kept = temporary.private(uid, 0).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let ours = format!("procprof-1-{own}-{now:x}");
        let (of_another, old) = (format!("procprof-1-{alive}-{now:x}"), format!("procprof-1-{alive}-1"));
        for name in [&ours, &of_another, &old, "procprof-tools", "other"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("1.jfr"), "x").unwrap();
        }
        std::os::unix::fs::symlink("other", folder.path().join(format!("procprof-1-{own}-2"))).unwrap();
        let mut found: Vec<String> = temporary.left_behind(uid).iter().map(|folder| folder.name.clone()).collect();
        found.sort();
        let mut expected = [ours, old];
        expected.sort();
        assert_eq!(found, expected);
        let mut left = vec![
            "other".to_owned(),
            of_another,
            format!("procprof-1-{own}-2"),
            kept.name.clone(),
            "procprof-tools".to_owned(),
        ];
        left.sort();
        assert_eq!(names_in(folder.path()), left);
        assert!(folder.path().join("other/1.jfr").exists(), "no link is followed");
        let held: Vec<PrivateFolder> = std::iter::once(kept).collect();
        assert!(temporary.left_behind(uid).is_empty());
        drop(held);
    }

    #[test]
    fn folders_are_made_while_others_sweep() {
        let folder = tempfile::tempdir().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let done = std::sync::Arc::new(());
        let is_done = std::sync::Arc::downgrade(&done);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let temporary = temporary(folder.path());
                while is_done.strong_count() > 0 {
                    drop(temporary.left_behind(uid));
                }
            });
            // Dropped by a failure, too.
            let _done = done;
            let temporary = temporary(folder.path());
            for _ in 0..300 {
                let made = loop {
                    match temporary.private(uid, 0) {
                        Ok(made) => break made,
                        // The sweeper may be faster as often as it is tried: it does nothing else.
                        Err(error) => assert!(format!("{error:?}").contains("removes it each time"), "{error:?}"),
                    }
                };
                made.put("file", b"x", uid, 0).unwrap();
                assert_eq!(made.take("file", 9, None).unwrap(), b"x");
                assert!(folder.path().join(&made.name).exists());
            }
        });
        assert_eq!(names_in(folder.path()), [""; 0]);
    }

    #[test]
    fn a_full_file_system_is_refused_before_a_recording() {
        let folder = tempfile::tempdir().unwrap();
        let made = temporary(folder.path()).private(rustix::process::geteuid().as_raw(), 0).unwrap();
        assert_eq!(made.room(1 << 20).unwrap(), 1 << 20);
        assert!(made.room(u64::MAX).unwrap() < u64::MAX / 4);
    }
}
