//! Saves fetched profiles where `go tool pprof` does: `pprof.PROGRAM.TYPES.NNN.pb.gz` in `PPROF_TMPDIR`, `~/pprof`
//! or the temporary folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use procprof_profile::Profile;
use procprof_report::{Options, Report, Sources};

use crate::fetch::write_new;

/// Writes the profile to a new file, prints and returns its path; a failure is printed and otherwise ignored.
pub(super) fn save(profile: &Profile) -> Option<PathBuf> {
    match folder().and_then(|folder| write(&folder, profile)) {
        Ok(path) => {
            eprintln!("Saved profile in {}", path.display());
            Some(path)
        }
        Err(error) => {
            eprintln!("procprof: could not save the profile: {error:#}");
            None
        }
    }
}

fn write(folder: &Path, profile: &Profile) -> Result<PathBuf> {
    let bytes = Report::named("pprof")?.render(profile, &Options::default(), &Sources::default())?;
    write_new(folder, &stem(profile), "pb.gz", &bytes).with_context(|| format!("write to {}", folder.display()))
}

/// The first of the folders that exists or can be created.
fn folder() -> Result<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = given("HOME").map(|home| home.join("pprof"));
    for folder in given("PPROF_TMPDIR").into_iter().chain(home) {
        match std::fs::create_dir_all(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) => eprintln!("procprof: {}: {error}", folder.display()),
        }
    }
    Ok(std::env::temp_dir())
}

fn stem(profile: &Profile) -> String {
    let mut parts = vec!["pprof".to_owned()];
    let program = profile.mappings().first().map(|mapping| profile.string(mapping.filename)).unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    parts.extend((!program.is_empty()).then(|| program.to_owned()));
    parts.extend((0..profile.sample_types().len()).map(|index| profile.sample_type(index).0.to_owned()));
    parts.join(".")
}
