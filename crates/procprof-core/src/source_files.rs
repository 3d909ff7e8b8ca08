//! Source files for reports that show them: only those below the configured `source_roots`.
//!
//! The profile names the files and a report's options may set where to look (`source_path`, `trim_path`); neither is
//! trusted. A path is walked from its root folder by folder, never through a symbolic link nor `..`, and only a regular
//! file is read.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use procprof_profile::Profile;
use procprof_report::{Options, Report, Sources, source_candidates};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

/// Largest source file that is shown, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Most bytes of all files of a report.
const BYTES_MAX: u64 = 64 << 20;
/// Most places looked at for one report.
const PLACES_MAX: usize = 10_000;

/// The remaining limits of one report.
struct Left {
    bytes: u64,
    places: usize,
}

/// Reads the files of the report; in the place of a missing one is the reason.
///
/// # Errors
/// The report does not take these options.
pub(crate) fn read(
    roots: &[String],
    report: &Report,
    profile: &Profile,
    options: &Options,
) -> procprof_report::Result<Sources> {
    let mut sources = Sources::default();
    let mut left = Left { bytes: BYTES_MAX, places: PLACES_MAX };
    for path in report.source_files(profile, options)? {
        match read_one(roots, &path, options, &mut left) {
            Ok(text) => drop(sources.files.insert(path, text)),
            Err(why) => drop(sources.missing.insert(path, why)),
        }
    }
    Ok(sources)
}

fn read_one(roots: &[String], path: &str, options: &Options, left: &mut Left) -> Result<String, String> {
    if roots.is_empty() {
        return Err(format!(
            "{path}: this server shows no sources; source_roots in its configuration names the folders it may show"
        ));
    }
    for root in roots.iter().map(Path::new) {
        for candidate in source_candidates(path, options, root) {
            let Ok(below) = candidate.strip_prefix(root) else { continue };
            if left.places == 0 {
                return Err(format!("{path}: not found in the first {PLACES_MAX} places"));
            }
            left.places -= 1;
            match open_below(root, below) {
                Ok(file) => return text(file, path, left),
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(Errno::LOOP) => return Err(format!("{path}: a symbolic link, which is not followed")),
                Err(errno) => return Err(format!("{path}: {errno}")),
            }
        }
    }
    Err(format!("{path}: not below any folder of source_roots"))
}

fn text(file: File, path: &str, left: &mut Left) -> Result<String, String> {
    let state = file.metadata().map_err(|error| format!("{path}: {error}"))?;
    let limit = FILE_BYTES_MAX.min(left.bytes);
    if !state.is_file() || state.len() > limit {
        return Err(format!("{path}: not a file of at most {limit} bytes"));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(|error| format!("{path}: {error}"))?;
    left.bytes -= bytes.len() as u64;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Opens what is below a folder, following no link on the way. The folder itself was named by the operator.
fn open_below(root: &Path, below: &Path) -> rustix::io::Result<File> {
    const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
    let mut folder: OwnedFd = openat(CWD, root, FOLDER, Mode::empty())?;
    let mut components = below.components().peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else { return Err(Errno::NOENT) };
        if components.peek().is_none() {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            return openat(&folder, name, flags, Mode::empty()).map(File::from);
        }
        // A link in the place of a folder is refused as no folder.
        folder = openat(&folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Err(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_plain_files_below_a_root_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("src");
        std::fs::create_dir_all(root.join("a")).unwrap();
        std::fs::write(root.join("a/main.rs"), "fn main() {}\n").unwrap();
        std::fs::write(folder.path().join("secret"), "x").unwrap();
        symlink(folder.path().join("secret"), root.join("link")).unwrap();
        symlink(folder.path(), root.join("up")).unwrap();
        let roots = [root.display().to_string()];
        let look = |roots: &[String], path: &str| {
            read_one(roots, path, &Options::default(), &mut Left { bytes: BYTES_MAX, places: PLACES_MAX })
        };
        let at = |name: &str| root.join(name).display().to_string();
        assert_eq!(look(&roots, &at("a/main.rs")).as_deref(), Ok("fn main() {}\n"));
        assert_eq!(look(&roots, "a/main.rs").as_deref(), Ok("fn main() {}\n"));
        for refused in [
            at("link"),
            at("up/secret"),
            at("../secret"),
            at("a/../../secret"),
            "../secret".to_owned(),
            "/etc/passwd".to_owned(),
            at("a"),
            at(""),
        ] {
            assert!(look(&roots, &refused).is_err(), "{refused}");
        }
        assert!(look(&[], &at("a/main.rs")).unwrap_err().contains("source_roots"));
    }
}
