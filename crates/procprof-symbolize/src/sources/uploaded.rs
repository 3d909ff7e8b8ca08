//! Uploaded symbol indexes (`procprof symbols push`), which the caller stores.

use procprof_process::BuildId;
use procprof_profile::Mapping;

use super::fit::{Fit, binary_name};
use super::inquiry::{Inquiries, Inquiry, Memory};
use super::{FindIndex, Sources};
use crate::outcome::{Proof, Source, UsedFile};
use crate::reason::Refusal;
use crate::{LayoutKey, Reason, SymbolIndex};

/// The file whose index is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedIndex<'a> {
    /// Its name as in the profile.
    pub filename: &'a str,
    /// Its build id, if one is known.
    pub build_id: Option<&'a BuildId>,
    /// Distinguishes it from other files without a build id; known if the file, but not its symbols, is on this
    /// machine.
    pub layout_key: Option<LayoutKey>,
    /// Its mappings.
    mappings: &'a [&'a Mapping],
}

/// An index to use.
struct Chosen {
    index: SymbolIndex,
    proof: Proof,
    /// The place of the mappings in it, if that is the only evidence for it.
    fit: Option<Fit>,
}

impl WantedIndex<'_> {
    /// Whether an index has the file's name, and code at the places of the profile's mappings. This is no proof.
    pub fn may_be(&self, index: &SymbolIndex) -> bool {
        self.is_named(index.file_name()) && self.fit(index).is_some()
    }

    /// Whether a file of that name is it or its debug file.
    pub fn is_named(&self, file_name: &str) -> bool {
        let path = self.filename.strip_suffix(" (deleted)").unwrap_or(self.filename);
        let name = path.rsplit('/').next().unwrap_or_default();
        !name.is_empty() && (file_name == name || binary_name(file_name) == name)
    }

    fn fit(&self, index: &SymbolIndex) -> Option<Fit> {
        Fit::find(index.segments(), self.mappings)
    }
}

/// Requests the indexes of files without debug information on this machine.
pub(super) fn ask(inquiries: &mut Inquiries<'_>, sources: &mut Sources<'_>) {
    let Some(find) = &sources.uploaded else {
        return;
    };
    let profile = inquiries.profile;
    for inquiry in inquiries.unknown_in(Memory::File) {
        if inquiry.found.as_ref().is_some_and(|found| found.image.has_debug_info()) {
            continue;
        }
        let mappings = inquiry.mappings_in_use(profile);
        let Some(Chosen { index, proof, fit }) = choose(find.as_ref(), inquiry, &mappings) else {
            continue;
        };
        // The binary has more exact places of its bytes than its debug file.
        let binary = inquiry.found.take();
        inquiry.ask(
            profile,
            Source::Uploaded,
            |offset, distance| match (&binary, &fit) {
                (Some(found), _) => found.image.symbol_addr_in(offset, distance),
                (None, Some(fit)) => fit.symbol_addr(offset, distance),
                (None, None) => index.symbol_addr_in(offset, distance),
            },
            |places| index.resolve(places),
        );
        inquiry.found = binary;
        let used = UsedFile {
            source: Source::Uploaded,
            path: index.file_name().into(),
            build_id: index.build_id().cloned(),
            debug_file: None,
            proof,
        };
        inquiry.used.push(used);
        inquiry.index_key = Some(index.key());
    }
}

/// The index of the file, if it is verified or the only one that fits; others are reported.
fn choose(find: &FindIndex<'_>, inquiry: &mut Inquiry<'_>, mappings: &[&Mapping]) -> Option<Chosen> {
    let (build_id, proof) = inquiry.build_id().unzip();
    let layout_key = inquiry.found.as_ref().map(|found| found.image.layout_key());
    let wanted = WantedIndex { filename: inquiry.wanted.filename, build_id: build_id.as_ref(), layout_key, mappings };
    let indexes = find(&wanted);
    if wanted.build_id.is_none() && wanted.layout_key.is_none() {
        return only_fitting(indexes, &wanted, inquiry);
    }
    for index in indexes {
        let reason = match (&build_id, index.build_id()) {
            (Some(wanted), Some(own)) if wanted == own => return Some(Chosen { index, proof: proof?, fit: None }),
            (Some(_), Some(_)) => Reason::BuildIdMismatch,
            (None, None) if layout_key == Some(index.layout_key()) => {
                let proof = inquiry.found.as_ref().map(|found| found.proof)?;
                return Some(Chosen { index, proof, fit: None });
            }
            _ => Reason::Unproven,
        };
        inquiry.refused.push(refusal(&index, reason));
    }
    None
}

/// The index that may be the file, if no other one may be.
fn only_fitting(indexes: Vec<SymbolIndex>, wanted: &WantedIndex<'_>, inquiry: &mut Inquiry<'_>) -> Option<Chosen> {
    let (mut fitting, others): (Vec<SymbolIndex>, Vec<SymbolIndex>) =
        indexes.into_iter().partition(|index| wanted.may_be(index));
    inquiry.refused.extend(others.iter().map(|index| refusal(index, Reason::Unproven)));
    if fitting.len() > 1 {
        inquiry.refused.extend(fitting.iter().map(|index| refusal(index, Reason::Ambiguous)));
        inquiry.fitting_keys = fitting.iter().map(SymbolIndex::key).collect();
        return None;
    }
    let index = fitting.pop()?;
    let fit = wanted.fit(&index);
    Some(Chosen { index, proof: Proof::Unverified, fit })
}

fn refusal(index: &SymbolIndex, reason: Reason) -> Refusal {
    Refusal { path: index.file_name().into(), build_id: index.build_id().cloned(), reason }
}
