//! Finding the file behind a mapping: each candidate in turn, until one may be used.

use std::path::{Path, PathBuf};

use procprof_process::{BuildId, Identity, MappedRange, Process, Via};
use procprof_profile::Mapping;

use crate::outcome::{Proof, Refusal};
use crate::sources::{BinaryRole, PathUse, Sources};
use crate::{Error, Image, Reason};

/// What a profile says of the file behind one or more of its mappings.
#[derive(Debug, Clone)]
pub(crate) struct Wanted<'a> {
    pub(crate) filename: &'a str,
    pub(crate) build_id: Option<BuildId>,
    pub(crate) mappings: Vec<&'a Mapping>,
    /// Whether the first mapping with a file is among them.
    pub(crate) is_main: bool,
}

/// A file that may be used.
pub(crate) struct Found {
    pub(crate) image: Image,
    pub(crate) proof: Proof,
}

/// The process that was profiled, with its maps, while it still is that process.
pub(crate) struct Live {
    process: Process,
    maps: Vec<MappedRange>,
}

impl Live {
    /// Errs if the process ended, restarted or can't be read.
    pub(crate) fn open(identity: &Identity) -> procprof_process::Result<Self> {
        let process = Process::open(identity.pid)?;
        let maps = process.maps()?;
        process.check_same()?;
        if process.identity().is_same(identity) {
            return Ok(Self { process, maps });
        }
        Err(procprof_process::Error::Gone { pid: identity.pid })
    }

    /// The range that has what one of the profile's mappings had: the same file, with its bytes at
    /// the same addresses. The profile may have joined or widened the range.
    fn range(&self, wanted: &Wanted<'_>) -> Option<&MappedRange> {
        let name = Path::new(without_deleted(wanted.filename));
        let is_mapped = |range: &&MappedRange| {
            let bias = range.start.0.wrapping_sub(range.file_offset.0);
            range.path == name && wanted.mappings.iter().any(|mapping| mapping.start.0.wrapping_sub(mapping.file_offset.0) == bias)
        };
        self.maps.iter().find(is_mapped)
    }
}

fn without_deleted(filename: &str) -> &str {
    filename.strip_suffix(" (deleted)").unwrap_or(filename)
}

/// Looks at the candidates in the order of [`Sources`]. What was refused on the way is added to
/// `refused`.
pub(crate) fn find(wanted: &Wanted<'_>, sources: &Sources<'_>, live: Option<&Live>, refused: &mut Vec<Refusal>) -> Option<Found> {
    let configured = sources.binaries.iter().find_map(|binary| {
        let by_role = match binary.role {
            BinaryRole::Main => wanted.is_main,
            BinaryRole::SameName => same_name(&binary.path, wanted.filename),
        };
        let image = if by_role {
            kept(open(&binary.path, sources), &binary.path, refused)?
        } else {
            // A binary that was named for another mapping is looked at, but not held against it.
            open(&binary.path, sources).ok()?
        };
        match (compare(wanted, &image), by_role) {
            (Comparison::Equal, _) => Some(Found { image, proof: Proof::Verified }),
            (Comparison::Unknown, true) => Some(Found { image, proof: Proof::Unverified }),
            (Comparison::Different, true) => refuse(refused, image, Reason::BuildIdMismatch),
            (_, false) => None,
        }
    });
    configured.or_else(|| in_live(wanted, sources, live, refused)).or_else(|| at_path(wanted, sources, refused))
}

fn in_live(wanted: &Wanted<'_>, sources: &Sources<'_>, live: Option<&Live>, refused: &mut Vec<Refusal>) -> Option<Found> {
    let live = live?;
    let range = live.range(wanted)?;
    let mapped = match live.process.open_mapped(range) {
        Ok(mapped) => mapped,
        Err(error) => {
            let reason = match error {
                procprof_process::Error::Unreachable { .. } => Reason::Unproven,
                _ => Reason::FileUnreadable,
            };
            refused.push(Refusal { path: range.path.clone(), build_id: None, reason });
            return None;
        }
    };
    // Its own name tells where a debug link leads; the link of `/proc` does not.
    let name = match mapped.via {
        Via::Root => &mapped.path,
        _ => &range.path,
    };
    let image = kept(Image::from_file(&mapped.file, name, &sources.image), name, refused)?;
    live.process.check_same().ok()?;
    match compare(wanted, &image) {
        Comparison::Different => refuse(refused, image, Reason::BuildIdMismatch),
        Comparison::Equal | Comparison::Unknown => Some(Found { image, proof: Proof::Verified }),
    }
}

fn at_path(wanted: &Wanted<'_>, sources: &Sources<'_>, refused: &mut Vec<Refusal>) -> Option<Found> {
    let path = Path::new(without_deleted(wanted.filename));
    if sources.paths == PathUse::Never || !path.is_absolute() {
        return None;
    }
    let image = kept(open(path, sources), path, refused)?;
    match compare(wanted, &image) {
        Comparison::Equal => Some(Found { image, proof: Proof::Verified }),
        Comparison::Different => refuse(refused, image, Reason::BuildIdMismatch),
        Comparison::Unknown => refuse(refused, image, Reason::Unproven),
    }
}

fn open(path: &Path, sources: &Sources<'_>) -> crate::Result<Image> {
    Image::open(path, &sources.image)
}

fn same_name(path: &Path, filename: &str) -> bool {
    let name = Path::new(without_deleted(filename)).file_name();
    name.is_some() && path.file_name() == name
}

enum Comparison {
    Equal,
    Different,
    /// One of both has no build id.
    Unknown,
}

fn compare(wanted: &Wanted<'_>, image: &Image) -> Comparison {
    match (&wanted.build_id, image.build_id()) {
        (Some(wanted), Some(own)) if wanted == own => Comparison::Equal,
        (Some(_), Some(_)) => Comparison::Different,
        _ => Comparison::Unknown,
    }
}

fn refuse(refused: &mut Vec<Refusal>, image: Image, reason: Reason) -> Option<Found> {
    refused.push(Refusal { path: image.path().to_owned(), build_id: image.build_id().cloned(), reason });
    None
}

/// The image, or `None` with the reason why it can't be opened added to `refused`.
fn kept(image: crate::Result<Image>, path: &Path, refused: &mut Vec<Refusal>) -> Option<Image> {
    let error = match image {
        Ok(image) => return Some(image),
        Err(error) => error,
    };
    let reason = match &error {
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Reason::FileMissing,
        Error::Io { .. } => Reason::FileUnreadable,
        Error::TooLarge { .. } => Reason::TooLarge,
        Error::NotElf { .. } => Reason::NotElf,
        _ => Reason::Damaged,
    };
    refused.push(Refusal { path: PathBuf::from(path), build_id: None, reason });
    None
}
