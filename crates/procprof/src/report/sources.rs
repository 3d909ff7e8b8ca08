//! Source files for reports that show them, from this machine.

use std::path::Path;

use procprof_profile::Profile;
use procprof_report::{Options, Report, Sources, source_candidates};

/// Largest source file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Most bytes of all source files.
const BYTES_MAX: u64 = 1 << 30;

/// Reads what the report shows; why a file is missing stands in its place.
pub(super) fn read(report: &Report, profile: &Profile, options: &Options) -> procprof_report::Result<Sources> {
    let mut sources = Sources::default();
    let current = std::env::current_dir().unwrap_or_default();
    let mut left = BYTES_MAX;
    for path in report.source_files(profile, options)? {
        match read_one(&path, options, &current, left) {
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

fn read_one(path: &str, options: &Options, current: &Path, left: u64) -> Result<String, String> {
    let candidates = source_candidates(path, options, current);
    let found = candidates.iter().find_map(|candidate| Some((candidate, std::fs::metadata(candidate).ok()?)));
    let Some((file, metadata)) = found else {
        return Err(match candidates.as_slice() {
            [only] if only.is_absolute() && path.starts_with('/') => format!("open {}: no such file or directory", only.display()),
            _ if options.source_path.is_empty() => format!("could not find file {path} on path {}", current.display()),
            _ => format!("could not find file {path} on path {}", options.source_path),
        });
    };
    let size = metadata.len();
    if !metadata.is_file() || size > FILE_BYTES_MAX || size > left {
        return Err(format!("open {}: not a file of at most {} bytes", file.display(), FILE_BYTES_MAX.min(left)));
    }
    let bytes = std::fs::read(file).map_err(|error| format!("open {}: {error}", file.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
