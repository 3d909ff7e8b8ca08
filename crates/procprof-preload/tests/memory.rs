//! Programs in a memory control group that has little room beside what they use.

use crate::build::program;
use crate::host::{Host, preloaded, wait_until};
use procprof_profile::Profile;
use procprof_profile::format::decode;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A memory control group, removed when dropped.
struct MemoryGroup {
    folder: PathBuf,
}

impl MemoryGroup {
    /// A group below the test's own that may use so many bytes.
    fn new(name: &str, bytes: u64) -> Self {
        let (parent, file) = Self::parent().expect("a memory control group of version 1 or 2 can be made");
        let folder = parent.join(format!("procprof-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&folder).expect("a memory control group can be made");
        let group = Self { folder };
        std::fs::write(group.folder.join(file), bytes.to_string()).expect("the limit of a memory control group");
        group
    }

    /// The folder of the test's group, and the file that limits memory.
    fn parent() -> Option<(PathBuf, &'static str)> {
        let (mounts, groups) = (
            std::fs::read_to_string("/proc/self/mounts").unwrap(),
            std::fs::read_to_string("/proc/self/cgroup").unwrap(),
        );
        let mount = |kind: &str, option: &str| {
            let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
            let mut mounts = mounts.lines().map(fields);
            let is_it = |mount: &Vec<String>| mount[2] == kind && mount[3].split(',').any(|found| found == option);
            mounts.find(is_it).map(|mount| PathBuf::from(&mount[1]))
        };
        let own =
            |prefix: &str| groups.lines().find_map(|line| Some(line.split_once(prefix)?.1.trim_start_matches('/')));
        if let Some(first) = mount("cgroup", "memory") {
            return Some((first.join(own(":memory:")?), "memory.limit_in_bytes"));
        }
        let second = mount("cgroup2", "rw")?.join(own("0::")?);
        // A group with processes passes controllers on at the root only.
        let _ = std::fs::write(second.join("cgroup.subtree_control"), "+memory");
        Some((second, "memory.max"))
    }

    /// The command of a program that runs in it from its first page on.
    fn command(&self, program: &Path) -> Command {
        let mut command = preloaded(Path::new("/bin/sh"));
        command.args(["-c", "echo $$ > \"$0\" && exec \"$1\""]).arg(self.folder.join("cgroup.procs")).arg(program);
        command.env("PROCPROF_ONLY", program.file_name().unwrap()).env("PROCPROF_LISTENER", "on-demand");
        command.env("PROCPROF_HEAP_SAMPLE_BYTES", "4096");
        command
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        wait_until("the end of the group's processes", || std::fs::remove_dir(&self.folder).is_ok());
    }
}

/// A profile with samples: on a busy machine the program may not have run at first.
fn profile(host: &Host, path: &str) -> Profile {
    let mut profile = None;
    wait_until(&format!("samples at {path}"), || {
        let found = decode(&host.get(path), &Default::default()).unwrap().profile;
        let has_samples = found.samples().any(|sample| sample.stack.len() > 1);
        profile = Some(found).filter(|_| has_samples);
        has_samples
    });
    profile.unwrap()
}

/// Addresses with and without names; rows that stand for no code have names in brackets.
fn named(profile: &Profile) -> (usize, usize) {
    let names = |place| profile.lines(place).first().map(|line| profile.string(profile.function(line.function).name));
    let places: Vec<_> = profile.samples().flat_map(|sample| sample.stack.to_vec()).map(names).collect();
    let named = places.iter().flatten().filter(|name| !name.starts_with('[')).count();
    (named, places.iter().filter(|name| name.is_none()).count())
}

const NOTE: &str = "#procprof:unnamed=all addresses: naming them may take 16 MiB, and ";

/// Naming addresses would have the kernel end it.
#[test]
fn a_program_with_little_room_is_profiled_without_names() {
    let group = MemoryGroup::new("little", 16 << 20);
    let host = Host::start(group.command(&program("allocates.c", &[])));
    for path in ["/debug/pprof/allocs?seconds=1", "/debug/pprof/profile?seconds=1", "/debug/pprof/wall?seconds=1"] {
        let profile = profile(&host, path);
        let note = profile.comments().find(|comment| comment.starts_with(NOTE)).unwrap_or_default();
        assert!(note.contains(" MiB are left below /") && note.contains("procprof-test-"), "{path}: {note}");
        let (named, unnamed) = named(&profile);
        assert!(
            unnamed > 0 && named <= 1,
            "{path}: {named} named of {unnamed}: rows that stand for no code have names"
        );
        let mapping = profile.mappings().iter().find(|mapping| profile.string(mapping.filename).contains("allocates"));
        let build_id = mapping.map(|mapping| profile.string(mapping.build_id)).unwrap_or_default();
        assert!(!build_id.is_empty(), "{path}: readers find the file by its build id");
    }
    assert!(host.finish().success(), "the kernel has ended it");
}

#[test]
fn a_program_with_room_has_names() {
    let group = MemoryGroup::new("room", 512 << 20);
    let host = Host::start(group.command(&program("allocates.c", &[])));
    let profile = profile(&host, "/debug/pprof/wall?seconds=1");
    assert!(!profile.comments().any(|comment| comment.starts_with("#procprof:unnamed=")));
    assert!(named(&profile).0 > 0);
    assert!(host.finish().success());
}
