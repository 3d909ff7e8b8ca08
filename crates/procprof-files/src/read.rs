//! Reading a state file whole.

use std::fs::{File, OpenOptions};
use std::io::{Error, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// The content of a regular file of at most `bytes_max` bytes. Links are followed; a pipe or a device is refused, and
/// never waited for.
///
/// # Errors
/// The system's; of another kind when the file is none or has more bytes.
pub fn read(path: impl AsRef<Path>, bytes_max: u64) -> Result<Vec<u8>> {
    let file = open(path.as_ref())?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Error::other(format!("more than {bytes_max} bytes, which is the limit")));
    }
    Ok(bytes)
}

fn open(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::other("is no regular file"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::read;

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("file"), "12345").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(read(path("file"), 5).unwrap(), b"12345");
        assert_eq!(read(path("link"), 5).unwrap(), b"12345");
        assert!(read(path("file"), 4).unwrap_err().to_string().contains("more than 4 bytes"));
        assert_eq!(read(path("none"), 4).unwrap_err().kind(), ErrorKind::NotFound);
        for other in [path("pipe"), folder.path().to_owned(), "/dev/zero".into()] {
            assert_eq!(read(&other, 4).unwrap_err().to_string(), "is no regular file", "{}", other.display());
        }
    }
}
