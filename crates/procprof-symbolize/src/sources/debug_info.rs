//! DWARF, from the mapping's file or a separate debug file.

use super::candidate::{Search, reason_of};
use super::inquiry::{Inquiries, Memory};
use super::{Source, Sources};
use crate::Reason;

/// Finds the file of each mapping, and asks those with debug information. Files without are kept for
/// the sources behind. Symbol tables of a file with debug information are read with it: they know
/// what it lacks.
pub(super) fn ask(inquiries: &mut Inquiries<'_>, sources: &mut Sources<'_>) {
    let Inquiries { profile, live, named, all, .. } = inquiries;
    let search = Search { sources, named, live: live.as_ref() };
    for inquiry in all.iter_mut().filter(|inquiry| inquiry.memory == Memory::File) {
        if inquiry.wanted.build_id.is_none() {
            inquiry.wanted.build_id = search.live.and_then(|live| live.build_id(&inquiry.wanted));
        }
        search.find(inquiry);
        let Some(found) = inquiry.found.take() else {
            inquiry.give_up(reason_of(&inquiry.refused));
            continue;
        };
        if found.image.has_debug_info() {
            inquiry.ask_image(profile, Source::DebugInfo, &found.image);
            inquiry.use_image(Source::DebugInfo, &found.image, found.proof);
        } else {
            inquiry.give_up(Reason::NoSymbols);
        }
        inquiry.found = Some(found);
    }
}
