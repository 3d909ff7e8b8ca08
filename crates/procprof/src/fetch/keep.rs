//! The folder of fetched profiles: complete files under names that were free, or none.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Numbers tried for a free name.
const NUMBERS: std::ops::Range<u32> = 1..10_000;
/// A profile can tell of a program and its users: it is its owner's, as pprof keeps it.
const MODE: u32 = 0o600;
/// Longest beginning of a name.
const STEM_MAX: usize = 180;

/// Writes `folder/STEM.NNN.EXTENSION` with the first number that is free; what can't be written whole is removed.
pub(crate) fn write_new(folder: &Path, stem: &str, extension: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let stem: String = stem.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).take(STEM_MAX).collect();
    for number in NUMBERS {
        let path = folder.join(format!("{stem}.{number:03}.{extension}"));
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(MODE).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        };
        return match file.write_all(bytes) {
            Ok(()) => Ok(path),
            Err(error) => {
                // The write's own error is what the user must see.
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        };
    }
    Err(io::Error::new(
        ErrorKind::AlreadyExists,
        format!("{}: all numbers up to {} are taken", folder.join(stem).display(), NUMBERS.end - 1),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_never_taken_twice_nor_leaves_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let written = |stem| write_new(folder.path(), stem, "pb.gz", b"x").unwrap();
        assert_eq!(written("pprof.cpu"), folder.path().join("pprof.cpu.001.pb.gz"));
        assert_eq!(written("pprof.cpu"), folder.path().join("pprof.cpu.002.pb.gz"));
        let mode = std::os::unix::fs::PermissionsExt::mode(&written("pprof.heap").metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, MODE);
        assert_eq!(written("../a\n"), folder.path().join(".._a_.001.pb.gz"));
    }
}
