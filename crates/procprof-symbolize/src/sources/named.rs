//! The binaries that an operator named, and the mappings that each is used for.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use procprof_process::{BuildId, open_regular};
use procprof_profile::Profile;

use super::inquiry::Wanted;
use super::{Binary, BinaryRole};
use crate::Reason;

/// A binary that an operator named.
#[derive(Debug)]
pub(crate) struct NamedBinary {
    pub(crate) path: PathBuf,
    /// [`BinaryRole::Any`] is decided.
    role: BinaryRole,
    pub(crate) build_id: Option<BuildId>,
    /// The reason if it can't be opened.
    pub(crate) unreadable: Option<Reason>,
}

impl NamedBinary {
    /// Opens all of them, and decides which mappings of this profile each is used for.
    pub(crate) fn all(binaries: &[Binary], profile: &Profile) -> Vec<Self> {
        let of_profile = |id| profile.string(id);
        let name = |binary: &Binary| {
            let build_id = read_build_id(&binary.path);
            let own = build_id.as_ref().ok().cloned().flatten();
            let is_in_profile = || {
                let own = own.as_ref().map(BuildId::to_string);
                let is_it =
                    |filename, build_id: &str| has_name(&binary.path, filename) || own.as_deref() == Some(build_id);
                profile
                    .mappings()
                    .iter()
                    .any(|mapping| is_it(of_profile(mapping.filename), of_profile(mapping.build_id)))
            };
            let role = match binary.role {
                BinaryRole::Any if is_in_profile() => BinaryRole::SameName,
                BinaryRole::Any => BinaryRole::Main,
                role => role,
            };
            Self { path: binary.path.clone(), role, unreadable: build_id.as_ref().err().copied(), build_id: own }
        };
        binaries.iter().map(name).collect()
    }

    /// Whether it is used as the main program.
    pub(crate) fn is_program(&self) -> bool {
        self.role == BinaryRole::Main
    }

    /// Whether it is used as the file of these mappings, unless a build id contradicts.
    pub(crate) fn is_taken_for(&self, wanted: &Wanted<'_>) -> bool {
        match self.role {
            BinaryRole::Main => wanted.is_main,
            BinaryRole::SameName | BinaryRole::Any => has_name(&self.path, wanted.filename),
        }
    }
}

fn read_build_id(path: &Path) -> Result<Option<BuildId>, Reason> {
    let file = open_regular(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Reason::FileMissing,
        _ => Reason::FileUnreadable,
    })?;
    // Errors in its contents are reported when it is opened as an image.
    Ok(BuildId::of_file(&file).unwrap_or_default())
}

/// Whether a binary is that of a mapping by its name; a debug file has the name of its binary.
fn has_name(path: &Path, filename: &str) -> bool {
    let wanted = Path::new(filename.strip_suffix(" (deleted)").unwrap_or(filename)).file_name();
    let is_debug =
        path.extension().is_some_and(|extension| ["debug", "debuginfo"].map(OsStr::new).contains(&extension));
    wanted.is_some() && (path.file_name() == wanted || is_debug && path.file_stem() == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_the_file_whatever_its_folder() {
        for (path, filename, expected) in [
            ("/a/be", "/opt/be", true),
            ("/a/be", "/opt/be (deleted)", true),
            ("/a/be.debuginfo", "/opt/be", true),
            ("/a/be.debug", "/opt/be", true),
            ("/a/be.so", "/opt/be", false),
            ("/a/be", "", false),
        ] {
            assert_eq!(has_name(Path::new(path), filename), expected, "{path} {filename}");
        }
    }
}
