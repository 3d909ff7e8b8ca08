//! The symbol page of the profiled process (`/pprof/symbol`).

use procprof_profile::Addr;

use super::Sources;
use super::inquiry::Inquiries;
use crate::{Resolved, Source, remote};

/// Queries the page, if there is one, for all addresses that are still unknown, at once.
pub(super) fn ask(inquiries: &mut Inquiries<'_>, sources: &mut Sources<'_>) {
    let Some(fetch) = &mut sources.fetch else {
        return;
    };
    let mut addresses: Vec<Addr> =
        inquiries.all.iter().flat_map(|inquiry| inquiry.unknown()).map(|(_, address)| address).collect();
    addresses.retain(|address| address.0 != 0);
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.is_empty() {
        return;
    }
    let mut names = match fetch(&addresses) {
        Ok(names) => names,
        Err(error) => return inquiries.fail(Source::SymbolPage, error),
    };
    names.sort_by_key(|(address, _)| *address);
    for inquiry in &mut inquiries.all {
        for (position, address) in inquiry.unknown() {
            let Ok(place) = names.binary_search_by_key(&address, |(address, _)| *address) else {
                continue;
            };
            let frames = remote::frames(&names[place].1);
            if !frames.is_empty() {
                inquiry.answer(position, Source::SymbolPage, Resolved::Frames(frames));
            }
        }
    }
}
