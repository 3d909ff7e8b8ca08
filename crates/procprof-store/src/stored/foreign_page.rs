//! Pages made elsewhere: the contents of `*-flame.html.gz` and `*.html.tar.gz`, unpacked within a limit.

use std::io::{BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::{Error, Format, Result};

/// Entries of a tar archive that are read.
const ENTRIES_MAX: usize = 16;

/// The page in a file made elsewhere, HTML or SVG by content; of an archive the first `.html` entry that is a regular
/// file.
///
/// # Errors
/// [`Error::Malformed`] when there is no such page, [`Error::TooLarge`] if unpacking exceeds `unpacked_max` bytes.
pub fn page(format: Format, file: &[u8], unpacked_max: u64) -> Result<Vec<u8>> {
    match format {
        Format::Flame => gunzip(file, unpacked_max),
        Format::HtmlArchive => html_entry(file, unpacked_max),
        Format::Pprof | Format::Recording => Err(Error::malformed("profile", "holds samples, not a page")),
    }
}

/// Unpacks gzip.
pub(crate) fn gunzip(file: &[u8], unpacked_max: u64) -> Result<Vec<u8>> {
    let mut unpacked = Vec::new();
    let read = MultiGzDecoder::new(file).take(unpacked_max.saturating_add(1)).read_to_end(&mut unpacked);
    read.map_err(|error| Error::malformed("gzip", error.to_string()))?;
    within(unpacked, unpacked_max)
}

/// Whether a file is gzip to its end and unpacks within the limit; nothing of it is kept.
pub(crate) fn check_gzip(file: &[u8], unpacked_max: u64) -> Result<()> {
    let mut unpacked = MultiGzDecoder::new(file).take(unpacked_max.saturating_add(1));
    let bytes = std::io::copy(&mut unpacked, &mut std::io::sink())
        .map_err(|error| Error::malformed("gzip", error.to_string()))?;
    if bytes > unpacked_max {
        return Err(Error::TooLarge { what: "unpacked content".to_owned(), bytes, limit: unpacked_max });
    }
    Ok(())
}

fn html_entry(file: &[u8], unpacked_max: u64) -> Result<Vec<u8>> {
    let wrong = |error: std::io::Error| Error::malformed("archive", error.to_string());
    // Headers and padding are added to the page; beyond that, the archive ends early with an error.
    let unpacked = MultiGzDecoder::new(file).take(unpacked_max.saturating_add(64 << 10));
    let mut archive = tar::Archive::new(BufReader::new(unpacked));
    for entry in archive.entries().map_err(wrong)?.take(ENTRIES_MAX) {
        let entry = entry.map_err(wrong)?;
        let is_page = entry.header().entry_type().is_file() && entry.path_bytes().ends_with(b".html");
        if is_page {
            if entry.size() > unpacked_max {
                return Err(Error::TooLarge {
                    what: "page in archive".to_owned(),
                    bytes: entry.size(),
                    limit: unpacked_max,
                });
            }
            let size = entry.size();
            let mut page = Vec::new();
            entry.take(unpacked_max.saturating_add(1)).read_to_end(&mut page).map_err(wrong)?;
            if (page.len() as u64) < size {
                return Err(Error::malformed("archive", "ends inside its page"));
            }
            return within(page, unpacked_max);
        }
    }
    Err(Error::malformed("archive", "no .html file in it"))
}

/// Whether an archive is one as StarRocks writes it: one entry, a regular file named `*.html`, then the end.
pub(crate) fn check_archive(file: &[u8], unpacked_max: u64) -> Result<()> {
    html_entry(file, unpacked_max)?;
    let wrong = |error: std::io::Error| Error::malformed("archive", error.to_string());
    let unpacked = MultiGzDecoder::new(file).take(unpacked_max.saturating_add(64 << 10));
    let mut archive = tar::Archive::new(BufReader::new(unpacked));
    for (index, entry) in archive.entries().map_err(wrong)?.enumerate() {
        entry.map_err(wrong)?;
        if index > 0 {
            return Err(Error::malformed("archive", "more than one entry"));
        }
    }
    let mut rest = archive.into_inner();
    std::io::copy(&mut rest, &mut std::io::sink()).map_err(wrong)?;
    if rest.into_inner().limit() == 0 {
        return Err(Error::TooLarge {
            what: "archive".to_owned(),
            bytes: unpacked_max.saturating_add(1),
            limit: unpacked_max,
        });
    }
    Ok(())
}

fn within(unpacked: Vec<u8>, limit: u64) -> Result<Vec<u8>> {
    let bytes = unpacked.len() as u64;
    if bytes > limit {
        return Err(Error::TooLarge { what: "unpacked content".to_owned(), bytes, limit });
    }
    Ok(unpacked)
}
