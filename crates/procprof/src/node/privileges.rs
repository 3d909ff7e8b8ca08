//! The privileges that the agent keeps.

use std::path::{Path, PathBuf};

use procprof_process::Process;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// What it needs, and what for.
const NEEDED: &[(CapabilitySet, &str, &str)] = &[
    (CapabilitySet::PERFMON, "CAP_PERFMON", "samples of processes of others, and time in the kernel"),
    (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE", "the code and environment of processes of others"),
    (CapabilitySet::DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "files of others, for build ids and symbols"),
];

/// Capabilities for attaching to JVMs of other users, as those users, who also write what is needed.
const FOR_JVMS: &[(CapabilitySet, &str, &str)] = &[
    (CapabilitySet::KILL, "CAP_KILL", "attaching to JVMs of other users"),
    (CapabilitySet::SETUID, "CAP_SETUID", "attaching to JVMs of other users"),
    (CapabilitySet::SETGID, "CAP_SETGID", "attaching to JVMs of other users"),
];

/// What is done with JVMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JvmUse {
    /// None is attached to.
    Nothing,
    /// They are asked for names, where that is permitted.
    Names,
    /// Some are recorded by their own means.
    Recordings,
}

/// Lets buffers of any size be locked, where that is permitted; smaller ones are used otherwise.
pub(super) fn allow_locked_memory() {
    let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
}

/// The kernel's symbols; why there are none.
///
/// Reading their addresses may take CAP_SYSLOG, which is not kept.
pub(super) fn kernel_symbols() -> Result<Vec<u8>, String> {
    let why = |why: &str| format!("names of kernel functions: {why}");
    let symbols = std::fs::read("/proc/kallsyms").map_err(|error| why(&error.to_string()))?;
    let mut first = symbols.split(|byte| *byte == b'\n').take(100);
    let has_address = first.any(|line| line.iter().take(16).any(|digit| !matches!(digit, b'0' | b' ')));
    if has_address {
        Ok(symbols)
    } else {
        Err(why("/proc/kallsyms hides its addresses; it takes CAP_SYSLOG at the start"))
    }
}

/// Copies the kernel's symbols to a file in a folder, to be read later.
pub(super) fn copy_kernel_symbols(folder: &Path) -> Result<PathBuf, String> {
    let path = folder.join("kallsyms");
    let copied = procprof_files::replace(&path, &kernel_symbols()?, 0o600);
    copied.map(|()| path).map_err(|error| format!("names of kernel functions: {error}"))
}

/// Gives up all capabilities but the needed ones, for this process and what it starts; what is missing of them. Those
/// for names of JVMs alone are kept, and not missing.
///
/// Must be called before the first thread is started, since each thread has its own.
///
/// # Errors
/// The kernel refuses.
pub(super) fn keep_needed(jvm_use: JvmUse) -> Result<Vec<String>, Errno> {
    let held = capabilities(None)?;
    let (needed_for_jvms, useful) = match jvm_use {
        JvmUse::Nothing => (&[][..], &[][..]),
        JvmUse::Names => (&[][..], FOR_JVMS),
        JvmUse::Recordings => (FOR_JVMS, &[][..]),
    };
    let wanted = || NEEDED.iter().chain(needed_for_jvms);
    let needed = wanted().chain(useful).fold(CapabilitySet::empty(), |all, (one, ..)| all | *one);
    let kept = held.permitted & needed;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        for other in CapabilitySet::all().iter().filter(|other| !needed.contains(*other)) {
            // Kernels do not have all of them.
            let _ = rustix::thread::remove_capability_from_bounding_set(other);
        }
    }
    let inheritable = held.inheritable & needed;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable })?;
    rustix::thread::set_no_new_privs(true)?;
    let missing = wanted().filter(|(one, ..)| !kept.contains(*one));
    let mut missing: Vec<String> = missing.map(|(_, name, purpose)| format!("{name}: {purpose}")).collect();
    let namespaces = Process::current().and_then(|own| own.namespaces());
    if namespaces.is_ok_and(|namespaces| !namespaces.has_all_pids()) {
        missing.push(
            "the host's pid namespace (hostPID: true, --pid=host): processes outside this one are recorded as one"
                .to_owned(),
        );
    }
    Ok(missing)
}
