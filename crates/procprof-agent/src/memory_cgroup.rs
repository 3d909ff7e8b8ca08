//! Memory that is left to this process by the limits of its control groups, the tightest of which counts.
//!
//! ```text
//! /proc/self/cgroup      4:memory:/docker/3f4e                                          version 1
//!                        0::/system.slice/redis.service                                 version 2
//! /proc/self/mountinfo   31 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw    the top, and its folder
//! GROUP/memory.max       16777216, or `max`                  version 1: memory.limit_in_bytes
//! GROUP/memory.current   12345678                            version 1: memory.usage_in_bytes
//! GROUP/memory.stat      inactive_file 4096                  version 1: total_inactive_file
//! ```
//!
//! Pages of files that were not used lately (`inactive_file`) are not counted as used: the kernel takes them back
//! before it ends a process. Where a file is missing or cannot be read, that group is taken to have no limit.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The longest text that is read, bytes: a process may have 100,000 mounts.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// The limit under which least is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLimit {
    /// The file that states it.
    pub(crate) file: PathBuf,
    /// Bytes that are left below it.
    pub(crate) left: u64,
}

/// The tightest limit of this process's control groups; `None` without one.
pub(crate) fn tightest() -> Option<MemoryLimit> {
    tightest_below(Path::new("/"))
}

/// A version of control groups, by the names of its files.
struct Version {
    limit: &'static str,
    usage: &'static str,
    /// The line of `memory.stat` with pages of files that were not used lately, of the group and those below it.
    inactive: &'static str,
}

const FIRST: Version =
    Version { limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes", inactive: "total_inactive_file" };
const SECOND: Version = Version { limit: "memory.max", usage: "memory.current", inactive: "inactive_file" };

/// The tightest limit, with all files below `root`.
fn tightest_below(root: &Path) -> Option<MemoryLimit> {
    let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let (mut first, mut second) = (None, None);
    find_lines(&below(Path::new("/proc/self/cgroup")), |line| {
        let mut fields = line.splitn(3, ':');
        let (hierarchy, controllers, path) = (fields.next(), fields.next(), fields.next());
        if hierarchy == Some("0") {
            second = path.map(PathBuf::from);
        } else if controllers.is_some_and(|all| all.split(',').any(|controller| controller == "memory")) {
            first = path.map(PathBuf::from);
        }
    });
    let mut tightest: Option<MemoryLimit> = None;
    find_lines(&below(Path::new("/proc/self/mountinfo")), |line| {
        let Some(mount) = Mount::parse(line) else { return };
        let (group, version) = match mount.kind {
            "cgroup2" => (&second, &SECOND),
            "cgroup" if mount.has_memory => (&first, &FIRST),
            _ => return,
        };
        let Some(group) = group else { return };
        for folder in mount.folders_of(group) {
            let limit = version.read(&below(&folder));
            let limit = limit.map(|left| MemoryLimit { file: folder.join(version.limit), left });
            if let Some(limit) = limit
                && tightest.as_ref().is_none_or(|tightest| limit.left < tightest.left)
            {
                tightest = Some(limit);
            }
        }
    });
    tightest
}

impl Version {
    /// Bytes that are left in the group of a folder; `None` without a limit.
    fn read(&self, folder: &Path) -> Option<u64> {
        // `max` is no number, nor is a missing file.
        let limit = number(&folder.join(self.limit))?;
        let usage = number(&folder.join(self.usage))?;
        let mut inactive = 0;
        find_lines(&folder.join("memory.stat"), |line| {
            if let Some((name, bytes)) = line.split_once(' ')
                && name == self.inactive
            {
                inactive = bytes.trim().parse().unwrap_or_default();
            }
        });
        Some(limit.saturating_sub(usage.saturating_sub(inactive)))
    }
}

/// A hierarchy of control groups that is mounted, or a part of it.
struct Mount<'a> {
    /// The group at its top, as `/proc/self/cgroup` names it.
    top: PathBuf,
    folder: PathBuf,
    kind: &'a str,
    /// Whether it is one of version 1 with the controller of memory.
    has_memory: bool,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (top, folder) = (fields.next()?, fields.next()?);
        let mut fields = system.split(' ');
        let (kind, options) = (fields.next()?, fields.nth(1)?);
        let has_memory = options.split(',').any(|option| option == "memory");
        Some(Self { top: unescaped(top), folder: unescaped(folder), kind, has_memory })
    }

    /// The folders of a group and of all above it that are in sight, from the group up.
    fn folders_of(&self, group: &Path) -> Vec<PathBuf> {
        // A group outside of what is mounted, as in some containers: what is mounted is the container's.
        let below = group.strip_prefix(&self.top).unwrap_or(Path::new(""));
        let folder = self.folder.join(below);
        let is_in_sight = |folder: &&Path| folder.starts_with(&self.folder);
        folder.ancestors().take_while(is_in_sight).map(Path::to_owned).collect()
    }
}

/// A path of `mountinfo`, in which spaces and the like are written in octal: `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal.filter(|_| *byte == b'\\') {
            Some(escaped) => {
                bytes.push(escaped);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
}

/// Calls `look` with each line of a text, as far as it can be read.
fn find_lines(path: &Path, mut look: impl FnMut(&str)) {
    let Ok(file) = File::open(path) else { return };
    for line in BufReader::new(file.take(TEXT_BYTES_MAX)).lines().map_while(Result::ok) {
        look(&line);
    }
}

