//! Imports an existing `proc_profile` folder of StarRocks.
//!
//! Names are an allow-list (`FileName`); links, folders, pipes and everything else are refused; unpacking is bounded.
//! Ids come from the content, so importing twice adds nothing, and two files of equal content are one profile, unless
//! they are of several nodes, or only their names have a time and differ in it (formats of text that an idle process
//! repeats byte by byte). Profiles go through the caller's ingest, as do the pages in archives (`*.html.tar.gz`), which
//! are profiles where a format reads them. Other pages made elsewhere (`*-flame.html.gz` among them) are kept byte by
//! byte. A page's id, node, type and time are those of its content, folder and name, so they survive without a catalog;
//! its name in the store carries UTC, where the foreign one had local time.

use std::collections::BTreeSet;
use std::path::Path;

use jiff::tz::TimeZone;
use procprof_files::{EntryKind, Folder};
use procprof_profile::{Nanos, ProfileId, ProfileType};

use crate::error::with_source;
use crate::stored::{self, Facts, FileName};
use crate::{Error, ErrorKind, ErrorRow, Format, Result, Store, content_id};

/// The options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The node whose folder it is.
    pub node: u64,
    /// The zone that the times in file names are in. Times of an hour that the clocks repeated are of the first.
    pub zone: TimeZone,
    /// The time of the import, for its error rows.
    pub now: Nanos,
    /// Names to skip, because an earlier import saw those files.
    pub skip: BTreeSet<String>,
}

impl ImportOptions {
    /// The zone with that name (`Europe/Berlin`, `UTC`), or the machine's own for `None`.
    pub fn zone(name: Option<&str>) -> Result<TimeZone> {
        let Some(name) = name else { return Ok(TimeZone::system()) };
        let unknown = |_| Error::Argument {
            what: "time zone",
            text: name.chars().take(64).collect(),
            why: "not in the time zone database",
        };
        TimeZone::get(name).map_err(unknown)
    }
}

/// A profile to ingest.
#[derive(Clone, Debug)]
pub struct ImportItem<'a> {
    /// The id it must be stored with.
    pub id: ProfileId,
    /// The node it belongs to.
    pub node: u64,
    /// Its type, by its name.
    pub profile_type: &'a ProfileType,
    /// Its start, by its name; if the profile itself has a time, that one is used.
    pub start: Nanos,
    /// Its foreign file name.
    pub file_name: &'a str,
    /// Its bytes in any format, unpacked once if they were gzip'd; of an archive its page.
    pub bytes: &'a [u8],
}

/// The result of an import, by foreign file name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Added, each with its id.
    pub added: Vec<(String, ProfileId)>,
    /// Known before, by their content.
    pub already_there: Vec<String>,
    /// Refused, each with the reason. Files with a profile's name are also error rows.
    pub refused: Vec<(String, String)>,
}

/// The fact that an import's ingest stores: the foreign file name.
pub const IMPORTED_FROM: &str = "imported-from";

/// Why a file is refused by its name alone: such a folder may contain anything.
pub const NOT_A_NAME: &str = "not a profile's file name";

enum Outcome {
    Added(ProfileId),
    AlreadyThere,
}

