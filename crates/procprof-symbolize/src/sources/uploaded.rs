//! Symbol indexes that someone sent here (`procprof symbols push`), which the caller keeps.

use procprof_process::BuildId;

use super::inquiry::{Inquiries, Inquiry, Memory};
use super::{FindIndex, Source, Sources};
use crate::outcome::{Proof, Refusal, UsedFile};
use crate::{LayoutKey, Reason, SymbolIndex};

/// The file whose index is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedIndex<'a> {
    /// Its name as in the profile.
    pub filename: &'a str,
    /// Its build id, if one is known.
    pub build_id: Option<&'a BuildId>,
    /// What else tells it from other files; known if the file is here, only its symbols are not.
    pub layout_key: Option<LayoutKey>,
}

/// Asks for the indexes of files no file here has debug information for.
pub(super) fn ask(inquiries: &mut Inquiries<'_>, sources: &mut Sources<'_>) {
    let Some(find) = &sources.uploaded else {
        return;
    };
    let profile = inquiries.profile;
    for inquiry in inquiries.unknown_in(Memory::File) {
        if inquiry.found.as_ref().is_some_and(|found| found.image.has_debug_info()) {
            continue;
        }
        let Some((index, proof)) = find_proven(find.as_ref(), inquiry) else {
            continue;
        };
        // The binary knows better than its debug file where its bytes were mapped.
        let binary = inquiry.found.take();
        match &binary {
            Some(found) => inquiry.ask(
                profile,
                Source::Uploaded,
                |offset, distance| found.image.symbol_addr_in(offset, distance),
                |places| index.resolve(places),
            ),
            None => inquiry.ask(
                profile,
                Source::Uploaded,
                |offset, distance| index.symbol_addr_in(offset, distance),
                |places| index.resolve(places),
            ),
        }
        inquiry.found = binary;
        let used = UsedFile {
            source: Source::Uploaded,
            path: index.file_name().into(),
            build_id: index.build_id().cloned(),
            debug_file: None,
            proof,
        };
        inquiry.used.push(used);
    }
}

/// The index of the file, if it is proven to be; another one is told.
fn find_proven(find: &FindIndex<'_>, inquiry: &mut Inquiry<'_>) -> Option<(SymbolIndex, Proof)> {
    let (build_id, proof) = inquiry.build_id().unzip();
    let layout_key = inquiry.found.as_ref().map(|found| found.image.layout_key());
    let wanted = WantedIndex { filename: inquiry.wanted.filename, build_id: build_id.as_ref(), layout_key };
    let index = find(&wanted)?;
    let reason = match (&build_id, index.build_id()) {
        (Some(wanted), Some(own)) if wanted == own => return Some((index, proof?)),
        (Some(_), Some(_)) => Reason::BuildIdMismatch,
        (None, None) if layout_key == Some(index.layout_key()) => {
            let proof = inquiry.found.as_ref().map(|found| found.proof);
            return Some((index, proof?));
        }
        _ => Reason::Unproven,
    };
    inquiry.refused.push(Refusal { path: index.file_name().into(), build_id: index.build_id().cloned(), reason });
    None
}