/// The number that is all of a file.
fn number(path: &Path) -> Option<u64> {
    let mut text = String::new();
    File::open(path).ok()?.take(64).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MIB: u64 = 1 << 20;

    /// A tree with these files.
    fn tree(files: &[(&str, String)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// The files of a group of version 2, in MiB.
    fn group(folder: &str, limit: Option<u64>, usage: u64, inactive: u64) -> [(String, String); 3] {
        let limit = limit.map_or("max".to_owned(), |limit| (limit * MIB).to_string());
        let file = |name: &str| format!("{folder}/{name}");
        [
            (file("memory.max"), format!("{limit}\n")),
            (file("memory.current"), format!("{}\n", usage * MIB)),
            (file("memory.stat"), format!("anon 7\ninactive_file {}\nactive_file 9\n", inactive * MIB)),
        ]
    }

    fn found(groups: &[[(String, String); 3]], cgroup: &str, mounts: &str) -> Option<(String, u64)> {
        let mut files = vec![("proc/self/cgroup", cgroup.to_owned()), ("proc/self/mountinfo", mounts.to_owned())];
        files.extend(groups.iter().flatten().map(|(path, text)| (path.as_str(), text.clone())));
        let root = tree(&files);
        tightest_below(root.path()).map(|limit| (limit.file.to_str().unwrap().to_owned(), limit.left / MIB))
    }

    const MOUNT: &str =
        "24 1 8:1 / / rw - ext4 /dev/sda rw\n31 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_tightest_of_all_groups_above_counts() {
        let groups = |outer: Option<u64>, inner: Option<u64>| {
            [
                group("sys/fs/cgroup/a.slice", outer, 90, 10),
                group("sys/fs/cgroup/a.slice/b c.service", inner, 12, 4),
                group("sys/fs/cgroup/other.slice", Some(1), 1, 0),
            ]
        };
        let find = |outer, inner| found(&groups(outer, inner), "0::/a.slice/b c.service\n", MOUNT);
        assert_eq!(find(None, None), None);
        let outer = "/sys/fs/cgroup/a.slice/memory.max".to_owned();
        let inner = "/sys/fs/cgroup/a.slice/b c.service/memory.max".to_owned();
        assert_eq!(find(Some(100), None), Some((outer.clone(), 20)));
        assert_eq!(find(Some(100), Some(64)), Some((outer, 20)));
        assert_eq!(find(Some(100), Some(16)), Some((inner.clone(), 8)));
        assert_eq!(find(None, Some(4)), Some((inner, 0)), "more is used than there may be");
    }

    #[test]
    fn a_container_sees_its_own_group_at_the_top() {
        let groups = [group("sys/fs/cgroup", Some(16), 9, 0)];
        let limit = Some(("/sys/fs/cgroup/memory.max".to_owned(), 7));
        assert_eq!(found(&groups, "0::/\n", MOUNT), limit);
        // Without a namespace of its own, the top of what is mounted is the group.
        let mount = MOUNT.replace("0:27 / ", "0:27 /docker/3f4e ");
        assert_eq!(found(&groups, "0::/docker/3f4e\n", &mount), limit);
        assert_eq!(found(&groups, "0::/docker/3f4e/sub\n", &mount), limit);
        assert_eq!(found(&groups, "0::/elsewhere\n", &mount), limit);
    }

    #[test]
    fn version_1_has_other_files() {
        let files = |limit: u64| {
            [
                ("proc/self/cgroup", "4:cpuset,memory:/x\n3:cpu:/y\n0::/\n".to_owned()),
                (
                    "proc/self/mountinfo",
                    "33 24 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                     34 24 0:30 / /sys/fs/cgroup/with\\040space rw - cgroup cgroup rw,cpuset,memory\n"
                        .to_owned(),
                ),
                ("sys/fs/cgroup/with space/x/memory.limit_in_bytes", limit.to_string()),
                ("sys/fs/cgroup/with space/x/memory.usage_in_bytes", (10 * MIB).to_string()),
                (
                    "sys/fs/cgroup/with space/x/memory.stat",
                    format!("inactive_file 1\ntotal_inactive_file {}\n", 2 * MIB),
                ),
                // The limit of a group without one.
                ("sys/fs/cgroup/with space/memory.limit_in_bytes", "9223372036854771712\n".to_owned()),
                ("sys/fs/cgroup/with space/memory.usage_in_bytes", (90 * MIB).to_string()),
            ]
        };
        let limit = tightest_below(tree(&files(16 * MIB)).path()).unwrap();
        assert_eq!(limit.file, Path::new("/sys/fs/cgroup/with space/x/memory.limit_in_bytes"));
        assert_eq!(limit.left, 8 * MIB);
        let unlimited = tightest_below(tree(&files(9_223_372_036_854_771_712)).path()).unwrap();
        assert!(unlimited.left > 1 << 60);
    }

    #[test]
    fn what_cannot_be_read_is_no_limit() {
        assert_eq!(tightest_below(tree(&[]).path()), None);
        assert_eq!(found(&[], "0::/a\n", MOUNT), None);
        assert_eq!(found(&[], "nonsense\n\u{0}\n", "nonsense - \n- cgroup2\n"), None);
    }
}
