//! Debug files from debuginfod servers, which the caller queries: this crate does not use the network.

use std::io;
use std::path::Path;

use procprof_process::BuildId;

use super::inquiry::{Inquiries, Memory};
use super::{FetchDebugFile, Sources};
use crate::outcome::{Failure, Source};
use crate::reason::Refusal;
use crate::{Image, ImageOptions, Reason};

/// Most failures that are reported.
const FAILURES_MAX: usize = 4;

/// Requests the debug files of builds without debug information on this machine.
pub(super) fn ask(inquiries: &mut Inquiries<'_>, sources: &mut Sources<'_>) {
    let Some(fetch) = &mut sources.debuginfod else {
        return;
    };
    let profile = inquiries.profile;
    let mut failures = Vec::new();
    for inquiry in inquiries.unknown_in(Memory::File) {
        if inquiry.found.as_ref().is_some_and(|found| found.image.has_debug_info()) {
            continue;
        }
        let Some((build_id, proof)) = inquiry.build_id() else {
            continue;
        };
        let image = match open(fetch.as_mut(), &build_id, &sources.image) {
            Ok(Some(Ok(image))) => image,
            Ok(Some(Err(refusal))) => {
                inquiry.refused.push(refusal);
                continue;
            }
            Ok(None) => continue,
            Err(error) => {
                failures.push(Failure { source: Source::Debuginfod, what: error.to_string() });
                continue;
            }
        };
        // The binary has more exact places of its bytes than its debug file.
        let binary = inquiry.found.take();
        let located = binary.as_ref().map_or(&image, |found| &found.image);
        inquiry.ask(
            profile,
            Source::Debuginfod,
            |start, distance| located.symbol_addr_in(start, distance),
            |places| image.resolve(places),
        );
        inquiry.use_image(Source::Debuginfod, &image, proof);
        inquiry.found = binary;
    }
    failures.dedup();
    failures.truncate(FAILURES_MAX);
    inquiries.failures.extend(failures);
}

/// Fetches and opens the debug file of a build, and the one it shares parts with.
fn open(
    fetch: &mut FetchDebugFile<'_>,
    build_id: &BuildId,
    options: &ImageOptions,
) -> io::Result<Option<Result<Image, Refusal>>> {
    let Some(path) = fetch(build_id)? else {
        return Ok(None);
    };
    let open = |options: &ImageOptions| proven(&path, build_id, options);
    let image = match open(options) {
        Ok(image) => image,
        Err(refusal) => return Ok(Some(Err(refusal))),
    };
    let Some(shared) = image.missing_shared() else {
        return Ok(Some(Ok(image)));
    };
    let Some(path) = fetch(&shared)? else {
        return Ok(Some(Ok(image)));
    };
    let mut options = options.clone();
    options.debug_files.push(path);
    Ok(Some(open(&options)))
}

/// Opens the file if it is of that build.
fn proven(path: &Path, build_id: &BuildId, options: &ImageOptions) -> Result<Image, Refusal> {
    let refusal = |build_id, reason| Refusal { path: path.to_owned(), build_id, reason };
    let image = Image::open(path, options).map_err(|error| refusal(None, error.reason()))?;
    match image.build_id() {
        Some(own) if own == build_id => Ok(image),
        own => Err(refusal(own.cloned(), Reason::BuildIdMismatch)),
    }
}
