//! Files of profiles: `cpu-profile-20261120-223105-pprof.gz`, named by the start of the capture in local time, complete
//! or absent.
//!
//! If a name is taken (two captures in one second, or the hour that comes twice in autumn), the next free second is
//! used, since readers of these names expect no suffix.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use procprof_files::{Folder, NewFile};
use procprof_profile::{Nanos, ProfileType};
use rustix::fs::{Access, access};

/// Seconds tried after the one of the start.
const MAX_COLLISIONS: i64 = 3600;
/// Mode of the files, before the umask: readers are not known here.
const MODE: u32 = 0o666;

/// Errs if a file could not be written below `folder`, which need not be there yet.
pub(super) fn check_writable(folder: &Path) -> Result<()> {
    let existing = folder.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    if !existing.is_dir() {
        bail!("{} is not a folder", existing.display());
    }
    access(existing, Access::WRITE_OK | Access::EXEC_OK).with_context(|| format!("write to {}", existing.display()))
}

/// Writes a profile that was begun at `started`, and gives its path.
pub(super) fn write(folder: &Path, profile_type: &ProfileType, started: Nanos, bytes: &[u8]) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("make folder {}", folder.display()))?;
    let start = Timestamp::from_nanosecond(i128::from(started.0)).context("read clock")?.to_zoned(TimeZone::system());
    let later = |seconds: i64| start.checked_add(seconds.seconds()).ok().map(|time| file_name(profile_type, &time));
    let (place, temporary) =
        (Folder::open_through_links(folder)?, format!(".{}-profile.{}.tmp", profile_type.prefix(), std::process::id()));
    // Left by a process of the same number that was killed.
    place.remove(&temporary)?;
    let mut file = NewFile::begin(&place, temporary, MODE)?;
    file.write(bytes)?;
    match file.take_free((0..MAX_COLLISIONS).map_while(later))? {
        Some(name) => Ok(folder.join(name)),
        None => bail!("{}: no free name within an hour of {start}", folder.display()),
    }
}

fn file_name(profile_type: &ProfileType, time: &Zoned) -> String {
    format!("{}-profile-{}-pprof.gz", profile_type.prefix(), time.strftime("%Y%m%d-%H%M%S"))
}

/// Whether a file name is that of a profile or of a rendering kept beside it, and if so of which prefix.
pub(super) fn prefix_of(name: &str) -> Option<&str> {
    let (prefix, rest) = name.split_once("-profile-")?;
    let known = prefix.parse::<ProfileType>().is_ok();
    let (time, rest) = rest.split_at_checked(15)?;
    let timed = time.bytes().enumerate().all(|(i, byte)| if i == 8 { byte == b'-' } else { byte.is_ascii_digit() });
    (known && timed && matches!(rest, "-pprof.gz" | "-flame.html.gz")).then_some(prefix)
}

/// Whether a file name is that of a profile being written.
pub(super) fn is_temporary(name: &str) -> bool {
    name.starts_with('.') && name.contains("-profile.") && name.ends_with(".tmp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_gives_way_to_the_next_second() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/proc_profile");
        check_writable(&deep).unwrap();
        let started = Nanos(1_800_000_000_500_000_000);
        let first = write(&deep, &ProfileType::Cpu, started, b"one").unwrap();
        let second = write(&deep, &ProfileType::Cpu, started, b"two").unwrap();
        let third = write(&deep, &ProfileType::Contention, started, b"three").unwrap();
        assert_eq!((fs::read(&first).unwrap(), fs::read(&second).unwrap()), (b"one".to_vec(), b"two".to_vec()));
        let names = [&first, &second, &third].map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        assert!(names.iter().all(|name| prefix_of(name).is_some()), "{names:?}");
        assert_ne!(names[0], names[1]);
        assert_eq!(fs::read_dir(&deep).unwrap().count(), 3);
    }

    #[test]
    fn only_its_own_names_are_recognized() {
        assert_eq!(prefix_of("cpu-profile-20261120-223105-pprof.gz"), Some("cpu"));
        assert_eq!(prefix_of("contention-profile-20261120-223105-flame.html.gz"), Some("contention"));
        for name in [
            "cpu-profile-2026112-0223105-pprof.gz",
            "cpu-profile-20261120-223105-pprof.gz.bak",
            "notes.txt",
            "x-profile-é-pprof.gz",
        ] {
            assert_eq!(prefix_of(name), None, "{name}");
        }
        assert!(is_temporary(".cpu-profile.12.tmp") && !is_temporary("cpu-profile.12.tmp"));
    }

    #[test]
    fn an_unwritable_folder_is_found_before_the_capture() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("file"), "").unwrap();
        let error = check_writable(&folder.path().join("file/proc_profile")).unwrap_err();
        assert!(error.to_string().contains("not a folder"), "{error}");
        assert!(check_writable(Path::new("/proc/sys/proc_profile")).is_err());
    }
}
