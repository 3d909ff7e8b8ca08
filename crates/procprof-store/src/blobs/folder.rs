//! [`BlobFolder`]: blobs as files of a folder, `DATA/profiles/<node id>/*` today.
//!
//! Everything goes through folder descriptors with `O_NOFOLLOW`, so a planted symbolic link is refused and never
//! followed. A new blob is written as `.N.tmp`, synced, renamed without replacing anything, and its folder synced: it
//! exists whole or not at all.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use procprof_files::{EntryKind, FileState, Folder, NewFile};

use super::{BlobName, Blobs, Listing, Piece, Stamp, Unfinished, check_folder, is_name};
use crate::{Error, Result};

/// Mode of the files.
const MODE: u32 = 0o640;

/// Blobs in a folder that belongs to this process alone.
#[derive(Debug)]
pub struct BlobFolder {
    folder: Folder,
    /// Files begun so far.
    begun: AtomicU64,
}

impl BlobFolder {
    /// Opens a folder and creates it if it is missing; its parent must exist.
    pub fn open(path: impl AsRef<Path>) -> Result<BlobFolder> {
        Ok(BlobFolder { folder: Folder::make(path)?, begun: AtomicU64::new(0) })
    }

    fn folder(&self, folder: &str) -> Result<Folder> {
        check_folder(folder)?;
        Ok(folder.split('/').try_fold(self.folder.clone(), |parent, name| parent.folder(name))?)
    }

    fn begin(&self, folder: &Folder, chunks: &[&[u8]]) -> Result<NewFile> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let mut file = NewFile::begin(folder, format!(".{number}.tmp"), MODE)?;
        for chunk in chunks {
            file.write(chunk)?;
        }
        Ok(file)
    }
}

impl Blobs for BlobFolder {
    fn put(
        &self,
        folder: &str,
        names: &mut dyn Iterator<Item = String>,
        chunks: &[&[u8]],
    ) -> Result<Option<(String, Stamp)>> {
        check_folder(folder)?;
        let place = folder.split('/').try_fold(self.folder.clone(), |parent, name| parent.make_folder(name))?;
        let file = self.begin(&place, chunks)?;
        let mut wrong = None;
        let legal = names.map_while(|name| match BlobName::new(folder, &name) {
            Ok(_) => Some(name),
            Err(error) => {
                wrong = Some(error);
                None
            }
        });
        let taken = file.take_free(legal)?;
        match wrong {
            Some(error) => Err(error),
            None => Ok(taken.map(|name| {
                let stamp = stamp_of(&place, &name);
                (name, stamp)
            })),
        }
    }

    fn replace(&self, blob: BlobName<'_>, chunks: &[&[u8]]) -> Result<Stamp> {
        let folder = self.folder(blob.folder())?;
        self.begin(&folder, chunks)?.replace(blob.name())?;
        Ok(stamp_of(&folder, blob.name()))
    }

    fn get(&self, blob: BlobName<'_>, range: Range<u64>) -> Result<Option<Piece>> {
        let opened = self.folder(blob.folder()).and_then(|folder| Ok(folder.file(blob.name(), u64::MAX)?));
        let (mut file, size) = match opened {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let failed = |source| Error::io("read", self.folder.path().join(blob.to_string()), source);
        let stamp = stamp(&FileState::from_file(&file).map_err(failed)?);
        if range.start > 0 {
            file.seek(SeekFrom::Start(range.start)).map_err(failed)?;
        }
        let wanted = range.end.min(size).saturating_sub(range.start);
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or(0));
        file.take(wanted).read_to_end(&mut bytes).map_err(failed)?;
        Ok(Some(Piece { bytes, size, stamp }))
    }

    fn list(&self, folder: &str, unfinished: Unfinished) -> Result<Listing> {
        let opened = if folder.is_empty() { Ok(self.folder.clone()) } else { self.folder(folder) };
        let place = match opened {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Listing::default());
            }
            opened => opened?,
        };
        let mut listing = Listing::default();
        for (name, kind) in place.entries()? {
            match kind {
                EntryKind::Folder if is_name(&name) => listing.folders.push(name),
                EntryKind::File if is_name(&name) => {
                    let stamp = stamp_of(&place, &name);
                    listing.blobs.push((name, stamp));
                }
                EntryKind::File if name.starts_with('.') && name.ends_with(".tmp") => {
                    if unfinished == Unfinished::Discard {
                        place.remove(&name)?;
                        listing.discarded += 1;
                    }
                }
                _ => listing.odd.push(name),
            }
        }
        Ok(listing)
    }

    fn delete(&self, blob: BlobName<'_>) -> Result<()> {
        let deleted = self.folder(blob.folder()).and_then(|folder| Ok(folder.remove(blob.name())?));
        match deleted {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(self.folder.free_bytes()?)
    }
}

/// The stamp of a file; the default one, which is nobody's, when it is gone.
fn stamp_of(folder: &Folder, name: &str) -> Stamp {
    folder.state(name).as_ref().map(stamp).unwrap_or_default()
}

/// FNV-1a (64 bits) of inode, size and time of the last write.
fn stamp(state: &FileState) -> Stamp {
    let numbers = [state.inode, state.bytes, state.modified_nanos.cast_unsigned()];
    let bytes = numbers.into_iter().flat_map(u64::to_le_bytes);
    Stamp(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
}
