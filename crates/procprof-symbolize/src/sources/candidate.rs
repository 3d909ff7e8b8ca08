//! Finding the file behind a mapping: each place in turn, until one has the file with debug
//! information. One without is used if there is no better one.
//!
//! | place | condition |
//! |---|---|
//! | a binary that was named | the build ids are equal, or nothing contradicts (then unverified) |
//! | a file that the caller has opened | the caller has proven that it was mapped by this path; the build ids are equal, or there are none |
//! | the file that the live process has mapped | it is the mapped file |
//! | the path in the profile | the build ids are equal, or the profile has none and its paths are trusted (then unverified) |
//! | pprof's search path | the build ids are equal, or nothing contradicts (then unverified) |
//! | a debug file in place of the binary | the build ids are equal |

use std::path::{Path, PathBuf};

use procprof_process::BuildId;

use super::inquiry::{Inquiry, Wanted};
use super::live::Live;
use super::named::NamedBinary;
use super::{PathUse, Sources};
use crate::elf::debug_file;
use crate::outcome::Proof;
use crate::reason::Refusal;
use crate::{Image, Reason};

/// A file that may be used.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) image: Image,
    pub(crate) proof: Proof,
}

/// The treatment of a file that is not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unproven {
    /// It is used and marked.
    Used,
    Refused,
    /// The user has not named it, so it is not reported.
    PassedOver,
}

/// The places where the file of one inquiry is searched.
pub(crate) struct Search<'a, 's> {
    pub(crate) sources: &'a Sources<'s>,
    pub(crate) named: &'a [NamedBinary],
    pub(crate) live: Option<&'a Live>,
}

impl Search<'_, '_> {
    /// Searches the file of an inquiry. Refused files are added to the inquiry.
    pub(crate) fn find(&self, inquiry: &mut Inquiry<'_>) {
        let mut best: Option<Found> = None;
        for place in [Self::named, Self::proven, Self::live, Self::own_path, Self::binary_paths, Self::debug_dirs] {
            let found = place(self, &inquiry.wanted, &mut inquiry.refused);
            best = better(best, found);
            if best.as_ref().is_some_and(|found| found.image.has_debug_info()) {
                break;
            }
        }
        if let Some(found) = &best {
            inquiry.refused.extend(found.image.refused.iter().cloned());
        }
        inquiry.found = best;
    }

    fn named(&self, wanted: &Wanted<'_>, refused: &mut Vec<Refusal>) -> Option<Found> {
        self.named.iter().fold(None, |best, binary| {
            let is_equal = wanted.build_id.is_some() && wanted.build_id == binary.build_id;
            let rule = if binary.is_taken_for(wanted) { Unproven::Used } else { Unproven::PassedOver };
            let found = (is_equal || rule == Unproven::Used).then(|| self.open(&binary.path, wanted, rule, refused));
            better(best, found.flatten())
        })
    }

    fn proven(&self, wanted: &Wanted<'_>, refused: &mut Vec<Refusal>) -> Option<Found> {
        self.sources.proven_files.iter().filter(|proven| proven.path == wanted.path()).fold(None, |best, proven| {
            let found = match Image::from_file(&proven.file, &proven.path, &self.sources.image) {
                // Several files may have had the same path.
                Ok(image) if image.build_id() != wanted.build_id.as_ref() => None,
                Ok(image) => Some(Found { image, proof: Proof::Verified }),
                Err(error) => {
                    refused.push(Refusal { path: proven.path.clone(), build_id: None, reason: error.reason() });
                    None
                }
            };
            better(best, found)
        })
    }

    fn live(&self, wanted: &Wanted<'_>, refused: &mut Vec<Refusal>) -> Option<Found> {
        let live = self.live?;
        let image = match live.open_image(wanted, &self.sources.image)? {
            Ok(image) => image,
            Err(refusal) => {
                refused.push(refusal);
                return None;
            }
        };
        live.is_same().then_some(())?;
        match compare(wanted, image.build_id()) {
            Comparison::Different => refuse(refused, image, Reason::BuildIdMismatch),
            Comparison::Equal | Comparison::Unknown => Some(Found { image, proof: Proof::Verified }),
        }
    }