impl Store {
    /// Imports a folder. `ingest` decodes an item and stores it under the item's id, or returns why it cannot; one bad
    /// file does not stop the others, and a page that is no profile is kept as it is.
    ///
    /// # Errors
    /// When the folder cannot be read or the disk is full.
    pub fn import(
        &self,
        folder: &Path,
        options: &ImportOptions,
        ingest: &mut dyn FnMut(&ImportItem<'_>) -> std::result::Result<(), String>,
    ) -> Result<ImportReport> {
        let folder = Folder::open(folder)?;
        let mut names = folder.entries()?;
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut report = ImportReport::default();
        for (name, kind) in names.into_iter().filter(|(name, _)| !options.skip.contains(name)) {
            let Some(file_name) = FileName::parse_foreign(&name) else {
                report.refused.push((name, NOT_A_NAME.to_owned()));
                continue;
            };
            let outcome = match kind {
                EntryKind::File => self.import_file(&folder, &name, &file_name, options, ingest),
                _ => Err(Error::malformed(folder.path().join(&name).display().to_string(), "not a regular file")),
            };
            match outcome {
                Ok(Outcome::Added(id)) => report.added.push((name, id)),
                Ok(Outcome::AlreadyThere) => report.already_there.push(name),
                Err(error @ Error::DiskFull { .. }) => return Err(error),
                Err(error) => {
                    let reason = with_source(&error);
                    self.record_refused(options, &file_name, format!("{name}: {reason}"));
                    report.refused.push((name, reason));
                }
            }
        }
        Ok(report)
    }

    /// The page of a profile made elsewhere: HTML or SVG by content.
    ///
    /// # Errors
    /// [`Error::Malformed`] for a pprof profile, which is rendered from its samples.
    pub fn open_page(&self, id: ProfileId) -> Result<Vec<u8>> {
        let format = self.get(id)?.format;
        stored::page(format, &self.open_bytes(id)?, self.options.unpacked_bytes_max)
    }

    fn import_file(
        &self,
        folder: &Folder,
        name: &str,
        file_name: &FileName,
        options: &ImportOptions,
        ingest: &mut dyn FnMut(&ImportItem<'_>) -> std::result::Result<(), String>,
    ) -> Result<Outcome> {
        let bytes = folder.read(name, self.options.profile_bytes_max)?;
        let out_of_range = || Error::malformed(name, "its time is out of range");
        let start = file_name.moment(&options.zone).ok_or_else(out_of_range)?;
        let mut id = content_id(&bytes);
        if self.is_another(id, (options.node, start), &options.zone)? {
            id = content_id(&[&options.node.to_le_bytes()[..], &start.0.to_le_bytes(), &bytes].concat());
        }
        if self.contains(id)? {
            return Ok(Outcome::AlreadyThere);
        }
        let max = self.options.unpacked_bytes_max;
        let (node, profile_type) = (options.node, &file_name.profile_type);
        let item = |bytes| ImportItem { id, node, profile_type, start, file_name: name, bytes };
        match file_name.format {
            Format::Pprof => {
                let bytes = if bytes.starts_with(&[0x1f, 0x8b]) { stored::gunzip(&bytes, max)? } else { bytes };
                if bytes.is_empty() {
                    return Err(Error::malformed(name, "empty"));
                }
                ingest(&item(&bytes)).map_err(|why| Error::malformed(name, why))?;
                if !self.contains(id)? {
                    return Err(Error::malformed(name, "ingest did not store it under its id"));
                }
            }
            format => {
                match format {
                    Format::HtmlArchive => {
                        stored::check_archive(&bytes, max)?;
                        // Why a page is no profile is of no interest: any page may lie there.
                        if ingest(&item(&stored::page(format, &bytes, max)?)).is_ok() && self.contains(id)? {
                            return Ok(Outcome::Added(id));
                        }
                    }
                    Format::Recording => stored::check_recording(&bytes)?,
                    _ => stored::check_gzip(&bytes, max)?,
                }
                let mut facts = Facts::of_foreign(options.node, file_name, id);
                facts.start = start;
                self.keep(&facts, (format, None), &[&bytes])?;
            }
        }
        Ok(Outcome::Added(id))
    }

    /// Whether an imported profile is of another node, or has its time from the name of its file, and that is not
    /// `start`.
    fn is_another(&self, id: ProfileId, (node, start): (u64, Nanos), zone: &TimeZone) -> Result<bool> {
        if !self.contains(id)? {
            return Ok(false);
        }
        let there = self.get(id)?;
        let Some(name) = there.meta.more.get(IMPORTED_FROM) else { return Ok(false) };
        let by_name = FileName::parse_foreign(name).and_then(|name| name.moment(zone));
        Ok(there.node != node || by_name == Some(there.start) && there.start != start)
    }

    fn record_refused(&self, options: &ImportOptions, file_name: &FileName, reason: String) {
        self.record_error(ErrorRow {
            node: Some(options.node),
            profile_type: Some(file_name.profile_type.clone()),
            time: options.now,
            kind: ErrorKind::Import,
            reason,
            first_bytes: Vec::new(),
        });
    }
}
