//! DWARF, from the mapping's file or a separate debug file.

use std::path::{Path, PathBuf};

use object::{Object, ObjectKind};
use procprof_profile::SymbolAddr;

use super::Sources;
use super::candidate::{Search, reason_of};
use super::inquiry::{Inquiries, Inquiry, Memory};
use crate::elf::parse_elf;
use crate::{Image, ImageOptions, Proof, Reason, Refusal, Resolved, Source};

/// Finds the file of each mapping, and queries those with debug information. Files without are kept for the later
/// sources. The symbol tables of a file with debug information are read with it, since they complete it.
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
    if profile.mappings().is_empty() {
        let programs: Vec<PathBuf> =
            named.iter().filter(|binary| binary.is_program()).map(|binary| binary.path.clone()).collect();
        for inquiry in all.iter_mut().filter(|inquiry| inquiry.memory == Memory::NoMapping) {
            programs.iter().for_each(|path| ask_fixed(inquiry, path, &sources.image));
        }
    }
}

/// Looks up the addresses of a profile without mappings in the program. Only a program linked to fixed
/// addresses has them in its file; nothing proves that it is the one.
fn ask_fixed(inquiry: &mut Inquiry<'_>, path: &Path, options: &ImageOptions) {
    let image = match Image::open(path, options) {
        Ok(image) => image,
        Err(error) => {
            return inquiry.refused.push(Refusal { path: path.to_owned(), build_id: None, reason: error.reason() });
        }
    };
    if !parse_elf(&image.bytes, path).is_ok_and(|object| object.kind() == ObjectKind::Executable) {
        return;
    }
    let source = if image.has_debug_info() { Source::DebugInfo } else { Source::SymbolTable };
    let unknown = inquiry.unknown();
    let places: Vec<SymbolAddr> = unknown.iter().map(|(_, address)| SymbolAddr(address.0)).collect();
    for ((position, _), resolved) in unknown.iter().zip(image.resolve(&places)) {
        if matches!(resolved, Resolved::Frames(_)) {
            inquiry.answer(*position, source, resolved);
        }
    }
    inquiry.use_image(source, &image, Proof::Unverified);
}
