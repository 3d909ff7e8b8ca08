//! Recordings of `perf record` made on this machine since it was started: the kernel's symbols are those of now.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use procprof_process::BuildId;
use procprof_profile::Profile;

/// The fact that holds the boot that a profile was taken in.
const BOOT: &str = "boot-id";
const KERNEL: &str = "[kernel.kallsyms]";

/// Marks the profile of a recording as one of this boot, if that is known: the host's name, the kernel's build id where
/// the recording has one, its address, and the time of the file are those of now.
pub(super) fn of_this_boot(profile: Profile, modified: SystemTime) -> Result<Profile> {
    let mut meta = profile.meta();
    let fact = |key: &str| meta.more.get(key).map_or("", String::as_str);
    let host = rustix::system::uname();
    let is_own = fact("host").as_bytes() == host.nodename().to_bytes()
        && is_this_kernel(&profile)
        && fact("kernel").split_once(' ').is_some_and(|(symbol, address)| is_at(symbol, address))
        && started().is_some_and(|started| modified > started);
    if let (true, Some(boot)) = (is_own, boot_id()) {
        meta.more.insert(BOOT.to_owned(), boot);
        return Ok(profile.with_meta(&meta)?);
    }
    Ok(profile)
}

/// Whether a profile was taken since this machine was started.
pub(super) fn is_of_this_boot(profile: &Profile) -> bool {
    let meta = profile.meta();
    meta.more.get(BOOT).is_some_and(|boot| boot_id().as_ref() == Some(boot))
}

/// Whether a profile has no other kernel's build id.
fn is_this_kernel(profile: &Profile) -> bool {
    let kernel = profile.mappings().iter().find(|mapping| profile.string(mapping.filename) == KERNEL);
    let build_id = kernel.map_or("", |mapping| profile.string(mapping.build_id));
    build_id.is_empty() || own_kernel().is_some_and(|own| own == build_id)
}

/// The build id of the running kernel: that of GNU's note.
fn own_kernel() -> Option<String> {
    const HEADER: usize = 12;
    const BUILD_ID: u32 = 3;
    let notes = std::fs::read("/sys/kernel/notes").ok()?;
    let mut rest = notes.as_slice();
    while let Some((header, behind)) = rest.split_at_checked(HEADER) {
        let word =
            |place: usize| u32::from_ne_bytes([header[place], header[place + 1], header[place + 2], header[place + 3]]);
        let (name, content) = behind.split_at_checked((word(0) as usize).next_multiple_of(4))?;
        let (content, others) = content.split_at_checked((word(4) as usize).next_multiple_of(4))?;
        if word(8) == BUILD_ID && name.starts_with(b"GNU\0") {
            return BuildId::new(content.get(..word(4) as usize)?).map(|id| id.to_string());
        }
        rest = others;
    }
    None
}

/// Whether a symbol of the running kernel has that address: `0xffffffff81000000`.
fn is_at(symbol: &str, address: &str) -> bool {
    let Some(address) = address.strip_prefix("0x") else { return false };
    let symbols = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    symbols.lines().any(|line| {
        let mut words = line.split_ascii_whitespace();
        words.next() == Some(address) && words.nth(1) == Some(symbol)
    })
}

/// The moment when this machine was started: `btime` in `/proc/stat`, in seconds.
fn started() -> Option<SystemTime> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let seconds = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

fn boot_id() -> Option<String> {
    Some(std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned())
}
