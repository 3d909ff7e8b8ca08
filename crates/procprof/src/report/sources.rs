//! Source files for reports that show them, from this machine.
//!
//! A profile names its files, and its author chose the names. A report printed for the user of the command reads the
//! files that the user may read; pages that are served show only files below the intended folders: the working
//! directory and those of `-source_path`.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use procprof_profile::Profile;
use procprof_report::{Options, Report, Sources, source_candidates};

/// Largest source file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Most bytes of all source files.
const BYTES_MAX: u64 = 1 << 30;

/// The folders whose source files may be read.
pub(super) enum Reach {
    /// Wherever the user of this process may read.
    Anywhere,
    /// Below these folders, by no link that leads out of them.
    Below(Vec<PathBuf>),
}

impl Reach {
    /// The working directory and the folders of `-source_path`.
    pub(super) fn of_pages(options: &Options) -> Reach {
        let named = options.source_path.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from);
        // At the top of all folders, nothing was meant by it.
        let current = std::env::current_dir().ok().filter(|folder| folder.parent().is_some());
        let folders = current.into_iter().chain(named);
        // One that is not there holds no files.
        Reach::Below(folders.filter_map(|folder| folder.canonicalize().ok()).collect())
    }

    /// Opens a file if it is within reach.
    fn open(&self, path: &Path) -> Result<File, String> {
        let failed = |error: std::io::Error| format!("open {}: {error}", path.display());
        let file = File::options()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
            .open(path)
            .map_err(failed)?;
        let Reach::Below(folders) = self else { return Ok(file) };
        // Of what is open, so that nothing can be exchanged meanwhile.
        let is = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(failed)?;
        if folders.iter().any(|folder| is.starts_with(folder)) {
            return Ok(file);
        }
        Err(format!(
            "{}: not below the working directory; -source_path=FOLDER names another folder to show",
            path.display()
        ))
    }
}

/// Reads the files of the report; in the place of a missing one is the reason.
pub(super) fn read(
    report: &Report,
    profile: &Profile,
    options: &Options,
    reach: &Reach,
) -> procprof_report::Result<Sources> {
    let mut sources = Sources::default();
    let current = std::env::current_dir().unwrap_or_default();
    let mut left = BYTES_MAX;
    for path in report.source_files(profile, options)? {
        match read_one(&path, options, &current, reach, left) {
            Ok(text) => {
                left = left.saturating_sub(text.len() as u64);
                sources.files.insert(path, text);
            }
            Err(why) => {
                sources.missing.insert(path, why);
            }
        }
    }
    Ok(sources)
}

fn read_one(path: &str, options: &Options, current: &Path, reach: &Reach, left: u64) -> Result<String, String> {
    let candidates = source_candidates(path, options, current);
    let Some(file) = candidates.iter().find(|candidate| candidate.exists()) else {
        return Err(match candidates.as_slice() {
            [only] if only.is_absolute() && path.starts_with('/') => {
                format!("open {}: no such file or directory", only.display())
            }
            _ if options.source_path.is_empty() => format!("could not find file {path} on path {}", current.display()),
            _ => format!("could not find file {path} on path {}", options.source_path),
        });
    };
    let failed = |error: std::io::Error| format!("open {}: {error}", file.display());
    let opened = reach.open(file)?;
    let metadata = opened.metadata().map_err(failed)?;
    let limit = FILE_BYTES_MAX.min(left);
    if !metadata.is_file() || metadata.len() > limit {
        return Err(format!("open {}: not a file of at most {limit} bytes", file.display()));
    }
    let mut bytes = Vec::new();
    opened.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_show_files_below_their_folders_only() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("src")).unwrap();
        for name in ["src/main.c", "secret.c"] {
            std::fs::write(at(name), name).unwrap();
        }
        std::os::unix::fs::symlink(at("secret.c"), at("src/link.c")).unwrap();
        std::os::unix::fs::symlink(at("src"), at("way")).unwrap();
        let reach = Reach::of_pages(&Options { source_path: at("src").display().to_string(), ..Options::default() });
        let look = |reach: &Reach, name: &str| {
            read_one(&at(name).display().to_string(), &Options::default(), Path::new("/"), reach, BYTES_MAX)
        };
        for name in ["src/main.c", "way/main.c"] {
            assert_eq!(look(&reach, name).as_deref(), Ok("src/main.c"), "{name}");
        }
        for name in ["secret.c", "src/link.c", "src/../secret.c", "way/link.c"] {
            let refused = look(&reach, name).unwrap_err();
            assert!(refused.contains("-source_path"), "{name}: {refused}");
            assert_eq!(look(&Reach::Anywhere, name).as_deref(), Ok("secret.c"), "{name}");
        }
        assert!(look(&reach, "src/none.c").unwrap_err().contains("no such file"));
        assert!(look(&reach, "src").unwrap_err().contains("not a file"));
    }
}
