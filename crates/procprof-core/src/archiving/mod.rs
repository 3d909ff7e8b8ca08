//! From the store to the archive: its folder, what is missing there, the task that writes it, and checks.

mod archiver;
mod compaction;
mod export;
mod known;
mod names;
mod overview;
mod rebuild;
mod stored_days;
mod verify;

use std::path::Path;
use std::sync::Arc;

use procprof_archive::{Archive, BucketLimits, CompactLimits, Compacted, Place, ReadLimits, Writer};

pub use archiver::{ArchiveState, Archiver, Rhythm};
pub(crate) use export::identity;
pub use export::{Exported, export};
pub use known::{KnownParts, NamedNodes, PartSums, PartsOfTime};
pub use overview::{ArchiveOverview, ArchiveUse};
pub use procprof_archive::{Environment, Grain, Hour};
pub use rebuild::{Rebuilt, rebuild};
pub(crate) use stored_days::StoredDays;
pub use verify::{Verified, verify};

use crate::config::Config;
use crate::{Error, Result};

/// The file of a data folder with the name of its writer.
const WRITER_FILE: &str = "archive-writer";
/// Mode of that file.
const WRITER_MODE: u32 = 0o640;
/// Bytes of the file with the name of a writer, at most.
const WRITER_BYTES_MAX: u64 = 4096;

/// What a server reads of its archive takes about 200 MB at most, however large the archive is.
const READ: ReadLimits = ReadLimits {
    metadata_bytes: 16 << 20,
    rows: 1 << 28,
    profiles: 1 << 21,
    header_bytes: 256 << 20,
    group_bytes: 64 << 20,
    page_bytes: 16 << 20,
    stacks: 1 << 20,
    text_bytes: 64 << 20,
};

/// The archive of a server.
#[derive(Debug)]
pub struct OpenArchive {
    /// Its parts.
    pub known: Arc<KnownParts>,
    /// The name under which this server writes.
    pub writer: Writer,
    /// Its folder or bucket.
    pub place: Place,
}

/// Opens the archive that a configuration names, a folder below the data folder unless it is an absolute path; `None`
/// if it names none. A folder is created if it is missing; whether a bucket can be reached, its use shows.
///
/// # Errors
/// When its folder cannot be opened or created; when the environment's settings for its bucket cannot be used.
pub fn open(config: &Config, data: &Path, environment: &Environment) -> Result<Option<OpenArchive>> {
    if config.archive.is_empty() {
        return Ok(None);
    }
    let place = match config.archive.parse()? {
        Place::Folder(folder) => Place::Folder(data.join(folder)),
        bucket => bucket,
    };
    let objects = place.create(environment, BucketLimits::default())?;
    let known = Arc::new(KnownParts::new(Archive::new(objects, READ)));
    Ok(Some(OpenArchive { known, writer: archive_writer(data)?, place }))
}

/// The name under which the server of a data folder writes to archives; it is made when it is first needed.
///
/// # Errors
/// When its file cannot be read or written.
pub fn archive_writer(data: &Path) -> Result<Writer> {
    let path = data.join(WRITER_FILE);
    let setup = |why: String| Error::Setup { what: "archive", why: format!("{}: {why}", path.display()) };
    match procprof_files::read(&path, WRITER_BYTES_MAX) {
        Ok(text) => {
            String::from_utf8_lossy(&text).trim().parse().map_err(|_| setup("not the name of a writer".to_owned()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let writer = Writer(uuid::Uuid::now_v7().as_u64_pair().1);
            procprof_files::create(&path, format!("{writer}\n").as_bytes(), WRITER_MODE)
                .map_err(procprof_archive::Error::from)?;
            Ok(writer)
        }
        Err(error) => Err(setup(error.to_string())),
    }
}

/// Compacts an archive, now.
///
/// # Errors
/// [`Archive::compact`]'s.
pub fn compact(archive: &Archive, limits: &CompactLimits) -> Result<Compacted> {
    Ok(archive.compact(limits, &crate::clock::now, holder(), &mut ())?)
}

/// A number that no other compaction has.
fn holder() -> u64 {
    uuid::Uuid::now_v7().as_u64_pair().1
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{WRITER_FILE, archive_writer};
    use crate::law::{Contents, Row, check, line};

    #[test]
    fn every_version_of_the_writers_file_is_read() {
        check(&Row { name: "archive-writer", version: procprof_store::DATA_FORMAT.version, make, read, mark: None });
    }

    fn make(data: &Path) {
        archive_writer(data).unwrap();
    }

    fn read(data: &Path) -> Contents {
        let before = std::fs::read(data.join(WRITER_FILE)).unwrap();
        let mut text = String::new();
        line(&mut text, archive_writer(data)?);
        assert_eq!(std::fs::read(data.join(WRITER_FILE)).unwrap(), before, "none is made anew");
        Ok(text)
    }
}
