//! The control groups of a process, and its container.
//!
//! `/proc/PID/cgroup` has one line a hierarchy, `ID:CONTROLLERS:PATH`; version 2 is `0::PATH`:
//! ```text
//! 12:cpu,cpuacct:/docker/3f4e...64 hex digits
//! 0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-3f4e...64 hex digits.scope
//! ```
//! A runtime that hides the path (a cgroup namespace of the reader's own) still shows in
//! `/proc/PID/mountinfo`: Docker and Podman mount files from `.../containers/ID/`.

use std::fmt;
use std::path::Path;

use crate::{Error, Pid, Result, procfs};

/// Bytes of `mountinfo` in which a container is searched; a process may have 100,000 mounts.
const MOUNTS_BYTES_MAX: u64 = 4 << 20;

/// One control group hierarchy a process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// The hierarchy's number; 0 for version 2.
    pub hierarchy: u32,
    /// The controllers of a version 1 hierarchy; empty for version 2.
    pub controllers: Vec<String>,
    /// The group's path below the hierarchy's root, as seen from the reader's cgroup namespace.
    pub path: String,
}

/// The id a container runtime gave a container: 64 hex digits, or a name (LXC).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ContainerId(String);

impl ContainerId {
    pub(crate) fn new(id: &str) -> Self {
        Self(id.to_owned())
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as runtimes list it: the first 12 characters.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads the control groups of `pid`.
pub(crate) fn cgroups_of(pid: Pid) -> Result<Vec<Cgroup>> {
    let text = procfs::read_text(pid, "cgroup")?;
    parse_cgroups(&text, &procfs::path(pid, "cgroup"))
}

/// Finds the container `pid` runs in: by its control groups, else by its mounts.
pub(crate) fn container_of(pid: Pid) -> Result<Option<ContainerId>> {
    let cgroups = cgroups_of(pid)?;
    let by_cgroup = cgroups.iter().find_map(|cgroup| container_in(&cgroup.path));
    if by_cgroup.is_some() {
        return Ok(by_cgroup);
    }
    let found = procfs::find_line(pid, "mountinfo", MOUNTS_BYTES_MAX, |line| {
        Ok(container_in_mount(&String::from_utf8_lossy(line)))
    });
    match found {
        // The mounts of a container are at the beginning.
        Err(Error::TooLong { .. }) => Ok(None),
        found => found,
    }
}

fn parse_cgroups(text: &str, path: &Path) -> Result<Vec<Cgroup>> {
    let mut cgroups = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let malformed = |expected| Error::malformed(path, index + 1, expected);
        let mut fields = line.splitn(3, ':');
        let hierarchy = fields.next().and_then(|number| number.parse().ok());
        let controllers = fields.next().ok_or_else(|| malformed("controllers"))?;
        let group = fields.next().ok_or_else(|| malformed("a path"))?;
        cgroups.push(Cgroup {
            hierarchy: hierarchy.ok_or_else(|| malformed("a hierarchy number"))?,
            controllers: controllers
                .split(',')
                .filter(|controller| !controller.is_empty())
                .map(str::to_owned)
                .collect(),
            path: group.to_owned(),
        });
    }
    Ok(cgroups)
}

/// The container a group's path names; of nested ones the innermost.
fn container_in(path: &str) -> Option<ContainerId> {
    let mut segments = path.rsplit('/');
    let by_id = segments.find_map(|segment| {
        let segment = segment.strip_suffix(".scope").unwrap_or(segment);
        // `docker-ID`, `cri-containerd-ID`, `crio-ID`, `libpod-ID`, or the bare id.
        let id = segment.rsplit('-').next().unwrap_or(segment);
        is_container_id(id).then(|| ContainerId(id.to_owned()))
    });
    by_id.or_else(|| lxc_name(path))
}

/// LXC names containers: `/lxc/NAME/...` or `/lxc.payload.NAME/...`.
pub(crate) fn lxc_name(path: &str) -> Option<ContainerId> {
    let mut segments = path.split('/').skip_while(|segment| !segment.starts_with("lxc"));
    let name = match segments.next()? {
        "lxc" => segments.next()?,
        segment => segment.strip_prefix("lxc.payload.")?,
    };
    (!name.is_empty()).then(|| ContainerId(name.to_owned()))
}

pub(crate) fn is_container_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The id in `.../containers/ID/...`, the source of the mounts a runtime makes in `/etc`.
fn container_in_mount(line: &str) -> Option<ContainerId> {
    // The fifth field is the mount point; only these files are the container's own.
    let mount_point = line.split_ascii_whitespace().nth(4);
    let is_own = matches!(mount_point, Some("/etc/hostname" | "/etc/hosts" | "/etc/resolv.conf"));
    if is_own { container_in_mount_source(line) } else { None }
}

fn container_in_mount_source(line: &str) -> Option<ContainerId> {
    let source = line.split_ascii_whitespace().nth(3)?;
    let id = source.split('/').find(|segment| is_container_id(segment))?;
    Some(ContainerId(id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f4e5d6c7b8a99887766554433221100ffeeddccbbaa00112233445566778899";

    #[test]
    fn finds_the_container_in_the_paths_of_every_runtime() {
        for path in [
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/kubepods/burstable/pod1-2-3/{ID}"),
            format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
            format!("/kubepods.slice/crio-{ID}.scope/container"),
            format!("/machine.slice/libpod-{ID}.scope"),
            format!("/ecs/0123/{ID}"),
        ] {
            assert_eq!(container_in(&path).unwrap().as_str(), ID, "{path}");
        }
        assert_eq!(container_in("/lxc/web/init.scope").unwrap().as_str(), "web");
        assert_eq!(container_in("/lxc.payload.web").unwrap().as_str(), "web");
        for path in ["/", "/user.slice/user-0.slice/session-1.scope", "/docker/3f4e"] {
            assert_eq!(container_in(path), None, "{path}");
        }
    }

    #[test]
    fn finds_the_container_in_the_mounts() {
        let line = format!("741 729 8:1 /var/lib/docker/containers/{ID}/hostname /etc/hostname rw - ext4 /dev/sda rw");
        assert_eq!(container_in_mount(&line).unwrap().short(), &ID[..12]);
        let elsewhere = line.replace("/etc/hostname rw", "/backup rw");
        assert_eq!(container_in_mount(&elsewhere), None);
    }

    #[test]
    fn parses_both_versions() {
        let text = "12:cpu,cpuacct:/a:b\n1:name=systemd:/\n0::/c\n";
        let cgroups = parse_cgroups(text, Path::new("cgroup")).unwrap();
        assert_eq!(cgroups[0].controllers, ["cpu", "cpuacct"]);
        assert_eq!(cgroups[0].path, "/a:b");
        assert_eq!((cgroups[2].hierarchy, cgroups[2].path.as_str()), (0, "/c"));
        assert!(cgroups[2].controllers.is_empty());
        let error = parse_cgroups("0::/\nx::/\n", Path::new("cgroup")).unwrap_err();
        assert_eq!(error.to_string(), "cgroup: line 2: expected a hierarchy number");
    }
}