    fn own_path(&self, wanted: &Wanted<'_>, refused: &mut Vec<Refusal>) -> Option<Found> {
        // A named file is not tried twice.
        let is_named = self.named.iter().any(|binary| binary.path == wanted.path() && binary.is_taken_for(wanted));
        let is_used = self.sources.paths != PathUse::Never && wanted.path().is_absolute() && !is_named;
        let is_proven = self.sources.proven_files.iter().any(|proven| proven.path == wanted.path());
        // A path of a live process may belong to another root.
        let is_trusted =
            self.sources.paths == PathUse::Trusted && wanted.build_id.is_none() && self.live.is_none() && !is_proven;
        let rule = if is_trusted { Unproven::Used } else { Unproven::Refused };
        is_used.then(|| self.open(wanted.path(), wanted, rule, refused)).flatten()
    }

    fn binary_paths(&self, wanted: &Wanted<'_>, refused: &mut Vec<Refusal>) -> Option<Found> {
        let dirs = self.sources.image.binary_paths.iter();
        let paths = dirs.flat_map(|dir| debug_file::in_binary_path(dir, wanted.build_id.as_ref(), wanted.path()));
        self.first(paths.collect(), wanted, Unproven::Used, refused)
    }

    fn debug_dirs(&self, wanted: &Wanted<'_>, refused: &mut Vec<Refusal>) -> Option<Found> {
        let build_id = wanted.build_id.as_ref()?;
        let name = wanted.path().file_name().unwrap_or_default();
        let dirs = self.sources.image.debug_dirs.iter();
        self.first(
            dirs.flat_map(|dir| debug_file::by_build_id(dir, build_id, name)).collect(),
            wanted,
            Unproven::PassedOver,
            refused,
        )
    }

    fn first(
        &self,
        paths: Vec<PathBuf>,
        wanted: &Wanted<'_>,
        unproven: Unproven,
        refused: &mut Vec<Refusal>,
    ) -> Option<Found> {
        let mut there: Vec<PathBuf> = Vec::new();
        for path in paths {
            if path.is_file() && !there.contains(&path) {
                there.push(path);
            }
        }
        there.iter().find_map(|path| self.open(path, wanted, unproven, refused))
    }

    fn open(&self, path: &Path, wanted: &Wanted<'_>, unproven: Unproven, refused: &mut Vec<Refusal>) -> Option<Found> {
        let image = match Image::open(path, &self.sources.image) {
            Ok(image) => image,
            Err(error) => {
                refused.push(Refusal { path: path.to_owned(), build_id: None, reason: error.reason() });
                return None;
            }
        };
        match (compare(wanted, image.build_id()), unproven) {
            (Comparison::Equal, _) => Some(Found { image, proof: Proof::Verified }),
            (Comparison::Unknown, Unproven::Used) => Some(Found { image, proof: Proof::Unverified }),
            (_, Unproven::PassedOver) => None,
            (Comparison::Different, _) => refuse(refused, image, Reason::BuildIdMismatch),
            (Comparison::Unknown, Unproven::Refused) => refuse(refused, image, Reason::Unproven),
        }
    }
}

/// The one with debug information, else the one found first.
fn better(one: Option<Found>, other: Option<Found>) -> Option<Found> {
    let has_debug_info = |found: &Option<Found>| found.as_ref().is_some_and(|found| found.image.has_debug_info());
    if one.is_none() || !has_debug_info(&one) && has_debug_info(&other) { other } else { one }
}

enum Comparison {
    Equal,
    Different,
    /// One of the two has no build id.
    Unknown,
}

fn compare(wanted: &Wanted<'_>, own: Option<&BuildId>) -> Comparison {
    match (&wanted.build_id, own) {
        (Some(wanted), Some(own)) if wanted == own => Comparison::Equal,
        (Some(_), Some(_)) => Comparison::Different,
        _ => Comparison::Unknown,
    }
}

fn refuse(refused: &mut Vec<Refusal>, image: Image, reason: Reason) -> Option<Found> {
    refused.push(Refusal { path: image.path().to_owned(), build_id: image.build_id().cloned(), reason });
    None
}

/// The reason that summarizes the refused files: another build has the highest priority, a missing file the lowest.
pub(crate) fn reason_of(refused: &[Refusal]) -> Reason {
    let mismatch = refused.iter().find(|refusal| refusal.reason == Reason::BuildIdMismatch);
    let there = refused.iter().rfind(|refusal| refusal.reason != Reason::FileMissing);
    mismatch.or(there).map_or(Reason::FileMissing, |refusal| refusal.reason)
}
